"""Who could be first: a short list of the queue, for orders of which it is known how low scores can go.

policy/bounds.py gives such bounds; an order whose scores only fall while jobs wait (`FALLING`, see policy/registry.py)
is bounded by its scores at the end of a window of time. So the whole queue is bounded once per window, and only the
best are kept on the list; as long as one of them scores below all that were left out, the first of the list is the
first of the queue, and a pass scores the list alone. Where that cannot be told, the list is made anew; where that
happens too often, core/lasting.py has another list, and after that sim/fast.py goes on without. Of those who may pass
the head, too, only those are scored whose bound is below the best found. `schedule_pass` here does what
kernels.schedule_pass does with scores of the whole queue, for depths up to EASY; property tests hold the two together.
It never guesses. The queue ladder is kept by nodes here (keys[ARRIVAL]), so that only jobs that fit are looked at.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_lean
from cohabit.core import fair_share, kernels, ladder, lasting, overrunning, passing, scoring
from cohabit.core.columns import (
    EXTRA,
    FREE,
    HEAD,
    NODES,
    QUEUED,
    RELEASED,
    SCORE,
    SHADOW,
    STARTED,
    STATE,
)
from cohabit.core.kernels import EASY, FOREVER, STRICT
from cohabit.core.ladder import MIN_LIMIT, MIN_NODES, ORDER, ROWS, RUNGS, SIZE
from cohabit.core.lasting import BOUND, KNOWN, LIST, LISTED, SORTED, SPENT, UNTIL, before
from cohabit.core.overrunning import SECOND

# marks[...] (int64; core/lasting.py has the others): the length of a window, rows the list may grow to, the first row
# that is not on it of those who score OUTSIDE, whether a call of the order costs little, whether lists cost too much,
# and whether the list is that of core/lasting.py
WINDOW, MOST, LAST, CHEAP_CALLS, GIVEN_UP, LASTING = 2, 3, 4, 5, 7, 10
MARKS = 11
# bounds[...] (float64): nobody left out scores less in this window, as long as a unit of usage is worth so much
# and usage is reckoned to this instant
OUTSIDE, WORTH, RECKONED = 0, 1, 2
# rows of `listed` beside LIST: who may pass the head, and who of these has been scored though not on the list
ABLE, SCORED = 1, 2
SHARE_LEFT = 0.98  # a share of usage may shrink to this part within a window
LONGEST_WINDOW = 2**50
A_LIST, TOO_MUCH = 6, 400  # a list costs as much as it saves in so many passes; what may be lost before it is given up


@compiled_lean
def initialise(marks, bounds, cheap_calls):
    """An empty list for an empty queue."""
    marks[LISTED], marks[UNTIL], marks[WINDOW], marks[MOST] = 0, FOREVER, 60 * SECOND, 64
    marks[CHEAP_CALLS] = cheap_calls
    bounds[OUTSIDE] = np.inf


@compiled_lean
def add(row, keys, listed, marks):
    """A job came into the queue: it is on the list until the list is made anew."""
    listed[LIST, marks[LISTED]] = row
    marks[LISTED] += 1
    keys[SCORE, row], keys[BOUND, row], keys[KNOWN, row] = -np.inf, -np.inf, 0


@compiled_lean
def _list_everybody(now, q_items, q_info, q_meta, listed, marks, bounds):
    """Nothing can be told from bounds: a list for this instant alone."""
    marks[LISTED] = ladder.rows_in_order(q_items, q_info, q_meta, listed[LIST])
    marks[UNTIL], bounds[OUTSIDE] = now, np.inf


@compiled_lean
def _swap(waiting, scores, one, other):
    waiting[one], waiting[other] = waiting[other], waiting[one]
    scores[one], scores[other] = scores[other], scores[one]


@compiled_lean
def _part(count, rank, waiting, scores):
    """Sort as far as needed for the one of this rank to stand in its place, the better ones before it."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        for one, other in ((middle, low), (high, low), (high, middle)):
            if before(scores[one], waiting[one], scores[other], waiting[other]):
                _swap(waiting, scores, one, other)
        score, row, left, right = scores[middle], waiting[middle], low, high
        while left <= right:
            while before(scores[left], waiting[left], score, row):
                left += 1
            while before(score, row, scores[right], waiting[right]):
                right -= 1
            if left <= right:
                _swap(waiting, scores, left, right)
                left += 1
                right -= 1
        if rank <= right:
            high = right
        elif rank >= left:
            low = left
        else:
            break


