"""Requested times of generated jobs, given their run times: real users ask for more than they need.

Three documented models; none ever asks for less than the run, so generated jobs are never killed.
"""

from __future__ import annotations

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.units import HOUR, MINUTE
from cohabit.model.workload import Ints

LARGEST_OVERESTIMATE = 4.0
POPULAR_REQUESTS_US = np.array(
    [5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE]
    + [hours * HOUR for hours in (1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 18, 24, 36, 48, 72, 96, 120, 168)],
    np.int64,
)


def request_times(rng: np.random.Generator, run_us: Ints, model: str) -> Ints:
    """The requested times of jobs with these run times.

    exact   the run time itself.
    factor  run x (1 + f), f uniform in [0, 4), up to a full minute (the "f model" of Mu'alem and Feitelson,
            IEEE TPDS 2001).
    modal   as factor, then up to the next popular value (5 min, 10 min, ... 1 h, 2 h, ... 1 week): most real
            requests are one of some twenty round values (Tsafrir, Etsion and Feitelson, JSSPP 2005).
    """
    if model == "exact":
        return run_us.copy()
    if model not in ("factor", "modal"):
        raise InputError(f"unknown request model {model!r}", "requests", "known are exact, factor and modal")
    stretched = run_us * (1.0 + rng.uniform(0.0, LARGEST_OVERESTIMATE, len(run_us)))
    minutes_us = np.maximum(np.ceil(stretched / MINUTE), 1).astype(np.int64) * MINUTE
    if model == "factor":
        return minutes_us
    place = np.searchsorted(POPULAR_REQUESTS_US, minutes_us)
    last = len(POPULAR_REQUESTS_US) - 1
    return np.where(place > last, minutes_us, POPULAR_REQUESTS_US[np.minimum(place, last)])
