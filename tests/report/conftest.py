"""Synthetic runs: a small list scheduler that records node lists, and a wide table for speed checks."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cohabit.model.records import DONE, KILLED, NEVER, REJECTED, NodeRanges, RunTable
from cohabit.model.units import SECOND
from cohabit.model.workload import TOO_LARGE, Workload

USERS = ("ada", "grace", "edsger", "barbara", "donald", "radia", "leslie", "tony", "frances")
PROGRAMS = ("lammps", "gromacs", "cp2k", "wrf", "nek5000", "vasp")


def make_workload(
    jobs: int, nodes: int, seed: int = 1, load: float = 0.9, first_submit_s: int = 0, mean_run_s: float = 1800.0
) -> Workload:
    """Lognormal run times, power-of-two sizes and Poisson arrivals at the offered load."""
    rng = np.random.default_rng(seed)
    run_s = np.maximum(1, rng.lognormal(np.log(mean_run_s) - 0.72, 1.2, jobs)).astype(np.int64)
    size = 2 ** np.minimum(rng.geometric(0.35, jobs) - 1, int(np.log2(nodes)) - 1)
    gap = float((run_s * size).mean()) / nodes / load
    submit_s = first_submit_s + np.cumsum(rng.exponential(gap, jobs)).astype(np.int64)
    return Workload(
        job_id=np.arange(1, jobs + 1), submit_us=submit_s * SECOND, run_us=run_s * SECOND,
        limit_us=run_s * 2 * SECOND, processes=size.astype(np.int64),
        user=(rng.zipf(1.6, jobs) % len(USERS)).astype(np.int32),
        program=rng.integers(0, len(PROGRAMS), jobs).astype(np.int32), rejection=np.zeros(jobs, np.int8),
        user_names=USERS, program_names=PROGRAMS, max_nodes=nodes, source="synthetic.swf",
    )  # fmt: skip


def schedule(workload: Workload, nodes: int, policy: str = "fcfs", seed: int = 1) -> RunTable:
    """Run the workload on lowest-numbered free nodes: "fcfs" and "sjf" block on their head, "first fit" does not."""
    free = np.ones(nodes, dtype=bool)
    idle = nodes
    queue: list[tuple[float, int]] = []
    running: list[tuple[int, int, np.ndarray[Any, Any]]] = []
    start = np.full(len(workload), NEVER)
    taken: list[np.ndarray[Any, Any]] = [np.empty(0, np.int64)] * len(workload)
    arrivals = workload.order().tolist()[::-1]
    size, run, submit = workload.processes.tolist(), workload.run_us.tolist(), workload.submit_us.tolist()
    while arrivals or running or queue:
        now = min(submit[arrivals[-1]] if arrivals else 2**62, running[0][0] if running else 2**62)
        while running and running[0][0] <= now:
            _, _, owned = heapq.heappop(running)
            free[owned] = True
            idle += len(owned)
        while arrivals and submit[arrivals[-1]] <= now:
            job = arrivals.pop()
            heapq.heappush(queue, (float(run[job]) if policy == "sjf" else float(job), job))
        kept: list[tuple[float, int]] = []
        while queue and idle and len(kept) < 50:
            key, job = heapq.heappop(queue)
            if size[job] > idle:
                kept.append((key, job))
                if policy == "first fit":
                    continue
                break
            owned = np.flatnonzero(free)[: size[job]]
            free[owned] = False
            idle -= len(owned)
            start[job], taken[job] = now, owned
            heapq.heappush(running, (now + run[job], job, owned))
        for entry in kept:
            heapq.heappush(queue, entry)
    return _table(workload, nodes, policy, seed, start, taken)


def _table(
    workload: Workload, nodes: int, policy: str, seed: int, start: Any, taken: Sequence[np.ndarray[Any, Any]]
) -> RunTable:
    offsets, first, count = [0], [], []
    for owned in taken:
        cuts = np.flatnonzero(np.diff(owned) != 1) + 1
        begin = owned[np.concatenate(([0], cuts))] if len(owned) else owned
        last = owned[np.concatenate((cuts - 1, [len(owned) - 1]))] if len(owned) else owned
        first.extend(begin.tolist())
        count.extend((last - begin + 1).tolist())
        offsets.append(len(first))
    jobs = len(workload)
    status = np.full(jobs, DONE, np.int8)
    status[::97] = KILLED
    return RunTable(
        workload=workload, start_us=start, end_us=start + workload.run_us,
        nodes=workload.processes.astype(np.int32), cores=workload.processes * 4, scale=np.ones(jobs, np.int32),
        status=status, reason=np.zeros(jobs, np.int32), reasons=("",), cluster_nodes=nodes,
        cluster_cores=nodes * 4, policy=policy, seed=seed, events=3 * jobs,
        node_ranges=NodeRanges(np.array(offsets), np.array(first, np.int32), np.array(count, np.int32)),
        settings={"cluster": {"nodes": nodes, "cores": 4}, "policy": {"name": policy}},
        scenario_hash="5ce0a110", journal_hash="0dd5f00d",
    )  # fmt: skip


def with_rejected(run: RunTable, rows: Sequence[int]) -> RunTable:
    """The same run with some jobs refused before they could start."""
    columns: dict[str, Any] = {}
    for name in ("start_us", "end_us", "nodes", "cores", "status", "reason"):
        columns[name] = getattr(run, name).copy()
    for row in rows:
        columns["start_us"][row] = columns["end_us"][row] = NEVER
        columns["nodes"][row] = columns["cores"][row] = 0
        columns["status"][row], columns["reason"][row] = REJECTED, 1
    rejection = run.workload.rejection.copy()
    rejection[list(rows)] = TOO_LARGE
    ranges = run.node_ranges
    if ranges is not None:
        lengths = np.diff(ranges.offsets)
        keep = ~np.isin(np.repeat(np.arange(len(run)), lengths), list(rows))
        lengths[list(rows)] = 0
        ranges = NodeRanges(np.concatenate(([0], np.cumsum(lengths))), ranges.first[keep], ranges.count[keep])
    workload = replace(run.workload, rejection=rejection)
    return replace(run, workload=workload, reasons=("", "larger than the machine"), node_ranges=ranges, **columns)


def wide_run(jobs: int, nodes: int = 1024, seed: int = 1) -> RunTable:
    """A table of any size at once: fixed lanes of nodes, each working through its jobs in order of submission."""
    workload = make_workload(jobs, nodes, seed)
    width = 16
    lane = np.arange(jobs) % (nodes // width)
    start = np.empty(jobs, np.int64)
    for number in range(nodes // width):
        rows = np.flatnonzero(lane == number)
        run, submit = workload.run_us[rows], workload.submit_us[rows]
        before = np.concatenate(([0], np.cumsum(run)[:-1]))
        start[rows] = np.maximum.accumulate(submit - before) + before
    count = np.minimum(workload.processes, width).astype(np.int32)
    workload = replace(workload, processes=count.astype(np.int64))
    run_table = _table(workload, nodes, "lanes", seed, start, ())
    ranges = NodeRanges(np.arange(jobs + 1), (lane * width).astype(np.int32), count)
    return replace(run_table, node_ranges=ranges)


@pytest.fixture(scope="session")
def small_run() -> RunTable:
    """200 jobs on 32 nodes, two of them rejected."""
    return with_rejected(schedule(make_workload(200, 32, first_submit_s=1_000_000), 32), [7, 150])


@pytest.fixture(scope="session")
def policy_runs() -> list[RunTable]:
    """Three policies, five repeats each."""
    return [
        schedule(make_workload(300, 32, seed), 32, policy, seed)
        for policy in ("fcfs", "first fit", "sjf")
        for seed in range(1, 6)
    ]


@pytest.fixture(scope="session")
def wide() -> Callable[..., RunTable]:
    """`wide_run` for tests that need many jobs at once."""
    return wide_run


@pytest.fixture(scope="session")
def crowded_run() -> RunTable:
    """4,000 jobs on 256 nodes: too many for one bar each."""
    return schedule(make_workload(4000, 256, load=1.0), 256, "first fit")


@pytest.fixture(scope="session")
def run_of() -> Callable[..., RunTable]:
    """A run from plain seconds: run_of([(submit, start, end, nodes), ...], machine)."""

    def build(jobs: Sequence[tuple[Any, Any, Any, int]], machine: int = 10, **more: Any) -> RunTable:
        def us(column: int) -> Any:
            return np.array([NEVER if job[column] is None else round(job[column] * SECOND) for job in jobs], np.int64)

        submit, start, end = us(0), us(1), us(2)
        size = np.array([job[3] for job in jobs], np.int64)
        ran = start != NEVER
        length = np.where(ran, end - np.where(ran, start, 0), 0)
        count = len(jobs)
        workload = Workload(
            job_id=np.arange(1, count + 1), submit_us=submit, run_us=length, limit_us=length, processes=size,
            user=more.pop("user", np.zeros(count, np.int32)), program=np.full(count, -1, np.int32),
            rejection=np.zeros(count, np.int8), user_names=USERS, max_nodes=machine,
        )  # fmt: skip
        values: dict[str, Any] = {
            "workload": workload, "start_us": start, "end_us": end, "nodes": np.where(ran, size, 0).astype(np.int32),
            "cores": np.where(ran, size, 0), "scale": np.ones(count, np.int32),
            "status": np.where(ran, DONE, REJECTED).astype(np.int8), "reason": np.zeros(count, np.int32),
            "reasons": ("",), "cluster_nodes": machine, "cluster_cores": machine, "policy": "by hand", "seed": 1,
            "events": 0,
        }  # fmt: skip
        return RunTable(**(values | more))

    return build
