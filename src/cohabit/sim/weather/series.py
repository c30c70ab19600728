"""The load of network and filesystem over time, as drawn from the seed alone: no policy and no job can change it.

One number per step of 30 s. Every day and every part has a random stream of its own, so that a series may be extended
to any length and is the same whatever its length. What running jobs add is not here (weather.py).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohabit.sim.streams import stream
from cohabit.sim.weather.constants import Constants, NoiseConstants, SeriesConstants, SpikeConstants

Floats = NDArray[np.float64]
DAY_S = 86_400
DRIFT_S = 600  # the slow drift is drawn this often and straight in between
HALF_YEAR_DAYS = 183.0
HOURS = 24.0


@dataclass
class Series:
    """The load of one shared resource, step by step from the beginning."""

    seed: int
    name: str
    constants: SeriesConstants
    step_s: int
    spike: tuple[float, float] = (math.inf, math.inf)  # first and last day
    strength: SpikeConstants | None = None
    _days: list[Floats] = field(default_factory=list)
    _drift: float = 0.0
    _under_way: list[tuple[float, float]] = field(default_factory=list)  # end in days, height

    def at(self, step: int) -> float:
        """Return the load in this step."""
        each = DAY_S // self.step_s
        while len(self._days) * each <= step:
            self._draw_day()
        return float(self._days[step // each][step % each])

    def _draw_day(self) -> None:
        about, day = self.constants, len(self._days)
        rng = stream(self.seed, f"weather {self.name} day {day}")
        clock = np.arange(0.5, DAY_S // self.step_s, dtype=np.float64) * float(self.step_s)
        load = about.base + about.daily * np.sin(2 * np.pi * (clock / DAY_S - 0.25))
        load += self._drifted(rng, clock)
        for begin, end, height in self._episodes(rng, day):
            here = (clock >= (begin - day) * DAY_S) & (clock < (end - day) * DAY_S)
            load[here] += height * np.exp(about.jitter * rng.standard_normal(int(here.sum())))
        self._days.append(np.maximum(load, 0.0))

    def _drifted(self, rng: np.random.Generator, clock: Floats) -> Floats:
        about = self.constants
        kept = math.exp(-DRIFT_S / (about.memory_h * 3600.0))
        fresh = about.drift * math.sqrt(1.0 - kept * kept) * rng.standard_normal(DAY_S // DRIFT_S)
        points = [self._drift]
        for one in fresh.tolist():
            points.append(kept * points[-1] + one)
        self._drift = points[-1]
        return np.interp(clock, np.arange(len(points)) * DRIFT_S, points)

    def _episodes(self, rng: np.random.Generator, day: int) -> list[tuple[float, float, float]]:
        """Return the episodes that continue from earlier days and those that begin today, as (begin, end, height)."""
        about, found = self.constants, [(float(day), end, height) for end, height in self._under_way]
        bad = self.spike[0] <= day < self.spike[1] and self.strength is not None
        often = self.strength.more_often if bad and self.strength is not None else 1.0
        higher = self.strength.higher if bad and self.strength is not None else 1.0
        for _ in range(int(rng.poisson(about.episodes_per_day * often))):
            begin = day + float(rng.random())
            end = begin + float(rng.exponential(about.episode_h)) / HOURS
            height = higher * about.height * math.exp(about.height_spread * float(rng.standard_normal()))
            found.append((begin, end, height))
        self._under_way = [(end, height) for _, end, height in found if end > day + 1]
        return found


@dataclass
class Noise:
    """Traffic of the noise job: an amount, held for some time, then another."""

    seed: int
    constants: NoiseConstants
    step_s: int
    _levels: list[float] = field(default_factory=list)
    _amounts: list[int] = field(default_factory=list)  # which amount it holds in each step, by number
    _hit: dict[int, NDArray[np.bool_]] = field(default_factory=dict)
    _rng: np.random.Generator = field(init=False)

    def __post_init__(self) -> None:
        self._rng = stream(self.seed, "weather noise job")

    def at(self, step: int) -> float:
        """Return its level in this step."""
        about = self.constants
        while len(self._levels) <= step:
            heavy, amount, hold_min = self._rng.random(), self._rng.random(), self._rng.exponential()
            level = about.strength if heavy < about.heavy else about.light * float(amount)
            hold = max(1, round(60.0 * about.hold_min * float(hold_min) / self.step_s))
            self._amounts += [self._amounts[-1] + 1 if self._amounts else 0] * hold
            self._levels += [level] * hold
        return self._levels[step]

    def hit(self, step: int, nodes: int, each: int, share: float) -> NDArray[np.bool_]:
        """Return the nodes that feel it in this step: so large a share of all groups of `each` nodes in a row."""
        self.at(step)
        amount = self._amounts[step]
        if amount not in self._hit:
            rng, groups = stream(self.seed, f"weather noise place {amount}"), -(-nodes // each)
            found = np.zeros(groups, bool)
            found[rng.permutation(groups)[: max(1, round(share * groups))]] = True
            self._hit[amount] = np.repeat(found, each)[:nodes]
        return self._hit[amount]


@dataclass(frozen=True)
class Sky:
    """All that changes by itself: background load of network and filesystem, and the noise job's level."""

    network: Series
    filesystem: Series
    noise: Noise | None  # None: there is no noise job
    network_share: float = 1.0
    filesystem_share: float = 1.0

    def at(self, step: int) -> tuple[float, float, float]:
        """Return (network, filesystem, noise) in this step."""
        return (
            self.network_share * self.network.at(step),
            self.filesystem_share * self.filesystem.at(step),
            0.0 if self.noise is None else self.noise.at(step),
        )


def production(seed: int, days: float, constants: Constants) -> Sky:
    """Return the sky of a long time on the whole machine, with some bad days in it."""
    spike, step_s = constants.spike, constants.telemetry.sample_s
    begins = math.floor(spike.begins * days)
    lasts = max(1, round(spike.days_per_half_year * days / HALF_YEAR_DAYS))
    bad = (float(begins), float(begins + lasts))
    return Sky(
        Series(seed, "network", constants.network, step_s, bad, spike),
        Series(seed, "filesystem", constants.filesystem, step_s, bad, spike),
        None,
    )


def reserved(seed: int, constants: Constants, noise: bool = True) -> Sky:
    """Return the sky of some hours in a reserved part of the machine, with the noise job or without."""
    pod, step_s = constants.pod, constants.telemetry.sample_s
    return Sky(
        Series(seed, "network", constants.network, step_s),
        Series(seed, "filesystem", constants.filesystem, step_s),
        Noise(seed, constants.noise, step_s) if noise else None,
        pod.network_share,
        pod.filesystem_share,
    )
