"""Demonstrate sharing with real programs: measure interference here, then run the same jobs under three policies.

The machine is one node of two cores. Every program runs alone and beside every other, on a core each. Then the same
queue runs under the real controller: one job at a time (exclusive), side by side by free cores (blind), and under
`cohabit` as `cohabit up` has it, side by side with a promised start for the first job that does not fit. One job wants
both cores. The three alternate several times, so that a disturbance hits all of them; a claim must hold for every turn.
Every time shown was measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.app.client.report import run_table
from cohabit.app.measure import measuring
from cohabit.app.measure.programs import Plan, Program
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.separation import Held, in_own_process
from cohabit.app.serve.serving import ServeConfig, Service
from cohabit.backend.protocol import Launch
from cohabit.live.api.views import job_view, node_views
from cohabit.live.controller.runs_as import LauncherConfig
from cohabit.model.errors import InputError
from cohabit.model.event import NodeDrained, NodeUp
from cohabit.model.job import Job
from cohabit.model.records import RunTable
from cohabit.model.units import SECOND
from cohabit.trace.degradation import write_degradation

COPIES = {"stream": 2, "dense": 2, "remote": 2}  # memory bandwidth, arithmetic, waiting; on one core
KINDS = tuple(COPIES)
WIDE, FIRST_AHEAD = "wide", 2  # arithmetic on both cores; so many jobs are ahead of it in the queue
WORK_S = 0.6  # approximate work of a job; the start of Python is additional
TURNS = 3
LIMIT_S = 60.0
CORES = 2
LOOK_S = 0.05
EXCLUSIVE, BLIND, OURS = "exclusive", "blind", "cohabit"
POLICIES = {
    EXCLUSIVE: PolicyConfig(name="ce-easy"),
    BLIND: PolicyConfig(name="cs"),
    OURS: PolicyConfig(name="cohabit", unknown="cores", partition="none"),
}
Say = Callable[[str], None]
Advance = Callable[[int, int], None]


@dataclass(frozen=True)
class Interference:
    """Times of each kind of program alone, and how much longer they take beside each other."""

    solo_s: dict[str, float]
    slower_pct: dict[str, dict[str, float]]

    def write(self, path: Path) -> None:
        """Write the matrix of slowdowns, as `cohabit match` and the pairing policies read it."""
        names = tuple(self.slower_pct)
        write_degradation(path, names, np.array([[self.slower_pct[one][other] for other in names] for one in names]))


@dataclass(frozen=True)
class Measured:
    """The results of a demonstration."""

    interference: Interference
    runs: dict[str, tuple[RunTable, ...]]  # by policy, one per turn

    def document(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {
            "kinds": list(KINDS),
            "cores": CORES,
            "turns": TURNS,
            "solo_s": self.interference.solo_s,
            "slower_percent": self.interference.slower_pct,
            "policies": {policy: self.figures(policy) for policy in self.runs},
            "gained": self.gained(),
        }

    def makespans_s(self, policy: str) -> list[float]:
        """Return the time until all jobs were done, turn by turn."""
        return [float((run.end_us.max() - run.workload.submit_us.min()) / SECOND) for run in self.runs[policy]]

    def wide_waits_s(self, policy: str) -> list[float]:
        """Return how long the job on both cores waited, turn by turn."""
        waits = []
        for run in self.runs[policy]:
            row = run.workload.program_names.index(WIDE)
            at = [int(one) for one in run.workload.program].index(row)
            waits.append(float((run.start_us[at] - run.workload.submit_us[at]) / SECOND))
        return waits

    def in_turns(self) -> list[RunTable]:
        """Return all runs in the order they were made."""
        return [run for turn in zip(*self.runs.values(), strict=True) for run in turn]

    def figures(self, policy: str) -> dict[str, Any]:
        """Return one policy's medians over its turns."""
        times, runs = self.makespans_s(policy), self.runs[policy]
        turnarounds = [(run.end_us - run.workload.submit_us).mean() / SECOND for run in runs]
        return {
            "jobs": len(runs[0]),
            "makespans_s": times,
            "makespan_s": statistics.median(times),
            "mean_turnaround_s": float(np.median(turnarounds)),
            "mean_run_s": float(np.median([(run.end_us - run.start_us).mean() / SECOND for run in runs])),
            "wide_waits_s": self.wide_waits_s(policy),
        }

    def gained(self) -> dict[str, float | None]:
        """Return the percentage by which `cohabit` finished before each other one, in the median.

        Below 0: later. None: their turns overlap, so that nothing is shown.
        """
        mine, found = self.makespans_s(OURS), {}
        for policy in (EXCLUSIVE, BLIND):
            other = self.makespans_s(policy)
            gain = 100.0 * (1.0 - statistics.median(mine) / statistics.median(other))
            found[policy] = round(gain, 1) if _apart(mine, other) else None
        return found

    def conclusion(self) -> str:
        """Return what was gained, or that nothing was shown, and what was not."""
        gained, jobs = self.gained(), sum(COPIES.values()) + 1
        mine, theirs = self.wide_waits_s(OURS), self.wide_waits_s(BLIND)
        sooner = {policy: (gain or 0.0) > 0.0 for policy, gain in gained.items()}
        starts_sooner = _apart(mine, theirs) and statistics.median(mine) < statistics.median(theirs)
        shown = sooner[EXCLUSIVE] and (sooner[BLIND] or starts_sooner)
        times = {policy: _spread(self.makespans_s(policy)) for policy in POLICIES}
        said = (
            f"{'Gained' if shown else 'No gain shown'}: {jobs} real jobs were done after {times[OURS]} under cohabit, "
            f"{_sooner(gained[EXCLUSIVE])} one at a time, {times[EXCLUSIVE]}, and {_sooner(gained[BLIND])} shared "
            f"blindly, {times[BLIND]}. "
        )
        if _apart(mine, theirs):
            said += f"The job on both cores waited {_spread(mine)} instead of {_spread(theirs)} under blind sharing. "
        if not sooner[BLIND]:
            slower = [max(0.0, each) for row in self.interference.slower_pct.values() for each in row.values()]
            said += (
                f"Both choose by cores here, as these programs have no profiles yet; on a core each they slow each "
                f"other by {min(slower):.0f} to {max(slower):.0f} %. "
            )
        return said.strip()


