"""Time series for the page: how many jobs started, ended and waited over time, and how many cores were in use.

They are made from arrays of instants (microseconds), of a live controller or of a finished run.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.units import SECOND
from cohabit.report.series import slice_means

Ints = NDArray[np.int64]
BINS = 96


def series(
    submit_us: Ints, start_us: Ints, end_us: Ints, cores: Ints, never: int, from_us: int, until_us: int,
    bins: int = BINS,
) -> dict[str, Any]:  # fmt: skip
    """Return starts and ends per bin, mean waiting jobs and busy cores per bin, and how many jobs wait at the end."""
    span = max(until_us - from_us, bins)
    step = span / bins
    started, ended = start_us[start_us != never], end_us[end_us != never]
    ran = start_us != never
    over = np.where(end_us != never, end_us, until_us)
    wait_end = np.where(ran, start_us, over)  # a job cancelled before its start waits until its end
    ones, waits = np.ones(len(submit_us)), (submit_us <= until_us) & (wait_end >= until_us)
    return {
        "from": from_us / SECOND, "step_s": step / SECOND, "waiting_at_end": int(waits.sum()),
        "started": _counted(started, from_us, step, bins), "ended": _counted(ended, from_us, step, bins),
        "waiting": slice_means(submit_us, np.maximum(wait_end, submit_us), ones, from_us, span, bins).round(2).tolist(),
        "busy_cores": slice_means(
            start_us[ran], np.maximum(over, start_us)[ran], cores[ran].astype(float), from_us, span, bins
        ).round(2).tolist(),
    }  # fmt: skip


def _counted(at_us: Ints, from_us: int, step: float, bins: int) -> list[int]:
    place = np.floor((at_us - from_us) / step).astype(np.int64)
    inside = place[(place >= 0) & (place < bins)]
    found: list[int] = np.bincount(inside, minlength=bins).tolist()
    return found
