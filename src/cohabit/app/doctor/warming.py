"""Compile kernels ahead of their first use, on all cores; each part in its own process.

A kernel compiled while jobs are measured would distort the measurement. No result of these runs is shown.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from cohabit.app.learn import matching, optimising
from cohabit.app.scenario.reading import scenario_from
from cohabit.app.scenario.workloads import load_workload
from cohabit.app.simulate import simulation
from cohabit.compiled import forget_unused
from cohabit.model.errors import InputError
from cohabit.policy.registry import ORDERS, make_order
from cohabit.trace.catalogue import read_trace, write_trace

PLAIN = {"cluster": {"nodes": 16}, "jobs": {"generator": "poisson", "jobs": 40, "load": 1.0}}


def _replay(*choices: tuple[str, str | int]) -> None:
    """Run traces on whole nodes in both engines, by (order, backfilling)."""
    jobs = load_workload(scenario_from(PLAIN, "warm-up"))
    for order, backfill in choices:
        policy = {"policy": {"order": order, "backfill": backfill}}
        prepared = simulation.prepare(scenario_from(PLAIN | policy, "warm-up"), jobs)
        for engine in ("fast", "steps"):
            simulation.run(prepared, engine=engine)


def _orders() -> None:
    """Read traces, and run the other time-dependent orders by themselves."""
    with tempfile.TemporaryDirectory() as folder:
        write_trace(load_workload(scenario_from(PLAIN, "warm-up")), Path(folder) / "jobs.swf")
        read_trace(Path(folder) / "jobs.swf")
    for name, entry in ORDERS.items():
        if entry.changing:
            make_order(name, {}, in_passes=True)


PARTS: dict[str, Callable[[], None]] = {
    "first": partial(_replay, ("fcfs", "easy")),
    "changing": partial(_replay, ("wfp", "easy")),
    "reserving": partial(_replay, ("fcfs", 2), ("fcfs", "conservative")),
    "orders": _orders,
    "pairs": matching.get_pairs_ready,
    "groups": matching.get_ready,
    "division": optimising.get_all_ready,
}
FIRST = (("first",),)  # needed in the first minutes; the rest is compiled on first use
# The shares have similar work; a kernel that several need is compiled by the first and loaded by the others.
EVERYTHING = (("first", "changing", "orders"), ("division", "pairs", "groups", "reserving"))


def compile_parts(names: Sequence[str]) -> None:
    """Compile these parts, one after the other, in this process."""
    for name in names:
        if name not in PARTS:
            raise InputError(f"there is no part {name!r}", "--parts", f"use {', '.join(PARTS)}")
    for name in names:
        PARTS[name]()


def compile_all(shares: Sequence[Sequence[str]]) -> None:
    """Compile every share, then remove machine code of old versions."""
    if len(os.sched_getaffinity(0)) < 2:
        for share in shares:
            compile_parts(share)
    else:
        _beside_each_other(shares)
    forget_unused()


def _beside_each_other(shares: Sequence[Sequence[str]]) -> None:
    """Compile the first share here, every other one in its own process."""
    command = [sys.executable, "-m", "cohabit.cli", "warm-up", "--parts"]
    running = [subprocess.Popen([*command, ",".join(share)], stderr=subprocess.PIPE) for share in shares[1:]]
    try:
        compile_parts(shares[0])
    finally:
        ended = [(one.communicate()[1], one.returncode) for one in running]
    for said, status in ended:
        if status:
            raise InputError(f"compiling failed: {said.decode(errors='replace').strip()[-300:]}", "warm-up")
