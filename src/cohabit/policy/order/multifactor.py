"""Weighted priority as in Slurm's multifactor plug-in: age, size, fair share and quality of service, each in 0..1.

Fair share is 2^(-usage share * users): a user who took his equal part of the decayed core-seconds stands at one half.
Badly chosen weights starve someone; start from the defaults and watch the per-user slowdown.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import Columns


@dataclass(frozen=True)
class Multifactor:
    """The largest weighted sum goes first."""

    age_weight: float = 1000.0
    size_weight: float = 100.0
    fair_share_weight: float = 1000.0
    qos_weight: float = 1000.0
    max_age_h: float = 168.0
    largest_job: float = 1024.0  # processors that count as size 1
    half_life_h: float = 168.0  # the site's usage memory; read by the composition root
    changing = True

    def scores(self, jobs: Columns, rows: NDArray[np.int64], now_us: int) -> NDArray[Any]:
        """Minus the priority, as the smallest goes first."""
        age = np.minimum((now_us - jobs.eligible_us[rows]) / (self.max_age_h * 3.6e9), 1.0)
        size = np.minimum(jobs.cores[rows] / self.largest_job, 1.0)
        priority = self.age_weight * age + self.size_weight * size + self.qos_weight * jobs.qos[rows] / 100.0
        total = jobs.usage.sum()
        if total > 0 and self.fair_share_weight:
            user = jobs.user[rows]
            share = np.where(user >= 0, jobs.usage[user], 0.0) / total
            priority = priority + self.fair_share_weight * 2.0 ** (-share * len(jobs.usage))
        return -priority
