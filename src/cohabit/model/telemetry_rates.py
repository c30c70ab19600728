"""Convert totals to amounts per second: the growth of a counter, also across wraps and resets.

A counter that fell has wrapped round (it was near its highest value and is near zero now) or was reset; after a reset
the growth is unknown, and unknown is NaN, never a guess. A counter that stays at its highest value is unknown, too.
Pure arithmetic on whole arrays, for samplers, for files of other systems and for tests.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
NEAR = 0.25  # of the range: how close to its ends a counter must be for its fall to be a wrap


class Growth(NamedTuple):
    """Amounts per second (NaN: not known) and why some are not, or needed a correction."""

    per_second: Floats
    wrapped: NDArray[np.bool_]
    reset: NDArray[np.bool_]
    stuck: NDArray[np.bool_]


def growth(before: ArrayLike, after: ArrayLike, elapsed_s: ArrayLike, bits: ArrayLike, stays: ArrayLike) -> Growth:
    """Return the growth of totals per second; NaN in either total is NaN in the answer. All arguments broadcast."""
    first, last = np.asarray(before, np.float64), np.asarray(after, np.float64)
    seconds, held = np.asarray(elapsed_s, np.float64), np.asarray(stays, np.bool_)
    span = np.exp2(np.asarray(bits, np.float64))
    fell = last < first
    wrapped = fell & ~held & (first >= span * (1 - NEAR)) & (first <= span) & (last <= span * NEAR)
    # A port without the extended counters keeps those declared as 64 bits wide in 32.
    stuck = held & (first == last) & ((last >= span - 1) | (last == 2.0**32 - 1)) & (last > 0)
    reset = fell & ~wrapped
    grown = last - first + np.where(wrapped, span, 0.0)
    with np.errstate(invalid="ignore", divide="ignore"):
        rates = np.where(reset | stuck | ~(seconds > 0), np.nan, grown / seconds)
    return Growth(rates, wrapped, reset, stuck)
