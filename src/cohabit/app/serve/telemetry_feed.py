"""Report this machine's counters to a running controller: a window of the last minutes, sent repeatedly as an event.

All virtual nodes of one machine share its counters, so every node has the same row. If nothing can be read, nothing is
sent: the core then sees that its telemetry is stale, delays no job and says so.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.event import Event, TelemetryReduced
from cohabit.model.telemetry import Window, encode

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TelemetryConfig:
    """[telemetry] of a site file."""

    every_s: float = 30.0  # period of reporting a window
    window_s: float = 300.0  # length of the window; as in the model's training data

    def check(self, where: str) -> None:
        """Refuse invalid settings."""
        if not 1.0 <= self.every_s <= self.window_s or self.window_s > 3600.0:
            raise InputError(
                f"every_s = {self.every_s:g}, window_s = {self.window_s:g}", where,
                "every_s from 1 up to window_s, window_s up to 3600",
            )  # fmt: skip


class TelemetryFeed:
    """Reports the counters of this machine while it runs. `nodes` is the number of nodes the core knows."""

    def __init__(self, config: TelemetryConfig, nodes: int) -> None:
        self._config, self._nodes = config, nodes

    async def run(self, tell: Callable[[Event], Awaitable[None]], now_us: Callable[[], int]) -> None:
        """Run until cancelled. `now_us` is the clock of the receiver."""
        from cohabit.app.measure.runs_window import SampledHere, span_of  # polars: 20 MB, loaded only if needed

        try:
            sampled = SampledHere(span_of(self._config.window_s), log.info)
        except InputError as error:
            log.warning("no telemetry: %s", error)
            return
        with sampled:
            while True:
                await asyncio.sleep(self._config.every_s)
                window = sampled.before(time.time_ns() // 1000)
                if window is not None:
                    await tell(TelemetryReduced(encode(self._of_all_nodes(window, now_us()))))

    def _of_all_nodes(self, window: Window, end_us: int) -> Window:
        rows = np.zeros(self._nodes, np.int64)
        return Window(end_us, window.counters, window.lowest[rows], window.highest[rows], window.mean[rows])
