"""Stretches of a log that are simulated: apart from each other, each with the jobs before it that fill the machine."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.model.units import DAY
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.trace.coupled_machines import within

MOST_JOBS, LEAST_JOBS = 3000, 20
LEAST_STRETCHES = 3  # with fewer that do not overlap, no interval can be given
WARM_UP = 0.5  # of the length of a stretch: so much before it is simulated, too, and not counted


@dataclass(frozen=True)
class Stretch:
    """Jobs to simulate, and when those begin that count; earlier ones only fill the machine."""

    jobs: Workload
    begin_us: int

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Return which of the jobs count."""
        counts: NDArray[np.bool_] = (self.jobs.submit_us >= self.begin_us) & (self.jobs.rejection == ACCEPTED)
        return counts


def cut(log: Workload, days: float, most: int) -> list[Stretch]:
    """Cut up to `most` stretches, spread evenly, that do not overlap; the whole log if it is shorter than one."""
    usable = log.rejection == ACCEPTED
    if int(usable.sum()) < LEAST_JOBS:
        raise InputError(f"only {int(usable.sum())} jobs ran", log.source, f"give a log of at least {LEAST_JOBS}")
    first_us, last_us = int(log.submit_us[usable].min()), int(log.submit_us[usable].max())
    span_us = round(days * DAY)
    apart = (last_us - first_us) // span_us
    if apart < 1:
        return [_shortened(log, first_us)]
    begins = np.linspace(first_us, last_us - span_us, min(most, apart)).astype(np.int64).tolist()
    found = []
    for begin in begins:
        part = _shortened(within(log, begin - round(WARM_UP * span_us), begin + span_us), begin)
        if int(part.counted.sum()) >= LEAST_JOBS:
            found.append(part)
    if not found:
        raise InputError(f"has no {days:g} days with {LEAST_JOBS} jobs", log.source, "give more --days")
    return found


def _shortened(part: Workload, begin_us: int) -> Stretch:
    """Keep as many of the jobs as can be simulated in a minute or two: the last before the stretch, the first in it."""
    order = part.order()
    before = int((part.submit_us[order] < begin_us).sum())
    first = max(before - MOST_JOBS // 3, 0)
    kept = order[first : max(before, first) + MOST_JOBS]
    return Stretch(part if len(kept) == len(part) else part.take(kept), begin_us)
