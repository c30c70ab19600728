"""Shortest or longest job first, by requested time. Shortest first can starve long jobs under steady load."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns


def shortest(jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
    """The smaller request goes first."""
    return jobs.limit_us[rows]


def longest(jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
    """The larger request goes first: packs well, makes short jobs wait."""
    return -jobs.limit_us[rows]
