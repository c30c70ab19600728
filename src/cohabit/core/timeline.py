"""Free nodes of every kind over time, in readable form: running jobs by requested end, windows, reservations.

The compiled twin for interchangeable nodes is core/kernels/profile.py; property tests check that the two agree.
"""

from __future__ import annotations

import bisect

import numpy as np
from numpy.typing import NDArray

from cohabit.core.kinds import Kinds
from cohabit.model.units import FOREVER, SECOND

Counts = NDArray[np.int64]


class Timeline:
    """free[i] counts idle nodes by kind from times[i] until times[i + 1]; the last entry lasts for ever."""

    def __init__(
        self, now_us: int, idle: Counts, kinds: Kinds, ends_us: Counts | None = None, released: Counts | None = None
    ) -> None:
        """Start from the nodes idle now; running jobs give back `released` [job, kind] at `ends_us` (sorted)."""
        self.now_us = now_us
        self.idle = idle.copy()  # physically idle at this instant
        self.kinds = kinds
        self.times = [now_us]
        self.free = np.zeros((64, len(idle)), np.int64)  # room to grow; only the first len(times) rows count
        self.free[0] = idle
        if ends_us is not None and released is not None and len(ends_us):
            ends_us = np.maximum(ends_us, now_us)
            last_of_each = np.append(ends_us[1:] != ends_us[:-1], True)
            instants, after = ends_us[last_of_each].tolist(), (idle + np.cumsum(released, axis=0))[last_of_each]
            skip = int(instants[0] != now_us)
            self.times = [now_us][:skip] + instants
            self.free = np.concatenate([self.free[:skip], after, np.zeros((64, len(idle)), np.int64)])

    def _point(self, instant_us: int) -> int:
        index = bisect.bisect_right(self.times, instant_us) - 1
        if self.times[index] != instant_us:
            index, count = index + 1, len(self.times)
            if count == len(self.free):
                self.free = np.concatenate([self.free, np.zeros_like(self.free)])
            self.times.insert(index, instant_us)
            self.free[index + 1 : count + 1] = self.free[index:count]
            self.free[index] = self.free[index - 1]
        return index

    def add(self, begin_us: int, end_us: int, counts: Counts) -> None:
        """Change the free nodes between two instants by `counts` (negative: taken)."""
        begin_us = max(begin_us, self.now_us)
        if begin_us < end_us:
            first, last = self._point(begin_us), self._point(end_us)
            self.free[first:last] += counts

    def free_throughout(self, begin_us: int, length_us: int) -> Counts:
        """Return the nodes of each kind free from `begin_us` for `length_us`; a window in between closes its kind."""
        end_us = max(begin_us + length_us, begin_us + 1)
        least: Counts
        if length_us == 0 and begin_us == self.now_us:
            least = self.idle.copy()
        else:
            first = bisect.bisect_right(self.times, begin_us) - 1
            least = self.free[first : bisect.bisect_left(self.times, end_us)].min(axis=0)
        if self.kinds.windows:
            for kind, windows in enumerate(self.kinds.windows_of):
                if any(window.begin_us < end_us and begin_us < window.end_us for window in windows):
                    least[kind] = 0
        return least

    def earliest(
        self, need: int, usable: NDArray[np.bool_], length_us: int, not_before_us: int = 0
    ) -> tuple[int, Counts | None]:
        """Return the first instant from now with enough usable nodes for the whole length, and which kinds to take."""
        enough = np.flatnonzero(self.free[: len(self.times), usable].sum(axis=1) >= need)
        instants = [self.times[index] for index in enough]
        if not_before_us > self.now_us:
            instants = [not_before_us, *(instant for instant in instants if instant > not_before_us)]
        if self.kinds.windows:
            ends = {window.end_us for window in self.kinds.windows if window.end_us > self.now_us}
            instants = sorted({*instants, *ends})
        for instant in instants:
            counts = self.kinds.choose(self.free_throughout(instant, length_us) * usable, need)
            if counts is not None:
                return instant, counts
        return FOREVER, None


def planned(limit_us: int) -> int:
    """Return how long a reservation lasts: a job that requests no time still takes one second."""
    return limit_us or SECOND
