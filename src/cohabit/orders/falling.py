"""Check on samples that an order falls as it declares: a wrong `FALLING` would give a wrong schedule.

An order is falling if no score rises while its job waits, or as its user's share of usage shrinks, and no score depends
on the other jobs that are asked about.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.core.columns import CORES, ELIGIBLE, JOB_COLUMNS, LIMIT, NODES, QOS, SEQ, SUBMIT, USER, columns_of
from cohabit.core.protocols import Order
from cohabit.model.errors import InputError
from cohabit.model.units import HOUR, SECOND

JOBS, USERS = 240, 6
WAITS_S = (0, 1, 59, 600, 3_599, 20_000, 86_400, 604_800, 3_000_000)


def check_falling(order: Order) -> None:
    """Refuse an order that declares `FALLING` and does not fall."""
    jobs, usage = _samples()
    rows, last = np.arange(JOBS), int(jobs[SUBMIT].max())
    fix = "remove FALLING = True, or correct its scores()"
    before: NDArray[np.float64] | None = None
    for wait_s in WAITS_S:
        now_us = last + wait_s * SECOND
        scores = _scores(order, jobs, usage, rows, now_us)
        alone = [_scores(order, jobs, usage, rows[row : row + 1], now_us)[0] for row in range(0, JOBS, 20)]
        if not np.array_equal(alone, scores[::20]):
            raise InputError("declares FALLING, but the score of a job depends on the other jobs", order.name, fix)
        if before is not None and (scores > before).any():
            row = int(np.argmax(scores > before))
            change = f"rises from {before[row]:.10g} to {scores[row]:.10g} as it waits"
            what = f"declares FALLING, but the score of a job of {_size(jobs, row)} {change}"
            raise InputError(what, order.name, fix)
        less = usage * np.array([[1.0], [0.9]])
        if (_scores(order, jobs, less, rows, now_us) > scores).any():
            what = "a score rises as its user's share of usage shrinks"
            raise InputError(f"declares FALLING, but {what}", order.name, fix)
        more = usage * np.array([[1.5], [1.0]])
        if (_scores(order, jobs, more, rows, now_us) < scores).any():
            raise InputError("declares FALLING, but a score falls as its user's usage grows", order.name, fix)
        before = scores


def _scores(
    order: Order, jobs: NDArray[np.int64], usage: NDArray[np.float64], rows: NDArray[np.int64], now_us: int
) -> NDArray[np.float64]:
    with np.errstate(all="ignore"):  # some of these jobs request no time
        return np.asarray(order.scores(columns_of(jobs, usage), rows, now_us), np.float64)


def _samples() -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Return jobs of many sizes and lengths by several users, some of which have used much."""
    rng = np.random.default_rng(20191117)
    jobs = np.zeros((JOB_COLUMNS, JOBS), np.int64)
    jobs[NODES] = rng.choice([1, 2, 3, 8, 64, 1000], JOBS)
    jobs[CORES] = jobs[NODES] * rng.choice([1, 4, 28, 128], JOBS)
    jobs[LIMIT] = rng.choice([0, 1, 60, 3_600, 86_400, 604_800], JOBS) * SECOND
    jobs[SUBMIT] = np.sort(rng.integers(0, 1_000 * HOUR, JOBS))
    jobs[ELIGIBLE] = jobs[SUBMIT] + rng.choice([0, 0, 10], JOBS) * SECOND
    jobs[SEQ], jobs[USER] = np.arange(JOBS), rng.integers(-1, USERS, JOBS)
    jobs[QOS] = rng.choice([0, 1, 100], JOBS)
    jobs[SUBMIT], jobs[ELIGIBLE] = np.minimum(jobs[SUBMIT], 900 * HOUR), np.minimum(jobs[ELIGIBLE], 900 * HOUR)
    usage = np.zeros((2, USERS + 1))
    usage[0, :-1] = [0.0, 1.0, 1e3, 1e6, 1e6, 5e7]
    usage[1, :-1] = usage[0, :-1] / usage[0, :-1].sum() * (usage[0, :-1] > 0).sum()
    return jobs, usage


def _size(jobs: NDArray[np.int64], row: int) -> str:
    return f"{jobs[NODES, row]} nodes and {jobs[LIMIT, row] // SECOND} s"
