"""The laws of shared caches once more, in plain Python and by other means: bisection, many small steps, every case.

Written from the specification alone; nothing of cohabit.optimise is used here.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np

from cohabit.model.mix import Mix


@dataclass(frozen=True)
class App:
    """One program."""

    mpki: tuple[float, ...]
    cpi0: float
    cycles_per_miss: float

    def misses(self, size: float) -> float:
        """Linear between buckets."""
        below = min(int(size), len(self.mpki) - 2)
        return self.mpki[below] + (size - below) * (self.mpki[below + 1] - self.mpki[below])


@dataclass(frozen=True)
class Machine:
    """The memory."""

    cap_gbs: float = 25.0
    freq_ghz: float = 2.0


def ipcs(apps: Sequence[App], sizes: Sequence[float], machine: Machine) -> list[float]:
    """IPC of all at these sizes, the load of memory found by bisection."""
    misses = [app.misses(size) for app, size in zip(apps, sizes, strict=True)]

    def at(load: float) -> list[float]:
        latency = 1 + 0.4 * load**2 / (1 - load)
        pairs = zip(apps, misses, strict=True)
        return [1 / (app.cpi0 + app.cycles_per_miss / 1000 * missed * latency) for app, missed in pairs]

    def asked(load: float) -> float:
        gbs = sum(m / 1000 * ipc * machine.freq_ghz * 64 * 1.3 for m, ipc in zip(misses, at(load), strict=True))
        return min(gbs / machine.cap_gbs, 0.98)

    low, high = 0.0, 0.98
    if asked(0.98) >= 0.98:
        return at(0.98)
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if asked(middle) > middle else (low, middle)
    return at(low)


@cache
def alone(app: App, machine: Machine) -> float:
    """By itself, with the whole cache."""
    return ipcs([app], [len(app.mpki) - 1], machine)[0]


def speeds(apps: Sequence[App], sizes: Sequence[float], machine: Machine) -> list[float]:
    """Against running alone."""
    return [ipc / alone(app, machine) for app, ipc in zip(apps, ipcs(apps, sizes, machine), strict=True)]


def undivided_shares(apps: Sequence[App], machine: Machine, damping: float = 0.1) -> list[float]:
    """Occupancy in proportion to misses per second, in very small steps from equal shares."""
    buckets = len(apps[0].mpki) - 1
    shares = [buckets / len(apps)] * len(apps)
    for _ in range(400):
        found = ipcs(apps, shares, machine)
        rates = [app.misses(share) * ipc for app, share, ipc in zip(apps, shares, found, strict=True)]
        total = sum(rates)
        if total == 0:
            return shares
        moved = [damping * (buckets * rate / total - share) for rate, share in zip(rates, shares, strict=True)]
        shares = [share + move for share, move in zip(shares, moved, strict=True)]
        if max(map(abs, moved)) < 1e-7:
            break
    return shares


def divisions(jobs: int, buckets: int) -> list[tuple[int, ...]]:
    """All of them."""
    return [sizes for sizes in itertools.product(range(1, buckets - jobs + 2), repeat=jobs) if sum(sizes) == buckets]


def random_apps(rng: np.random.Generator, count: int, buckets: int, cache_mb: float = 12.0) -> list[App]:
    """Programs of all families, with the priors of the specification for hidden ones."""
    sizes = np.arange(buckets + 1) * cache_mb / buckets
    found = []
    for _ in range(count):
        family = str(rng.choice(["cliff", "smooth", "stream", "hyper"], p=[0.35, 0.35, 0.2, 0.1]))
        most = float(np.exp(rng.uniform(np.log(10), np.log(80))))
        least = most * float(rng.uniform(0.02, 0.85))
        knee = float(np.exp(rng.uniform(0, np.log(10))))
        if family in ("smooth", "stream"):
            curve = least + (most - least) * np.exp(-sizes / knee)
        else:
            power = float(rng.uniform(4, 12)) if family == "cliff" else float(rng.uniform(1, 2.5))
            curve = least + (most - least) / (1 + (sizes / knee) ** power)
        found.append(App(tuple(curve.tolist()), float(rng.uniform(0.4, 1.2)), float(rng.uniform(10, 70))))
    return found


def mix_of(apps: Sequence[App], nodes: int = 1, room: int = 8, machine: Machine | None = None) -> Mix:
    """As the optimiser takes it."""
    machine = machine or Machine()
    return Mix(
        nodes, room, len(apps[0].mpki) - 1, machine.cap_gbs, machine.freq_ghz,
        tuple(f"job{number}" for number in range(len(apps))), np.array([app.mpki for app in apps]),
        np.array([app.cpi0 for app in apps]), np.array([app.cycles_per_miss for app in apps]),
    )  # fmt: skip
