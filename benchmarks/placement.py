"""The cost of one decision on shared nodes as the machine grows: `python -m benchmarks.placement`.

A machine kept full of the catalogue's programs under Spread-n-Share. Each measured step is one job end and the arrival
of another, with the placement of whoever then fits. Two readings: the same 60 jobs on ever larger machines (job sizes
grow with them), and jobs of one size (their number grows with the machine). Times in ms beside the smallest machine's.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Cluster
from cohabit.model.command import StartJob
from cohabit.model.event import Event, JobFinished, JobSubmitted
from cohabit.model.job import Job
from cohabit.model.program import profile_of
from cohabit.trace.programs import catalogue

HOUR = 3_600_000_000


def one_machine(nodes: int, jobs: int, steps: int) -> tuple[float, int]:
    """Mean milliseconds of a step, and how many classes of nodes there were at most."""
    known = catalogue("sns12")
    group = known.machine.node.__class__(**{**known.machine.node.__dict__, "count": nodes})
    core = SchedulerCore(
        Cluster((group,), "shared"), build(PolicyConfig(name="sns", learn=False)),
        profiles=[profile_of(program, group) for program in known.programs.values()],
    )  # fmt: skip
    rng, names = np.random.default_rng(1), list(known.programs)
    size = max(1, nodes // (2 * jobs))
    running: list[str] = []
    made = 0

    def arrival() -> JobSubmitted:
        nonlocal made
        made += 1
        count = int(rng.integers(1, 2 * size + 1)) * group.cores
        return JobSubmitted(Job(str(made), HOUR, count, program=str(rng.choice(names))))

    def step(now_us: int, events: list[Event]) -> None:
        running.extend(command.job_id for command in core.step(now_us, events) if isinstance(command, StartJob))

    step(0, [arrival() for _ in range(2 * jobs)])
    spent, classes = 0.0, 0
    for number in range(steps):
        ended = running.pop(int(rng.integers(0, len(running))))
        events: list[Event] = [JobFinished(ended, 1), arrival()]
        began = time.perf_counter()
        step((number + 1) * 1_000_000, events)
        spent += time.perf_counter() - began
        assert core.state.ledger is not None
        classes = max(classes, len(core.state.ledger.by_key))
    return 1000 * spent / steps, classes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=200)
    steps = parser.parse_args().steps
    sizes = [512 * 4**power for power in range(5)]
    for label, jobs_on in (("60 jobs", lambda nodes: 60), ("jobs of 16 nodes on average", lambda nodes: nodes // 32)):
        print(f"\n{label}: one job end and one arrival, everybody who then fits placed")
        base = 0.0
        for nodes in sizes:
            jobs = jobs_on(nodes)
            took, classes = one_machine(nodes, jobs, max(5, steps if jobs < 500 else steps // 10))
            base = base or took
            print(
                f"{nodes:>8,} nodes {jobs:>6,} jobs {took:8.2f} ms  {took / base:6.2f} x for "
                f"{nodes // sizes[0]:>3} x the nodes, {classes:,} classes of nodes", flush=True,
            )  # fmt: skip


if __name__ == "__main__":
    main()
