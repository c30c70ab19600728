"""Usage per user with a half-life, stored inflated: old usage is never changed, new usage counts for more.

usage[0, user] holds core-seconds times 2^(time / half-life); only ratios between users mean anything, and those are the
same as if everything had been decayed at every instant. Long before the numbers overflow all are scaled down together.
usage[1, user] is the user's share: 1 for an equal part among users with any usage. The last column is for the whole:
usage[0, -1] is the instant at which a core-second counts as one, usage[1, -1] the share a unit of usage is worth.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled_lean
from cohabit.core.columns import Floats

MOST_HALF_LIVES = 200.0


def make(users: int) -> NDArray[np.float64]:
    """Return an empty table for this many users."""
    return np.zeros((2, max(users, 1) + 1))


def grown(usage: NDArray[np.float64], users: int) -> NDArray[np.float64]:
    """Return the table with room for more users."""
    larger = make(users)
    larger[:, : usage.shape[1] - 1], larger[:, -1] = usage[:, :-1], usage[:, -1]
    return larger


@compiled_lean
def charge(usage: Floats, user: int, cores: int, start_us: int, end_us: int, half_life_us: int) -> None:
    """Charge a finished run to its user."""
    age = (end_us - usage[0, -1]) / half_life_us
    if age > MOST_HALF_LIVES:
        scale = 2.0 ** (-min(age, 1000.0))
        for other in range(usage.shape[1] - 1):
            usage[0, other] *= scale
        usage[0, -1], age = end_us, 0.0
    usage[0, user] += cores * ((end_us - start_us) / 1e6) * 2.0**age
    share_out(usage)


@compiled_lean
def share_out(usage: Floats) -> None:
    """Compute the shares of all users; users without usage do not count, so future users change nothing."""
    total, users = 0.0, 0
    for used in usage[0, :-1]:
        total += used
        users += used > 0.0
    for user in range(usage.shape[1] - 1):
        usage[1, user] = usage[0, user] / total * users if total > 0.0 else 0.0
    usage[1, -1] = users / total if total > 0.0 else 0.0  # while this does not fall, no user's share does
