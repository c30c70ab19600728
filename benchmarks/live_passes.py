"""One pass of the scheduler with 50,000 jobs waiting, under every bundled policy: `python -m benchmarks.live_passes`.

The core alone, as the controller calls it: facts in, orders out, no disk. Two machines. `two nodes`: what live_scale
serves, taken by long jobs, 30 programs in the queue. `cluster`: 256 nodes of 16 cores with 11 ways, jobs of 2,000
descriptions (program, processes, memory), profiles for half of the programs. Timed are arrivals, jobs that leave the
queue (hold, release, cancel), and ends of running jobs, after which others start. A pass is what one call of
`step` takes. The bound holds for its processor time, since a busy machine stops any program for longer than that; on a
quiet one the two are the same. The reference, a sort of 50,000 numbers in the same run, tells a slow machine.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import Coupling
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import Command, StartJob
from cohabit.model.curve import Curve
from cohabit.model.event import Event, JobCancelled, JobFinished, JobHeld, JobReleased, JobStarted, JobSubmitted
from cohabit.model.job import Job
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.model.units import HOUR, SECOND
from cohabit.policy.registry import BUNDLES

BOUND_MS = 200.0
PROGRAMS, CORES, MIB = 30, 16, 2**20
GROUP = NodeGroup(
    256, CORES, 64 * 2**30, ways=11, min_ways=2, closids=8, domains=2, bandwidth_gbs=((1, 12.0), (4, 40.0), (16, 70.0))
)
MACHINES = ("two nodes", "cluster")


def profiles(rng: np.random.Generator) -> Iterator[Profile]:
    """Profiles of half of the programs."""
    for number in range(0, PROGRAMS, 2):
        least, gbs = rng.uniform(0.4, 1.0), rng.uniform(0.5, 8.0)
        ipc = Curve((2, 6, 11), (float(least), float(rng.uniform((least + 1) / 2, 1.0)), 1.0))
        scales = tuple(
            ScaleProfile(scale, float(100 - 5 * i), ipc, Curve((2, 11), (2 * gbs / scale, gbs / scale)))
            for i, scale in enumerate((1, 2, 4))
        )
        yield Profile(f"program{number}", CORES, scales)


def jobs(machine: str, rng: np.random.Generator) -> Iterator[Job]:
    """Without end."""
    number = 0
    while True:
        user, program = 1000 + number % 50, f"program{rng.integers(PROGRAMS)}"
        if machine == "two nodes":
            yield Job(f"j{number}", HOUR, user=user, program=program)
        else:
            processes, megabytes = (
                int(2 ** rng.integers(0, 8)),
                int(rng.choice((0, 128, 512, 1024, 1500, 2000, 3000, 4000))),
            )
            limit_us = int(rng.integers(1, 48)) * HOUR
            yield Job(f"j{number}", limit_us, processes, memory_bytes=megabytes * MIB, user=user, program=program)
        number += 1


class Bench:
    """A core with a clock and a queue."""

    def __init__(self, policy: str, machine: str) -> None:
        policies = build(PolicyConfig(name=policy))
        if policy.startswith("cosched"):
            policies = replace(policies, mates=Coupling("here", peers=("there",)))
        sharing = "exclusive" if policies.placer.exclusive else "shared"
        rng = np.random.default_rng(7)
        group = NodeGroup(2) if machine == "two nodes" else GROUP
        self.core = SchedulerCore(Cluster((group,), sharing), policies, profiles=profiles(rng))
        self.jobs, self.now_us, self.running = jobs(machine, rng), SECOND, dict[str, int]()
        self.processor_ms: list[float] = []  # of every pass

    def step(self, *events: Event) -> float:
        """Milliseconds of one pass; whoever starts runs at once."""
        self.now_us += 1000
        began, begun_s = time.perf_counter(), time.thread_time()
        commands = self.core.step(self.now_us, list(events))
        took = time.perf_counter() - began
        self.processor_ms.append(1e3 * (time.thread_time() - begun_s))
        self._start(commands)
        return 1e3 * took

    def _start(self, commands: list[Command]) -> None:
        begun = [one for one in commands if isinstance(one, StartJob)]
        if begun:
            self.running |= {one.job_id: one.attempt for one in begun}
            self.core.step(self.now_us, [JobStarted(one.job_id, one.attempt) for one in begun])

    def submitted(self, count: int) -> list[Event]:
        """So many new jobs."""
        return [JobSubmitted(next(self.jobs)) for _ in range(count)]

    def measure(self, queued: int, rounds: int) -> dict[str, list[float]]:
        """Fill the queue, then time what happens to it."""
        while (missing := queued - len(self.core.view(self.now_us).queued())) > 0:
            self.step(*self.submitted(min(missing, 10_000)))
        self.step(*self.submitted(1))
        self.processor_ms.clear()
        took: dict[str, list[float]] = {"arrival": [], "leaving": [], "end": []}
        for _ in range(rounds):
            (event,) = self.submitted(1)
            took["arrival"].append(self.step(event))
            name = event.job.job_id  # type: ignore[union-attr]
            if name in self.core.state.rows and name not in self.running:
                took["leaving"] += [self.step(one) for one in (JobHeld(name), JobReleased(name), JobCancelled(name))]
            if self.running:
                first = next(iter(self.running))
                took["end"].append(self.step(JobFinished(first, self.running.pop(first))))
        return took


def reference_ms() -> float:
    """Sorting 50,000 numbers: best of many."""
    numbers, best = np.random.default_rng(1).integers(0, 2**40, 50_000), float("inf")
    for _ in range(20):
        began = time.perf_counter()
        np.sort(numbers)
        best = min(best, time.perf_counter() - began)
    return 1e3 * best


def every(names: list[str], queued: int, rounds: int, say: Callable[[str], None]) -> dict[str, Any]:
    """All policies on both machines, a line each as it is known."""
    reference, found = reference_ms(), dict[str, Any]()
    say(f"{queued} jobs waiting; milliseconds of a pass: median / 99 of 100; cpu: processor time of 99 of 100, bound")
    say(f"{BOUND_MS:g} ms; ratio: of that to a sort of 50,000 numbers ({reference:.2f} ms)")
    say(f"{'policy':22}{'machine':10}{'arrival':>16}{'leaving':>16}{'end':>16}{'cpu':>7}{'ratio':>7}  holds")
    for name in names:
        for machine in MACHINES:
            bench = Bench(name, machine)
            took = bench.measure(queued, rounds)
            wall = {what: [float(one) for one in np.quantile(ms or [0.0], (0.5, 0.99))] for what, ms in took.items()}
            cpu_ms = float(np.quantile(bench.processor_ms, 0.99))
            ratio, holds = cpu_ms / reference, cpu_ms <= BOUND_MS
            found[f"{name}, {machine}"] = {"p50_p99_ms": wall, "cpu_p99_ms": cpu_ms, "ratio": ratio, "holds": holds}
            shown = "".join(f"{f'{p50:.1f} / {p99:.1f}':>16}" for p50, p99 in wall.values())
            say(f"{name:22}{machine:10}{shown}{cpu_ms:7.1f}{ratio:7.1f}  {'yes' if holds else 'NO'}")
    slow = [name for name, one in found.items() if not one["holds"]]
    say(f"over the bound: {'; '.join(slow)}" if slow else f"all hold: {', '.join(names)}")
    return found


def main() -> None:
    """Print the table; exit 1 if a policy does not hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("policies", nargs="*", default=list(BUNDLES), help="bundled policies; all of them unless named")
    parser.add_argument("--queued", type=int, default=50_000)
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--out", type=Path, help="write the figures here as JSON")
    asked = parser.parse_args()
    found = every(asked.policies, asked.queued, asked.rounds, lambda line: print(line, flush=True))
    if asked.out:
        asked.out.write_text(json.dumps(found, indent=1) + "\n")
    if not all(one["holds"] for one in found.values()):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
