"""What exchanging one job would change, estimated from tables of a node at rest. Compiled.

At the load and price of a node's best division, `spare[seat, c]` is the most that the other jobs are worth together
with c buckets. A newcomer in that seat then adds the best of its own curve and what is left: some sixty steps instead
of a whole division. The price makes the estimate right to first order in the change of load. Estimates only decide
what is not worth a closer look; every value that is kept comes from `division`.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_lean
from cohabit.optimise.division import HARMONIC, MISSED, SLACK
from cohabit.optimise.law import latency


@compiled_lean
def curve_of(kind, tables, objective, load, price, top, row):
    """Value of one kind against size at this load and price, sizes 1 to top."""
    own = tables.alone[kind]
    fixed = tables.cpi0[kind] * own
    each = tables.cost[kind] * own * latency(load)
    charged = price * own
    curve = tables.mpki[kind]
    if objective == HARMONIC:
        for s in range(1, top + 1):
            slowdown = fixed + each * curve[s]
            row[s] = -slowdown - charged * curve[s] / slowdown
    else:
        for s in range(1, top + 1):
            row[s] = (1.0 - charged * curve[s]) / (fixed + each * curve[s])
    bound = tables.bound[kind]
    if bound > 0.0:
        for s in range(1, top + 1):
            speed = 1.0 / (fixed + each * curve[s])
            if speed < bound - SLACK:
                row[s] -= MISSED * (bound - speed)


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
def fill_spare(kinds, count, tables, objective, load, price, rows, left, right, spare):
    """spare[i] for every job i of a node, and spare[count]: what all of them are worth with fewer buckets."""
    buckets = tables.mpki.shape[1] - 1
    most = min(buckets - count + 2, buckets)  # sizes that one of them can have when another has left
    left[0, :] = -np.inf
    left[0, 0] = 0.0
    right[count, :] = -np.inf
    right[count, 0] = 0.0
    for i in range(count):
        rows[i, :] = -np.inf
        curve_of(kinds[i], tables, objective, load, price, most, rows[i])
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
    buckets = tables.mpki.shape[1] - 1
    top = buckets - others
    curve_of(kind, tables, objective, load, price, top, row)
    best = -np.inf
    for s in range(1, top + 1):
        found = spare[buckets - s] + row[s]
        best = found if found > best else best
    return best
