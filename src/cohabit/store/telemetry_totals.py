"""Rows of totals from many nodes, as other systems record them, turned into rows of amounts per second.

The last row of every node is kept until the next batch. A node whose clock does not advance, and a gap longer than a
window, give no rates; both are counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cohabit.model.telemetry import WINDOW_US
from cohabit.model.telemetry_counters import BY_NAME
from cohabit.model.telemetry_rates import growth

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


class Totals:
    """The last row of every node and its time."""

    def __init__(self, counters: Sequence[str], defects: Counter[str]) -> None:
        kinds = [BY_NAME[name] for name in counters]
        self.bits = np.array([one.bits for one in kinds])
        self.stays = np.array([one.stays for one in kinds], np.bool_)
        self.level = np.array([one.kind == "level" for one in kinds], np.bool_)
        self.defects = defects
        self.last_us: dict[int, int] = {}
        self.last: dict[int, Floats] = {}

    def rates(self, nodes: Indices, times_us: Indices, totals: Floats) -> tuple[Indices, Indices, Floats]:
        """Return nodes, times and values of the remaining rows, in the order of time; NaN where a rate is unknown."""
        order = np.lexsort((times_us, nodes))
        nodes, times_us, totals = nodes[order], times_us[order], totals[order]
        first = np.r_[True, nodes[1:] != nodes[:-1]]
        before_us, before = np.roll(times_us, 1), np.roll(totals, 1, axis=0)
        for index in np.flatnonzero(first).tolist():
            node = int(nodes[index])
            before_us[index] = self.last_us.get(node, times_us[index] - 2 * WINDOW_US)
            before[index] = self.last.get(node, np.nan)
        passed_us = times_us - before_us
        kept = passed_us > 0
        known = (passed_us > 0) & (passed_us <= WINDOW_US)
        seconds = np.where(known, passed_us * 1e-6, np.nan)[:, None]
        grown = growth(before, totals, seconds, self.bits, self.stays)
        values = np.where(self.level, totals, grown.per_second)
        amounts = ~self.level & known[:, None]
        self.defects["counters that wrapped round"] += int((grown.wrapped & amounts).sum())
        self.defects["counters that were reset"] += int((grown.reset & amounts).sum())
        self.defects["counters at their highest value"] += int((grown.stuck & amounts).sum())
        self.defects["rows whose time does not advance"] += int((~kept).sum())
        seen_before = ~first | np.isin(nodes, list(self.last_us))
        self.defects["gaps longer than a window"] += int((seen_before & (passed_us > WINDOW_US)).sum())
        self._remember(nodes, times_us, totals)
        back = np.argsort(times_us[kept], kind="stable")
        return nodes[kept][back], times_us[kept][back], values[kept][back]

    def _remember(self, nodes: Indices, times_us: Indices, totals: Floats) -> None:
        last = np.flatnonzero(np.r_[nodes[1:] != nodes[:-1], True])
        for index in last.tolist():
            node = int(nodes[index])
            if times_us[index] > self.last_us.get(node, -(2**62)):
                self.last_us[node], self.last[node] = int(times_us[index]), totals[index].copy()
