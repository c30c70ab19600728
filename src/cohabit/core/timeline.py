"""Free nodes of every kind over time, in readable form: running jobs by requested end, windows, reservations.

The compiled twin for interchangeable nodes is core/profile.py; property tests hold the two together.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.core.kinds import Kinds

FOREVER = 2**62
SECOND = 1_000_000
Counts = NDArray[np.int64]


class Timeline:
    """free[i] counts idle nodes by kind from times[i] until times[i + 1]; the last lasts for ever."""

    def __init__(
        self, now_us: int, idle: Counts, kinds: Kinds, ends_us: Counts | None = None, released: Counts | None = None
    ) -> None:
        """Start from what is idle now; running jobs give back `released` [job, kind] at `ends_us` (sorted)."""
        self.now_us = now_us
        self.idle = idle.copy()  # idle at this very instant, physically
        self.kinds = kinds
        self.times = np.array([now_us])
        self.free = idle[np.newaxis].copy()
        if ends_us is not None and released is not None and len(ends_us):
            ends_us = np.maximum(ends_us, now_us)
            last_of_each = np.append(ends_us[1:] != ends_us[:-1], True)
            after = (idle + np.cumsum(released, axis=0))[last_of_each]
            instants = ends_us[last_of_each]
            skip = int(instants[0] != now_us)
            self.times = np.concatenate([self.times[:skip], instants])
            self.free = np.concatenate([self.free[:skip], after])

    def _point(self, instant_us: int) -> int:
        index = int(np.searchsorted(self.times, instant_us, "right")) - 1
        if self.times[index] != instant_us:
            index += 1
            self.times = np.insert(self.times, index, instant_us)
            self.free = np.insert(self.free, index, self.free[index - 1], axis=0)
        return index

    def add(self, begin_us: int, end_us: int, counts: Counts) -> None:
        """Change the free nodes between two instants by `counts` (negative: taken)."""
        begin_us = max(begin_us, self.now_us)
        if begin_us < end_us:
            first, last = self._point(begin_us), self._point(end_us)
            self.free[first:last] += counts

    def free_throughout(self, begin_us: int, length_us: int) -> Counts:
        """Nodes of each kind that stay free from `begin_us` for `length_us`; a window in between closes its kind."""
        if length_us == 0 and begin_us == self.now_us:
            return self.idle.copy()
        end_us = max(begin_us + length_us, begin_us + 1)
        first = int(np.searchsorted(self.times, begin_us, "right")) - 1
        least: Counts = self.free[first : int(np.searchsorted(self.times, end_us, "left"))].min(axis=0)
        for kind, windows in enumerate(self.kinds.windows_of):
            if any(window.begin_us < end_us and begin_us < window.end_us for window in windows):
                least[kind] = 0
        return least

    def earliest(self, need: int, usable: NDArray[np.bool_], length_us: int) -> tuple[int, Counts | None]:
        """The first instant from now with enough usable nodes for the whole length, and which kinds to take."""
        enough = self.times[self.free[:, usable].sum(axis=1) >= need]
        ends = [window.end_us for window in self.kinds.windows if window.end_us > self.now_us]
        for instant in enough if not ends else np.union1d(enough, ends):
            counts = self.kinds.choose(np.where(usable, self.free_throughout(int(instant), length_us), 0), need)
            if counts is not None:
                return int(instant), counts
        return FOREVER, None


def planned(limit_us: int) -> int:
    """How long a reservation lasts: a job that asked for no time at all still holds its second."""
    return limit_us or SECOND
