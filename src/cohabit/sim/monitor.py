"""Simulate a monitor on every node that measures the speed of the jobs that share it, relative to running alone.

Every `period_us` it reads the counters of all runs on shared nodes and divides by what was read when the program ran
alone; each reading has a relative error of its own. It knows no causes and never looks ahead.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cohabit.model.event import Event, ProgressMeasured
from cohabit.model.units import FOREVER
from cohabit.sim.runs import Run
from cohabit.sim.streams import stream


class Monitor:
    """Measures all running jobs together, periodically, while any job runs."""

    def __init__(self, period_us: int, seed: int, noise: float = 0.0) -> None:
        self.period_us, self.noise = period_us, noise
        self._rng: np.random.Generator = stream(seed, "progress of jobs")
        self._seen: dict[tuple[str, int], tuple[int, float]] = {}  # run -> time of its last measurement, work left then
        self._next_us = FOREVER

    def next_us(self, now_us: int, busy: bool) -> int:
        """Return the time of the next measurement; never while no job runs."""
        if not busy:
            self._next_us = FOREVER
        elif self._next_us >= FOREVER:
            self._next_us = now_us + self.period_us
        return self._next_us

    def look(self, now_us: int, runs: Mapping[str, Run]) -> list[Event]:
        """Return the progress of every shared run since the last measurement; a run that has just begun has none."""
        if now_us < self._next_us:
            return []
        self._next_us = now_us + self.period_us
        facts: list[Event] = []
        seen = {}
        for job_id, run in runs.items():
            if run.order.exclusive:
                continue
            run.proceed(now_us)
            key = (job_id, run.order.attempt)
            if key in self._seen:
                since_us, left_us = self._seen[key]
                true = max(left_us - run.remaining_us, 0.0) / (now_us - since_us)  # a move may have lost work
                read = true * (1.0 + self.noise * float(self._rng.standard_normal()))
                facts.append(ProgressMeasured(job_id, run.order.attempt, max(read, 0.0), now_us - since_us))
            seen[key] = (now_us, run.remaining_us)
        self._seen = seen
        return facts
