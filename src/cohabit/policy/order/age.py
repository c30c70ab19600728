"""Oldest first, counted from the moment a job could run: time on hold or behind a dependency does not count.

The age order of Spread-n-Share (SC 2019, section 4.4). Equal to first come, first served where nothing is held.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns


def scores(jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
    """The job that has been able to run for longest goes first."""
    return jobs.eligible_us[rows]
