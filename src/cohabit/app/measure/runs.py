"""Run named programs repeatedly on a timetable and keep every run time with the counters from before the run.

The data file records its own progress: a row is added, by replacing the whole file, as soon as a run has ended, and the
same call continues with the missing runs. Runs of other campaigns stay. A run is not kept if its window lacks a
counter: the model would learn from a guessed number. Windows end where a run begins (RUSH R3, R60).
"""

from __future__ import annotations

import csv
import io
import os
import shlex
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.agent.canary.running import send_canary
from cohabit.agent.launch.process import Request, launch
from cohabit.app.learn.variability_data import APP, META, RUN, START, TYPE
from cohabit.app.measure.measuring import check_out
from cohabit.app.measure.runs_plan import SLURM, Interference, RunsPlan, TimedProgram
from cohabit.app.measure.runs_window import WindowBefore
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from cohabit.trace.files import read_text
from cohabit.whole_files import replacing

CAMPAIGN, ROUND, COST, LOADED = (META + name for name in ("campaign", "round", "canary_s", "interference"))
FRONT = (APP, START, RUN, TYPE)
BACK = (CAMPAIGN, ROUND, COST, LOADED)
CANCEL_S = 60.0
PATIENCE, SETTLING_S = 1.5, 5.0  # windows to wait for the first one, and some seconds more
Advance = Callable[[int, int], None]
Say = Callable[[str], None]
# The script that Slurm runs: it reports the job's own times, so the wait in the queue does not count.
JOB_SCRIPT = "began=$(date +%s%N); {command}; status=$?; echo $began $(date +%s%N) $status > {report}; exit $status"


@dataclass
class Table:
    """The data file: header and rows as they are written."""

    path: Path
    header: list[str] = field(default_factory=list)
    rows: list[list[str]] = field(default_factory=list)

    @staticmethod
    def at(path: Path) -> Table:
        """Read the existing file; refuse one that cannot be written or has another format."""
        check_out(path)
        found = Table(path)
        if path.exists():
            lines = [row for row in csv.reader(io.StringIO(read_text(path))) if row]
            header = lines[0] if lines else []
            if tuple(header[: len(FRONT)]) != FRONT or tuple(header[-len(BACK) :]) != BACK:
                raise InputError("is not a file of `cohabit measure runs`", str(path), "choose another --out")
            found.header, found.rows = header, lines[1:]
            round_at = header.index(ROUND)
            for number, row in enumerate(found.rows, 2):
                if len(row) != len(header) or not row[round_at].isdecimal():
                    raise InputError("is not a complete row", f"{path}, line {number}", "remove it, then continue")
        return found

    @property
    def features(self) -> list[str]:
        """Return the columns of features."""
        return self.header[len(FRONT) : -len(BACK)]

    def done(self, campaign: str) -> set[tuple[int, str]]:
        """Return the rounds and programs of this campaign that are in the file."""
        at = {name: self.header.index(name) for name in (APP, CAMPAIGN, ROUND)} if self.header else {}
        return {(int(row[at[ROUND]]), row[at[APP]]) for row in self.rows if row[at[CAMPAIGN]] == campaign}

    def add(self, row: Mapping[str, Any]) -> None:
        """Add one run; it is on disk before this returns."""
        self.rows.append([_cell(row[name]) for name in self.header])
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerows([self.header, *self.rows])
        with replacing(self.path) as stream:
            stream.write(text.getvalue().encode())