def _apart(left: Sequence[float], right: Sequence[float]) -> bool:
    return max(left) < min(right) or min(left) > max(right)


def _spread(times_s: Sequence[float]) -> str:
    return f"{statistics.median(times_s):.1f} s ({min(times_s):.1f} to {max(times_s):.1f})"


def _sooner(gain: float | None) -> str:
    if gain is None:
        return "not clearly different from"
    return f"{abs(gain):.0f} % {'sooner' if gain > 0 else 'later'} than"


def can_demonstrate() -> bool:
    """Return whether there are enough cores."""
    return len(os.sched_getaffinity(0)) >= CORES


@contextmanager
def two_cores() -> Iterator[None]:
    """Restrict this process to two of its cores, for the same demonstration on every machine."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:CORES])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def commands() -> dict[str, tuple[str, ...]]:
    """Return the programs, each with work that takes about equally long here; and the one on both cores."""
    found = {}
    for kind in KINDS:
        said = subprocess.run(_command(kind, "--seconds", str(WORK_S), "--json"), check=True, capture_output=True)
        found[kind] = _command(kind, "--work", str(max(1, int(json.loads(said.stdout)["rounds"]))))
    return found | {WIDE: ("sh", "-c", f"{' & '.join([shlex.join(found['dense'])] * CORES)} & wait")}


def _command(kind: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "cohabit.cli", "exercise", kind, *options)


def measure_pairs(programs: dict[str, tuple[str, ...]], out: Path, advance: Advance | None) -> Interference:
    """Run every program alone and beside every other, on a core each; pairs.csv and degradation.csv stay in `out`."""
    plan = Plan(
        program=[Program(kind, list(programs[kind])) for kind in KINDS],
        use=sorted(os.sched_getaffinity(0)),
        repeats=2,
        sources=["procfs"],
        limit_s=LIMIT_S,
    )
    with tempfile.TemporaryDirectory(prefix="cohabit-demo-") as scratch:
        job = measuring.prepare(plan, out / "pairs.csv", Path(scratch))
        try:
            measuring.measure(job, advance)
            found = measuring.finish(job)
        finally:
            job.progress.close()
    if found["failed"]:
        raise InputError(f"a program failed: {found['failed'][0]['reason']}", "demo", "look at its output")
    interference = Interference(found["solo_s"], found["degradation_percent"])
    interference.write(out / "degradation.csv")
    return interference


def schedule(
    programs: dict[str, tuple[str, ...]], interference: Interference, say: Say, advance: Advance | None
) -> Measured:
    """Run the same queue under each policy, in turns."""
    runs: dict[str, list[RunTable]] = {policy: [] for policy in POLICIES}
    with tempfile.TemporaryDirectory(prefix="cohabit-demo-") as scratch:
        os.chmod(scratch, 0o711)  # the controller's account must pass it if root runs this
        for turn in range(TURNS):
            for place, (label, policy) in enumerate(POLICIES.items()):
                if advance is not None:
                    advance(turn * len(POLICIES) + place, TURNS * len(POLICIES))
                folder = Path(scratch) / f"{label}-{turn}"
                said = say if turn == place == 0 else lambda _: None  # the same sentences every time
                runs[label].append(_scheduled(label, policy, programs, folder, said))
    return Measured(interference, {label: tuple(tables) for label, tables in runs.items()})


def _scheduled(
    label: str, policy: PolicyConfig, programs: dict[str, tuple[str, ...]], place: Path, say: Say
) -> RunTable:
    """Run the queue under a real controller, which gives up root's rights if root runs this; its jobs keep them."""
    config = ServeConfig(place, 1, policy, launcher=LauncherConfig(uids=(os.geteuid(),)))

    def work(held: Held | None) -> dict[str, Any]:
        return asyncio.run(_run_queue(config, held, programs))

    found = in_own_process(config, say, work)
    bad = next((view for view in found["views"] if view["state"] != "done"), None)
    if bad is not None:
        raise InputError(
            f"job {bad['job']} of the {label} run ended as {bad['state']}",
            "demo",
            "run its command by hand: cohabit exercise NAME --work 1",
        )
    return run_table(found["views"], found["nodes"], label)


