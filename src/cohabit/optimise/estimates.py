"""The effect of exchanging one job, estimated from tables of a node at rest. Compiled.

At the load and price of a node's best division, `spare[seat, c]` is the most that the other jobs are worth together
with c buckets. A newcomer in that seat then adds the best of its own curve and what is left: some sixty steps instead
of a whole division. The price makes the estimate right to first order in the change of load. Estimates only decide
what is not worth a closer look; every value that is kept comes from `division`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cohabit.compiled import compiled_lean
from cohabit.optimise.division import HARMONIC, curve_of
from cohabit.optimise.law import latency


class Planes(NamedTuple):
    """Room for the tables of one node: (seats + 2) x (buckets + 1) numbers each."""

    rows: Any  # the curve of every job
    left: Any  # the most that the first i jobs are worth
    right: Any  # the same of all jobs from number i up


def make_planes(room: int, buckets: int) -> Planes:
    """Room for nodes of so many seats."""
    shape = (room + 2, buckets + 1)
    return Planes(np.zeros(shape), np.zeros(shape), np.zeros(shape))


@compiled_lean
def join(left, fewest_left, right, fewest_right, most, now):
    """now[c] = the most of two groups together with c buckets, for the `most` smallest c that both can live with."""
    fewest = fewest_left + fewest_right
    last = min(fewest + most, now.shape[0]) - 1
    now[:] = -np.inf
    for s in range(fewest_right, last - fewest_left + 1):
        worth = right[s]
        for c in range(fewest_left + s, last + 1):
            found = left[c - s] + worth
            now[c] = found if found > now[c] else now[c]


@compiled_lean
def fill_spare(kinds, count, tables, objective, load, price, planes, spare):
    """spare[i] for every job i of a node, and spare[count]: what all of them are worth with fewer buckets."""
    rows, left, right = planes
    buckets = tables.mpki.shape[1] - 1
    most = min(buckets - count + 2, buckets)  # sizes that one of them can have when another has left
    left[0, :] = -np.inf
    left[0, 0] = 0.0
    right[count, :] = -np.inf
    right[count, 0] = 0.0
    for i in range(count):
        rows[i, :] = -np.inf
        curve_of(kinds[i], tables, objective, load, price, 0.0, most, rows[i])
    for i in range(count):
        join(left[i], i, rows[i], 1, most, left[i + 1])
    for i in range(count - 1, 0, -1):
        join(right[i + 1], count - 1 - i, rows[i], 1, most, right[i])
    for i in range(count):
        join(left[i], i, right[i + 1], count - 1 - i, most, spare[i])
    for c in range(buckets + 1):
        spare[count, c] = left[count, c]


@compiled_lean
def with_newcomer(spare, others, kind, tables, objective, load, price, row):
    """The most that `others` jobs and a newcomer are worth; spare is what the others are worth by themselves."""
    top = tables.mpki.shape[1] - 1 - others
    curve_of(kind, tables, objective, load, price, 0.0, top, row)
    return best_with(spare, row, top)


@compiled_lean
def at_most(spare, others, kind, tables, objective, load, price):
    """No less than `with_newcomer`, from a few sizes: between two the value of the larger, the cost of the smaller."""
    buckets = tables.mpki.shape[1] - 1
    top = buckets - others
    own = tables.alone[kind]
    each = tables.cost[kind] * own * latency(load)
    best = -np.inf
    small = 1
    while True:
        large = min(2 * small, top)
        misses = tables.mpki[kind, large]
        slowdown = tables.cpi0[kind] * own + each * misses
        value = -slowdown if objective == HARMONIC else 1.0 / slowdown
        found = spare[buckets - small] + value - price * own * misses / slowdown
        best = found if found > best else best
        if large == top:
            return best
        small = large


@compiled_lean
def best_with(spare, row, top):
    """The same for a newcomer whose curve is known."""
    buckets = spare.shape[0] - 1
    best = -np.inf
    other = -np.inf  # two maxima side by side: the processor need not wait for the one before
    for s in range(1, top, 2):
        found = spare[buckets - s] + row[s]
        best = found if found > best else best
        found = spare[buckets - s - 1] + row[s + 1]
        other = found if found > other else other
    if top % 2 == 1:
        found = spare[buckets - top] + row[top]
        best = found if found > best else best
    return best if best > other else other
