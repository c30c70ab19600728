"""Demonstrate sharing with real programs: measure interference here, then run the same jobs under three policies.

The machine is two nodes of one core. Every program runs alone and beside every other on one core; the learned policy
uses that table and nothing else. Then the same queue runs under the real controller: one job per node (exclusive), two
per node as they come (share), two per node chosen by the table (learned). The three alternate several times, so that a
disturbance hits all of them; a claim must hold for every turn. Every time shown was measured.
"""

from __future__ import annotations

import asyncio
import json
import os
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

# Arithmetic, memory bandwidth, waiting. Two that compute gain nothing from sharing a core; one that computes and one
# that waits hardly affect each other. (Side by side, on a core each, no pair of our exercises slowed by more than 5 %
# on the two-core machine this was made on: too little for a choice to matter.)
COPIES = {"dense": 2, "stream": 2, "remote": 4}
KINDS = tuple(COPIES)
WORK_S = 0.7  # approximate work of a job; the start of Python is additional
TURNS = 3
LIMIT_S = 120.0
NODES = 2
LOOK_S = 0.05
THRESHOLD_PCT = 50.0  # programs that slow each other by more are not put together
EXCLUSIVE, BLIND, LEARNED = POLICIES = ("exclusive", "share", "learned")
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
            "cores": NODES,
            "turns": TURNS,
            "solo_s": self.interference.solo_s,
            "slower_percent": self.interference.slower_pct,
            "policies": {policy: self.figures(policy) for policy in self.runs},
            "gained": self.gained(),
        }

    def makespans_s(self, policy: str) -> list[float]:
        """Return the time until all jobs were done, turn by turn."""
        return [float((run.end_us.max() - run.workload.submit_us.min()) / SECOND) for run in self.runs[policy]]

    def in_turns(self) -> list[RunTable]:
        """Return all runs in the order they were made."""
        return [run for turn in zip(*self.runs.values(), strict=True) for run in turn]

    def figures(self, policy: str) -> dict[str, Any]:
        """Return one policy's medians over its turns, and how much longer jobs ran than alone."""
        times, slowdowns = self.makespans_s(policy), [self._slowdowns(run) for run in self.runs[policy]]
        runs = self.runs[policy]
        turnarounds = [(run.end_us - run.workload.submit_us).mean() / SECOND for run in runs]
        kinds = np.array([runs[0].workload.program_names[at] for at in runs[0].workload.program])
        return {
            "jobs": len(runs[0]),
            "makespans_s": times,
            "makespan_s": statistics.median(times),
            "mean_turnaround_s": float(np.median(turnarounds)),
            "mean_run_s": float(np.median([(run.end_us - run.start_us).mean() / SECOND for run in runs])),
            "mean_slowdown": float(np.median([each.mean() for each in slowdowns])),
            "worst_slowdown": float(np.median([each.max() for each in slowdowns])),
            "by_kind": {kind: float(np.median([each[kinds == kind].mean() for each in slowdowns])) for kind in KINDS},
        }

    def _slowdowns(self, run: RunTable) -> Any:
        alone = np.array([self.interference.solo_s[run.workload.program_names[at]] for at in run.workload.program])
        return (run.end_us - run.start_us) / SECOND / alone

    def gained(self) -> dict[str, float | None]:
        """Return the percentage by which the learned policy finished before each other one, in the median.

        Below 0: later. None: their turns overlap, so that nothing is shown.
        """
        mine, found = self.makespans_s(LEARNED), {}
        for policy in (EXCLUSIVE, BLIND):
            other = self.makespans_s(policy)
            apart = max(mine) < min(other) or min(mine) > max(other)
            gain = 100.0 * (1.0 - statistics.median(mine) / statistics.median(other))
            found[policy] = round(gain, 1) if apart else None
        return found

    def conclusion(self) -> str:
        """Return one sentence: what was gained, or that nothing was shown."""
        gained, jobs = self.gained(), sum(COPIES.values())
        times = {policy: _spread(self.makespans_s(policy)) for policy in POLICIES}
        if all(gain is not None and gain > 0 for gain in gained.values()):
            return (
                f"Gained: {jobs} real jobs were done after {times[LEARNED]} in pairs chosen by measurement: "
                f"{gained[BLIND]:.0f} % sooner than shared blindly, {times[BLIND]}, and {gained[EXCLUSIVE]:.0f} % "
                f"sooner than one per node, {times[EXCLUSIVE]}; none of {TURNS} turns says otherwise."
            )
        shown = [
            f"{_sooner(gained[policy])} {words}, {times[policy]}"
            for policy, words in ((BLIND, "shared blindly"), (EXCLUSIVE, "one per node"))
        ]
        reason = "this machine is too small or too busy just now to show more" if None in gained.values() else ""
        return (
            f"No gain shown: {jobs} real jobs were done after {times[LEARNED]} in pairs chosen by measurement: "
            f"{', and '.join(shown)}{f'; {reason}' if reason else ''}."
        )


