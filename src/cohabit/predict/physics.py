"""The law of shared resources, from counters: what two programs want of each beyond what there is.

Of every counter that both sides have, four terms: what the slowed program wants, what its neighbour wants (both bent
where programs differ by orders of magnitude), by how much both together exceed the capacity, and the product (the
overlap of two footprints). A neighbour that wants more never
slows less: terms of demands are *rising*. The capacity is 1 or 100 where a counter is a share, the machine's cores
where it counts cores, else the most that any program was seen to want. Pure functions of arrays.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.counters import RATIOS
from cohabit.model.features import OF_THE_TIME, counter_of
from cohabit.predict.features import CoRuns, Flags, Floats, fit_scaling

TERMS = 4  # of a counter: own, beside, over, overlap
OVER = 2  # the place of the term of excess
MOST_COUNTERS = 40
MOST_DEMAND = 10.0  # times the capacity
FAR, STRAIGHT = 0.1, 1e6  # a usual demand below this share of the capacity is bent
DEMAND = re.compile(
    r"util|usage|bandwidth|bw|gbs|miss|traffic|occup|cpu|sm_|mem|dram|load|store|bytes|refer|evict|active|busy|cache|"
    r"llc|io|net|disk|cores|rate|pressure|read|write",
    re.IGNORECASE,
)
SHARE = re.compile(r"util|usage|active|busy|occup|share|percent|pct", re.IGNORECASE)
RATIO = re.compile(r"ipc|ratio|per_instruction|_per_|hit", re.IGNORECASE)


@dataclass(frozen=True)
class Terms:
    """Which counters make terms, and the capacity of each."""

    own: NDArray[np.int64]  # columns of the slowed program
    beside: NDArray[np.int64]  # the same counters of its neighbour
    capacity: Floats
    bend: Floats  # a share of the capacity, from which on a demand counts by its order of magnitude; large: it does not
    rising: Flags  # by counter: a demand

    def of(self, primary: Floats, beside: Floats) -> Floats:
        """Return the terms of row i of the first beside row i of the second: [row, 4 * counter]."""
        own, other = self._wanted(primary[:, self.own]), self._wanted(beside[:, self.beside])
        parts = (self._bent(own), self._bent(other), np.maximum(own + other - 1.0, 0.0), own * other)
        return np.stack(parts, axis=2).reshape(len(own), TERMS * len(self.own))

    def _wanted(self, counters: Floats) -> Floats:
        return np.asarray(np.clip(counters / self.capacity, 0.0, MOST_DEMAND))

    def _bent(self, wanted: Floats) -> Floats:
        return np.asarray(np.arcsinh(wanted / self.bend) / np.arcsinh(1.0 / self.bend))

    def rising_terms(self) -> Flags:
        """Return for each term whether more of it never slows less."""
        found = np.zeros((len(self.own), TERMS), bool)
        found[:, 1:] = self.rising[:, None]
        return found.ravel()

    def arrays(self) -> dict[str, NDArray[np.generic]]:
        """By name."""
        names = ("own", "beside", "capacity", "bend", "rising")
        return {f"terms.{name}": getattr(self, name) for name in names}

    @staticmethod
    def load(arrays: Mapping[str, NDArray[np.generic]], primary: int, other: int) -> Terms:
        """From the arrays of a file, for tables of these widths; ValueError where they do not fit."""
        own, beside = (np.asarray(arrays[f"terms.{name}"], np.int64) for name in ("own", "beside"))
        capacity, bend = (np.asarray(arrays[f"terms.{name}"], np.float64) for name in ("capacity", "bend"))
        rising = np.asarray(arrays["terms.rising"], bool)
        for columns, width in ((own, primary), (beside, other)):
            if columns.size and not 0 <= int(columns.min()) <= int(columns.max()) < width:
                raise ValueError("a column it uses does not exist")
        if not len(own) == len(beside) == len(capacity) == len(bend) == len(rising):
            raise ValueError("its terms do not fit together")
        return Terms(own, beside, capacity, bend, rising)


def fit_terms(data: CoRuns) -> Terms:
    """From one row per application: counters of both sides that differ between programs; where a counter has
    statistics, its mean."""
    shared = _shared(data)
    first = [data.app.index(name) for name in dict.fromkeys(data.app)]
    second = [data.other.index(name) for name in dict.fromkeys(data.other)]
    own = np.array([pair[0] for pair in shared], np.int64)
    beside = np.array([pair[1] for pair in shared], np.int64)
    both = np.vstack([data.primary[first][:, own], data.beside[second][:, beside]])
    chosen = fit_scaling(both).chosen[:MOST_COUNTERS] if len(own) else np.zeros(0, np.int64)
    own, beside, both = own[chosen], beside[chosen], both[:, chosen]
    names = [data.schema.primary[column] for column in own]
    capacity = np.array([_capacity(name, both[:, at], data.environment) for at, name in enumerate(names)])
    usual = np.median(np.abs(both), axis=0) / capacity
    bend = np.where((usual > 0) & (usual < FAR), usual, STRAIGHT)
    rising = np.array([is_demand(name) for name in names], bool)
    return Terms(own, beside, capacity, bend, rising)


def _shared(data: CoRuns) -> list[tuple[int, int]]:
    """Return the columns of both sides for every counter they share, in order; of several statistics the mean."""
    place = {name: at for at, name in enumerate(data.schema.other)}
    means = {counter_of(name) for name in place if name.endswith("mean")}
    return [
        (at, place[name])
        for at, name in enumerate(data.schema.primary)
        if name in place and name not in OF_THE_TIME and (name.endswith("mean") or counter_of(name) not in means)
    ]


def is_demand(column: str) -> bool:
    """Return whether a counter is an amount of something shared, of which a neighbour leaves less."""
    counter = counter_of(column)
    if counter == "cpu_usage":
        return True
    return counter not in RATIOS and RATIO.search(counter) is None and DEMAND.search(counter) is not None


def _capacity(column: str, values: Floats, environment: Mapping[str, Any]) -> float:
    most, counter = float(np.max(np.abs(values))), counter_of(column)
    cores = environment.get("cores")
    if counter == "cpu_usage" and isinstance(cores, int | float) and cores > 0:
        return float(cores)
    if SHARE.search(counter) and 0.2 < most <= 1.05:
        return 1.0
    if SHARE.search(counter) and 20.0 < most <= 105.0:
        return 100.0
    return most or 1.0
