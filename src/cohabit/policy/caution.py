"""A higher bound for jobs whose profiles are uncertain: uneven curves were measured with errors."""

from __future__ import annotations

import numpy as np

from cohabit.model.profile import Profile

TRUSTED_SPREAD = 0.05  # of the points of a curve: profiles measured once are about that uneven
CAUTION = 0.25  # how much a bound rises with the spread beyond that


def cautious(alpha: float, profile: Profile) -> float:
    """Return the share of its own speed that a job is promised in plans, at most 1."""
    return min(1.0, alpha * (1.0 + CAUTION * max(0.0, spread_of(profile) - TRUSTED_SPREAD)))


def spread_of(profile: Profile) -> float:
    """Return the relative error of the points of a profile's bandwidth curves, by how uneven neighbouring points are.

    True curves bend slowly, so that second differences are mostly errors of measurement.
    """
    uneven: list[float] = []
    for one in profile.scales:
        if one.bandwidth_gbs is not None and len(one.bandwidth_gbs.values) >= 4:
            logs = np.log(np.maximum(one.bandwidth_gbs.values, 1e-9))
            uneven += np.abs(np.diff(logs, 2)).tolist()
    return float(np.median(uneven)) / (0.6745 * np.sqrt(6.0)) if uneven else 0.0