def _cell(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


@dataclass
class Campaign:
    """A plan and the data file it fills."""

    plan: RunsPlan
    table: Table
    window_before: WindowBefore
    folder: Path  # for output of programs and reports of jobs
    say: Say
    failures: list[str] = field(default_factory=list)
    kept: int = 0

    def due(self) -> list[tuple[int, TimedProgram]]:
        """Return the runs that are not in the file yet, in order."""
        done = self.table.done(self.plan.digest())
        return [
            (turn, one)
            for turn in range(self.plan.repeats)
            for one in self.plan.program
            if (turn, one.name) not in done
        ]


@contextmanager
def campaign(plan: RunsPlan, table: Table, window_before: WindowBefore, say: Say) -> Iterator[Campaign]:
    """Yield a campaign with a temporary folder of its own."""
    place = table.path.absolute().parent
    place.mkdir(parents=True, exist_ok=True)
    beside = place if plan.launcher == SLURM else None  # the job's node must be able to see it
    with tempfile.TemporaryDirectory(prefix=".cohabit-runs-", dir=beside) as folder:
        yield Campaign(plan, table, window_before, Path(folder), say)


def collect(job: Campaign, advance: Advance | None = None) -> None:
    """Do the remaining runs. If stopped at any time, finished runs are in the file."""
    due = job.due()
    if due:
        _await_window(job)
    with _interfering(job.plan.interference) as loaded:
        due_s, last = time.monotonic(), due[0][0] if due else 0
        for number, (turn, program) in enumerate(due):
            if advance is not None:
                advance(number, len(due))
            if turn != last:
                # Keep the interval after a slow run: a run right after a load would make the load look harmless.
                last, due_s = turn, max(due_s + job.plan.interval_s, time.monotonic())
                time.sleep(max(0.0, due_s - time.monotonic()))
            _one(job, turn, program, loaded)


def _await_window(job: Campaign) -> None:
    """Wait for the first window to complete, as sampling may have just begun."""
    patience_s = PATIENCE * job.plan.window_s + SETTLING_S
    deadline_s = time.monotonic() + patience_s
    while job.window_before(time.time_ns() // 1000) is None:
        if time.monotonic() > deadline_s:
            fix = "start `cohabit telemetry collect`, or lengthen window_s"
            raise InputError(f"telemetry gave no values for {patience_s:.0f} s", "", fix)
        time.sleep(min(1.0, job.plan.window_s / 10))


def _one(job: Campaign, turn: int, program: TimedProgram, loaded: threading.Event) -> None:
    """Do one run and keep it; report and record failures."""
    try:
        row = _row(job, turn, program, loaded)
    except InputError as error:
        sentence = f"{program.name}, round {turn}: {error.what}"
        job.failures.append(sentence)
        job.say(sentence)
        return
    job.table.add(row)
    job.kept += 1


def _row(job: Campaign, turn: int, program: TimedProgram, loaded: threading.Event) -> dict[str, Any]:
    """Run the canary if wanted, then the program; return its row with the window before it."""
    asked_us = time.time_ns() // 1000  # a window that ended later would include the canary itself
    sent = send_canary(job.plan.canary.canary()) if job.plan.canary is not None else None
    beside = loaded.is_set()
    start_us, run_s = _submitted(job, program) if job.plan.launcher == SLURM else _launched(job, program)
    features = {**_features(job, start_us if sent is None else asked_us), **(sent.features if sent else {})}
    if not job.table.header:
        job.table.header = [*FRONT, *features, *BACK]
    lost = [name for name in job.table.features if not np.isfinite(features.get(name, np.nan))]
    if lost:
        raise InputError(f"{lost[0]} is missing{' and others' if lost[1:] else ''}; not kept", "", "")
    return {
        **features,
        APP: program.name,
        START: f"{start_us / SECOND:.6f}",
        RUN: run_s,
        TYPE: program.workload_type,
        CAMPAIGN: job.plan.digest(),
        ROUND: turn,
        COST: sent.cost_s if sent else 0.0,
        LOADED: int(beside),
    }


def _features(job: Campaign, start_us: int) -> dict[str, float]:
    """Return the counters before the run; for the first row, drop counters without data permanently."""
    window = job.window_before(start_us)
    if window is None:
        raise InputError("telemetry has no window before it began; not kept", "", "")
    assert window.end_us <= start_us, "a window from the future would leak"
    found = dict(zip(window.feature_names, window.of_all_nodes.tolist(), strict=True))
    if job.table.header:
        return found
    silent = [name for name, value in found.items() if not np.isfinite(value)]
    if silent:
        job.say(f"{len(silent)} columns say nothing here and are left out, such as {silent[0]}")
    return {name: value for name, value in found.items() if np.isfinite(value)}


def _launched(job: Campaign, program: TimedProgram) -> tuple[int, float]:
    """Run the program here; return its start (us) and its run time (s)."""
    request = Request(
        command=tuple(program.command),
        cores=tuple(program.cores),
        environment=dict(os.environ) | program.env,
        folder=Path(program.cwd),
        stdout=job.folder / "run.out",
        stderr=job.folder / "run.err",
    )
    with launch(request) as running:
        start_us = time.time_ns() // 1000
        running.release()
        ended = running.wait(job.plan.limit_s)
    if ended is None:
        raise InputError(f"ran longer than {job.plan.limit_s:g} s", "", "")
    if ended.status != 0:
        raise InputError(f"failed with status {ended.status}", "", "")
    return start_us, ended.run_s


def sbatch_command(plan: RunsPlan, program: TimedProgram, report: Path) -> tuple[str, ...]:
    """Return the command that runs a program as a Slurm job and waits for its end; the job inherits its environment."""
    script = JOB_SCRIPT.format(command=shlex.join(program.command), report=shlex.quote(str(report)))
    return (
        "sbatch",
        "--parsable",
        "--wait",
        f"--job-name={program.name}",
        f"--chdir={program.cwd}",
        "--output=/dev/null",
        "--export=ALL",
        *plan.sbatch,
        f"--wrap={script}",
    )


def _submitted(job: Campaign, program: TimedProgram) -> tuple[int, float]:
    """Run the program as a Slurm job; its own clock gives start and end. Return the same."""
    report, said, complaint = (job.folder / name for name in ("report", "sbatch.out", "sbatch.err"))
    report.unlink(missing_ok=True)
    request = Request(
        sbatch_command(job.plan, program, report),
        environment=dict(os.environ) | program.env,
        stdout=said,
        stderr=complaint,
    )
    ended = None
    try:
        with launch(request) as running:
            running.release()
            ended = running.wait(job.plan.limit_s)
    finally:
        if ended is None:  # timeout or interruption: sbatch is gone, but its job would go on
            _cancel(said, job.say)
    if ended is None:
        raise InputError(f"waited and ran longer than {job.plan.limit_s:g} s as a Slurm job", "", "")
    try:
        began_ns, ended_ns, status = map(int, report.read_text().split())
    except (OSError, ValueError):
        lines = complaint.read_text(errors="replace").strip().splitlines()
        raise InputError(f"did not run as a Slurm job{': ' + lines[-1] if lines else ''}", "", "") from None
    if status != 0:
        raise InputError(f"failed with status {status}", "", "")
    return began_ns // 1000, (ended_ns - began_ns) * 1e-9


def _cancel(said: Path, say: Say) -> None:
    """Cancel the job that sbatch named."""
    number = said.read_text().split(";")[0].strip() if said.exists() else ""
    if not number.isdecimal():
        return
    try:
        done = subprocess.run(["scancel", number], capture_output=True, text=True, timeout=CANCEL_S, check=False)
        why = done.stderr.strip() if done.returncode else ""
    except (OSError, subprocess.TimeoutExpired) as error:
        why = str(error)
    if why:
        say(f"Slurm job {number} could not be cancelled: {why}")


@contextmanager
def _interfering(load: Interference | None) -> Iterator[threading.Event]:
    """Run the load on and off while the block lasts; the event is set while the load is on."""
    present, over = threading.Event(), threading.Event()
    if load is None:
        yield present
        return
    request = Request(
        tuple(load.command), cores=tuple(load.cores), environment=dict(os.environ) | load.env, folder=Path(load.cwd)
    )

    def come_and_go() -> None:
        while not over.wait(load.off_s):
            deadline_s = time.monotonic() + load.on_s
            present.set()
            while time.monotonic() < deadline_s and not over.is_set():  # restart a load that ends early
                with launch(request) as running:
                    running.release()
                    while time.monotonic() < deadline_s and not over.is_set() and running.wait(0.1) is None:
                        continue
                    running.stop()
            present.clear()

    thread = threading.Thread(target=come_and_go, name="interference", daemon=True)
    thread.start()
    try:
        yield present
    finally:
        over.set()
        thread.join()


def account(job: Campaign) -> dict[str, Any]:
    """Return the document of the verb."""
    done, of = len(job.table.done(job.plan.digest())), job.plan.repeats * len(job.plan.program)
    return {
        "out": str(job.table.path),
        "complete": done == of,
        "runs": done,
        "of": of,
        "added": job.kept,
        "rows": len(job.table.rows),
        "features": len(job.table.features),
        "failed": job.failures,
    }
