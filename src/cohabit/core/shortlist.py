"""Who could be first: the queue in order of how low scores can go, for orders of which that is known.

policy/bounds.py gives such bounds; an order whose scores only fall while jobs wait (`FALLING`, see policy/registry.py)
is bounded by its scores at the end of a window of time. So everybody is bounded once per window, and the queue ladder
is kept in order of the bounds (keys[BOUND]). A pass scores from its beginning in a few steps until the best found is
below all bounds that follow; then it is the first of the queue. Long windows bound the queue seldom, but so loosely
that more must be scored: they are made as long as the two cost the same. In a long queue there are two kinds: within a
long window for everybody, those who could come near the first are bounded again in short ones; their bounds are all
below a fence, beyond which everybody else stands. Where bounds cost more than they save, sim/fast.py goes on
without. It never guesses; core/few_scores.py has the passes that use it.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core import ladder, scoring
from cohabit.core.columns import ARRIVAL
from cohabit.core.kernels import FOREVER
from cohabit.core.ladder import ORDER, ROWS, RUNGS, SIZE
from cohabit.core.overrunning import SECOND
from cohabit.core.sorting import before, sort

# marks[...] (int64): the instant the bounds are good until, the length of a window, whether the queue is so short that
# nobody is bounded
UNTIL, WINDOW, UNBOUNDED = 0, 1, 2
# how many have been looked at in this pass, from the beginning of the ladder, and where that goes on
LOOKED_AT, PLACE, POSITION = 3, 4, 5
# what these bounds have cost: rows bounded, rows scored and passes since
BOUNDED_ROWS, SCORED_ROWS, PASSES = 6, 7, 8
# how much bounds have cost of late beyond what they saved, whether that is too much; whether calls are cheap
SPENT, GIVEN_UP, CHEAP_CALLS = 9, 10, 11
# of those near the first: until when their bounds are good, the length of a window; how many were bounded since all
# were, and how many times
NEAR_UNTIL, NEAR_WINDOW, NEAR_ROWS, NEAR_TIMES = 12, 13, 14, 15
ALL_ROWS, NEAR = 16, 17  # how many were bounded when all were; so many are near the first, or more
MARKS = 18
# bounds[...] (float64): the bounds hold as long as a unit of usage is worth so much, and is reckoned to this instant
WORTH, RECKONED = 0, 1
FENCE, FIRST_SCORE = 2, 3  # whoever is near has a bound below that; the score of who was first in the last pass
BOUNDS = 4
LOOKED = 0  # row of `listed`: who has been looked at in this pass; of `scores`: with what result
SPARE = 1  # row of `listed`: free until somebody is looked at
BOUND = ARRIVAL  # keys[BOUND] is what a score does not undercut while the bounds are good
SHARE_LEFT = 0.98  # a share of usage may shrink to this part within a window
LONGEST_WINDOW = 2**50
FEW, MANY = 16, 64  # so short a queue is not bounded until it is as long as that
STEP = 8  # so many are scored first
AT_LEAST = 12  # so many are scored in a pass with the best of bounds
A_BOUND = 4  # bounding a row costs as much as scoring so many
LONGER, SHORTER = 1.25, 0.8  # windows, from one to the next
A_WINDOW, TOO_MUCH = (
    6,
    400,
)  # bounds cost as much as they save in so many passes; what may be lost before they are given up


@compiled_lean
def initialise(marks, cheap_calls):
    """An empty queue."""
    marks[UNBOUNDED], marks[UNTIL], marks[WINDOW], marks[CHEAP_CALLS] = 1, FOREVER, 600 * SECOND, cheap_calls
    marks[NEAR_UNTIL], marks[NEAR_WINDOW], marks[NEAR] = FOREVER, 600 * SECOND, 512


@compiled_lean
def _bound(
    count, now, until, entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, least, waiting, fresh
):  # fmt: skip
    """Write into `fresh` what the scores of so many in `waiting` do not undercut until then."""
    if bounded:
        bound_parameters[-1] = until
        scoring.score(bound_entry, bound_parameters, jobs, usage, waiting[:count], now, fresh)
        return
    for user in range(usage.shape[1]):
        usage[1, user], least[user] = least[user], usage[1, user]
    scoring.score(entry, parameters, jobs, usage, waiting[:count], until, fresh)
    for user in range(usage.shape[1]):
        usage[1, user], least[user] = least[user], usage[1, user]


@compiled_lean
def bound_arrival(
    row, now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, waiting, fresh,
    marks, bounds,
):  # fmt: skip
    """A job is about to come into the queue."""
    keys[BOUND, row] = -np.inf
    if not marks[UNBOUNDED] and now <= marks[NEAR_UNTIL]:
        waiting[0] = row
        _bound(
            1, now, marks[UNTIL], entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, least,
            waiting, fresh,
        )  # fmt: skip
        keys[BOUND, row] = fresh[0]
        if fresh[0] < bounds[FENCE]:
            _bound(
                1, now, marks[NEAR_UNTIL], entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage,
                least, waiting, fresh,
            )  # fmt: skip
            keys[BOUND, row] = min(fresh[0], np.nextafter(bounds[FENCE], -np.inf))


@compiled_lean
def _longer_or_shorter(window, growth):
    return min(max(int(window * growth), 1), LONGEST_WINDOW)


@compiled_lean
def _set_near_window(marks):
    """Longer windows where bounding those near cost more than the scores that looser bounds asked for, else shorter."""
    if marks[UNBOUNDED] or marks[PASSES] == 0:
        return
    asked_for = marks[SCORED_ROWS] - AT_LEAST * marks[PASSES]
    growth = LONGER if A_BOUND * marks[BOUNDED_ROWS] > asked_for else SHORTER
    if marks[PASSES] < 4:  # nearly every pass bounds them
        growth = 2.0
    marks[NEAR_WINDOW] = _longer_or_shorter(marks[NEAR_WINDOW], growth)


@compiled_lean
def _set_window(marks):
    """Longer windows for all where bounding all cost more than that so many were near, else shorter."""
    if marks[NEAR_TIMES] == 0:  # they were the same
        marks[WINDOW] = marks[NEAR_WINDOW]
        return
    growth = LONGER if marks[ALL_ROWS] > marks[NEAR_ROWS] - marks[NEAR] * marks[NEAR_TIMES] else SHORTER
    if marks[NEAR_TIMES] < 4:
        growth = 2.0
    marks[WINDOW] = _longer_or_shorter(marks[WINDOW], growth)


@compiled_lean
def _bound_queue(
    now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items, q_info, q_meta,
    waiting, fresh, listed, scores, marks, bounds,
):  # fmt: skip
    """Begin a window: put the queue into the order of new bounds; in a short queue nobody is bounded."""
    _set_near_window(marks)
    _set_window(marks)
    count = ladder.rows_in_order(q_items, q_info, q_meta, waiting)
    marks[PASSES], marks[SCORED_ROWS], marks[BOUNDED_ROWS] = 0, 0, count
    marks[ALL_ROWS], marks[NEAR_ROWS], marks[NEAR_TIMES] = count, 0, 0
    marks[UNBOUNDED], marks[UNTIL] = count <= FEW, FOREVER
    marks[NEAR_UNTIL], bounds[FENCE] = FOREVER, -np.inf
    if marks[UNBOUNDED]:
        for index in range(count):
            fresh[index] = -np.inf
    else:
        marks[UNTIL] = marks[NEAR_UNTIL] = now + marks[NEAR_WINDOW]
        if count > 4 * marks[NEAR]:
            marks[UNTIL], marks[NEAR_UNTIL] = now + marks[WINDOW], now - 1
        marks[SPENT] += A_WINDOW
        bounds[WORTH], bounds[RECKONED] = usage[1, -1] * SHARE_LEFT, usage[0, -1]
        for user in range(usage.shape[1]):
            least[user] = usage[1, user] * SHARE_LEFT * (1.0 - 2.0**-40)  # less than any rounding of a share
        _bound(
            count, now, marks[UNTIL], entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, least,
            waiting, fresh,
        )  # fmt: skip
    sort(count, waiting, fresh, listed[LOOKED], scores[LOOKED], listed[SPARE])
    for index in range(count):
        keys[BOUND, waiting[index]] = fresh[index]
    ladder.rebuild(q_items, q_info, q_meta, jobs, keys[BOUND], waiting[:count])


@compiled_lean
def _bound_near(
    now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items, q_info, q_meta,
    waiting, fresh, listed, scores, marks, bounds,
):  # fmt: skip
    """Begin a window of those near the first: all who were, and whoever could come before who was first of late."""
    if marks[NEAR_TIMES] > 0:
        _set_near_window(marks)
    count, rungs, last = 0, 0, -np.inf
    while rungs < q_meta[RUNGS] and (
        count < marks[NEAR] or last < bounds[FENCE] or last <= bounds[FIRST_SCORE] or last == -np.inf
    ):
        rung = q_info[ORDER, rungs]
        count += scoring.copy_rows(q_items[rung, : q_info[SIZE, rung]], waiting[count:])
        last, rungs = keys[BOUND, waiting[count - 1]], rungs + 1
    if 2 * count > q_meta[ROWS]:
        marks[SPENT] += A_WINDOW
    fence = np.inf if rungs == q_meta[RUNGS] else keys[BOUND, q_items[q_info[ORDER, rungs], 0]]
    marks[NEAR_UNTIL] = min(now + marks[NEAR_WINDOW], marks[UNTIL])
    marks[PASSES], marks[SCORED_ROWS], marks[BOUNDED_ROWS] = 0, 0, count
    marks[NEAR_ROWS], marks[NEAR_TIMES], bounds[FENCE] = marks[NEAR_ROWS] + count, marks[NEAR_TIMES] + 1, fence
    _bound(
        count, now, marks[NEAR_UNTIL], entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, least,
        waiting, fresh,
    )  # fmt: skip
    highest = np.nextafter(fence, -np.inf)
    for index in range(count):
        fresh[index] = min(fresh[index], highest)
    sort(count, waiting, fresh, listed[LOOKED], scores[LOOKED], listed[SPARE])
    for index in range(count):
        keys[BOUND, waiting[index]] = fresh[index]
    ladder.put_back(q_items, q_info, jobs, keys[BOUND], waiting[:count], rungs)


@compiled_inline
def _out_of_date(now, bounded, usage, q_meta, marks, bounds):
    if now > marks[UNTIL]:
        return True
    if marks[UNBOUNDED]:
        return q_meta[ROWS] > MANY
    if q_meta[ROWS] <= FEW:
        return True
    if marks[SCORED_ROWS] > 8 * A_BOUND * marks[BOUNDED_ROWS]:
        if marks[NEAR_TIMES] == 0:
            return True
        marks[NEAR_UNTIL] = min(marks[NEAR_UNTIL], now - 1)
    return not bounded and (usage[1, -1] < bounds[WORTH] or usage[0, -1] != bounds[RECKONED])


@compiled_inline
def begin_pass(
    now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items, q_info, q_meta,
    waiting, fresh, listed, scores, marks, bounds,
):  # fmt: skip
    """New bounds where they are out of date; nobody has been looked at."""
    if _out_of_date(now, bounded, usage, q_meta, marks, bounds):
        _bound_queue(
            now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items, q_info,
            q_meta, waiting, fresh, listed, scores, marks, bounds,
        )  # fmt: skip
    if now > marks[NEAR_UNTIL]:
        _bound_near(
            now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items, q_info,
            q_meta, waiting, fresh, listed, scores, marks, bounds,
        )  # fmt: skip
    marks[LOOKED_AT], marks[PLACE], marks[POSITION] = 0, 0, 0


@compiled_inline
def _look_at_more(
    now, best, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, scores, marks
):  # fmt: skip
    """Score the next few of the ladder who could come before `best`."""
    looked_at, place, position, count = marks[LOOKED_AT], marks[PLACE], marks[POSITION], 0
    wanted = q_meta[ROWS] if marks[UNBOUNDED] else looked_at + STEP
    while count < wanted and place < q_meta[RUNGS]:
        rung = q_info[ORDER, place]
        end = min(q_info[SIZE, rung], position + wanted - count)
        for index in range(position, end):
            row = q_items[rung, index]
            if best >= 0 and comes_before(best, LOOKED, keys[BOUND, row], row, listed, scores):
                wanted, end = count, index
                break
            waiting[count], listed[LOOKED, looked_at + count] = row, row
            count += 1
        place, position = (place + 1, 0) if end == q_info[SIZE, rung] else (place, end)
    if q_meta[ROWS] > 1 and count > 0:
        scoring.score(entry, parameters, jobs, usage, waiting[:count], now, fresh)
        for index in range(count):
            scores[LOOKED, looked_at + index] = fresh[index]
    else:
        scores[LOOKED, looked_at] = 0.0  # one alone needs no score
    marks[LOOKED_AT], marks[PLACE], marks[POSITION] = looked_at + count, place, position
    marks[SCORED_ROWS] += count


@compiled_inline
def comes_before(index, which, score, row, listed, scores):
    """Whether who is noted there comes before somebody of this score."""
    return before(scores[which, index], listed[which, index], score, row)


@compiled_inline
def best_noted(first, count, best, which, listed, scores):
    """Where the first by score is noted, from the place `first` on, or `best`, if any; no score: that one is gone."""
    rows, values = listed[which], scores[which]
    row, score = (rows[best], values[best]) if best >= 0 else (FOREVER, np.inf)
    for index in range(first, count):
        if before(values[index], rows[index], score, row):
            best, row, score = index, rows[index], values[index]
    return best


@compiled_inline
def first_of_queue(
    now, best, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, scores, marks
):  # fmt: skip
    """Where who is first is noted; `best` is that of those looked at before, -1 for none."""
    while marks[PLACE] < q_meta[RUNGS]:
        first = marks[LOOKED_AT]
        _look_at_more(
            now, best, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, scores,
            marks,
        )  # fmt: skip
        if marks[LOOKED_AT] == first:
            break
        best = best_noted(first, marks[LOOKED_AT], best, LOOKED, listed, scores)
    return best


@compiled_inline
def end_pass(scored, q_meta, marks):
    """Count what it cost; `scored` more than those looked at have been scored."""
    marks[PASSES] += 1
    marks[SCORED_ROWS] += scored
    if q_meta[ROWS] > MANY and 2 * marks[LOOKED_AT] > q_meta[ROWS]:
        marks[SPENT] += 1
    else:
        marks[SPENT] = max(marks[SPENT] - 1, 0)
    marks[GIVEN_UP] = marks[SPENT] > TOO_MUCH
