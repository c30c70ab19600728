"""A pass that scores few: for orders of which core/shortlist.py tells who could be first.

`schedule_pass` here does what kernels.schedule_pass does with scores of the whole queue, for depths up to EASY; property
tests hold the two together. Those who may pass the head, too, are looked for in order of their bounds, and only as far
as somebody could come before the best found. Who starts stays on the queue ladder until the pass ends.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_lean
from cohabit.core import kernels, overrunning, passing, scoring, shortlist
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
from cohabit.core.shortlist import BOUND, CHEAP_CALLS, KNOWN, PASS, PLACE, POSITION, before

ABLE = 1  # row of `listed` beside shortlist.LOOKED: who may pass the head
MOST = 64  # so many of these are looked for at once


@compiled_lean
def _start_heads(
    now, entry, parameters, usage, waiting, fresh, listed, marks, jobs, keys, q_items, q_info, q_meta, r_items, r_info,
    r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Start whoever is first and fits, again and again; returns the first who does not fit, or -1."""
    head = np.int64(-1)
    while gauges[STARTED] < q_meta[ROWS]:
        head = shortlist.first_of_queue(
            now, head, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, marks
        )  # fmt: skip
        if jobs[NODES, head] > gauges[FREE]:
            break
        kernels.begin(head, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
        head = shortlist.best_looked_at(0, np.int64(-1), jobs, keys, listed, marks)
    return head


@compiled_lean
def _find_more(wanted, best, able, now, jobs, keys, q_items, q_info, q_meta, gauges, listed, marks):
    """Note so many more who may pass the head, as long as they could come before `best`; how many are noted now?"""
    enough, place, position = able + wanted, marks[PLACE], marks[POSITION]
    while place < q_meta[RUNGS] and able < enough:
        rung = q_info[ORDER, place]
        fewest, size = q_info[MIN_NODES, rung], q_info[SIZE, rung]
        if fewest > gauges[FREE] or (fewest > gauges[EXTRA] and now + q_info[MIN_LIMIT, rung] > gauges[SHADOW]):
            position = size
        while position < size and able < enough:
            row = q_items[rung, position]
            if passing.may_backfill(row, now, jobs, gauges) and jobs[STATE, row] == QUEUED and row != gauges[HEAD]:
                if best >= 0 and before(keys[SCORE, best], best, keys[BOUND, row], row):
                    enough = able
                    break
                listed[ABLE, able] = row
                able += 1
            position += 1
        if position == size:
            place, position = place + 1, 0
    marks[PLACE], marks[POSITION] = place, position
    return able


@compiled_lean
def _still_able(count, now, jobs, gauges, able):
    """Drop those who started and those who may not pass the head any more; how many are left?"""
    left = 0
    for index in range(count):
        row = able[index]
        able[left] = row
        left += jobs[STATE, row] == QUEUED and passing.may_backfill(row, now, jobs, gauges)
    return left


@compiled_lean
def _score_unknown(first, count, now, entry, parameters, usage, waiting, fresh, marks, jobs, keys, able):
    """Score those of `able` from the `first` on whose score in this pass is not known; how many?"""
    chosen = 0
    for index in range(first, count):
        waiting[chosen] = able[index]
        chosen += keys[KNOWN, able[index]] != marks[PASS]
    if chosen > 0:
        scoring.score(entry, parameters, jobs, usage, waiting[:chosen], now, fresh)
    for index in range(chosen):
        keys[SCORE, waiting[index]], keys[KNOWN, waiting[index]] = fresh[index], marks[PASS]
    return chosen


@compiled_lean
def _first_able(first, count, best, keys, able):
    """Who is first by score of `able` from the `first` on, and of the best found before, if any."""
    for index in range(first, count):
        row = able[index]
        if best < 0 or before(keys[SCORE, row], row, keys[SCORE, best], best):
            best = row
    return best


@compiled_lean
def _pass_the_head(
    now, able, at_once, entry, parameters, usage, waiting, fresh, listed, marks, jobs, keys, q_items, q_info, q_meta,
    r_items, r_info, r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Start those who may pass the head, in order; how many were scored? So many are noted, the others to be found."""
    noted, best, scored, wanted = 0, np.int64(-1), 0, q_meta[ROWS] if at_once else 1
    while gauges[FREE] > 0:
        if noted == able:
            able = _find_more(wanted, best, able, now, jobs, keys, q_items, q_info, q_meta, gauges, listed, marks)
            wanted = max(wanted, min(4 * wanted, MOST))
        if noted < able:
            if able > 1 or not at_once:
                scored += _score_unknown(
                    noted, able, now, entry, parameters, usage, waiting, fresh, marks, jobs, keys, listed[ABLE]
                )
            best, noted = _first_able(noted, able, best, keys, listed[ABLE]), able
        elif best >= 0:
            kernels.backfill(best, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
            able = _still_able(able, now, jobs, gauges, listed[ABLE])
            best, noted = _first_able(0, able, np.int64(-1), keys, listed[ABLE]), able
        else:
            break
    return scored


@compiled_lean
def schedule_pass(
    now, depth, first_new, end_new, two_orders, entry, parameters, bounded, bound_entry, bound_parameters,
    second_entry, second_parameters, usage, least, waiting, fresh, listed, marks, bounds, jobs, keys, q_items, q_info,
    q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Start every job that may start at `now`; the rows are in started[:gauges[STARTED]].

    Rows first_new to end_new came in since the last pass. Nobody else needs a look where nothing was released and the
    head is the same: those refused before stay refused.
    """
    gauges[STARTED] = 0
    overrunning.extend_overrunning(now, jobs, keys, r_items, r_info, r_meta, gauges)
    released, gauges[RELEASED] = gauges[RELEASED], 0
    shortlist.begin_pass(
        now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items, q_info,
        q_meta, waiting, fresh[0], marks, bounds,
    )  # fmt: skip
    head = _start_heads(
        now, entry, parameters, usage, waiting, fresh[0], listed, marks, jobs, keys, q_items, q_info, q_meta, r_items,
        r_info, r_meta, idle, pool, gauges, started,
    )  # fmt: skip
    able, scored = 0, 0
    if q_meta[ROWS] - gauges[STARTED] < 2 or depth == STRICT or gauges[FREE] == 0:
        gauges[HEAD] = -1
    else:
        marks[PLACE], marks[POSITION] = 0, 0
        if not released and gauges[STARTED] == 0 and gauges[HEAD] == head:
            for row in range(first_new, end_new):
                listed[ABLE, row - first_new] = row
            able = _still_able(end_new - first_new, now, jobs, gauges, listed[ABLE])
            marks[PLACE] = q_meta[RUNGS]
        else:
            gauges[HEAD], gauges[SHADOW], gauges[EXTRA] = head, FOREVER, 0
            if depth == EASY:
                gauges[SHADOW], gauges[EXTRA] = passing.shadow_of(
                    jobs[NODES, head], jobs, r_items, r_info, r_meta, gauges[FREE]
                )
        if two_orders:
            entry, parameters = second_entry, second_parameters
            marks[PASS] += 1  # no score is known by this order
        scored = _pass_the_head(
            now, able, two_orders or not marks[CHEAP_CALLS], entry, parameters, usage, waiting,
            fresh[1 if two_orders else 0], listed, marks, jobs, keys, q_items, q_info, q_meta, r_items, r_info, r_meta,
            idle, pool, gauges, started,
        )  # fmt: skip
    for index in range(gauges[STARTED]):
        kernels.dequeue(started[index], True, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
    shortlist.end_pass(scored, q_meta, marks)
