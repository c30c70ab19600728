"""Reservations of a finite depth in the profile of free nodes, compiled: planned anew in every pass.

The first of the queue start or are promised a start, so many as the depth says; of the others whoever disturbs none of
these may start now. What stays free from now on, and how long, is noted here for core/conservative.py too.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core import scoring
from cohabit.core.columns import FREE, HEAD, LIMIT, NODES, PROFILE_BLOCKS
from cohabit.core.ladder import MIN_LIMIT, MIN_NODES, ORDER, RUNGS, SIZE
from cohabit.core.profile import (
    FOREVER,
    IDLE,
    LASTING,
    SECOND,
    SHIFT,
    TIME,
    find,
    occupy,
    point_after,
    reserve,
)

MANY = 128  # so many who may start are not hard to find in order


@compiled_inline
def planned(limit):
    """How long a reservation lasts: a job that asked for no time at all still holds its second."""
    return limit if limit > 0 else SECOND


# ---- who fits now ---------------------------------------------------------------------------------------------------


@compiled_lean
def note_lasting(slots, gauges, now):
    """slots[LASTING + 1, i] nodes stay free from `now` until slots[LASTING, i], and fewer after that; down to none."""
    place, column = find(slots, gauges, now)
    least, steps = slots[IDLE, column] + slots[SHIFT, place], 0
    while least > 0:
        place, column = point_after(slots, place, column)
        instant, idle = FOREVER, 0
        if place < gauges[PROFILE_BLOCKS]:
            instant, idle = slots[TIME, column], slots[IDLE, column] + slots[SHIFT, place]
        if idle < least:
            slots[LASTING, steps], slots[LASTING + 1, steps] = instant, least
            steps += 1
            least = idle
    slots[LASTING, steps], slots[LASTING + 1, steps] = 2 * (FOREVER - 1), 0


@compiled_inline
def fits_now(now, nodes, limit, slots):
    step = 0
    while slots[LASTING, step] < now + limit:
        step += 1
    return nodes <= slots[LASTING + 1, step]


@compiled_inline
def free_until(now, nodes, slots):
    """Until when so many nodes stay free, one or more."""
    until, step = now, 0
    while slots[LASTING + 1, step] >= max(nodes, 1):
        until, step = slots[LASTING, step], step + 1
    return until


@compiled_inline
def disturbs_nobody(now, nodes, limit, left, slots):
    """Whether so many nodes are free from now on for so long, as `note_lasting` has noted it, and so many are left."""
    return nodes <= left and (limit == 0 or fits_now(now, nodes, limit, slots))


@compiled_lean
def _start_rows(now, rows, left, jobs, slots, gauges, ready, count):
    """Start those who find nodes from now on for all their time; nodes left, how many ready."""
    for row in rows:
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        if disturbs_nobody(now, nodes, limit, left, slots):
            occupy(slots, gauges, now, now + limit, nodes)
            note_lasting(slots, gauges, now)
            ready[count] = row
            count += 1
            left -= nodes
    return left, count


@compiled_inline
def places_that_may_fit(now, begin, end, rows, left, jobs, slots, out):
    """Write into `out` at which places from begin to end somebody is neither too wide nor too long; how many?"""
    latest, step, count = now, 0, 0
    while slots[LASTING + 1, step] > 0:
        latest, step = slots[LASTING, step], step + 1
    for place in range(begin, end):  # no branches: which way they go is hard to foresee
        out[count] = place
        count += (jobs[NODES, rows[place]] <= left) & (now + jobs[LIMIT, rows[place]] <= latest)
    return count


@compiled_inline
def find_by_size(now, left, most, jobs, s_items, s_info, s_meta, slots, out, places):
    """Write into `out` whoever disturbs nobody, from a ladder by size; how many? More than `most`: -1."""
    count = 0
    for place in range(s_meta[RUNGS]):
        rung = s_info[ORDER, place]
        fewest, shortest = s_info[MIN_NODES, rung], s_info[MIN_LIMIT, rung]
        if fewest > left:
            break
        if disturbs_nobody(now, fewest, shortest, left, slots):
            found = places_that_may_fit(now, 0, s_info[SIZE, rung], s_items[rung], left, jobs, slots, places)
            for index in range(found):
                row = np.int64(s_items[rung, places[index]])
                if disturbs_nobody(now, jobs[NODES, row], jobs[LIMIT, row], left, slots):
                    if count == most:
                        return -1
                    out[count] = row
                    count += 1
    return count


@compiled_lean
def _start_from_ladder(
    now, left, jobs, q_items, q_info, q_meta, place, position, slots, gauges, ready, count, places
):  # fmt: skip
    while place < q_meta[RUNGS] and left > 0:
        rung = q_info[ORDER, place]
        fewest, shortest = q_info[MIN_NODES, rung], q_info[MIN_LIMIT, rung]
        if disturbs_nobody(now, fewest, shortest, left, slots):
            found = places_that_may_fit(now, position, q_info[SIZE, rung], q_items[rung], left, jobs, slots, places)
            for index in range(found):
                places[index] = q_items[rung, places[index]]
            left, count = _start_rows(now, places[:found], left, jobs, slots, gauges, ready, count)
        place, position = place + 1, 0
    return count


@compiled_lean
def starts_or_is_promised(row, now, left, jobs, slots, gauges):
    """Take nodes from now on if they are free for all its time, else when they are; whether it starts now."""
    nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
    if limit == 0 and nodes <= left:
        return True
    return reserve(slots, gauges, now, nodes, planned(limit)) == now and nodes <= left


@compiled_lean
def plan_to_depth(now, depth, waiting, second, two_orders, jobs, slots, gauges, ready):
    """Start or reserve in order until `depth` reservations stand; after that start only what disturbs none.

    waiting: the queue in order, or all of it that matters. Who starts is written into `ready`; how many?
    """
    count, left, reserved, index = 0, gauges[FREE], 0, 0
    while index < len(waiting) and reserved < depth:
        row = waiting[index]
        if starts_or_is_promised(row, now, left, jobs, slots, gauges):
            ready[count] = row
            count += 1
            left -= jobs[NODES, row]
        else:
            reserved += 1
        index += 1
    gauges[HEAD] = waiting[index - 1] if reserved == depth else -1  # the last one with a reservation
    rest = waiting[index:]
    if two_orders:
        scoring.sort_rows(rest, second, jobs)
    note_lasting(slots, gauges, now)
    return _start_rows(now, rest, left, jobs, slots, gauges, ready, count)[1]


@compiled_lean
def _reserve_along_ladder(now, depth, jobs, q_items, q_info, q_meta, slots, gauges, ready):
    """The first half of that on a queue ladder in order: how many are ready, nodes left, and where the rest begins."""
    count, left, reserved, place, position, last = 0, gauges[FREE], 0, 0, 0, np.int64(-1)
    while place < q_meta[RUNGS] and reserved < depth:
        rung = q_info[ORDER, place]
        last, position = np.int64(q_items[rung, position]), position + 1
        if position == q_info[SIZE, rung]:
            place, position = place + 1, 0
        if starts_or_is_promised(last, now, left, jobs, slots, gauges):
            ready[count] = last
            count += 1
            left -= jobs[NODES, last]
        else:
            reserved += 1
    gauges[HEAD] = last if reserved == depth else -1
    return count, left, last, place, position


@compiled_lean
def _rest_by_size(now, last, left, jobs, key, s_items, s_info, s_meta, slots, rows, places):
    """Of those who come after `last` write who disturbs nobody into `rows`, in order; how many? Very many: -1."""
    found, count = find_by_size(now, left, MANY, jobs, s_items, s_info, s_meta, slots, rows, places), 0
    for index in range(found):
        rows[count] = rows[index]
        count += scoring.goes_before(last, rows[index], key, jobs)
    scoring.sort_rows(rows[:count], key, jobs)
    return count if found >= 0 else -1


@compiled_lean
def plan_along_ladder(
    now, depth, by_size, key, jobs, q_items, q_info, q_meta, s_items, s_info, s_meta, slots, gauges, ready, places, rows
):  # fmt: skip
    """`plan_to_depth` for a queue ladder in order. by_size: the queue is on another ladder, too.

    places and rows are room to work in.
    """
    count, left, last, place, position = _reserve_along_ladder(
        now, depth, jobs, q_items, q_info, q_meta, slots, gauges, ready
    )  # fmt: skip
    if place == q_meta[RUNGS] or left == 0:
        return count
    note_lasting(slots, gauges, now)
    found = -1
    if by_size:
        found = _rest_by_size(now, last, left, jobs, key, s_items, s_info, s_meta, slots, rows, places)
    if found >= 0:
        return _start_rows(now, rows[:found], left, jobs, slots, gauges, ready, count)[1]
    return _start_from_ladder(
        now, left, jobs, q_items, q_info, q_meta, place, position, slots, gauges, ready, count, places
    )  # fmt: skip


@compiled_lean
def plan_arrivals(now, arrivals, jobs, slots, gauges, ready):
    """The reservations stand: start the arrivals that disturb none."""
    note_lasting(slots, gauges, now)
    return _start_rows(now, arrivals, gauges[FREE], jobs, slots, gauges, ready, 0)[1]
