"""UNICEF: a fast turnaround for small jobs (Legrand, Trystram and Zrigui, CLUSTER 2019; also in RLScheduler).

Score wait / (log2(processors) * request), largest first; a job of one or two processors counts as log2 = 1.
Wide long jobs are served last, after all other jobs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns


def scores(jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
    """The longest wait per unit of request and width goes first."""
    width = np.log2(np.maximum(jobs.cores[rows], 2))
    urgency: NDArray[Any] = (jobs.submit_us[rows] - now_us) / (width * np.maximum(jobs.limit_us[rows], 1_000_000))
    return urgency
