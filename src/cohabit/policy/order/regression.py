"""F1 to F4: orders found by regression on simulated schedules (Carastan-Santos and de Camargo, SC 2017, table 3).

f(request) * g(processors) + weight * log10(submit), smallest first, all in seconds on the trace's own clock (values
below one second count as one). Tuned for bounded slowdown; a submit clock that starts at the Unix epoch makes the last
term nearly constant, so shift such traces to start near zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns

Shape = Callable[[NDArray[Any]], NDArray[Any]]


def _same(values: NDArray[Any]) -> NDArray[Any]:
    return values


@dataclass(frozen=True)
class Regression:
    """The job with the smallest fitted score goes first."""

    of_request: Shape
    of_processors: Shape
    submit_weight: float
    changing = False

    def scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """The published formula."""
        request_s = np.maximum(jobs.limit_us[rows] / 1e6, 1.0)
        submit_s = np.maximum(jobs.submit_us[rows] / 1e6, 1.0)
        area = self.of_request(request_s) * self.of_processors(jobs.cores[rows].astype(np.float64))
        return area + self.submit_weight * np.log10(submit_s)


def f1() -> Regression:
    """log10(r) n + 870 log10(s)."""
    return Regression(np.log10, _same, 8.70e2)


def f2() -> Regression:
    """sqrt(r) n + 25600 log10(s)."""
    return Regression(np.sqrt, _same, 2.56e4)


def f3() -> Regression:
    """r n + 6860000 log10(s)."""
    return Regression(_same, _same, 6.86e6)


def f4() -> Regression:
    """r sqrt(n) + 530000 log10(s)."""
    return Regression(_same, np.sqrt, 5.30e5)
