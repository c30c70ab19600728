"""Usage per user with a half-life, kept inflated: old usage is never touched, new usage counts for more.

usage[user] holds core-seconds times 2^(time / half-life); only ratios between users mean anything, and those are the
same as if everything had been decayed at every instant. Long before the numbers overflow all are scaled down together.
"""

from __future__ import annotations

from cohabit.compiled import compiled

MOST_HALF_LIVES = 200.0


@compiled
def charge(usage, user, cores, start_us, end_us, half_life_us):
    """Book a finished run; usage[-1] is the instant at which a core-second counts as one."""
    age = (end_us - usage[-1]) / half_life_us
    if age > MOST_HALF_LIVES:
        for index in range(len(usage) - 1):
            usage[index] *= 2.0 ** (-min(age, 1000.0))
        usage[-1], age = end_us, 0.0
    usage[user] += cores * ((end_us - start_us) / 1e6) * 2.0**age