@compiled_lean
def _shorten(marks, part):
    marks[WINDOW] = max(marks[WINDOW] // part, 1)


@compiled_lean
def _bound_queue(
    now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, waiting, fresh, marks
):  # fmt: skip
    """Write what nobody's score undercuts in this window into `fresh`."""
    if bounded:
        bound_parameters[-1] = marks[UNTIL]
        scoring.score(bound_entry, bound_parameters, jobs, usage, waiting, now, fresh)
        return
    for user in range(usage.shape[1]):
        usage[1, user] *= SHARE_LEFT
    scoring.score(entry, parameters, jobs, usage, waiting, marks[UNTIL], fresh)
    fair_share.share_out(usage)


@compiled_lean
def _list_best(
    now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, q_items, q_info, q_meta,
    waiting, fresh, listed, marks, bounds,
):  # fmt: skip
    """Make the list anew: those who could be first before the window ends, or everybody in a short queue."""
    count = ladder.rows_in_order(q_items, q_info, q_meta, waiting)
    keep = 8 + int(np.sqrt(count)) // 4
    marks[MOST], bounds[OUTSIDE] = 4 * keep, np.inf
    if count <= 2 * keep:
        marks[LISTED], marks[UNTIL] = 0, FOREVER
        for index in range(count):
            add(waiting[index], keys, listed, marks)
        return
    bounds[WORTH], bounds[RECKONED], marks[UNTIL] = usage[1, -1] * SHARE_LEFT, usage[0, -1], now + marks[WINDOW]
    _bound_queue(
        now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, waiting[:count], fresh[0], marks
    )  # fmt: skip
    marks[SPENT] += A_LIST
    _part(count, keep, waiting, fresh[0])
    bounds[OUTSIDE], marks[LAST] = fresh[0, keep], waiting[keep]
    if bounds[OUTSIDE] == np.inf or bounds[OUTSIDE] == -np.inf:
        _list_everybody(now, q_items, q_info, q_meta, listed, marks, bounds)
        _shorten(marks, 4)
        return
    marks[LISTED] = 0
    for index in range(count):
        row = waiting[index]
        if index < keep:
            add(row, keys, listed, marks)
        keys[SCORE, row], keys[BOUND, row], keys[KNOWN, row] = fresh[0, index], fresh[0, index], 0


@compiled_lean
def _score_list(now, two_orders, entry, parameters, jobs, keys, usage, waiting, fresh, listed, marks, bounds):
    count = marks[LISTED]
    for index in range(count):
        waiting[index] = listed[LIST, index]
    if count > 1 or bounds[OUTSIDE] < np.inf:
        scoring.score(entry, parameters, jobs, usage, waiting[:count], now, fresh[0])
        for index in range(0 if two_orders else count):
            keys[SCORE, waiting[index]], keys[KNOWN, waiting[index]] = fresh[0, index], 1


@compiled_lean
def _first(waiting, fresh, marks):
    """Index of the first of the list; -1 if nobody is left on it."""
    best = -1
    for index in range(marks[LISTED]):
        row = waiting[index]
        if row >= 0 and (best < 0 or before(fresh[0, index], row, fresh[0, best], waiting[best])):
            best = index
    return best


@compiled_lean
def _shares_hold(usage, bounds):
    return bounds[OUTSIDE] == np.inf or (usage[1, -1] >= bounds[WORTH] and usage[0, -1] == bounds[RECKONED])


@compiled_lean
def _surely_first(best, waiting, fresh, marks, bounds):
    if bounds[OUTSIDE] == np.inf:
        return True
    return best >= 0 and before(fresh[0, best], waiting[best], bounds[OUTSIDE], marks[LAST])


@compiled_lean
def _renew_list(
    now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, q_items, q_info, q_meta,
    waiting, fresh, listed, marks, bounds,
):  # fmt: skip
    """Make the list anew where it is out of date."""
    marks[SPENT] = max(marks[SPENT] - 1, 0)
    if now > marks[UNTIL]:
        marks[WINDOW] = min(2 * marks[WINDOW], LONGEST_WINDOW)
    if now > marks[UNTIL] or marks[LISTED] > marks[MOST] or not (bounded or _shares_hold(usage, bounds)):
        _list_best(
            now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, q_items, q_info, q_meta,
            waiting, fresh, listed, marks, bounds,
        )  # fmt: skip


@compiled_lean
def _start_heads(
    now, two_orders, entry, parameters, bounded, bound_entry, bound_parameters, usage, waiting, fresh, listed, marks,
    bounds, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges,
    started,
):  # fmt: skip
    """Start whoever is first and fits, again and again; returns the first who does not fit, or -1."""
    _renew_list(
        now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, q_items, q_info, q_meta,
        waiting, fresh, listed, marks, bounds,
    )  # fmt: skip
    _score_list(now, two_orders, entry, parameters, jobs, keys, usage, waiting, fresh, listed, marks, bounds)
    tried = False
    while q_meta[ROWS] > 0:
        best = _first(waiting, fresh, marks)
        if not _surely_first(best, waiting, fresh, marks, bounds):
            if tried:
                _list_everybody(now, q_items, q_info, q_meta, listed, marks, bounds)
                _shorten(marks, 4)
            else:
                _shorten(marks, 2)
                _list_best(
                    now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, q_items, q_info,
                    q_meta, waiting, fresh, listed, marks, bounds,
                )  # fmt: skip
            tried = True
            _score_list(now, two_orders, entry, parameters, jobs, keys, usage, waiting, fresh, listed, marks, bounds)
            continue
        head = waiting[best]
        if jobs[NODES, head] > gauges[FREE]:
            return head
        kernels.dequeue(head, True, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
        kernels.begin(head, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
        waiting[best] = -1
    return np.int64(-1)


@compiled_lean
def _comes_before(row, other, keys):
    return before(keys[SCORE, row], row, keys[SCORE, other], other)


@compiled_lean
def _find_able(now, jobs, q_items, q_info, q_meta, gauges, able):
    """Write those who may pass the head into `able`; how many? The narrow come first on the ladder."""
    count, head = 0, gauges[HEAD]
    for place in range(q_meta[RUNGS]):
        rung = q_info[ORDER, place]
        fewest, size = q_info[MIN_NODES, rung], q_info[SIZE, rung]
        if fewest > gauges[FREE]:
            break
        if fewest > gauges[EXTRA] and now + q_info[MIN_LIMIT, rung] > gauges[SHADOW]:
            continue
        most = jobs[NODES, q_items[rung, size - 1]]
        all_able = most <= gauges[EXTRA] and most <= gauges[FREE]
        for position in range(size):
            row = q_items[rung, position]
            able[count] = row
            count += row != head and (all_able or passing.may_backfill(row, now, jobs, gauges))
    return count


@compiled_lean
def _still_able(count, but, now, jobs, q_info, q_meta, gauges, able):
    """Drop one who started and those who may not pass the head any more; how many are left?"""
    left = 0
    if q_meta[ROWS] == 0 or q_info[MIN_NODES, q_info[ORDER, 0]] > gauges[FREE]:
        return left
    for index in range(count):
        row = able[index]
        able[left] = row
        left += row != but and passing.may_backfill(row, now, jobs, gauges)
    return left


@compiled_lean
def _first_able(count, keys, able):
    """Who is first by what is known."""
    best = able[0]
    for index in range(1, count):
        if _comes_before(able[index], best, keys):
            best = able[index]
    return best


@compiled_lean
def _choose(count, first, everybody, keys, able, waiting):
    """Write into `waiting` whose score is not known and who could come before `first`; how many?"""
    chosen = 0
    for index in range(count):
        row = able[index]
        waiting[chosen] = row
        chosen += keys[KNOWN, row] == 0 and (everybody or _comes_before(row, first, keys))
    return chosen


@compiled_lean
def _pass_the_head(
    now, able, two_orders, entry, parameters, usage, waiting, fresh, listed, marks, jobs, keys, q_items, q_info, q_meta,
    b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Start those who may pass the head, in order; only those are scored who could be the first of them."""
    at_once, guess, scored = two_orders or not marks[CHEAP_CALLS], np.int64(-1), 0
    while able > 0:
        best = _first_able(able, keys, listed[ABLE])
        if able > 1 and keys[KNOWN, best] == 0:
            chosen = 1
            if at_once or guess >= 0:
                chosen = _choose(able, guess, at_once, keys, listed[ABLE], waiting)
            else:  # mostly it stays the first, and nobody else needs a score
                waiting[0], guess = best, best
            scoring.score(entry, parameters, jobs, usage, waiting[:chosen], now, fresh)
            for index in range(chosen):
                row = waiting[index]
                keys[SCORE, row], keys[KNOWN, row], listed[SCORED, scored] = fresh[index], 1, row
                scored += 1
        else:
            kernels.dequeue(best, True, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
            kernels.backfill(best, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
            able, guess = _still_able(able, best, now, jobs, q_info, q_meta, gauges, listed[ABLE]), -1
    for index in range(scored):
        row = listed[SCORED, index]
        if jobs[STATE, row] == QUEUED:
            keys[SCORE, row], keys[KNOWN, row] = keys[BOUND, row], 0


@compiled_lean
def schedule_pass(
    now, depth, first_new, end_new, two_orders, entry, parameters, bounded, bound_entry, bound_parameters,
    second_entry, second_parameters, usage, waiting, fresh, listed, marks, bounds, jobs, keys, q_items, q_info, q_meta,
    b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Start every job that may start at `now`; the rows are in started[:gauges[STARTED]].

    Rows first_new to end_new came in since the last pass. Nobody else needs a look where nothing was released and the
    head is the same: those refused before stay refused.
    """
    gauges[STARTED] = 0
    overrunning.extend_overrunning(now, jobs, keys, r_items, r_info, r_meta, gauges)
    released, gauges[RELEASED] = gauges[RELEASED], 0
    if bounded and not marks[LASTING] and marks[SPENT] > TOO_MUCH:
        lasting.begin(now, q_items, q_info, q_meta, listed, marks)
        marks[LASTING] = 1
    if marks[LASTING]:
        head = lasting.start_heads(
            now, two_orders, entry, parameters, bound_entry, bound_parameters, usage, waiting, fresh[0], listed, marks,
            jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges,
            started,
        )  # fmt: skip
    else:
        head = _start_heads(
            now, two_orders, entry, parameters, bounded, bound_entry, bound_parameters, usage, waiting, fresh, listed,
            marks, bounds, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle,
            pool, gauges, started,
        )  # fmt: skip
    marks[GIVEN_UP] = marks[SPENT] > TOO_MUCH and (marks[LASTING] or not bounded)
    able = 0
    if q_meta[ROWS] < 2 or depth == STRICT or gauges[FREE] == 0:
        head = np.int64(-1)
    elif not released and gauges[STARTED] == 0 and gauges[HEAD] == head:
        for row in range(first_new, end_new):
            listed[ABLE, row - first_new] = row
        able = _still_able(end_new - first_new, -1, now, jobs, q_info, q_meta, gauges, listed[ABLE])
    else:
        gauges[HEAD], gauges[SHADOW], gauges[EXTRA] = head, FOREVER, 0
        if depth == EASY:
            gauges[SHADOW], gauges[EXTRA] = passing.shadow_of(
                jobs[NODES, head], jobs, r_items, r_info, r_meta, gauges[FREE]
            )
        able = _find_able(now, jobs, q_items, q_info, q_meta, gauges, listed[ABLE])
    gauges[HEAD] = head
    if two_orders:
        entry, parameters = second_entry, second_parameters
    if able > 0:
        _pass_the_head(
            now, able, two_orders, entry, parameters, usage, waiting, fresh[1 if two_orders else 0], listed, marks,
            jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges,
            started,
        )  # fmt: skip
    if marks[LASTING]:
        lasting.forget_scores(jobs, keys, listed, marks)
    if gauges[STARTED] > 0:
        left = 0
        for index in range(marks[LISTED]):
            if jobs[STATE, listed[LIST, index]] == QUEUED:
                listed[LIST, left] = listed[LIST, index]
                left += 1
        marks[LISTED], marks[SORTED] = left, left
