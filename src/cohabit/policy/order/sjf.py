"""Shortest or longest job first, by requested time. Shortest first can starve long jobs under steady load."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns


class ShortestFirst:
    """The smaller request goes first."""

    changing = False

    def scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """The requested time."""
        return jobs.limit_us[rows]


class LongestFirst:
    """The larger request goes first: packs well, makes short jobs wait."""

    changing = False

    def scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """The requested time, largest first."""
        return -jobs.limit_us[rows]
