"""The demonstration: real programs on two cores of this machine, measured beside each other, then scheduled for real.

First every kind of program runs alone and beside every other; the learned policy goes by that and nothing else. Then
the same queue runs three times under the real controller: one job per node, shared by free cores, and in pairs chosen
by what was measured. Every time shown is one that was measured.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.app import measuring
from cohabit.app.client_report import run_table
from cohabit.app.measuring_programs import Plan, Program
from cohabit.app.scenario import PolicyConfig
from cohabit.app.separation import Held, in_own_process
from cohabit.app.serving import ServeConfig, Service
from cohabit.backend.protocol import Launch
from cohabit.live.api.views import job_view, node_views
from cohabit.live.runs_as import LauncherConfig
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.records import RunTable
from cohabit.model.units import SECOND
from cohabit.whole_files import replacing

KINDS = ("stream", "graph-walk", "dense")  # memory bandwidth, memory latency, arithmetic
COPIES = 3  # of each kind in the queue
WORK_S = 1.5  # about so much work in a job; starting Python comes on top
LIMIT_S = 120.0
CORES = 2
LOOK_S = 0.1
EXCLUSIVE, SHARE, LEARNED = "exclusive", "share", "learned"
Say = Callable[[str], None]
Advance = Callable[[int, int], None]


@dataclass(frozen=True)
class Measured:
    """What came of it."""

    solo_s: dict[str, float]  # by kind
    slower_pct: dict[str, dict[str, float]]  # a kind beside another
    runs: tuple[RunTable, ...]  # one per policy, labelled

    def document(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "kinds": list(KINDS), "cores": CORES, "solo_s": self.solo_s, "slower_percent": self.slower_pct,
            "policies": {table.policy: self.figures(table) for table in self.runs},
        }  # fmt: skip

    def figures(self, table: RunTable) -> dict[str, Any]:
        """One policy: until all was done, until a job was done in the mean, and how much longer it ran than alone."""
        took_s = (table.end_us - table.start_us) / SECOND
        there_s = (table.end_us - table.workload.submit_us) / SECOND
        kinds = [table.workload.program_names[place] for place in table.workload.program]
        slowdown = took_s / np.array([self.solo_s[kind] for kind in kinds])
        return {
            "jobs": len(table), "makespan_s": float((table.end_us.max() - table.workload.submit_us.min()) / SECOND),
            "mean_turnaround_s": float(there_s.mean()), "mean_run_s": float(took_s.mean()),
            "mean_slowdown": float(slowdown.mean()), "worst_slowdown": float(slowdown.max()),
            "by_kind": {
                kind: float(np.mean([s for s, own in zip(slowdown, kinds, strict=True) if own == kind]))
                for kind in KINDS
            },
        }  # fmt: skip


def demonstrate(out: Path, say: Say, advance: Advance | None = None) -> Measured:
    """Measure, then schedule; files that matter stay in `out`."""
    with _two_cores(), tempfile.TemporaryDirectory(prefix="cohabit-demo-") as scratch:
        if (load := measuring.busy_load()) is not None:
            say(f"this machine is busy (load {load:.1f}): every time below will be noisy")
        say(f"finding out how much work takes {WORK_S:g} s here ...")
        commands = {kind: _command(kind, "--work", str(_rounds(kind))) for kind in KINDS}
        say(f"measuring {len(KINDS)} kinds of programs alone and beside each other ...")
        known = _measure_pairs(commands, out, Path(scratch), advance)
        matrix = (out / "degradation.csv").absolute()
        with replacing(matrix) as stream:
            stream.write(_as_csv(known["degradation_percent"]).encode())
        runs = []
        for label, policy in (
            (EXCLUSIVE, PolicyConfig(name="ce")),
            (SHARE, PolicyConfig(name="cs")),
            (LEARNED, PolicyConfig(name="pair-optimal", degradation=str(matrix), refill=True)),
        ):
            say(f"running {len(KINDS) * COPIES} jobs under {label} ({policy.name}) ...")
            runs.append(_scheduled(label, policy, commands, Path(scratch) / label, say))
    return Measured(known["solo_s"], known["degradation_percent"], tuple(runs))


@contextmanager
def _two_cores() -> Iterator[None]:
    """The same demonstration on every machine: two of the cores this process may use."""
    before = os.sched_getaffinity(0)
    if len(before) < CORES:
        raise InputError("one core is not enough for programs beside each other", "this machine",
                         "use one with two cores, or cohabit demo --simulated")  # fmt: skip
    os.sched_setaffinity(0, sorted(before)[:CORES])
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _command(kind: str, *options: str) -> tuple[str, ...]:
    return (sys.executable, "-m", "cohabit.cli", "exercise", kind, *options)


def _rounds(kind: str) -> int:
    """How many rounds take about so long; the first run also compiles what is not compiled yet."""
    command = _command(kind, "--seconds", str(WORK_S), "--json")
    subprocess.run(_command(kind, "--work", "1"), check=True, capture_output=True)
    said = subprocess.run(command, check=True, capture_output=True)
    return max(1, int(json.loads(said.stdout)["rounds"]))


def _measure_pairs(
    commands: dict[str, tuple[str, ...]], out: Path, scratch: Path, advance: Advance | None
) -> dict[str, Any]:
    plan = Plan(
        program=[Program(kind, list(command)) for kind, command in commands.items()], repeats=2, sources=["procfs"],
        limit_s=LIMIT_S,
    )  # fmt: skip
    job = measuring.prepare(plan, out / "pairs.csv", scratch)
    try:
        measuring.measure(job, advance)
        found = measuring.finish(job)
    finally:
        job.progress.close()
    if found["failed"]:
        raise InputError(f"a program failed: {found['failed'][0]['reason']}", "demo", "look at its output")
    return found


def _as_csv(slower: dict[str, dict[str, float]]) -> str:
    """As `cohabit match` and the pairing policies read it."""
    names = list(slower)
    lines = [",".join(["", *names])]
    lines += [",".join([name, *(str(slower[name][other]) for other in names)]) for name in names]
    return "\n".join(lines) + "\n"


def _scheduled(
    label: str, policy: PolicyConfig, commands: dict[str, tuple[str, ...]], place: Path, say: Say
) -> RunTable:
    """The queue under a real controller, which is not root either where root types this; its jobs are."""
    config = ServeConfig(
        place, 1, policy, oversubscribe=label == LEARNED, launcher=LauncherConfig(uids=(os.geteuid(),))
    )  # pairs share cores in time

    def work(held: Held | None) -> dict[str, Any]:
        return asyncio.run(_run_queue(config, held, commands))

    found = in_own_process(config, say if label == EXCLUSIVE else _silent, work)
    _refuse_failures(found["views"], label)
    return run_table(found["views"], found["nodes"], label)


async def _run_queue(config: ServeConfig, held: Held | None, commands: dict[str, tuple[str, ...]]) -> dict[str, Any]:
    """From an empty place to the end of the last job."""
    service = Service(config, held)
    await service.open()
    try:
        jobs = list(_queue(commands, -1 if held is None else 0))
        for job, launch in jobs:
            await service.controller.submit(job, launch)
        while any(state in ("queued", "running") for state in (await service.standing(jobs)).values()):
            await asyncio.sleep(LOOK_S)
        listed = (await service.controller.page(state="all", limit=1000)).jobs
        nodes = await service.controller.ask(lambda core: node_views(core, None))
    finally:
        await service.close()
    return {"views": [job_view(one, "demo", False, "", "") for one in listed], "nodes": nodes}


def _silent(sentence: str) -> None:
    """It was said before."""


def _queue(commands: dict[str, tuple[str, ...]], uid: int) -> Iterator[tuple[Job, Launch]]:
    """Jobs of one kind come one behind the other: who pairs neighbours in the queue pairs the worst."""
    environment = {key: os.environ[key] for key in ("HOME", "PATH", "COHABIT_CACHE") if key in os.environ}
    for kind, command in commands.items():
        for number in range(1, COPIES + 1):
            job = Job(f"{kind}-{number}", round(LIMIT_S * SECOND), program=kind)
            yield job, Launch(command, environment, uid=uid)


def _refuse_failures(views: Sequence[dict[str, Any]], label: str) -> None:
    bad = [view for view in views if view["state"] != "done"]
    if bad:
        raise InputError(f"job {bad[0]['job']} of the {label} run ended as {bad[0]['state']}", "demo",
                         "run its command by hand: cohabit exercise NAME --work 1")  # fmt: skip