def _spread(times_s: Sequence[float]) -> str:
    return f"{statistics.median(times_s):.1f} s ({min(times_s):.1f} to {max(times_s):.1f})"


def _sooner(gain: float | None) -> str:
    if gain is None:
        return "not clearly different from"
    return f"{abs(gain):.0f} % {'sooner' if gain > 0 else 'later'} than"


def can_demonstrate() -> bool:
    """Return whether there are enough cores."""
    return len(os.sched_getaffinity(0)) >= NODES


@contextmanager
def two_cores() -> Iterator[None]:
    """Restrict this process to two of its cores, for the same demonstration on every machine."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[:NODES])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def commands() -> dict[str, tuple[str, ...]]:
    """Return the programs, each with the amount of work that takes about equally long here."""
    found = {}
    for kind in KINDS:
        said = subprocess.run(_command(kind, "--seconds", str(WORK_S), "--json"), check=True, capture_output=True)
        found[kind] = _command(kind, "--work", str(max(1, int(json.loads(said.stdout)["rounds"]))))
    return found


def _command(kind: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "cohabit.cli", "exercise", kind, *options)


def measure_pairs(programs: dict[str, tuple[str, ...]], out: Path, advance: Advance | None) -> Interference:
    """Run every program alone and beside every other, on one core; pairs.csv and degradation.csv stay in `out`."""
    plan = Plan(
        program=[Program(kind, list(command)) for kind, command in programs.items()],
        cores="shared",
        use=[min(os.sched_getaffinity(0))],
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
        matrix = Path(scratch) / "degradation.csv"
        interference.write(matrix)
        matrix.chmod(0o644)
        policies = {
            EXCLUSIVE: PolicyConfig(name="fifo"),
            BLIND: PolicyConfig(name="fifo-shared"),
            LEARNED: PolicyConfig(
                name="pair-optimal", degradation=str(matrix), threshold_pct=THRESHOLD_PCT, refill=True
            ),
        }
        for turn in range(TURNS):
            for place, (label, policy) in enumerate(policies.items()):
                if advance is not None:
                    advance(turn * len(policies) + place, TURNS * len(policies))
                folder = Path(scratch) / f"{label}-{turn}"
                said = say if turn == place == 0 else lambda _: None  # the same sentences every time
                runs[label].append(_scheduled(label, policy, programs, folder, said))
    return Measured(interference, {label: tuple(tables) for label, tables in runs.items()})


def _scheduled(
    label: str, policy: PolicyConfig, programs: dict[str, tuple[str, ...]], place: Path, say: Say
) -> RunTable:
    """Run the queue under a real controller, which gives up root's rights if root runs this; its jobs keep them."""
    config = ServeConfig(
        place, NODES, policy, oversubscribe=label != EXCLUSIVE, launcher=LauncherConfig(uids=(os.geteuid(),))
    )  # jobs that share a node share its core in time

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
        for node in range(NODES):  # no job starts before all are in the queue, as on a busy machine
            await service.tell(NodeDrained(node))
        for job, launch in jobs:
            await service.controller.submit(job, launch)
        for node in range(NODES):
            await service.tell(NodeUp(node))
        while any(state in ("queued", "running") for state in (await service.standing(jobs)).values()):
            await asyncio.sleep(LOOK_S)
        listed = (await service.controller.page(state="all", limit=1000)).jobs
        nodes = await service.controller.ask(lambda core: node_views(core, None))
    finally:
        await service.close()
    return {"views": [job_view(one, "demo", False, "", "") for one in listed], "nodes": nodes}


def _queue(programs: dict[str, tuple[str, ...]], uid: int) -> Iterator[tuple[Job, Launch]]:
    """Yield jobs of one kind one after the other, as users submit them."""
    environment = {key: os.environ[key] for key in ("HOME", "PATH", "COHABIT_CACHE") if key in os.environ}
    for kind, command in programs.items():
        for number in range(1, COPIES[kind] + 1):
            job = Job(f"{kind}-{number}", round(LIMIT_S * SECOND), program=kind)
            yield job, Launch(command, environment, uid=uid)
