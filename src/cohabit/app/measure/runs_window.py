"""Counters before an instant, for `cohabit measure runs`: from a telemetry store, or sampled here.

Nothing read after the instant may enter the result (RUSH R60).
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from types import TracebackType

import numpy as np

from cohabit.agent.samplers.catalogue import all_samplers
from cohabit.agent.samplers.meter import Meter
from cohabit.model.errors import InputError
from cohabit.model.telemetry import LAST_PART, Window, mean_of_known

INTERVAL_S = 1.0
KEPT_WINDOWS = 3  # a job's start is known only after it ended: look back further than one window
Say = Callable[[str], None]
WindowBefore = Callable[[int], Window | None]  # the window before an instant; None: there is none


class SampledHere:
    """This node's own counters, read every second by a thread while the `with` block lasts."""

    def __init__(self, span_us: int, say: Say, keep_us: int | None = None) -> None:
        self.span_us = span_us
        self.keep_us = keep_us or KEPT_WINDOWS * span_us
        self.meter = Meter(all_samplers(), say)
        if not self.meter.counters:
            raise InputError("no sampler works on this host", "", "give --telemetry FOLDER")
        self._rows: deque[tuple[int, np.ndarray[tuple[int], np.dtype[np.float32]]]] = deque()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._sample, name="sampling", daemon=True)

    def before(self, time_us: int) -> Window | None:
        with self._lock:
            if not self._rows or self._rows[0][0] > time_us - self.span_us:  # not a whole window yet
                return None
            read = [(at, row) for at, row in self._rows if time_us - self.span_us < at <= time_us]
        if not read:
            return None
        table = np.stack([row for _, row in read])
        recent = sum(at > time_us - self.span_us // LAST_PART for at, _ in read) or 1  # the newest row at least
        means = (mean_of_known(rows).astype(np.float32) for rows in (table, table[-recent:]))
        parts = np.fmin.reduce(table, axis=0), np.fmax.reduce(table, axis=0), *means
        return Window(time_us, self.meter.counters, *(part[None, :] for part in parts))

    def _sample(self) -> None:
        while True:
            now_us = time.time_ns() // 1000
            values = self.meter.sample(now_us, time.monotonic())
            row = np.array([values.get(name, np.nan) for name in self.meter.counters], np.float32)
            with self._lock:
                self._rows.append((now_us, row))
                while self._rows[0][0] < now_us - self.keep_us:
                    self._rows.popleft()
            if self._over.wait(INTERVAL_S):
                return

    def __enter__(self) -> SampledHere:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._over.set()
        self._thread.join()
