"""First come, first served: the textbook order and the base of EASY. Long queues behind one wide job suffer."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns


def scores(jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
    """The earlier submission goes first."""
    return jobs.submit_us[rows]
