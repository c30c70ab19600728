"""A pass that scores few: for orders of which core/shortlist.py tells who could be first.

`schedule_pass` here does what kernels.schedule_pass does with scores of the whole queue, for all depths but
conservative; property tests hold the two together. The first of the queue come one by one. Those who may pass them,
too, are looked for in order of their bounds, and only as far as somebody could come before the best found. Who starts
stays on the queue ladder until the pass ends.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core import given_numbers, kernels, ladder, overrunning, passing, profile, reservations, scoring, shortlist
from cohabit.core.columns import (
    BACKFILL_SCORE,
    EXTRA,
    FREE,
    HEAD,
    LIMIT,
    NODES,
    QUEUED,
    RELEASED,
    RESERVED,
    SEQ,
    SHADOW,
    STARTED,
    STATE,
)
from cohabit.core.kernels import EASY, FOREVER, STRICT
from cohabit.core.ladder import MIN_LIMIT, MIN_NODES, ORDER, ROWS, RUNGS, SIZE
from cohabit.core.shortlist import (
    AT_LEAST,
    BOUND,
    CHEAP_CALLS,
    FIRST_SCORE,
    LOOKED,
    LOOKED_AT,
    PLACE,
    POSITION,
    best_noted,
    comes_before,
)

# rows of `listed` beside shortlist.LOOKED: who may pass the head; to whom the last pass promised a start, in order
ABLE, PROMISED_ROWS = 1, 2
FIRST, MOST = 4, 64  # so many of these are looked for at once: at first, and later
FEW = 128  # so many are scored all
PLANNED, STANDS, KEPT_BACK = 0, 1, 2  # what came of reservations


@compiled_lean
def enqueue(
    row, now, by_size, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, waiting,
    fresh, marks, bounds, queued, spans, q_items, q_info, q_meta, b_items, b_info, b_meta,
):  # fmt: skip
    """Put a job into the queue by its bound, and where it is kept by_size, too, onto that ladder."""
    shortlist.bound_arrival(
        row, now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, waiting, fresh,
        marks, bounds, spans,
    )  # fmt: skip
    if spans.shape[1] > 0:
        given_numbers.add(row, queued)
    kernels.enqueue(row, False, False, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
    if by_size:
        ladder.insert(b_items, b_info, b_meta, jobs, keys[BACKFILL_SCORE], jobs[SEQ], row)


@compiled_inline
def _dequeue(
    row, two_orders, by_size, jobs, keys, queued, spans, q_items, q_info, q_meta, b_items, b_info, b_meta
):  # fmt: skip
    """Take a job that started from everywhere `enqueue` has put it."""
    kernels.dequeue(row, False, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
    if by_size:
        ladder.remove(b_items, b_info, b_meta, jobs, keys[BACKFILL_SCORE], jobs[SEQ], row)
    if spans.shape[1] > 0:
        given_numbers.remove(row, queued)


@compiled_inline
def _start_heads(
    now, entry, parameters, usage, waiting, fresh, listed, scores, marks, bounds, jobs, keys, q_items, q_info, q_meta,
    r_items, r_info, r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Start whoever is first and fits, again and again; returns the first who does not fit, or -1."""
    best = -1
    while gauges[STARTED] < q_meta[ROWS]:
        best = shortlist.first_of_queue(
            now, best, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, scores,
            marks,
        )  # fmt: skip
        head, bounds[FIRST_SCORE] = listed[LOOKED, best], scores[LOOKED, best]
        if jobs[NODES, head] > gauges[FREE]:
            return head
        kernels.begin(head, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
        scores[LOOKED, best] = np.nan
        best = best_noted(0, marks[LOOKED_AT], -1, LOOKED, listed, scores)
    return np.int64(-1)


@compiled_inline
def _is_blocked(now, entry, parameters, usage, waiting, fresh, marks, bounds, jobs, gauges):
    """Whether who was first still does not fit, and nobody who needs less can have come before it.

    Whoever else has come before it does not fit either, so that nobody starts who may not pass the first.
    """
    head = gauges[HEAD]
    if head < 0 or jobs[NODES, head] <= gauges[FREE]:
        return False
    return shortlist.still_first(head, now, entry, parameters, jobs, usage, waiting, fresh, marks, bounds)


@compiled_inline
def _first_to_depth(
    now, depth, stands, by_size, entry, parameters, usage, waiting, fresh, listed, scores, marks, bounds, jobs, keys,
    q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, slots, gauges, started,
):  # fmt: skip
    """Start or promise in order until `depth` are promised a start; returns PLANNED, STANDS (the old promises do), or
    KEPT_BACK: nobody can start, and nothing was planned.

    Rows promised a start get jobs[RESERVED] = now.
    """
    best, reserved, begun = -1, 0, False
    while reserved < depth and gauges[STARTED] + reserved < q_meta[ROWS]:
        best = shortlist.first_of_queue(
            now, best, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, scores,
            marks,
        )  # fmt: skip
        row, bounds[FIRST_SCORE] = listed[LOOKED, best], scores[LOOKED, best]
        if not begun:
            if by_size and passing.first_keeps_all_back(
                row, now, jobs, b_items, b_info, b_meta, r_items, r_info, r_meta, gauges
            ):
                if not stands or row != listed[PROMISED_ROWS, 0]:  # else arrivals are refused by old promises, too
                    gauges[HEAD] = -1
                return KEPT_BACK
            if not stands:
                profile.rebuild(now, jobs, r_items, r_info, r_meta, gauges[FREE], slots, gauges)
            begun = True
        if stands and row != listed[PROMISED_ROWS, reserved]:
            stands = False
            profile.rebuild(now, jobs, r_items, r_info, r_meta, gauges[FREE], slots, gauges)
            for index in range(reserved):
                reservations.starts_or_is_promised(listed[PROMISED_ROWS, index], now, gauges[FREE], jobs, slots, gauges)
        if not stands and reservations.starts_or_is_promised(row, now, gauges[FREE], jobs, slots, gauges):
            kernels.begin(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
        else:
            listed[PROMISED_ROWS, reserved], jobs[RESERVED, row] = row, now
            reserved += 1
        scores[LOOKED, best] = np.nan
        best = best_noted(0, marks[LOOKED_AT], -1, LOOKED, listed, scores)
    gauges[HEAD] = listed[PROMISED_ROWS, depth - 1] if reserved == depth else -1
    return STANDS if stands else PLANNED


@compiled_inline
def _fitting(begin, end, rows, free, extra, longest, jobs, out):
    """Write into `out` at which places from begin to end somebody may pass the head; how many?"""
    count = 0
    for place in range(begin, end):  # no branches: which way they go is hard to foresee
        nodes = jobs[NODES, rows[place]]
        out[count] = place
        count += (nodes <= free) & ((nodes <= extra) | (jobs[LIMIT, rows[place]] <= longest))
    return count


@compiled_inline
def _may_pass(row, now, depth, jobs, slots, gauges):
    if depth > EASY:
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        return reservations.disturbs_nobody(now, nodes, limit, gauges[FREE], slots) and jobs[RESERVED, row] != now
    return passing.may_backfill(row, now, jobs, gauges)


@compiled_inline
def _waits(row, jobs, gauges):
    """Whether it is neither the head nor one who started in this pass."""
    return row != gauges[HEAD] and (gauges[STARTED] == 0 or jobs[STATE, row] == QUEUED)


@compiled_inline
def _able_on(rung, now, depth, jobs, s_items, s_info, slots, gauges):
    """How many of a rung by size may pass the head as far as sizes say, or more; they stand first."""
    nodes = s_info[MIN_NODES, rung]
    if depth > EASY:
        longest = reservations.free_until(now, nodes, slots) - now
    else:
        longest = FOREVER if nodes <= gauges[EXTRA] else gauges[SHADOW] - now
    if s_info[MIN_LIMIT, rung] > longest:
        return 0
    if ladder.all_as_wide(rung, s_items, s_info, jobs):
        return ladder.not_longer(rung, longest, s_items, s_info, jobs)
    return s_info[SIZE, rung]


@compiled_inline
def _find_all(now, depth, jobs, s_items, s_info, s_meta, slots, gauges, listed):
    """Note all who may pass the head, found by their sizes; how many? More than FEW: -1, they are not hard to find."""
    able = 0
    for place in range(s_meta[RUNGS]):
        rung = s_info[ORDER, place]
        if s_info[MIN_NODES, rung] > gauges[FREE]:
            break
        for position in range(_able_on(rung, now, depth, jobs, s_items, s_info, slots, gauges)):
            row = s_items[rung, position]
            if _may_pass(row, now, depth, jobs, slots, gauges) and _waits(row, jobs, gauges):
                if able == FEW:
                    return -1
                listed[ABLE, able] = row
                able += 1
    return able


@compiled_inline
def _find_more(
    wanted, best, able, now, depth, jobs, keys, q_items, q_info, q_meta, slots, gauges, listed, scores, marks, waiting
):  # fmt: skip
    """Note so many more who may pass the head, as long as they could come before `best`; how many are noted now?"""
    enough, place, position = able + wanted, marks[PLACE], marks[POSITION]
    free, extra, longest = gauges[FREE], gauges[EXTRA], gauges[SHADOW] - now
    while place < q_meta[RUNGS] and able < enough:
        rung = q_info[ORDER, place]
        fewest, end = q_info[MIN_NODES, rung], q_info[SIZE, rung]
        shortest, found = q_info[MIN_LIMIT, rung], 0
        if depth > EASY:
            if reservations.disturbs_nobody(now, fewest, shortest, free, slots):
                found = reservations.places_that_may_fit(now, position, end, q_items[rung], free, jobs, slots, waiting)
        elif fewest <= free and (fewest <= extra or shortest <= longest):
            found = _fitting(position, end, q_items[rung], free, extra, longest, jobs, waiting)
        if found > 0:
            for index in range(found):
                row = q_items[rung, waiting[index]]
                if depth > EASY and not _may_pass(row, now, depth, jobs, slots, gauges):
                    continue
                if not _waits(row, jobs, gauges):
                    continue
                if able == enough or (best >= 0 and comes_before(best, ABLE, keys[BOUND, row], row, listed, scores)):
                    enough, end = able, waiting[index]
                    break
                listed[ABLE, able] = row
                able += 1
        place, position = (place + 1, 0) if end == q_info[SIZE, rung] else (place, end)
    marks[PLACE], marks[POSITION] = place, position
    return able


@compiled_inline
def _still_able(count, now, depth, jobs, slots, gauges, listed, scores):
    """Drop those who started and those who may not pass the head any more; how many are left?"""
    left = 0
    for index in range(count):
        row = listed[ABLE, index]
        listed[ABLE, left], scores[ABLE, left] = row, scores[ABLE, index]
        left += jobs[STATE, row] == QUEUED and _may_pass(row, now, depth, jobs, slots, gauges)
    return left


@compiled_inline
def _score_able(first, count, now, entry, parameters, usage, waiting, fresh, jobs, listed, scores):
    """Score those who may pass the head from the `first` on."""
    for index in range(first, count):
        waiting[index - first] = listed[ABLE, index]
    scoring.score(entry, parameters, jobs, usage, waiting[: count - first], now, fresh)
    for index in range(first, count):
        scores[ABLE, index] = fresh[index - first]


@compiled_inline
def _pass_the_head(
    now, depth, able, at_once, entry, parameters, usage, waiting, fresh, listed, scores, marks, jobs, keys, q_items,
    q_info, q_meta, r_items, r_info, r_meta, idle, pool, slots, gauges, started,
):  # fmt: skip
    """Start those who may pass the head, in order; so many are noted, how many of the others were scored?"""
    noted, best, scored, wanted = 0, -1, -able, q_meta[ROWS] if at_once else FIRST
    while gauges[FREE] > 0:
        if noted == able:
            able = _find_more(
                wanted, best, able, now, depth, jobs, keys, q_items, q_info, q_meta, slots, gauges, listed, scores,
                marks, waiting,
            )  # fmt: skip
            wanted = max(wanted, min(4 * wanted, MOST))
        if noted < able:
            if able > 1 or not at_once:
                _score_able(noted, able, now, entry, parameters, usage, waiting, fresh, jobs, listed, scores)
                scored += able - noted
            else:
                scores[ABLE, noted] = 0.0  # one alone needs no score
            best, noted = best_noted(noted, able, best, ABLE, listed, scores), able
        elif best >= 0:
            row = listed[ABLE, best]
            if depth > EASY:
                profile.occupy(slots, gauges, now, now + jobs[LIMIT, row], jobs[NODES, row])
                reservations.note_lasting(slots, gauges, now)
                kernels.begin(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
            else:
                kernels.backfill(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
            able = _still_able(able, now, depth, jobs, slots, gauges, listed, scores)
            best, noted = best_noted(0, able, -1, ABLE, listed, scores), able
        else:
            break
    return scored


@compiled_lean
def schedule_pass(
    now, depth, first_new, end_new, two_orders, by_size, entry, parameters, bounded, bound_entry, bound_parameters,
    second_entry, second_parameters, usage, least, waiting, fresh, listed, scores, marks, bounds, gather_entry,
    gather_numbers, queued, spans, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info,
    r_meta, idle, pool, slots, gauges, started,
):  # fmt: skip
    """Start every job that may start at `now`; the rows are in started[:gauges[STARTED]].

    Rows first_new to end_new came in since the last pass. Nobody else needs a look where nothing was released and the
    head is the same: those refused before stay refused. by_size: the b ladder has the queue in that order.
    """
    gauges[STARTED] = 0
    overrunning.extend_overrunning(now, jobs, keys, r_items, r_info, r_meta, gauges)
    released, gauges[RELEASED] = gauges[RELEASED], 0
    given_numbers.gather(now, gather_entry, gather_numbers, jobs, usage, queued, spans, parameters)
    shortlist.begin_pass(
        now, depth != STRICT, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least,
        q_items, q_info, q_meta, waiting, fresh[0], listed, scores, marks, bounds, spans,
    )  # fmt: skip
    head, stands = gauges[HEAD], False
    if depth == STRICT and _is_blocked(now, entry, parameters, usage, waiting, fresh[0], marks, bounds, jobs, gauges):
        shortlist.end_pass(AT_LEAST, q_meta, marks)
        return
    if depth > EASY:
        stands = not released and head >= 0 and profile.still_holds(now, slots, gauges)
        outcome = _first_to_depth(
            now, depth, stands, by_size, entry, parameters, usage, waiting, fresh[0], listed, scores, marks, bounds,
            jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, slots,
            gauges, started,
        )  # fmt: skip
        if outcome == KEPT_BACK:
            shortlist.end_pass(0, q_meta, marks)
            return
        stands = outcome == STANDS
        reservations.note_lasting(slots, gauges, now)
    else:
        head = _start_heads(
            now, entry, parameters, usage, waiting, fresh[0], listed, scores, marks, bounds, jobs, keys, q_items,
            q_info, q_meta, r_items, r_info, r_meta, idle, pool, gauges, started,
        )  # fmt: skip
        stands = not released and gauges[STARTED] == 0 and gauges[HEAD] == head
        if depth == STRICT and head >= 0:
            shortlist.look_ahead(
                head, now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items,
                q_info, q_meta, waiting, fresh[0], listed, scores, marks, bounds, spans,
            )  # fmt: skip
    able, scored = 0, 0
    if q_meta[ROWS] - gauges[STARTED] < 2 or depth == STRICT or gauges[FREE] == 0:
        gauges[HEAD] = head if depth == STRICT else -1
    else:
        marks[PLACE], marks[POSITION] = 0, 0
        if stands:
            for row in range(first_new, end_new):
                listed[ABLE, row - first_new] = row
            able = _still_able(end_new - first_new, now, depth, jobs, slots, gauges, listed, scores)
            marks[PLACE] = q_meta[RUNGS]
        elif depth <= EASY:
            gauges[HEAD], gauges[SHADOW], gauges[EXTRA] = head, FOREVER, 0
            if depth == EASY:
                gauges[SHADOW], gauges[EXTRA] = passing.shadow_of(
                    jobs[NODES, head], jobs, r_items, r_info, r_meta, gauges[FREE]
                )
        at_once = two_orders or not marks[CHEAP_CALLS]
        if not stands and by_size:
            found = _find_all(now, depth, jobs, b_items, b_info, b_meta, slots, gauges, listed)
            if found >= 0:
                able, marks[PLACE], at_once = found, q_meta[RUNGS], True
        if two_orders:
            entry, parameters = second_entry, second_parameters
        scored = _pass_the_head(
            now, depth, able, at_once, entry, parameters, usage, waiting,
            fresh[1 if two_orders else 0], listed, scores, marks, jobs, keys, q_items, q_info, q_meta, r_items, r_info,
            r_meta, idle, pool, slots, gauges, started,
        )  # fmt: skip
    for index in range(gauges[STARTED]):
        _dequeue(
            started[index], two_orders, by_size, jobs, keys, queued, spans, q_items, q_info, q_meta, b_items, b_info,
            b_meta,
        )  # fmt: skip
    shortlist.end_pass(scored - depth if depth > EASY else scored, q_meta, marks)  # so many must be found first