async def _run_queue(config: ServeConfig, held: Held | None, programs: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """Run from an empty place to the end of the last job."""
    service = Service(config, held)
    await service.open()
    try:
        jobs = list(_queue(programs, -1 if held is None else 0))
        await service.tell(NodeDrained(0))  # no job starts before all are in the queue, as on a busy machine
        for job, launch in jobs:
            await service.controller.submit(job, launch)
        await service.tell(NodeUp(0))
        while any(state in ("queued", "running") for state in (await service.standing(jobs)).values()):
            await asyncio.sleep(LOOK_S)
        listed = (await service.controller.page(state="all", limit=1000)).jobs
        nodes = await service.controller.ask(lambda core: node_views(core, None))
    finally:
        await service.close()
    return {"views": [job_view(one, "demo", False, "", "") for one in listed], "nodes": nodes}


def _queue(programs: dict[str, tuple[str, ...]], uid: int) -> Iterator[tuple[Job, Launch]]:
    """Yield jobs of one kind one after the other, as users submit them, and the one on both cores among the first."""
    environment = {key: os.environ[key] for key in ("HOME", "PATH", "COHABIT_CACHE") if key in os.environ}
    names = [(kind, f"{kind}-{number}") for kind in KINDS for number in range(1, COPIES[kind] + 1)]
    names.insert(FIRST_AHEAD, (WIDE, WIDE))
    for kind, name in names:
        cores = CORES if kind == WIDE else 1
        job = Job(name, round(LIMIT_S * SECOND), cores, program=kind)
        yield job, Launch(programs[kind], environment, uid=uid)
