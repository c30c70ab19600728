"""The machine alone under random starts, ends and divisions of the cache: `python -m benchmarks.contention`.

Sizes as in the Trinity trace: up to 4,096 nodes compact, spread up to eight times as wide, on clusters that are kept
full. Jobs take the first nodes that have room, so they share them with whoever is there, as under Spread-n-Share.
"""

from __future__ import annotations

import argparse
import cProfile
import heapq
import pstats
import time

import numpy as np
from numpy.typing import NDArray

from cohabit.model.cluster import NodeGroup
from cohabit.model.command import SetShares, StartJob
from cohabit.model.curve import Curve
from cohabit.model.program import Program
from cohabit.sim.machine.machine import Machine
from cohabit.sim.machine.phases import Phases, Track
from cohabit.sim.machine.truth import Truth

STREAM = ((1, 18.80), (2, 37.17), (4, 70.0), (8, 104.0), (16, 114.8), (28, 118.26))
CORES, WAYS = 28, 20
Ranges = tuple[tuple[int, int], ...]


def programs(rng: np.random.Generator, count: int = 12) -> dict[str, Program]:
    """Random programs of all kinds."""
    points, found = (2, 4, 8, 20), {}
    for number in range(count):
        ipc = (*np.sort(rng.uniform(0.4, 1.0, 3)).tolist(), 1.0)
        full = float(np.exp(rng.uniform(np.log(0.1), np.log(110.0))))
        gbs = tuple((full * np.sort(rng.uniform(1.0, 1.4, 4))[::-1]).tolist())
        speedup = {1: 1.0, 2: 1.1, 4: 1.2, 8: 1.3}
        name = f"p{number}"
        found[name] = Program(name, 300.0, float(rng.random()), Curve(points, ipc), Curve(points, gbs), speedup=speedup)
    return found


def ranges_of(nodes: NDArray[np.int64]) -> Ranges:
    """Node numbers as (first, count) ranges."""
    breaks = np.flatnonzero(np.diff(nodes) != 1) + 1
    firsts = nodes[np.concatenate(([0], breaks))]
    counts = np.diff(np.concatenate(([0], breaks, [len(nodes)])))
    return tuple(zip(firsts.tolist(), counts.tolist(), strict=True))


