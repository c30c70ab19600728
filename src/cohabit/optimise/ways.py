"""The limits of cache allocation in hardware: whole contiguous ways, few groups, ways that are shared with I/O.

Ways are counted from 0, the lowest bit of a mask. A *unit* is what can be given away: one way, or several that the
hardware cannot separate (on the Xeon D-1540 ways 10 and 11). The uppermost `io_ways` are also written by devices, so
they are worth less to a program; they go to the program that loses least. The kernel's root group is not ours: `groups`
counts the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.mix import Floats, Ints

USUAL_GROUPS = 15  # 16 classes of service, one of them the root group's
MOST_WAYS = 64
IO_WORTH = 0.5  # assumed: of a way that devices also write to


@dataclass(frozen=True)
class Limits:
    """The hardware of one cache."""

    ways: int
    min_ways: int = 1
    groups: int = USUAL_GROUPS
    io_ways: int = 0
    io_worth: float = IO_WORTH
    inseparable: tuple[tuple[int, int], ...] = ()  # first and last of ways that go together

    def checked(self, where: str = "") -> Limits:
        """The same limits, if hardware can have them."""
        if self.ways < 1 or self.min_ways < 1 or self.groups < 1 or self.io_ways < 0:
            said = f"{self.ways} ways, {self.min_ways} at least, {self.groups} groups, {self.io_ways} for I/O"
            raise InputError(f"{said}: no cache has that", where, "give numbers from 1 up (I/O ways from 0)")
        if self.ways > MOST_WAYS:
            raise InputError(f"{self.ways} ways are more than a mask has bits", where, f"give at most {MOST_WAYS}")
        if self.min_ways > self.ways or self.io_ways > self.ways:
            raise InputError(
                f"the cache has {self.ways} ways, fewer than asked for",
                where,
                f"min ways {self.min_ways} and I/O ways {self.io_ways} must fit",
            )
        if not 0.0 <= self.io_worth <= 1.0:
            raise InputError(f"the worth of an I/O way is {self.io_worth:g}", where, "it is between 0 and 1")
        last = -1
        for first, end in sorted(self.inseparable):
            if not last < first < end < self.ways:
                raise InputError(
                    f"ways {first}-{end} cannot be inseparable",
                    where,
                    f"ranges of different ways from 0 to {self.ways - 1}, not overlapping",
                )
            last = end
        return self

    @property
    def units(self) -> Ints:
        """Number of ways in every unit, from the lowest up."""
        starts = {first: end - first + 1 for first, end in self.inseparable}
        found, way = [], 0
        while way < self.ways:
            found.append(starts.get(way, 1))
            way += found[-1]
        return np.array(found, np.int64)

    def most_runs(self, after: int = 0) -> int:
        """Groups that the units from number `after` up can be given to, as many as possible."""
        runs = width = 0
        for unit in self.units[after:].tolist():
            width += unit
            if width >= self.min_ways:
                runs, width = runs + 1, 0
        return runs

    def reach(self, buckets: int) -> tuple[Ints, Floats]:
        """Ways and capacity in buckets of the first u units, for every u."""
        worth = np.ones(self.ways)
        worth[self.ways - self.io_ways :] = self.io_worth
        ways = np.concatenate([[0], np.cumsum(self.units)])
        capacity = np.concatenate([[0.0], np.cumsum(worth)])[ways] * (buckets / self.ways)
        return ways, capacity


@dataclass(frozen=True)
class Group:
    """Jobs that share a contiguous run of ways."""

    jobs: tuple[int, ...]
    first_way: int
    ways: int

    @property
    def mask(self) -> int:
        """The bits of its ways."""
        return ((1 << self.ways) - 1) << self.first_way


def schemata(groups: Sequence[Group], domains: Sequence[int] = (0,)) -> list[str]:
    """One line per group for its file `schemata`, the same ways in each of these cache domains."""
    return ["L3:" + ";".join(f"{domain}={group.mask:x}" for domain in domains) for group in groups]


def lines_by_domain(by_domain: Mapping[int, Sequence[Group]]) -> list[str]:
    """Lines for the groups of several domains, each divided in its own way: the n-th group of each together."""
    most = max((len(groups) for groups in by_domain.values()), default=0)
    lines = []
    for number in range(most):
        masks = [
            f"{domain}={groups[number].mask:x}" for domain, groups in sorted(by_domain.items()) if number < len(groups)
        ]
        lines.append("L3:" + ";".join(masks))
    return lines
