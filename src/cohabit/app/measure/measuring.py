"""Run real programs alone and in ordered pairs on this machine, and measure how much they slow each other.

Every program runs once uncounted (warms caches, finds a failing command at once), then alone several times under
sensors, then beside every program, itself included; the neighbour is restarted until the primary has ended. Every
finished run is saved at once (measuring_progress), so a stopped measurement can be continued. Never run two.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from cohabit.agent.launch.process import Request, first_report, launch
from cohabit.agent.observing import observe, observe_inside
from cohabit.agent.sensors.catalogue import usable
from cohabit.agent.sensors.imported import read_counters
from cohabit.agent.sensors.source import Source
from cohabit.agent.sensors.summary import Readings, Summary, combine, merge
from cohabit.app.measure.data import Alone, Together, machine, write_data
from cohabit.app.measure.programs import Plan, Program
from cohabit.app.measure.progress import Key, Progress
from cohabit.model.errors import InputError

NOISY_PERCENT = 5.0
BUSY_LOAD = 0.5  # other work, in cores, above which times cannot be trusted
LOAD_SPAN_S = 1.0  # for how long other work is watched before anything runs
TICKS = Path("/proc/stat")
SLOWEST = 20.0  # a primary this many times slower than alone is considered stuck
LAST_WORDS = 200

Advance = Callable[[int, int], None]


@dataclass
class Measurement:
    """A plan and the data set it fills."""

    plan: Plan
    out: Path
    progress: Progress
    folder: Path  # for output of programs and files of sensors
    sources: list[Source] = field(default_factory=list)
    imported: dict[str, Readings] = field(default_factory=dict)
    failures: list[dict[str, str]] = field(default_factory=list)  # pairs that could not be measured

    def runs(self) -> list[Key]:
        """Return every run to do, in order: rounds alone, runs inside slow tools, then pairs."""
        names = [one.name for one in self.plan.program]
        found: list[Key] = [("alone", name, str(turn)) for turn in range(self.plan.repeats) for name in names]
        found += [("inside", name, source.name) for source in self.sources if source.slows_down for name in names]
        turns = range(self.plan.pair_repeats)
        found += [("pair", app, other, str(turn)) for turn in turns for app in names for other in names]
        return found


def check_out(out: Path) -> None:
    """Refuse early a file that cannot be written; leave no file behind."""
    folder = next(place for place in out.absolute().parents if place.exists())
    try:
        if out.is_dir():
            raise IsADirectoryError(21, "it is a folder")
        descriptor, name = tempfile.mkstemp(prefix=".cohabit-", dir=folder)
        os.close(descriptor)
        os.unlink(name)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be written: {reason}", str(out), "choose another --out") from error


def prepare(plan: Plan, out: Path, folder: Path) -> Measurement:
    """Check everything that can be refused, before the first program starts."""
    check_out(out)
    imported = read_counters(Path(plan.counters)) if plan.counters else {}
    for program in plan.program:
        if imported and program.name not in imported:
            raise InputError(f"has no rows of {program.name!r}", plan.counters, "measure it too, or leave counters out")
    out.absolute().parent.mkdir(parents=True, exist_ok=True)
    facts = machine()
    progress = Progress(out, plan.digest(), f"{facts['cpu']}, {facts['cores']} cores, kernel {facts['kernel']}")
    return Measurement(plan, out, progress, folder, usable(plan.sources), imported)


def busy_load() -> float | None:
    """Return other work on the machine now, in cores, watched while this process waits; None if it is idle.

    The load average would still count what ended a minute ago; it is asked only where the kernel counts no ticks.
    """
    before, began_s = _busy_s(), time.monotonic()
    if before is None:
        load = os.getloadavg()[0]
    else:
        time.sleep(LOAD_SPAN_S)
        load = ((_busy_s() or before) - before) / (time.monotonic() - began_s)
    return load if load > BUSY_LOAD else None


def _busy_s() -> float | None:
    """Return the seconds all processors together have worked so far, for others or stolen by the host."""
    try:
        words = TICKS.read_text().split("\n", 1)[0].split()
        user, nice, system, _, _, interrupts, soft, stolen = map(int, words[1:9])
    except (OSError, ValueError):
        return None
    return (user + nice + system + interrupts + soft + stolen) / os.sysconf("SC_CLK_TCK")


def warm_up(job: Measurement) -> None:
    """Run every remaining program once, uncounted: to warm caches and to find a failing one at once."""
    due = [key for key in job.runs() if key not in job.progress.done]
    names = {name for key in due for name in (key[1:3] if key[0] == "pair" else key[1:2])}
    for program in job.plan.program:
        if program.name in names:
            _timed(job, program)


def measure(job: Measurement, advance: Advance | None = None) -> None:
    """Do the remaining runs. If Ctrl-C stops it, finished runs are in the progress file."""
    due = [key for key in job.runs() if key not in job.progress.done]
    programs = {one.name: one for one in job.plan.program}
    for number, key in enumerate(due):
        if advance is not None:
            advance(number, len(due))
        kind, name = key[0], key[1]
        if kind == "alone":
            result = _alone(job, programs[name])
        elif kind == "inside":
            result = _inside(job, programs[name], key[2])
        else:
            result = _pair(job, programs[name], programs[key[2]])
        if "reason" in result:
            job.failures.append({"app": name, "other": key[2], "reason": result["reason"]})
        else:
            job.progress.add(key, result)


def finish(job: Measurement) -> dict[str, Any]:
    """Write the data set and return the document of the verb; remove the progress file once every pair is there."""
    alone = {one.name: _gathered_alone(job, one.name) for one in job.plan.program}
    pairs = dict(_gathered_pairs(job))
    if not pairs:
        raise InputError(
            "no pair could be measured: " + job.failures[0]["reason"], str(job.out), "look at its programs"
        )
    counters = write_data(job.out, job.plan, alone, pairs)
    if not job.failures:
        job.progress.forget()
    noise = {name: one.noise_percent for name, one in alone.items()}
    return {
        "complete": not job.failures,
        "out": str(job.out),
        "rows": len(pairs),
        "solo_s": {name: round(one.time_s, 4) for name, one in alone.items()},
        "solo_range_s": {name: [round(end(one.times_s), 4) for end in (min, max)] for name, one in alone.items()},
        "noise_percent": {name: None if value is None else round(value, 3) for name, value in noise.items()},
        "noisy": [name for name, value in noise.items() if value is not None and value > NOISY_PERCENT],
        "degradation_percent": {
            app: {
                other: round(pairs[app, other].degradation(one.time_s), 2) for other in alone if (app, other) in pairs
            }
            for app, one in alone.items()
        },
        "failed": job.failures,
        "counters": counters,
    }


def so_far(job: Measurement) -> dict[str, Any]:
    """Return the document of a stopped measurement."""
    keys = job.runs()
    done = [key for key in keys if key in job.progress.done]
    return {
        "complete": False,
        "out": str(job.out),
        "progress": str(job.progress.path),
        "runs": len(done),
        "of": len(keys),
        "pairs": sum(key[0] == "pair" for key in done),
        "of_pairs": sum(key[0] == "pair" for key in keys),
    }


def _failure(job: Measurement, status: int) -> str:
    return status_words(status) + last_words(job.folder / "primary.err")


def _request(job: Measurement, program: Program, beside: bool = False, sample: bool = False) -> Request:
    role = "beside" if beside else "primary"
    other = program.beside if beside else program.sample if sample else []
    return Request(
        command=tuple(other or program.command),
        cores=job.plan.cpus(program, beside),
        environment=dict(os.environ) | program.env,
        folder=Path(program.cwd),
        stdout=job.folder / f"{role}.out",
        stderr=job.folder / f"{role}.err",
    )


def _timed(job: Measurement, program: Program, sample: bool = False) -> float:
    """Run once alone without sensors; a program that fails or does not end is the caller's error."""
    with launch(_request(job, program, sample=sample)) as running:
        running.release()
        ended = running.wait(job.plan.limit_s)
    if ended is None:
        raise InputError(
            f"{program.name!r} ran longer than {job.plan.limit_s:g} s alone", "", "give it less work, or raise limit_s"
        )
    if ended.status != 0:
        raise InputError(f"{program.name!r} fails alone ({_failure(job, ended.status)})", "", "make it work first")
    return ended.run_s


