"""The poster's node optimiser and search once more in plain Python: the reference the kernels are measured against.

Bandwidth estimate, projection, dynamic programme, in turns until sizes stand still, best seen kept; node mixes are
remembered in a dictionary. Written as one would at first; nothing of cohabit.optimise is used here.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass

ROUNDS = 8
GB_PER_MISS = 64 * 1.3 / 1000  # times GHz


@dataclass(frozen=True)
class Program:
    """One row of the mix."""

    mpki: Sequence[float]
    cpi0: float
    cycles_per_miss: float

    def ipc(self, size: int, load: float) -> float:
        """The surface at a size and a load of memory."""
        latency = 1 + 0.4 * load * load / (1 - load)
        return 1 / (self.cpi0 + self.cycles_per_miss / 1000 * self.mpki[size] * latency)


@dataclass(frozen=True)
class Plain:
    """A machine and its programs."""

    programs: Sequence[Program]
    buckets: int
    cap_gbs: float
    freq_ghz: float

    def load(self, members: Sequence[int], sizes: Sequence[int]) -> float:
        """The load that these sizes lead to, by bisection."""
        low, high = 0.0, 0.98
        for _ in range(40):
            middle = (low + high) / 2
            asked = sum(
                self.programs[one].mpki[size] * self.programs[one].ipc(size, middle)
                for one, size in zip(members, sizes, strict=True)
            )
            if asked * self.freq_ghz * GB_PER_MISS / self.cap_gbs > middle:
                low = middle
            else:
                high = middle
        return low

    def alone(self, one: int) -> float:
        """IPC with everything to itself."""
        return self.programs[one].ipc(self.buckets, self.load([one], [self.buckets]))

    def divided(self, members: Sequence[int], alone: Sequence[float]) -> float:
        """The weighted speedup of the best division found."""
        count = len(members)
        sizes = [self.buckets // count + (i < self.buckets % count) for i in range(count)]
        best, load = -math.inf, 0.0
        for _ in range(ROUNDS + 1):
            load = self.load(members, sizes)
            speeds = [self.programs[m].ipc(s, load) / alone[m] for m, s in zip(members, sizes, strict=True)]
            best = max(best, sum(speeds))
            curves = [
                [self.programs[m].ipc(size, load) / alone[m] for size in range(self.buckets + 1)] for m in members
            ]
            found = largest_sum(curves, self.buckets)
            if found == sizes:
                break
            sizes = found
        return best


def largest_sum(curves: Sequence[Sequence[float]], buckets: int) -> list[int]:
    """Sizes from 1 up that use all buckets and have the largest sum."""
    rows, choices = [list(curves[0])], []
    for number, curve in enumerate(curves[1:], 1):
        row, choice = [-math.inf] * (buckets + 1), [0] * (buckets + 1)
        for total in range(number + 1, buckets + 1):
            for size in range(1, total - number + 1):
                value = rows[-1][total - size] + curve[size]
                if value > row[total]:
                    row[total], choice[total] = value, size
        rows.append(row)
        choices.append(choice)
    sizes, left = [], buckets
    for choice in reversed(choices):
        sizes.append(choice[left])
        left -= choice[left]
    return [left, *reversed(sizes)]


def anneal(plain: Plain, alone: Sequence[float], nodes: list[list[int]], swaps: int, seed: int) -> float:
    """Swap jobs of different nodes so many times; the weighted speedup of the best placement seen."""
    rng, memo = random.Random(seed), dict[tuple[int, ...], float]()

    def value(members: list[int]) -> float:
        key = tuple(sorted(members))
        if key not in memo:
            memo[key] = plain.divided(key, alone)
        return memo[key]

    total = best = sum(map(value, nodes))
    for step in range(swaps):
        a, b = rng.sample(range(len(nodes)), 2)
        i, j = rng.randrange(len(nodes[a])), rng.randrange(len(nodes[b]))
        before = value(nodes[a]) + value(nodes[b])
        nodes[a][i], nodes[b][j] = nodes[b][j], nodes[a][i]
        change = value(nodes[a]) + value(nodes[b]) - before
        if change < 0 and rng.random() >= math.exp(change / (0.003 * (1 - step / swaps) + 1e-6)):
            nodes[a][i], nodes[b][j] = nodes[b][j], nodes[a][i]
        else:
            total += change
            best = max(best, total)
    return best
