"""Oldest first, counted from the moment a job could run: time spent on hold or behind a dependency earns nothing.

The age order of Spread-n-Share (SC 2019, section 4.4). Equal to first come, first served where nothing is held.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns


class OldestFirst:
    """The job that has been able to run for longest goes first."""

    changing = False

    def scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """The instant it became eligible."""
        return jobs.eligible_us[rows]
