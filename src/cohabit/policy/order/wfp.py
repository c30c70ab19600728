"""WFP of Argonne's Cobalt (Tang et al., ICPP 2011, section V): wait relative to the request, favouring wide jobs.

Score (wait / request)^exponent * size^size_exponent, largest first. Every job's score grows without bound, so none
starves; short requests overtake quickly, which hurts a site whose users ask for far too much time.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns


def scores(
    jobs: Columns, rows: NDArray[np.int64], now_us: int, exponent: float = 3.0, size_exponent: float = 1.0
) -> NDArray[Any]:
    """The job with the longest wait relative to its request goes first."""
    waited = (now_us - jobs.submit_us[rows]) / np.maximum(jobs.limit_us[rows], 1_000_000)
    size = jobs.cores[rows] * 1.0
    if exponent == 3.0 and size_exponent == 1.0:  # plain products: the same bits on every machine
        return -(waited * waited * waited) * size
    return -(waited**exponent) * size**size_exponent
