"""Samples become windows on arrival: lowest, highest and mean of every counter, node by node; samples are not kept.

Time is cut into short parts (30 s); each part has flat arrays [node, counter], and a ring of parts covers the window in
progress and the five minutes up to now. A window on the grid is its parts taken together, and so is the sliding one
that the gate reads. No clock and no files here: the simulator and a live controller feed the same reducer and pass the
time in. What cannot be used (too late, from the future, not finite) is counted in `defects`, never raised.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.model.telemetry import AHEAD_US, LAST_PART, WINDOW_US, Table, Window

PART_US = 30_000_000
GRACE_US = 60_000_000  # how long after its end a window waits for late samples

Indices = NDArray[np.int64]


class Reduced(NamedTuple):
    """A finished window, and how many samples each node gave to it."""

    window: Window
    samples: NDArray[np.int32]


class Sums(NamedTuple):
    """Reduced samples of some time: [..., node, counter]."""

    lowest: Table
    highest: Table
    total: NDArray[np.float64]
    seen: NDArray[np.int32]

    def of(self, places: NDArray[np.integer]) -> Sums:
        """Merge one or more parts into new arrays."""
        first, *others = places.tolist()
        lowest, highest = self.lowest[first].copy(), self.highest[first].copy()
        total, seen = self.total[first].copy(), self.seen[first].copy()
        for place in others:
            np.fmin(lowest, self.lowest[place], out=lowest)
            np.fmax(highest, self.highest[place], out=highest)
            total += self.total[place]
            seen += self.seen[place]
        return Sums(lowest, highest, total, seen)

    def also(self, other: Sums, place: int) -> Sums:
        """Merge these and one part of the others into new arrays."""
        return Sums(
            np.fmin(self.lowest, other.lowest[place]),
            np.fmax(self.highest, other.highest[place]),
            self.total + other.total[place],
            self.seen + other.seen[place],
        )

    def window(self, end_us: int, counters: tuple[str, ...]) -> Window:
        """Return it as a window; the arrays are shared."""
        mean = (self.total / np.maximum(self.seen, 1)).astype(np.float32)
        mean[self.seen == 0] = np.nan
        return Window(end_us, counters, self.lowest, self.highest, mean)


def _empty(parts: int, nodes: int, counters: int) -> Sums:
    shape = (parts, nodes, counters)
    return Sums(
        np.full(shape, np.nan, np.float32),
        np.full(shape, np.nan, np.float32),
        np.zeros(shape),
        np.zeros(shape, np.int32),
    )


class Reducer:
    """The windows in progress of a machine whose nodes are numbered from 0."""

    def __init__(
        self,
        nodes: int,
        counters: Sequence[str],
        window_us: int = WINDOW_US,
        part_us: int = PART_US,
        grace_us: int = GRACE_US,
        span_us: int = WINDOW_US,
    ) -> None:
        assert window_us % part_us == 0, (window_us, part_us)
        self.counters = tuple(counters)
        self.window_us, self.part_us, self.grace_us = window_us, part_us, grace_us
        self.per_window = window_us // part_us
        self.per_span = max(span_us // part_us, 1)  # of the sliding window
        self.parts = 3 * max(self.per_window, self.per_span)
        self.sums = _empty(self.parts, nodes, len(self.counters))
        self.number = np.full(self.parts, -1, np.int64)  # which part of time a place of the ring holds
        self.first_open = -(2**62)  # windows before this one are finished
        self.newest_us: int | None = None  # the latest sample used
        self.defects: Counter[str] = Counter()
        self._ready: list[Reduced] = []
        self._older: tuple[tuple[int, int], Sums | None] = ((-1, -1), None)
        self._sliding: tuple[tuple[int, int], Window | None] = ((-1, -1), None)
        self._changes = self._older_changes = 0

    @property
    def nodes(self) -> int:
        """Return how many nodes it has room for."""
        return int(self.sums.total.shape[1])

    def grow(self, nodes: int) -> None:
        """Make room for more nodes; existing ones keep their numbers."""
        if nodes > self.nodes:
            more = _empty(self.parts, nodes - self.nodes, len(self.counters))
            self.sums = Sums(
                np.concatenate([self.sums.lowest, more.lowest], axis=1),
                np.concatenate([self.sums.highest, more.highest], axis=1),
                np.concatenate([self.sums.total, more.total], axis=1),
                np.concatenate([self.sums.seen, more.seen], axis=1),
            )
            self._forget_cached()

    def ingest(self, nodes: Indices, times_us: Indices, values: NDArray[np.floating], now_us: int | None = None) -> int:
        """Add samples, one per row of `values` [sample, counter], NaN where unknown; returns how many were used.

        `now_us` is the receiver's clock: samples far ahead of it are refused, and if it has been set back behind
        finished windows, everything starts again. Without it the samples' own times are used (files).
        """
        assert values.shape == (len(nodes), len(self.counters)), values.shape
        if now_us is not None and self.first_open * self.window_us > now_us + self.window_us:
            self._begin_anew(now_us)
        part = times_us // self.part_us
        usable = part // self.per_window >= self.first_open
        self.defects["too late"] += len(part) - int(usable.sum())
        if now_us is not None:
            ahead = usable & (times_us > now_us + AHEAD_US)
            self.defects["from the future"] += int(ahead.sum())
            usable &= ~ahead
        if not usable.all():
            nodes, times_us, part, values = nodes[usable], times_us[usable], part[usable], values[usable]
        if not len(nodes):
            return 0
        values = self._finite(values)
        for number in np.unique(part).tolist():
            chosen = part == number
            everything = bool(chosen.all())
            self._add(number, nodes if everything else nodes[chosen], values if everything else values[chosen])
        self.newest_us = max(int(times_us.max()), self.newest_us if self.newest_us is not None else -(2**62))
        return len(nodes)

    def _finite(self, values: NDArray[np.floating]) -> Table:
        with np.errstate(over="ignore"):
            taken = values.astype(np.float32)  # a copy: the caller's array stays unchanged
        infinite = np.isinf(taken)
        if infinite.any():
            self.defects["not finite"] += int(infinite.sum())
            taken[infinite] = np.nan
        return taken

    def _add(self, number: int, nodes: Indices, values: Table) -> None:
        place = self._place(number)
        count = (~np.isnan(values)).astype(np.int32)
        lowest = highest = values
        total = values if count.all() else np.where(count > 0, values, np.float32(0))
        if len(nodes) > 1 and not (nodes[1:] > nodes[:-1]).all():  # several samples of a node, or in any order
            order = np.argsort(nodes, kind="stable")
            nodes = nodes[order]
            starts = np.flatnonzero(np.r_[True, nodes[1:] != nodes[:-1]])
            nodes = nodes[starts]
            lowest = np.fmin.reduceat(values[order], starts)
            highest = np.fmax.reduceat(values[order], starts)
            total = np.add.reduceat(total[order].astype(np.float64), starts)
            count = np.add.reduceat(count[order], starts)
        sums = self.sums
        whole = slice(None) if len(nodes) == self.nodes else nodes
        sums.lowest[place, whole] = np.fmin(sums.lowest[place, whole], lowest)
        sums.highest[place, whole] = np.fmax(sums.highest[place, whole], highest)
        sums.total[place, whole] += total
        sums.seen[place, whole] += count
        self._changes += 1
        if number != self._older[0][0]:  # not the newest part of the sliding window, which is added every time
            self._older_changes += 1

    def _place(self, number: int) -> int:
        """Return the place of a part of time; parts that no longer fit in the ring are finished first."""
        place = number % self.parts
        if self.number[place] != number:
            oldest_kept = number - self.parts + 1
            self._finish(-(-oldest_kept // self.per_window))  # windows that would lose a part
            self.sums.lowest[place] = self.sums.highest[place] = np.nan
            self.sums.total[place] = self.sums.seen[place] = 0
            self.number[place] = number
            self._older_changes += 1
        return place

    def finished(self, now_us: int) -> list[Reduced]:
        """Return windows whose time and grace are over at `now_us`, oldest first, each once; none without samples."""
        self._finish((now_us - self.grace_us) // self.window_us)
        ready, self._ready = self._ready, []
        return ready

    def unfinished(self) -> list[Reduced]:
        """Return what is left when no more samples come; the last window ends with its last sample."""
        for window in self._open_windows():
            end_us = (window + 1) * self.window_us
            if self.newest_us is not None and self.newest_us < end_us:
                end_us = max(self.newest_us, window * self.window_us + 1)
            self._finish_one(window, end_us)
        ready, self._ready = self._ready, []
        return ready

    def _open_windows(self) -> list[int]:
        held = np.unique(self.number[self.number >= 0] // self.per_window)
        return [window for window in held.tolist() if window >= self.first_open]

    def _finish(self, up_to: int) -> None:
        for window in self._open_windows():
            if window < up_to:
                self._finish_one(window, (window + 1) * self.window_us)
        self.first_open = max(self.first_open, up_to)

    def _finish_one(self, window: int, end_us: int) -> None:
        sums = self.sums.of(np.flatnonzero(self.number // self.per_window == window))
        if sums.seen.any():
            samples = sums.seen.max(axis=1, initial=0).astype(np.int32)
            self._ready.append(Reduced(sums.window(end_us, self.counters), samples))
        self.first_open = max(self.first_open, window + 1)

    def _begin_anew(self, now_us: int) -> None:
        """Start again after the clock was set back: the ring holds data of a future time."""
        self.defects["the clock was set back"] += 1
        self.number[:] = -1
        self.first_open = now_us // self.window_us
        self.newest_us = None
        self._forget_cached()

    def _forget_cached(self) -> None:
        self._changes += 1
        self._older_changes += 1

    def sliding(self, now_us: int) -> Window | None:
        """Return the last `span_us`, to a part's length and never more; None if no node has data in them.

        Read for every decision: it is kept until a sample comes in, and then only the newest part is added again.
        """
        newest = now_us // self.part_us
        if self._sliding[0] == (newest, self._changes):
            return self._sliding[1]
        oldest = newest - self.per_span + 1
        if self._older[0] != (newest, self._older_changes):
            held = np.flatnonzero((self.number >= oldest) & (self.number < newest))
            older = self.sums.of(held) if len(held) else None
            self._older = ((newest, self._older_changes), older)
        sums, place = self._older[1], newest % self.parts
        if self.number[place] == newest:
            sums = self.sums.of(np.array([place])) if sums is None else sums.also(self.sums, place)
        known = sums is not None and bool(sums.seen.any())
        found = (
            replace(sums.window(now_us, self.counters), last=self._last(newest)) if sums is not None and known else None
        )
        self._sliding = ((newest, self._changes), found)
        return found

    def _last(self, newest: int) -> Table:
        """Return the means of the last part of the sliding window, and of the piece of time that has just begun."""
        recent = (self.number >= newest - max(self.per_span // LAST_PART, 1)) & (self.number <= newest)
        total, seen = self.sums.total[recent].sum(axis=0), self.sums.seen[recent].sum(axis=0)
        return np.where(seen > 0, total / np.maximum(seen, 1), np.nan).astype(np.float32)
