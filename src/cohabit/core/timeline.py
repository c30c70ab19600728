"""Free nodes of every kind over time, in readable form: running jobs by requested end, windows, reservations.

The compiled twin for interchangeable nodes is core/profile.py; property tests hold the two together.
"""

from __future__ import annotations

import bisect

import numpy as np
from numpy.typing import NDArray

from cohabit.core.kinds import Kinds

FOREVER = 2**62
SECOND = 1_000_000
Counts = NDArray[np.int64]


class Timeline:
    """free[i] counts idle nodes by kind from times[i] until times[i + 1]; the last lasts for ever."""

    def __init__(self, now_us: int, idle: Counts, kinds: Kinds) -> None:
        self.now_us = now_us
        self.idle = idle.copy()  # idle at this very instant, physically
        self.kinds = kinds
        self.times = [now_us]
        self.free = [idle.copy()]

    def _point(self, instant_us: int) -> int:
        index = bisect.bisect_right(self.times, instant_us) - 1
        if self.times[index] != instant_us:
            index += 1
            self.times.insert(index, instant_us)
            self.free.insert(index, self.free[index - 1].copy())
        return index

    def add(self, begin_us: int, end_us: int, counts: Counts) -> None:
        """Change the free nodes between two instants by `counts` (negative: taken)."""
        begin_us = max(begin_us, self.now_us)
        if begin_us >= end_us:
            return
        first, last = self._point(begin_us), self._point(end_us) if end_us < FOREVER else len(self.times)
        for index in range(first, last):
            self.free[index] = self.free[index] + counts

    def free_throughout(self, begin_us: int, length_us: int) -> Counts:
        """Nodes of each kind that stay free from `begin_us` for `length_us`; a window in between closes its kind."""
        if length_us == 0 and begin_us == self.now_us:
            return self.idle.copy()
        end_us = begin_us + length_us
        index = bisect.bisect_right(self.times, begin_us) - 1
        least = self.free[index].copy()
        while (index := index + 1) < len(self.times) and self.times[index] < end_us:
            np.minimum(least, self.free[index], out=least)
        for kind, windows in enumerate(self.kinds.windows_of):
            if any(w.begin_us < max(end_us, begin_us + 1) and begin_us < w.end_us for w in windows):
                least[kind] = 0
        return least

    def earliest(self, need: int, usable: NDArray[np.bool_], length_us: int) -> tuple[int, Counts | None]:
        """The first instant from now with enough usable nodes for the whole length, and which kinds to take."""
        instants = sorted({*self.times, *(w.end_us for w in self.kinds.windows if w.end_us > self.now_us)})
        for instant in instants:
            counts = self.kinds.choose(np.where(usable, self.free_throughout(instant, length_us), 0), need)
            if counts is not None:
                return instant, counts
        return FOREVER, None


def planned(limit_us: int) -> int:
    """How long a reservation lasts: a job that asked for no time at all still holds its second."""
    return limit_us or SECOND