class Load:
    """A crude scheduler in front of the machine; only the machine's calls are on the clock."""

    def __init__(self, nodes: int, jobs: int, seed: int, partition: bool, phases: bool, profiled: bool) -> None:
        self.rng = np.random.default_rng(seed)
        self.programs = programs(self.rng)
        self.machine = Machine(Truth(self.programs, [NodeGroup(nodes, CORES, ways=WAYS, bandwidth_gbs=STREAM)]))
        self.free = np.full(nodes, CORES)
        self.jobs, self.partition, self.phases = jobs, partition, Phases(seed) if phases else None
        self.there: dict[str, tuple[NDArray[np.int64], int]] = {}
        self.residents: list[list[str]] = [[] for _ in range(nodes)]
        self.spent_s, self.orders, self.ranges, self.classes, self.changed = 0.0, 0, 0, 0, 0
        self.profile = cProfile.Profile() if profiled else None
        self.ends: list[tuple[float, int, str, int]] = []

    def run(self) -> None:
        """So many jobs, one after another as soon as there is room."""
        for number in range(self.jobs):
            compact = min(int(np.exp(self.rng.uniform(0, np.log(4096.5)))), len(self.free))
            scale = int(self.rng.choice([1, 2, 4, 8]))
            while compact * scale > len(self.free):
                scale //= 2
            cores = -(-CORES // scale)
            while int((self.free >= cores).sum()) < compact * scale:
                self.next_event()
            self.start(str(number), compact, scale, cores)
        while self.ends:
            self.next_event()

    def start(self, job_id: str, compact: int, scale: int, cores: int) -> None:
        nodes = np.flatnonzero(self.free >= cores)[: compact * scale]
        self.free[nodes] -= cores
        for node in nodes.tolist():
            self.residents[node].append(job_id)
        self.there[job_id] = (nodes, cores)
        order = StartJob(job_id, 1, ranges_of(nodes), 1, scale, cores, False)
        program = str(self.rng.choice(list(self.programs)))
        shares = self.divided(nodes)
        track = self.phases.track(job_id) if self.phases is not None else Track((1.0,), (1,))
        began = self.begin()
        self.machine.start(job_id, program, compact * CORES, order, track.levels[0])
        self.settle(shares, began, len(order.nodes))
        now = self.ends[0][0] if self.ends else 0.0
        lasts = float(self.rng.exponential(1.0))
        heapq.heappush(self.ends, (now + lasts, int(job_id), job_id, -1))
        for place, level in zip(track.ends[:-1], track.levels[1:], strict=True):
            heapq.heappush(self.ends, (now + place * lasts, int(job_id), job_id, level))

    def next_event(self) -> None:
        _, _, job_id, level = heapq.heappop(self.ends)
        if level >= 0:
            began = self.begin()
            self.machine.set_phase(job_id, level)
            self.settle([], began, 0)
            return
        nodes, cores = self.there.pop(job_id)
        self.free[nodes] += cores
        for node in nodes.tolist():
            self.residents[node].remove(job_id)
        shares = self.divided(nodes)
        began = self.begin()
        self.machine.stop(job_id)
        self.settle(shares, began, 0)

    def divided(self, nodes: NDArray[np.int64]) -> list[SetShares]:
        """One order per group of nodes with the same residents, as the core gives them."""
        if not self.partition:
            return []
        groups: dict[tuple[str, ...], list[int]] = {}
        for node in nodes.tolist():
            if self.residents[node]:
                groups.setdefault(tuple(self.residents[node]), []).append(node)
        orders = []
        for jobs, alike in groups.items():
            each = WAYS // len(jobs)
            masks = tuple((job_id, each * place, each) for place, job_id in enumerate(jobs))
            orders.append(SetShares(ranges_of(np.array(alike)), masks))
        return orders

    def begin(self) -> float:
        if self.profile is not None:
            self.profile.enable()
        return time.process_time()

    def settle(self, shares: list[SetShares], began: float, ranges: int) -> None:
        for order in shares:
            self.machine.set_shares(order)
        self.changed += len(self.machine.rates_changed(0))
        self.spent_s += time.process_time() - began
        if self.profile is not None:
            self.profile.disable()
        self.orders += 1 + len(shares)
        self.ranges += ranges
        self.classes = max(self.classes, self.machine.class_count)


def measure(nodes: int, jobs: int, partition: bool, phases: bool = False, profiled: bool = False) -> Load:
    """One run; the result carries its own figures."""
    load = Load(nodes, jobs, 1, partition, phases, profiled)
    load.run()
    return load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--jobs", type=int, default=7000)
    parser.add_argument("--profile", action="store_true", help="show where the time goes, at 32,768 nodes")
    options = parser.parse_args()
    if options.profile:
        profile = measure(32768, options.jobs, True, profiled=True).profile
        pstats.Stats(profile).sort_stats("tottime").print_stats(18)
        return
    for nodes in (4096, 8192, 32768, 131072):
        for partition, phases in ((False, False), (True, False), (True, True)):
            load = measure(nodes, options.jobs, partition, phases)
            kind = ("divided" if partition else "undivided") + (", phases" if phases else "")
            print(
                f"{nodes:>7,} nodes {options.jobs:,} jobs {kind:<18} {load.spent_s:6.2f} s "
                f"{1e6 * load.spent_s / load.orders:7.0f} us/order {load.orders:>9,} orders {load.changed:>9,} rates "
                f"{load.classes:>6,} classes at most",
                flush=True,
            )


if __name__ == "__main__":
    main()
