"""The queue, walked in order past everybody who is known not to start in this pass.

A pass only takes room. So whoever found no nodes stands for all that come later, are placed alike and ask for as much
time or more: they are left out many at a time, without being looked at one by one. A job that nobody may overtake any
more is never left out. Nothing is decided here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import LIMIT, NODES
from cohabit.core.view import View

FIRST_LOOK, LONGEST_LOOK = 64, 8192  # rows at a time: few where the first ones start, many behind
EVERY_LIMIT = -1
NO_LIMIT = np.iinfo(np.int64).max


class Next(NamedTuple):
    """Who comes next."""

    row: int
    hopeless: bool  # it is known not to start; told only of those who must be heard of
    aged: bool  # it may not be overtaken any more


class Walk:
    """One walk. `room`: whoever needs more nodes is left out as well; `everybody`: nobody is left out."""

    def __init__(self, view: View, rows: NDArray[np.int64], by_limit: bool = False) -> None:
        self.rows, self.place = rows, -1
        self.room, self.everybody = NO_LIMIT, False
        self._by_limit = by_limit
        self._numbers = view.descriptions(rows)
        self._limits, self._needs = view.jobs[LIMIT, rows], view.jobs[NODES, rows]
        self._aged = view.aged(rows)
        self._too_long = np.full(view.description_count, NO_LIMIT)  # by description: the shortest that found nothing

    def __iter__(self) -> Iterator[Next]:
        first, size = 0, FIRST_LOOK
        while first < len(self.rows):
            for place in self._worth_a_look(first, size):
                self.place = place
                hopeless = self._is_hopeless(place)
                aged = bool(self._aged[place])
                if aged or self.everybody or not hopeless:
                    yield Next(int(self.rows[place]), hopeless, aged)
            first, size = first + size, min(2 * size, LONGEST_LOOK)

    def give_up(self) -> None:
        """The one who came last found no nodes: nor will others like it."""
        number = int(self._numbers[self.place])
        limit_us = int(self._limits[self.place]) if self._by_limit else EVERY_LIMIT
        self._too_long[number] = min(limit_us, int(self._too_long[number]))

    def give_up_all(self, numbers: NDArray[np.int64]) -> None:
        """Nobody of these descriptions will find nodes."""
        self._too_long[numbers[numbers < len(self._too_long)]] = EVERY_LIMIT

    def rest(self) -> NDArray[np.int64]:
        """All behind the one who came last."""
        return self.rows[self.place + 1 :]

    def _worth_a_look(self, first: int, size: int) -> list[int]:
        """Places of this stretch, as far as is known now."""
        if self.everybody:
            return list(range(first, min(first + size, len(self.rows))))
        here = slice(first, first + size)
        may = (self._limits[here] < self._too_long[self._numbers[here]]) & (self._needs[here] <= self.room)
        found: list[int] = (first + np.flatnonzero(may | self._aged[here])).tolist()
        return found

    def _is_hopeless(self, place: int) -> bool:
        return bool(self._limits[place] >= self._too_long[self._numbers[place]] or self._needs[place] > self.room)
