"""F1 to F4: orders found by regression on simulated schedules (Carastan-Santos and de Camargo, SC 2017, table 3).

f(request) * g(processors) + weight * log10(submit), smallest first, all in seconds on the trace's own clock; the
logarithm of anything below one second counts as zero. Tuned for bounded slowdown; a submit clock that starts at the
Unix epoch makes the last term nearly constant, so shift such traces to start near zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns


def f1(jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
    """log10(r) n + 870 log10(s)."""
    request = np.log10(np.maximum(jobs.limit_us[rows] / 1e6, 1.0))
    return request * jobs.cores[rows] + 8.70e2 * np.log10(np.maximum(jobs.submit_us[rows] / 1e6, 1.0))


def f2(jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
    """sqrt(r) n + 25600 log10(s)."""
    request = np.sqrt(jobs.limit_us[rows] / 1e6)
    return request * jobs.cores[rows] + 2.56e4 * np.log10(np.maximum(jobs.submit_us[rows] / 1e6, 1.0))


def f3(jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
    """r n + 6860000 log10(s)."""
    request = jobs.limit_us[rows] / 1e6
    return request * jobs.cores[rows] + 6.86e6 * np.log10(np.maximum(jobs.submit_us[rows] / 1e6, 1.0))


def f4(jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
    """r sqrt(n) + 530000 log10(s)."""
    request = jobs.limit_us[rows] / 1e6
    return request * np.sqrt(jobs.cores[rows]) + 5.30e5 * np.log10(np.maximum(jobs.submit_us[rows] / 1e6, 1.0))