def _alone(job: Measurement, program: Program) -> dict[str, Any]:
    live = [source for source in job.sources if not source.slows_down]
    ended, readings = observe(_request(job, program), live, job.folder, job.plan.limit_s)
    if ended.status != 0:
        raise InputError(
            f"{program.name!r} fails alone ({_failure(job, ended.status)})",
            "",
            "make it work every time",
        )
    return {"run_s": ended.run_s, "readings": _plain(readings)}


def _inside(job: Measurement, program: Program, name: str) -> dict[str, Any]:
    """Run once inside a tool; rates refer to the same work outside it."""
    source = next(one for one in job.sources if one.name == name)
    alone_s = _timed(job, program, sample=True) if program.sample else _gathered_alone(job, program.name).time_s
    with tempfile.TemporaryDirectory(dir=job.folder) as own:
        request = _request(job, program, sample=True)
        try:
            readings = observe_inside(request, source, Path(own), max(job.plan.limit_s, 200 * alone_s), alone_s)
        except InputError as error:
            raise InputError(f"{program.name!r}: {error.what}", "", error.fix) from error
    return {"readings": _plain(readings)}


def _pair(job: Measurement, program: Program, other: Program) -> dict[str, Any]:
    """Run the primary once; the neighbour is restarted until it ends. On failure the result has a reason."""
    limit_s = max(60.0, SLOWEST * _gathered_alone(job, program.name).time_s)
    restarts = -1
    with launch(_request(job, program)) as first:
        deadline_s = None
        while first.ended is None:
            with launch(_request(job, other, beside=True)) as beside:
                beside.release()
                restarts += 1
                if deadline_s is None:
                    first.release()
                    deadline_s = time.monotonic() + limit_s
                while first.ended is None and beside.ended is None:
                    first_report([first, beside], max(0.0, deadline_s - time.monotonic()))
                    if first.ended is None and time.monotonic() >= deadline_s:
                        return {"reason": f"{program.name} beside {other.name} did not end in {limit_s:.0f} s"}
                if beside.ended is None:
                    beside.stop()
                elif beside.ended.status != 0:
                    return {
                        "reason": f"{other.name} failed beside {program.name} ({status_words(beside.ended.status)})"
                    }
    if first.ended.status != 0:
        return {"reason": f"{program.name} failed beside {other.name} ({status_words(first.ended.status)})"}
    return {"run_s": first.ended.run_s, "restarts": restarts}


