"""Step the ways of one job's cache on its node, and count at each allocation: the daemon's part of a run for curves.

When a step begins follows from the time of day alone, so the nodes of a job step together without a word. The first
part of a step is not counted, nor is a step that was not seen whole. The caller reads and gives; nothing here does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cohabit.agent.profiling.episodes import Episode, Tour

Read = Callable[[], Mapping[str, float]]
COUNTED = ("instructions", "cycles", "cache_references", "cache_misses", "task_clock", "memory_total_bytes")


class Stepping:
    """The steps of one run."""

    def __init__(self, tour: Tour) -> None:
        self.tour = tour
        self.ways = 0  # as given now; 0: nothing was given yet
        self.trouble = ""  # why it has stopped
        self._step = -1
        self._before: tuple[float, Mapping[str, float]] | None = None
        self._seconds: dict[int, float] = {}
        self._amounts: dict[int, dict[str, float]] = {}

    def look(self, now_s: float, read: Read) -> int:
        """Return the ways to give now; 0: as they are."""
        if self.trouble:
            return 0
        step, into_s = divmod(now_s, self.tour.episode_s)
        if step != self._step:
            if self._before is not None and step == self._step + 1:
                self._count(now_s, self._before, read())
            self._step, self._before = int(step), None
            self.ways = self.tour.ways[self._step % len(self.tour.ways)]
            return self.ways
        if self._before is None and into_s >= self.tour.settle_s:
            self._before = (now_s, read())
        return 0

    def give_again(self) -> None:
        """Begin the step anew: something else has divided the cache."""
        self._step, self._before = -1, None

    def stop(self, why: str) -> None:
        """Step no more; what was counted stays."""
        self.trouble, self._before = why, None

    @property
    def episodes(self) -> list[Episode]:
        """Return what was counted, by rising ways: one episode for all that had the same allocation."""
        return [Episode(ways, self._seconds[ways], self._amounts[ways]) for ways in sorted(self._seconds)]

    def _count(self, now_s: float, before: tuple[float, Mapping[str, float]], after: Mapping[str, float]) -> None:
        since_s, had = before
        if now_s <= since_s or any(after[name] < had[name] for name in had if name in after):
            return  # a counter was reset: this step says nothing
        self._seconds[self.ways] = self._seconds.get(self.ways, 0.0) + now_s - since_s
        sums = self._amounts.setdefault(self.ways, {})
        for name in COUNTED:
            if name in after and name in had:
                sums[name] = sums.get(name, 0.0) + after[name] - had[name]
