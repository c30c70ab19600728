"""Weighted priority as in Slurm's multifactor plug-in: age, size, fair share and quality of service, each in 0..1.

Fair share is 2^(-usage share * users): a user with an equal part of the decayed core-seconds is at one half.
Badly chosen weights starve some users; start from the defaults and watch the per-user slowdown.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns


def scores(
    jobs: Columns,
    rows: NDArray[np.int64],
    now_us: int,
    age_weight: float = 1000.0,
    size_weight: float = 100.0,
    fair_share_weight: float = 1000.0,
    qos_weight: float = 1000.0,
    max_age_h: float = 168.0,
    largest_job: float = 1024.0,
) -> NDArray[Any]:
    """The largest weighted sum goes first."""
    user = jobs.user[rows]
    return -(  # one expression: compiled, it makes no temporary arrays
        age_weight * np.minimum((now_us - jobs.eligible_us[rows]) / (max_age_h * 3.6e9), 1.0)
        + size_weight * np.minimum(jobs.cores[rows] / largest_job, 1.0)
        + qos_weight * jobs.qos[rows] / 100.0
        + fair_share_weight * np.exp2(-jobs.usage_share[user] * (user >= 0))
    )