def _gathered_alone(job: Measurement, name: str) -> Alone:
    done = job.progress.done
    runs = [done[key] for key in job.runs() if key[:2] == ("alone", name) and key in done]
    inside = [done[key] for key in job.runs() if key[:2] == ("inside", name) and key in done]
    parts = [combine([_readings(run) for run in runs]), *(_readings(run) for run in inside)]
    if name in job.imported:
        parts.insert(0, job.imported[name])
    return Alone(tuple(run["run_s"] for run in runs), merge(parts))


def _gathered_pairs(job: Measurement) -> Iterable[tuple[tuple[str, str], Together]]:
    for app in job.plan.program:
        for other in job.plan.program:
            turns = (("pair", app.name, other.name, str(turn)) for turn in range(job.plan.pair_repeats))
            runs = [job.progress.done[key] for key in turns if key in job.progress.done]
            if runs:
                times = tuple(run["run_s"] for run in runs)
                yield (app.name, other.name), Together(times, sum(run["restarts"] for run in runs))


def _plain(readings: Readings) -> dict[str, list[Any]]:
    return {name: [one.mean, one.low, one.high, one.deviation, one.source] for name, one in readings.items()}


def _readings(run: dict[str, Any]) -> Readings:
    return {name: Summary(*values) for name, values in run["readings"].items()}


def status_words(status: int) -> str:
    """Describe how a program ended."""
    return f"status {status}" if status >= 0 else f"signal {-status}"


def last_words(errors: Path) -> str:
    """Return the last line of a failed program's output."""
    try:
        lines = errors.read_text(errors="replace").split("\n")
    except OSError:
        return ""
    said = [line.strip() for line in lines if line.strip()]
    return f": {said[-1][:LAST_WORDS]}" if said else ""
