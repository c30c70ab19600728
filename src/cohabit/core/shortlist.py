"""Who could be first: the queue in order of how low scores can go, for orders of which that is known.

policy/bounds.py gives such bounds; an order whose scores only fall while jobs wait (`FALLING`, see policy/registry.py)
is bounded by its scores at the end of a window of time. So everybody is bounded once per window, and the queue ladder is
kept in order of the bounds (keys[BOUND]). A pass scores from its beginning in a few steps until the best found is below
all bounds that follow; then it is the first of the queue. How long windows are is found by trying: long ones bound the
queue seldom, but so loosely that more must be scored. Where bounds cost more than they save, sim/fast.py goes on
without. It never guesses; core/few_scores.py has the passes that use it.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_lean
from cohabit.core import ladder, scoring
from cohabit.core.columns import ARRIVAL, ENDS, QUEUED, SCORE, STATE
from cohabit.core.kernels import FOREVER
from cohabit.core.ladder import ORDER, ROWS, RUNGS, SIZE
from cohabit.core.overrunning import SECOND

# marks[...] (int64): the instant the bounds are good until, the length of a window, whether the queue is so short that
# nobody is bounded
UNTIL, WINDOW, UNBOUNDED = 0, 1, 2
# how many have been looked at in this pass, from the beginning of the ladder; where that goes on; its number
LOOKED_AT, PLACE, POSITION, PASS = 3, 4, 5, 6
# what these bounds have cost: rows bounded, rows scored and passes since
BOUNDED_ROWS, SCORED_ROWS, PASSES = 7, 8, 9
# how much bounds have cost of late beyond what they saved, whether that is too much; whether calls are cheap
SPENT, GIVEN_UP, CHEAP_CALLS = 10, 11, 12
MARKS = 13
# bounds[...] (float64): the bounds hold as long as a unit of usage is worth so much and usage is reckoned to this
# instant; what a pass cost in the last window; by how much windows grow from one to the next
WORTH, RECKONED, COST, GROWTH = 0, 1, 2, 3
BOUNDS = 4
LOOKED = 0  # row of `listed`: who has been looked at in this pass
# keys[BOUND] is what a score does not undercut while the bounds are good; keys[SCORE] is the score in the pass of which
# keys[KNOWN] has the number, a column that no ladder needs while a job waits
BOUND, KNOWN = ARRIVAL, ENDS
SHARE_LEFT = 0.98  # a share of usage may shrink to this part within a window
LONGEST_WINDOW = 2**50
FEW, MANY = 16, 64  # so short a queue is not bounded until it is as long as that
STEP = 16  # so many are scored first
A_BOUND = 3  # bounding a row costs as much as scoring so many
A_WINDOW, TOO_MUCH = 6, 400  # bounds cost as much as they save in so many passes; what may be lost before they are given up


@compiled_lean
def initialise(marks, bounds, cheap_calls):
    """An empty queue."""
    marks[UNBOUNDED], marks[UNTIL], marks[WINDOW], marks[CHEAP_CALLS] = 1, FOREVER, 600 * SECOND, cheap_calls
    bounds[COST], bounds[GROWTH] = np.inf, 2.0


@compiled_lean
def before(score, row, other_score, other):
    """The smaller score goes first; rows are numbered in order of submission here."""
    return score < other_score or (score == other_score and row < other)


@compiled_lean
def _bound(
    count, now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, least, waiting, fresh, marks
):  # fmt: skip
    """Write into `fresh` what the scores of so many in `waiting` do not undercut in this window."""
    if bounded:
        bound_parameters[-1] = marks[UNTIL]
        scoring.score(bound_entry, bound_parameters, jobs, usage, waiting[:count], now, fresh)
        return
    for user in range(usage.shape[1]):
        usage[1, user], least[user] = least[user], usage[1, user]
    scoring.score(entry, parameters, jobs, usage, waiting[:count], marks[UNTIL], fresh)
    for user in range(usage.shape[1]):
        usage[1, user], least[user] = least[user], usage[1, user]


@compiled_lean
def bound_arrival(
    row, now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, waiting, fresh, marks
):  # fmt: skip
    """A job is about to come into the queue."""
    keys[BOUND, row], keys[KNOWN, row] = -np.inf, 0
    if not marks[UNBOUNDED] and now <= marks[UNTIL]:
        waiting[0] = row
        _bound(
            1, now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, least, waiting, fresh, marks
        )  # fmt: skip
        keys[BOUND, row] = fresh[0]


@compiled_lean
def _sort(count, waiting, scores):
    """So many into order, over ever shorter distances (Shell): mostly they nearly are."""
    gap = 1
    while 9 * gap < 4 * count:
        gap = 9 * gap // 4 + 1
    while gap > 0:
        for index in range(gap, count):
            row, score, place = waiting[index], scores[index], index
            while place >= gap and before(score, row, scores[place - gap], waiting[place - gap]):
                waiting[place], scores[place] = waiting[place - gap], scores[place - gap]
                place -= gap
            waiting[place], scores[place] = row, score
        gap = max(4 * gap // 9, 1) if gap > 1 else 0


@compiled_lean
def _set_window(marks, bounds):
    """Longer or shorter windows, as long as each makes passes cheaper than the last."""
    if marks[UNBOUNDED] or marks[PASSES] == 0:
        return
    cost = (A_BOUND * marks[BOUNDED_ROWS] + marks[SCORED_ROWS]) / marks[PASSES]
    if cost > bounds[COST]:
        bounds[GROWTH] = 1.0 / bounds[GROWTH]
    bounds[COST] = cost
    marks[WINDOW] = min(max(int(marks[WINDOW] * bounds[GROWTH]), 1), LONGEST_WINDOW)


@compiled_lean
def _bound_queue(
    now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items, q_info, q_meta,
    waiting, fresh, marks, bounds,
):  # fmt: skip
    """Begin a window: put the queue into the order of new bounds; in a short queue nobody is bounded."""
    _set_window(marks, bounds)
    count = ladder.rows_in_order(q_items, q_info, q_meta, waiting)
    marks[PASSES], marks[SCORED_ROWS], marks[BOUNDED_ROWS] = 0, 0, count
    marks[UNBOUNDED], marks[UNTIL] = count <= FEW, FOREVER
    if marks[UNBOUNDED]:
        for index in range(count):
            fresh[index] = -np.inf
    else:
        marks[UNTIL], marks[SPENT] = now + marks[WINDOW], marks[SPENT] + A_WINDOW
        bounds[WORTH], bounds[RECKONED] = usage[1, -1] * SHARE_LEFT, usage[0, -1]
        for user in range(usage.shape[1]):
            least[user] = usage[1, user] * SHARE_LEFT * (1.0 - 2.0**-40)  # less than any rounding of a share
        _bound(
            count, now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, least, waiting, fresh,
            marks,
        )  # fmt: skip
    _sort(count, waiting, fresh)
    for index in range(count):
        keys[BOUND, waiting[index]] = fresh[index]
    ladder.rebuild(q_items, q_info, q_meta, jobs, waiting[:count])


@compiled_lean
def _out_of_date(now, bounded, usage, q_meta, marks, bounds):
    if now > marks[UNTIL]:
        return True
    if marks[UNBOUNDED]:
        return q_meta[ROWS] > MANY
    if q_meta[ROWS] <= FEW or marks[SCORED_ROWS] > 8 * A_BOUND * marks[BOUNDED_ROWS]:
        return True
    return not bounded and (usage[1, -1] < bounds[WORTH] or usage[0, -1] != bounds[RECKONED])


@compiled_lean
def begin_pass(
    now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items, q_info, q_meta,
    waiting, fresh, marks, bounds,
):  # fmt: skip
    """New bounds where they are out of date; nobody has been looked at."""
    if _out_of_date(now, bounded, usage, q_meta, marks, bounds):
        _bound_queue(
            now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items, q_info,
            q_meta, waiting, fresh, marks, bounds,
        )  # fmt: skip
    marks[LOOKED_AT], marks[PLACE], marks[POSITION] = 0, 0, 0
    marks[PASS] += 1


@compiled_lean
def _look_at_more(now, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, marks):
    """Score the next few of the ladder."""
    looked_at, place, position = marks[LOOKED_AT], marks[PLACE], marks[POSITION]
    wanted, count = q_meta[ROWS] if marks[UNBOUNDED] else looked_at + STEP, 0
    while count < wanted and place < q_meta[RUNGS]:
        rung = q_info[ORDER, place]
        end = min(q_info[SIZE, rung], position + wanted - count)
        for index in range(position, end):
            row = q_items[rung, index]
            waiting[count], listed[LOOKED, looked_at + count] = row, row
            count += 1
        position = end
        if end == q_info[SIZE, rung]:
            place, position = place + 1, 0
    if q_meta[ROWS] > 1:
        scoring.score(entry, parameters, jobs, usage, waiting[:count], now, fresh)
        for index in range(count):
            keys[SCORE, waiting[index]], keys[KNOWN, waiting[index]] = fresh[index], marks[PASS]
    marks[LOOKED_AT], marks[PLACE], marks[POSITION] = looked_at + count, place, position
    marks[SCORED_ROWS] += count


@compiled_lean
def best_looked_at(first, best, jobs, keys, listed, marks):
    """Who is first of those looked at, from the `first` of them on, and of the best found before, if any."""
    for index in range(first, marks[LOOKED_AT]):
        row = listed[LOOKED, index]
        if jobs[STATE, row] == QUEUED and (best < 0 or before(keys[SCORE, row], row, keys[SCORE, best], best)):
            best = row
    return best


@compiled_lean
def first_of_queue(
    now, best, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, marks
):  # fmt: skip
    """Who is first; `best` is who is first of those looked at, -1 for none. Those who started are on the ladder."""
    while marks[PLACE] < q_meta[RUNGS]:
        following = q_items[q_info[ORDER, marks[PLACE]], marks[POSITION]]
        if best >= 0 and before(keys[SCORE, best], best, keys[BOUND, following], following):
            break
        first = marks[LOOKED_AT]
        _look_at_more(
            now, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, marks
        )  # fmt: skip
        best = best_looked_at(first, best, jobs, keys, listed, marks)
    return best


@compiled_lean
def end_pass(scored, q_meta, marks):
    """Count what it cost; `scored` more than those looked at have been scored."""
    marks[PASSES] += 1
    marks[SCORED_ROWS] += scored
    if q_meta[ROWS] > MANY and 2 * (marks[LOOKED_AT] + scored) > q_meta[ROWS]:
        marks[SPENT] += 1
    else:
        marks[SPENT] = max(marks[SPENT] - 1, 0)
    marks[GIVEN_UP] = marks[SPENT] > TOO_MUCH
