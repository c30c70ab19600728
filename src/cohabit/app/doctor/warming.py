"""Compile kernels ahead of their first use, on as many cores as there are; each part in a process of its own.

A kernel compiled while jobs are measured would spoil what is measured. No result of these runs is shown.
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
    """Traces on whole nodes in both engines, by (order, backfilling)."""
    jobs = load_workload(scenario_from(PLAIN, "warm-up"))
    for order, backfill in choices:
        policy = {"policy": {"order": order, "backfill": backfill}}
        prepared = simulation.prepare(scenario_from(PLAIN | policy, "warm-up"), jobs)
        for engine in ("fast", "steps"):
            simulation.run(prepared, engine=engine)


def _orders() -> None:
    """Reading traces, and the other orders that change with time, by themselves."""
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
FIRST = (("first",),)  # what the first minutes need; the rest is compiled when it is first needed
# About as much work in each; what several need is compiled by the first and found by those who come later.
EVERYTHING = (("first", "changing", "orders"), ("division", "pairs", "groups", "reserving"))


def compile_parts(names: Sequence[str]) -> None:
    """These parts, one after the other, in this process."""
    for name in names:
        if name not in PARTS:
            raise InputError(f"there is no part {name!r}", "--parts", f"use {', '.join(PARTS)}")
    for name in names:
        PARTS[name]()


def compile_all(shares: Sequence[Sequence[str]]) -> None:
    """Every share; then machine code that old versions left behind is removed."""
    if len(os.sched_getaffinity(0)) < 2:
        for share in shares:
            compile_parts(share)
    else:
        _beside_each_other(shares)
    forget_unused()


def _beside_each_other(shares: Sequence[Sequence[str]]) -> None:
    """The first here, every other one in a process of its own."""
    command = [sys.executable, "-m", "cohabit.cli", "warm-up", "--parts"]
    running = [subprocess.Popen([*command, ",".join(share)], stderr=subprocess.PIPE) for share in shares[1:]]
    try:
        compile_parts(shares[0])
    finally:
        ended = [(one.communicate()[1], one.returncode) for one in running]
    for said, status in ended:
        if status:
            raise InputError(f"compiling failed: {said.decode(errors='replace').strip()[-300:]}", "warm-up")
