"""Who could be first: a short list of the queue, for orders whose scores only fall while jobs wait.

Such an order (`FALLING`, see policy/registry.py) scores a job no lower at any instant of a window than at its end. So
the whole queue is scored once per window, for that end, and only the best are kept on the list; as long as one of
them scores below all that were left out, the first of the list is the first of the queue, and a pass scores the list
alone. Where that cannot be told, the list is made anew. `schedule_pass` here does what kernels.schedule_pass does with
scores of the whole queue, for depths up to EASY; property tests hold the two together. It never guesses. The queue
ladder is kept by nodes here (keys[ARRIVAL]), so that only jobs that fit are looked at.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled
from cohabit.core import fair_share, kernels, ladder
from cohabit.core.columns import EXTRA, FREE, HEAD, NODES, QUEUED, RELEASED, SEQ, SHADOW, STARTED, STATE
from cohabit.core.kernels import EASY, FOREVER, SECOND, STRICT
from cohabit.core.ladder import MIN_LIMIT, MIN_NODES, ORDER, ROWS, RUNGS, SIZE

# marks[...] (int64): rows on the list, the instant it is good until, the length of a window, rows it may grow to,
# the first submission that is not on it among those who score OUTSIDE
LISTED, UNTIL, WINDOW, MOST, LAST = 0, 1, 2, 3, 4
# bounds[...] (float64): nobody left out scores less in this window, as long as a unit of usage is worth so much
# and usage is reckoned to this instant
OUTSIDE, WORTH, RECKONED = 0, 1, 2
SHARE_LEFT = 0.98  # a share of usage may shrink to this part within a window
LONGEST_WINDOW = 2**50


@compiled
def initialise(marks, bounds):
    """An empty list for an empty queue."""
    marks[LISTED], marks[UNTIL], marks[WINDOW], marks[MOST] = 0, FOREVER, 60 * SECOND, 64
    bounds[OUTSIDE] = np.inf


@compiled
def add(row, listed, marks):
    """A job came into the queue: it is on the list until the list is made anew."""
    listed[marks[LISTED]] = row
    marks[LISTED] += 1


@compiled
def _before(score, seq, other_score, other_seq):
    return score < other_score or (score == other_score and seq < other_seq)


@compiled
def _list_everybody(now, q_items, q_info, q_meta, listed, marks, bounds):
    """Nothing can be told from bounds: a list for this instant alone, and a shorter window next time."""
    marks[LISTED] = ladder.rows_in_order(q_items, q_info, q_meta, listed)
    marks[UNTIL], bounds[OUTSIDE] = now, np.inf
    marks[WINDOW] = max(marks[WINDOW] // 4, 1)


@compiled
def _list_best(now, entry, parameters, jobs, usage, q_items, q_info, q_meta, waiting, fresh, listed, marks, bounds):
    """Make the list anew: those who could be first before the window ends, or everybody in a short queue."""
    count = ladder.rows_in_order(q_items, q_info, q_meta, waiting)
    keep = 8 + int(np.sqrt(count)) // 4
    marks[MOST], bounds[OUTSIDE] = 4 * keep, np.inf
    if count <= 2 * keep:
        listed[:count], marks[LISTED], marks[UNTIL] = waiting[:count], count, FOREVER
        return
    bounds[WORTH], bounds[RECKONED], marks[UNTIL] = usage[1, -1] * SHARE_LEFT, usage[0, -1], now + marks[WINDOW]
    usage[1] *= SHARE_LEFT
    kernels.score(entry, parameters, jobs, usage, waiting[:count], marks[UNTIL], fresh[0])
    fair_share.share_out(usage)
    bounds[OUTSIDE] = np.partition(fresh[0, :count], keep)[keep]
    if bounds[OUTSIDE] == np.inf:
        _list_everybody(now, q_items, q_info, q_meta, listed, marks, bounds)
        return
    less = np.sum(fresh[0, :count] < bounds[OUTSIDE])
    equals = jobs[SEQ][waiting[:count][fresh[0, :count] == bounds[OUTSIDE]]]
    marks[LISTED], marks[LAST] = 0, np.partition(equals, keep - less)[keep - less]  # of equals the earliest
    for index in range(count):
        if _before(fresh[0, index], jobs[SEQ, waiting[index]], bounds[OUTSIDE], marks[LAST]):
            add(waiting[index], listed, marks)


@compiled
def _score_list(now, entry, parameters, jobs, usage, waiting, fresh, listed, marks, bounds):
    count = marks[LISTED]
    waiting[:count] = listed[:count]
    if count > 1 or bounds[OUTSIDE] < np.inf:
        kernels.score(entry, parameters, jobs, usage, waiting[:count], now, fresh[0])


@compiled
def _first(waiting, fresh, jobs, marks):
    """Index of the first of the list; -1 if nobody is left on it."""
    best = -1
    for index in range(marks[LISTED]):
        row = waiting[index]
        if row >= 0 and (
            best < 0 or _before(fresh[0, index], jobs[SEQ, row], fresh[0, best], jobs[SEQ, waiting[best]])
        ):
            best = index
    return best


@compiled
def _shares_hold(usage, bounds):
    return bounds[OUTSIDE] == np.inf or (usage[1, -1] >= bounds[WORTH] and usage[0, -1] == bounds[RECKONED])


@compiled
def _surely_first(best, waiting, fresh, jobs, marks, bounds):
    if bounds[OUTSIDE] == np.inf:
        return True
    return best >= 0 and _before(fresh[0, best], jobs[SEQ, waiting[best]], bounds[OUTSIDE], marks[LAST])


@compiled
def _start_heads(
    now, two_orders, entry, parameters, usage, waiting, fresh, listed, marks, bounds, jobs, keys, q_items, q_info,
    q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Start whoever is first and fits, again and again; returns the first who does not fit, or -1."""
    if now > marks[UNTIL]:
        marks[WINDOW] = min(2 * marks[WINDOW], LONGEST_WINDOW)
    if now > marks[UNTIL] or marks[LISTED] > marks[MOST] or not _shares_hold(usage, bounds):
        _list_best(now, entry, parameters, jobs, usage, q_items, q_info, q_meta, waiting, fresh, listed, marks, bounds)
    _score_list(now, entry, parameters, jobs, usage, waiting, fresh, listed, marks, bounds)
    tried = False
    while q_meta[ROWS] > 0:
        best = _first(waiting, fresh, jobs, marks)
        if not _surely_first(best, waiting, fresh, jobs, marks, bounds):
            if tried:
                _list_everybody(now, q_items, q_info, q_meta, listed, marks, bounds)
            else:
                marks[WINDOW] = max(marks[WINDOW] // 2, 1)
                _list_best(
                    now, entry, parameters, jobs, usage, q_items, q_info, q_meta, waiting, fresh, listed, marks, bounds
                )  # fmt: skip
            tried = True
            _score_list(now, entry, parameters, jobs, usage, waiting, fresh, listed, marks, bounds)
            continue
        head = waiting[best]
        if jobs[NODES, head] > gauges[FREE]:
            return head
        kernels.dequeue(head, True, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
        kernels.begin(head, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
        waiting[best] = -1
    return np.int64(-1)


@compiled
def _find_able(now, head, jobs, q_items, q_info, q_meta, gauges, waiting):
    """Write those who may pass the head into `waiting`; returns how many. The narrow come first on the ladder."""
    able = 0
    for place in range(q_meta[RUNGS]):
        rung = q_info[ORDER, place]
        fewest = q_info[MIN_NODES, rung]
        if fewest > gauges[FREE]:
            break
        if fewest > gauges[EXTRA] and now + q_info[MIN_LIMIT, rung] > gauges[SHADOW]:
            continue
        for position in range(q_info[SIZE, rung]):
            row = q_items[rung, position]
            if row != head and kernels.may_backfill(row, now, jobs, gauges):
                waiting[able] = row
                able += 1
    return able


@compiled
def _pick(now, able, jobs, gauges, waiting, scores):
    """Drop those who may not pass the head any more; returns how many are left and which is best."""
    left, best = 0, -1
    for index in range(able):
        row = waiting[index]
        if row >= 0 and kernels.may_backfill(row, now, jobs, gauges):
            waiting[left], scores[left] = row, scores[index]
            if best < 0 or _before(scores[left], jobs[SEQ, row], scores[best], jobs[SEQ, waiting[best]]):
                best = left
            left += 1
    return left, best


@compiled
def schedule_pass(
    now, depth, first_new, end_new, two_orders, entry, parameters, second_entry, second_parameters, usage, waiting,
    fresh, listed, marks, bounds, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info,
    r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Start every job that may start at `now`; the rows are in started[:gauges[STARTED]].

    Rows first_new to end_new came in since the last pass. Nobody else needs a look where nothing was released and the
    head is the same: those refused before stay refused.
    """
    gauges[STARTED] = 0
    kernels.extend_overrunning(now, jobs, keys, r_items, r_info, r_meta, gauges)
    released, gauges[RELEASED] = gauges[RELEASED], 0
    head = _start_heads(
        now, two_orders, entry, parameters, usage, waiting, fresh, listed, marks, bounds, jobs, keys, q_items, q_info,
        q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges, started,
    )  # fmt: skip
    able = 0
    if q_meta[ROWS] < 2 or depth == STRICT or gauges[FREE] == 0:
        head = np.int64(-1)
    elif not released and gauges[STARTED] == 0 and gauges[HEAD] == head:
        for row in range(first_new, end_new):
            waiting[able] = row
            able += 1
    else:
        gauges[SHADOW], gauges[EXTRA] = FOREVER, 0
        if depth == EASY:
            gauges[SHADOW], gauges[EXTRA] = kernels.shadow_of(
                jobs[NODES, head], jobs, r_items, r_info, r_meta, gauges[FREE]
            )
        able = _find_able(now, head, jobs, q_items, q_info, q_meta, gauges, waiting)
    gauges[HEAD] = head
    if able > 1 and two_orders:
        kernels.score(second_entry, second_parameters, jobs, usage, waiting[:able], now, fresh[1])
    elif able > 1:
        kernels.score(entry, parameters, jobs, usage, waiting[:able], now, fresh[0])
    scores = fresh[1 if two_orders else 0]
    able, best = _pick(now, able, jobs, gauges, waiting, scores)
    while able > 0:
        row = waiting[best]
        kernels.dequeue(row, True, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
        kernels.backfill(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
        waiting[best] = -1
        able, best = _pick(now, able, jobs, gauges, waiting, scores)
    if gauges[STARTED] > 0:
        left = 0
        for index in range(marks[LISTED]):
            if jobs[STATE, listed[index]] == QUEUED:
                listed[left] = listed[index]
                left += 1
        marks[LISTED] = left
