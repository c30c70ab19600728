"""Processor time and memory of the decisions of `cohabit` at 1,000 queued jobs: `python -m benchmarks.joint [--quick]`.

A machine kept full of the catalogue's programs, and a queue kept at 1,000. Each measured step is the job that ends next
and as many arrivals as were started before, with all that is then decided. Two readings: jobs of 16 nodes on average on
4,096 nodes (and the same jobs, eight times as large, on 32,768), and jobs of 128. `sns`, measured in the same run, is
the reference. Every line is a process of its own with warm kernels. The planned form has a shorter queue.
"""

from __future__ import annotations

import argparse
import heapq
import multiprocessing
import resource
import time
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Cluster
from cohabit.model.command import StartJob
from cohabit.model.event import Event, JobFinished, JobSubmitted
from cohabit.model.job import Job
from cohabit.model.program import profile_of
from cohabit.model.units import SECOND
from cohabit.reproduce.joint.plan import OURS, PLANNED
from cohabit.trace.programs import catalogue

QUEUED, PLANNED_QUEUED = 1000, 100
WARM = 50  # steps before measurement begins
MEAN_MS, RARE_MS, LARGER = 10.0, 100.0, 2.0  # goals: mean, 99.9 %, and 32,768 against 4,096 nodes


class Found(NamedTuple):
    """One machine under one policy."""

    mean_ms: float
    rare_ms: float  # 99.9 % of the steps
    worst_ms: float
    classes: int  # of nodes, at most
    running: float
    peak_mb: float


def one_machine(keys: dict[str, Any], nodes: int, mean_nodes: int, queued: int, steps: int) -> Found:
    """Steps of one machine; runs in a process of its own."""
    known = catalogue("sns12")
    group = replace(known.machine.node, count=nodes)
    profiles = {name: profile_of(program, group) for name, program in known.programs.items()}
    core = SchedulerCore(Cluster((group,), "shared"), build(PolicyConfig(**keys)), profiles=profiles.values())
    rng, names = np.random.default_rng(1), list(profiles)
    alone = {name: profile.scales[0].time_s for name, profile in profiles.items()}
    program: dict[str, str] = {}
    ends: list[tuple[int, str]] = []

    def arrivals(count: int) -> list[Event]:
        found: list[Event] = []
        for _ in range(count):
            name = str(rng.choice(names))
            size = 1 if profiles[name].single_node else int(rng.integers(1, 2 * mean_nodes))
            made = str(len(program))
            program[made] = name
            limit_us = round(alone[name] * float(rng.uniform(1.0, 5.0)) * SECOND)
            found.append(JobSubmitted(Job(made, limit_us, size * group.cores, program=name)))
        return found

    def step(now_us: int, events: list[Event]) -> float:
        began = time.process_time()
        commands = core.step(now_us, events)
        took = time.process_time() - began
        for one in commands:
            if isinstance(one, StartJob):
                run_s = alone[program[one.job_id]] * float(rng.uniform(0.8, 1.1))
                heapq.heappush(ends, (now_us + round(run_s * SECOND), one.job_id))
        return took

    step(0, arrivals(queued + 2 * nodes // mean_nodes))
    spent, classes, running = [], 0, []
    for number in range(WARM + steps):
        now_us, ended = heapq.heappop(ends)
        waiting = len(program) - len(ends) - 1 - number
        took = step(now_us, [JobFinished(ended, 1), *arrivals(max(0, queued - waiting))])
        if number >= WARM:
            spent.append(1000 * took)
            running.append(len(ends))
            assert core.state.ledger is not None
            classes = max(classes, len(core.state.ledger.by_key))
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rare = float(np.quantile(spent, 0.999))
    return Found(float(np.mean(spent)), rare, max(spent), classes, float(np.mean(running)), peak_mb)


def measured(label: str, keys: dict[str, Any], nodes: int, mean: int, queued: int, steps: int) -> Found:
    """One line, from a fresh process."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        found = pool.apply(one_machine, (keys, nodes, mean, queued, steps))
    print(
        f"{label:<18} {nodes:>6,} nodes {queued:>5,} queued {found.running:>4.0f} running {found.classes:>5,} classes "
        f"mean {found.mean_ms:7.2f} ms  99.9 % {found.rare_ms:8.2f} ms  worst {found.worst_ms:8.2f} ms  "
        f"{found.peak_mb:4.0f} MB", flush=True,
    )  # fmt: skip
    return found


def judged(value: float, limit: float) -> str:
    """A value beside its goal."""
    return f"{value:.2f} (goal {limit:g}{'' if value <= limit else ', MISSED'})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="300 steps instead of 2,000")
    steps = 300 if parser.parse_args().quick else 2000
    ours = {"name": OURS.bundle, **dict(OURS.keys)}
    reference: dict[str, Any] = {"name": "sns"}
    for mean in (16, 128):
        print(f"\njobs of {mean} nodes on average, {steps} steps: one job end, its successors, what then fits")
        other = measured("sns (reference)", reference, 4096, mean, QUEUED, steps)
        own = measured("cohabit", ours, 4096, mean, QUEUED, steps)
        large = measured("cohabit", ours, 32768, 8 * mean, QUEUED, steps)
        print(
            f"  mean {judged(own.mean_ms, MEAN_MS)} ms, 99.9 % {judged(own.rare_ms, RARE_MS)} ms, "
            f"32,768 over 4,096 nodes {judged(large.mean_ms / own.mean_ms, LARGER)} x; "
            f"{own.mean_ms / other.mean_ms:.2f} x the time of sns, {own.peak_mb / other.peak_mb:.2f} x its memory"
        )
    print("\nplanned form, a queue of 100")
    measured("cohabit, greedy", ours, 64, 4, PLANNED_QUEUED, steps // 10)
    measured("cohabit, planned", ours | dict(PLANNED.keys), 64, 4, PLANNED_QUEUED, steps // 10)


if __name__ == "__main__":
    main()
