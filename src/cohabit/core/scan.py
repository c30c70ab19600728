"""Scan the queue in order and skip the jobs that are known not to start in this pass.

A pass only takes room. So when a job finds no nodes, neither do later jobs that are placed alike and ask for as much
time or more: they are skipped many at a time, without being looked at one by one. A job past the age limit, which
may not be overtaken, is never skipped. This module decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import LIMIT, NODES
from cohabit.core.view import View

FIRST_BATCH, LONGEST_BATCH = 64, 8192  # rows at a time: few at the head, where jobs start, many behind it
EVERY_LIMIT = -1
NO_LIMIT = np.iinfo(np.int64).max


class Scanned(NamedTuple):
    """The next job of a scan."""

    row: int
    hopeless: bool  # it is known not to start; such a job is reported only if it is aged or no job is skipped
    aged: bool  # it may not be overtaken any more


class QueueScan:
    """One scan. `room`: jobs that need more nodes are skipped as well; `skips_none`: no job is skipped."""

    def __init__(self, view: View, rows: NDArray[np.int64], by_limit: bool = False) -> None:
        self.rows, self.place = rows, -1
        self.room, self.skips_none = NO_LIMIT, False
        self._by_limit = by_limit
        self._numbers = view.descriptions(rows)
        self._limits, self._needs = view.jobs[LIMIT, rows], view.jobs[NODES, rows]
        self._aged = view.aged(rows)
        self._too_long = np.full(view.description_count, NO_LIMIT)  # by description: shortest limit that found nothing

    def __iter__(self) -> Iterator[Scanned]:
        first, size = 0, FIRST_BATCH
        while first < len(self.rows):
            for place in self._may_start(first, size):
                self.place = place
                hopeless = self._is_hopeless(place)
                aged = bool(self._aged[place])
                if aged or self.skips_none or not hopeless:
                    yield Scanned(int(self.rows[place]), hopeless, aged)
            first, size = first + size, min(2 * size, LONGEST_BATCH)

    def give_up(self) -> None:
        """Note that the last job found no nodes: jobs like it will not either."""
        number = int(self._numbers[self.place])
        limit_us = int(self._limits[self.place]) if self._by_limit else EVERY_LIMIT
        self._too_long[number] = min(limit_us, int(self._too_long[number]))

    def give_up_all(self, numbers: NDArray[np.int64]) -> None:
        """Note that no job of these descriptions will find nodes."""
        self._too_long[numbers[numbers < len(self._too_long)]] = EVERY_LIMIT

    def rest(self) -> NDArray[np.int64]:
        """Return all rows behind the last job."""
        return self.rows[self.place + 1 :]

    def _may_start(self, first: int, size: int) -> list[int]:
        """Return the places of this stretch whose jobs may start, as far as is known now."""
        if self.skips_none:
            return list(range(first, min(first + size, len(self.rows))))
        here = slice(first, first + size)
        may = (self._limits[here] < self._too_long[self._numbers[here]]) & (self._needs[here] <= self.room)
        found: list[int] = (first + np.flatnonzero(may | self._aged[here])).tolist()
        return found

    def _is_hopeless(self, place: int) -> bool:
        return bool(self._limits[place] >= self._too_long[self._numbers[place]] or self._needs[place] > self.room)
