"""Who is first, for orders whose scores swing so that no short list lasts, but never leave bounds of their own.

The sine of a wait times nodes is nowhere for long, but never below minus the nodes. So the queue is kept in order of
what scores do not undercut from now on for good, and is scored from the beginning in small steps until the best found
is below all that is left. core/shortlist.py turns to this list when its own does not pay; where this one does not
either, sim/fast.py goes on without. It never guesses.
"""

from __future__ import annotations

from cohabit.compiled import compiled_lean
from cohabit.core import kernels, ladder, scoring
from cohabit.core.columns import BACKFILL_SCORE, ENDS, FREE, NODES, QUEUED, SCORE, STATE
from cohabit.core.ladder import ROWS

# marks[...] (int64; core/shortlist.py has the others): rows on the list, the instant it is good until, how much lists
# have cost of late, how many rows of the list are in order, and how many have been scored in this pass
LISTED, UNTIL, SPENT, SORTED, LOOKED_AT = 0, 1, 6, 8, 9
LIST = 0  # row of `listed`: who is on the list
# Columns of `keys` that no ladder needs while a job waits: SCORE is its score in this pass where that is KNOWN, else
# its BOUND, which it does not undercut as long as the list is good.
KNOWN, BOUND = ENDS, BACKFILL_SCORE
FOR_GOOD = 2**50  # microseconds: 35 years
STEP = 16  # so many are scored at once


@compiled_lean
def begin(now, q_items, q_info, q_meta, listed, marks):
    """The whole queue onto the list; it is sorted in the next pass."""
    marks[LISTED] = ladder.rows_in_order(q_items, q_info, q_meta, listed[LIST])
    marks[SORTED], marks[LOOKED_AT], marks[SPENT], marks[UNTIL] = 0, 0, 0, now + FOR_GOOD


@compiled_lean
def before(score, row, other_score, other):
    """The smaller score goes first; rows are numbered in order of submission here."""
    return score < other_score or (score == other_score and row < other)


@compiled_lean
def _put_in(row, bound, keys, rows, count):
    """To where it belongs among so many who are in order."""
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if before(bound, row, keys[BOUND, rows[middle]], rows[middle]):
            high = middle
        else:
            low = middle + 1
    for place in range(count, low, -1):
        rows[place] = rows[place - 1]
    rows[low] = row


@compiled_lean
def _sort_in(now, bound_entry, bound_parameters, jobs, keys, usage, waiting, fresh, listed, marks):
    """Those who came since the last pass."""
    known, rows = marks[SORTED], listed[LIST]
    count = marks[LISTED] - known
    for index in range(count):
        waiting[index] = rows[known + index]
    bound_parameters[-1] = marks[UNTIL]
    scoring.score(bound_entry, bound_parameters, jobs, usage, waiting[:count], now, fresh)
    for index in range(count):
        row = waiting[index]
        keys[SCORE, row], keys[BOUND, row], keys[KNOWN, row] = fresh[index], fresh[index], 0
        _put_in(row, fresh[index], keys, rows, known + index)
    marks[SORTED] = marks[LISTED]


@compiled_lean
def _look_at_more(now, two_orders, entry, parameters, jobs, keys, usage, waiting, fresh, listed, marks):
    """Score the next few of the list."""
    first = marks[LOOKED_AT]
    marks[LOOKED_AT] = min(first + STEP, marks[LISTED])
    count = marks[LOOKED_AT] - first
    for index in range(count):
        waiting[index] = listed[LIST, first + index]
    scoring.score(entry, parameters, jobs, usage, waiting[:count], now, fresh)
    for index in range(count):
        keys[SCORE, waiting[index]], keys[KNOWN, waiting[index]] = fresh[index], not two_orders


@compiled_lean
def _best(first, best, jobs, keys, listed, marks):
    """Who is first of those looked at, from this place on the list on, and of the best found before, if any."""
    for index in range(first, marks[LOOKED_AT]):
        row = listed[LIST, index]
        if jobs[STATE, row] == QUEUED and (best < 0 or before(keys[SCORE, row], row, keys[SCORE, best], best)):
            best = row
    return best


@compiled_lean
def start_heads(
    now, two_orders, entry, parameters, bound_entry, bound_parameters, usage, waiting, fresh, listed, marks, jobs, keys,
    q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Start whoever is first and fits, again and again; returns the first who does not fit, or -1."""
    if now > marks[UNTIL]:
        begin(now, q_items, q_info, q_meta, listed, marks)
    if marks[SORTED] < marks[LISTED]:
        _sort_in(now, bound_entry, bound_parameters, jobs, keys, usage, waiting, fresh, listed, marks)
    best = -1
    while q_meta[ROWS] > 0:
        while marks[LOOKED_AT] < marks[LISTED]:
            first = marks[LOOKED_AT]
            following = listed[LIST, first]
            if best >= 0 and before(keys[SCORE, best], best, keys[BOUND, following], following):
                break
            _look_at_more(now, two_orders, entry, parameters, jobs, keys, usage, waiting, fresh, listed, marks)
            best = _best(first, best, jobs, keys, listed, marks)
        if jobs[NODES, best] > gauges[FREE]:
            break
        kernels.dequeue(best, True, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
        kernels.begin(best, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
        best = _best(0, -1, jobs, keys, listed, marks)
    if marks[LISTED] > 4 * STEP:
        marks[SPENT] = marks[SPENT] + 1 if 2 * marks[LOOKED_AT] > marks[LISTED] else max(marks[SPENT] - 1, 0)
    return best


@compiled_lean
def forget_scores(jobs, keys, listed, marks):
    """The next pass knows nobody's score; called while those who started are still on the list."""
    for index in range(marks[LOOKED_AT]):
        row = listed[LIST, index]
        if jobs[STATE, row] == QUEUED:
            keys[SCORE, row], keys[KNOWN, row] = keys[BOUND, row], 0
    marks[LOOKED_AT] = 0
