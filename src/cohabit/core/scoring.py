"""How a compiled pass asks an order for scores, and who of two jobs goes first.

An order is called by its address. One that numba cannot compile is reached through a callback into Python that works on
the buffers of the pass. It never decides who starts.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import ScoreEntry, compiled_inline, compiled_lean, no_scores, python_entry
from cohabit.core.columns import SEQ, Columns
from cohabit.core.ladder import rows_in_order
from cohabit.core.protocols import Order


@compiled_inline
def score(entry, parameters, jobs, usage, rows, now, fresh):
    """Call an order for these rows; the scores go into `fresh`."""
    entry(
        jobs.ctypes, jobs.shape[1], usage.ctypes, usage.shape[1] - 1, rows.ctypes, len(rows), now, parameters.ctypes,
        fresh.ctypes,
    )  # fmt: skip
    for index in range(len(rows)):  # always stored: several at once
        fresh[index] = np.inf if np.isnan(fresh[index]) else fresh[index]


@compiled_lean
def score_queue(entry, parameters, jobs, usage, q_items, q_info, q_meta, now, waiting, fresh):
    """Write all queued rows into `waiting` and their scores into `fresh`; how many? One alone needs no score."""
    count = rows_in_order(q_items, q_info, q_meta, waiting)
    if count > 1:
        score(entry, parameters, jobs, usage, waiting[:count], now, fresh)
    return count


@compiled_lean
def copy_rows(rows, out):
    """Write these rows to the beginning of `out` (assigning a slice would count references); how many?"""
    for index in range(len(rows)):
        out[index] = rows[index]
    return len(rows)


@compiled_inline
def goes_before(row, other, key, jobs):
    """The smaller score goes first, ties go to the earlier submission."""
    return key[row] < key[other] or (key[row] == key[other] and jobs[SEQ, row] < jobs[SEQ, other])


@compiled_lean
def sink(rows, place, count, key, jobs):
    """Put one of a heap, the first to go on top, where it belongs among those below it."""
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
def make_heap(rows, key, jobs):
    for place in range(len(rows) // 2 - 1, -1, -1):
        sink(rows, place, len(rows), key, jobs)


@compiled_lean
def sort_rows(rows, key, jobs):
    """Into the order of their scores, without memory of its own."""
    make_heap(rows, key, jobs)
    for end in range(len(rows) - 1, 0, -1):
        rows[0], rows[end] = rows[end], rows[0]
        sink(rows, 0, end, key, jobs)
    for index in range(len(rows) // 2):  # the last to go stands first now
        other = len(rows) - 1 - index
        rows[index], rows[other] = rows[other], rows[index]


def entry_of(
    order: Order | None,
    changing: bool,
    columns: Columns,
    waiting: NDArray[np.int64],
    fresh: NDArray[np.float64],
    failures: list[Exception],
    remember: bool = False,
) -> tuple[ScoreEntry, NDArray[np.float64]]:
    """The order as a pass calls it: machine code where it could be compiled, else a way back into Python.

    remember: all passes are over this one job table, whose rows come one after the other, so that it may keep what does
    not change (compiled.py).
    """
    if order is None or not changing:
        return no_scores(), np.zeros(1)
    if order.entry is not None:
        return order.entry, order.entry.numbers(order.parameters, len(columns.nodes) if remember else 0, rising=True)

    def score_in_python(count: int, now: int) -> None:
        try:
            fresh[:count] = order.raw_scores(columns, waiting[:count], now)
        except Exception as error:  # it must cross machine code: keep it, raise it on the other side
            failures.append(error)
            fresh[:count] = 0.0

    return python_entry(score_in_python), np.zeros(1)
