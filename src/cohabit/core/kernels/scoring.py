"""The calls of a compiled pass to an order for scores, and the comparison of two jobs.

An order is called by its address (core/scorer.py).
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import ScoreEntry, compiled_inline, compiled_lean
from cohabit.core.columns import SEQ, Floats, Ints
from cohabit.core.kernels.bundles import Queue, Scorer
from cohabit.core.kernels.ladder import rows_in_order


@compiled_inline
def score(
    entry: ScoreEntry, parameters: Floats, jobs: Ints, usage: Floats, rows: Ints, now: int, fresh: Floats
) -> None:
    """Call an order for these rows; the scores go into `fresh`, NaN as infinity."""
    entry(
        jobs.ctypes,
        jobs.shape[1],
        usage.ctypes,
        usage.shape[1] - 1,
        rows.ctypes,
        len(rows),
        now,
        parameters.ctypes,
        fresh.ctypes,
    )
    for index in range(len(rows)):  # stored in any case: several at once
        fresh[index] = np.inf if np.isnan(fresh[index]) else fresh[index]


@compiled_inline
def score_rows(rows: Ints, now: int, jobs: Ints, scorer: Scorer, fresh: Floats) -> None:
    """Score these rows by the order."""
    score(scorer.entry, scorer.parameters, jobs, scorer.usage, rows, now, fresh)


@compiled_inline
def score_rows_second(rows: Ints, now: int, jobs: Ints, scorer: Scorer, fresh: Floats) -> None:
    """Score these rows by the second order."""
    score(scorer.second_entry, scorer.second_parameters, jobs, scorer.usage, rows, now, fresh)


@compiled_lean
def score_queue(now: int, queue: Queue, scorer: Scorer, waiting: Ints, fresh: Floats) -> int:
    """Write all queued rows into `waiting` and their scores into `fresh`; return how many."""
    count = rows_in_order(queue.order, waiting)
    if count > 1:  # a single job needs no score
        score_rows(waiting[:count], now, queue.jobs, scorer, fresh)
    return count


@compiled_lean
def copy_rows(rows: Ints, out: Ints) -> int:
    """Write these rows to the beginning of `out` (assigning a slice would count references); return how many."""
    for index in range(len(rows)):
        out[index] = rows[index]
    return len(rows)


@compiled_inline
def goes_before(row: int, other: int, key: Floats, jobs: Ints) -> bool:
    """Return whether a row goes before another: the smaller score, of equal scores the earlier submission."""
    found: bool = key[row] < key[other] or (key[row] == key[other] and jobs[SEQ, row] < jobs[SEQ, other])
    return found


@compiled_lean
def sink(rows: Ints, place: int, count: int, key: Floats, jobs: Ints) -> None:
    """Move one row of a heap, with the first to go on top, down to its place."""
    row, child = rows[place], 2 * place + 1
    while child < count:
        if child + 1 < count and goes_before(rows[child + 1], rows[child], key, jobs):
            child += 1
        if not goes_before(rows[child], row, key, jobs):
            break
        rows[place] = rows[child]
        place, child = child, 2 * child + 1
    rows[place] = row


@compiled_lean
def make_heap(rows: Ints, key: Floats, jobs: Ints) -> None:
    for place in range(len(rows) // 2 - 1, -1, -1):
        sink(rows, place, len(rows), key, jobs)


@compiled_lean
def sort_rows(rows: Ints, key: Floats, jobs: Ints) -> None:
    """Sort rows by their scores, in place."""
    make_heap(rows, key, jobs)
    for end in range(len(rows) - 1, 0, -1):
        rows[0], rows[end] = rows[end], rows[0]
        sink(rows, 0, end, key, jobs)
    for index in range(len(rows) // 2):  # the last to go is first now
        other = len(rows) - 1 - index
        rows[index], rows[other] = rows[other], rows[index]
