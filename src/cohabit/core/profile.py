"""Free nodes over time, compiled: running jobs by requested end, and reservations, for depth two and more.

slots[IDLE, i] nodes are free from slots[TIME, i] until slots[TIME, i + 1]; the last point lasts for ever. A point
stays as long as an interval begins or ends there. Finite depth: built anew in every pass. Conservative: kept between
passes; when a job ends early each queued job in order may move to an earlier slot with all other reservations in
place, so no job is ever promised a later start than before (planning anew from nothing would break that promise).
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled
from cohabit.core.columns import (
    EARLY_END,
    EXPECTED,
    FREE,
    HOLE_END,
    LIMIT,
    NODES,
    PROFILE_POINTS,
    PROMISED,
    RESERVED,
    SEQ,
    WAKE,
)
from cohabit.core.ladder import ORDER, RUNGS, SIZE

FOREVER = 2**62
SECOND = 1_000_000
UNRESERVED = -1
TIME, IDLE, USES = 0, 1, 2  # rows of `slots`: from when, nodes free from then on, intervals that begin or end there


@compiled
def reset(slots, gauges, nodes):
    """Everything free for ever."""
    slots[TIME, 0], slots[IDLE, 0], slots[USES, 0] = -FOREVER, nodes, 1
    gauges[PROFILE_POINTS], gauges[HOLE_END], gauges[WAKE] = 1, -FOREVER, FOREVER


@compiled
def _point_at_or_before(slots, count, instant):
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if slots[TIME, middle] <= instant:
            low = middle
        else:
            high = middle
    return low


@compiled
def _use_point(slots, gauges, instant):
    """Index of the point exactly at `instant`, made if it is missing; one more interval begins or ends there."""
    count = gauges[PROFILE_POINTS]
    index = _point_at_or_before(slots, count, instant)
    if slots[TIME, index] != instant:
        index += 1
        for column in range(3):
            for place in range(count, index, -1):
                slots[column, place] = slots[column, place - 1]
        slots[TIME, index], slots[IDLE, index], slots[USES, index] = instant, slots[IDLE, index - 1], 0
        gauges[PROFILE_POINTS] = count + 1
    slots[USES, index] += 1
    return index


@compiled
def _drop_point(slots, gauges, instant):
    """One interval fewer begins or ends at `instant`; a point of none is taken out."""
    count = gauges[PROFILE_POINTS]
    index = _point_at_or_before(slots, count, instant)
    if slots[TIME, index] != instant or index == 0:
        return  # it lies in the past and was forgotten
    slots[USES, index] -= 1
    if slots[USES, index] == 0:
        for column in range(3):
            for place in range(index, count - 1):
                slots[column, place] = slots[column, place + 1]
        gauges[PROFILE_POINTS] = count - 1


@compiled
def occupy(slots, gauges, begin, end, nodes):
    """Take `nodes` from `begin` until `end`."""
    if begin >= end:
        return
    first = _use_point(slots, gauges, begin)
    last = _use_point(slots, gauges, end)
    for index in range(first, last):
        slots[IDLE, index] -= nodes


@compiled
def vacate(slots, gauges, begin, end, nodes):
    """Undo `occupy` for an interval that lies wholly ahead."""
    if begin >= end:
        return
    index = _point_at_or_before(slots, gauges[PROFILE_POINTS], begin)
    while index < gauges[PROFILE_POINTS] and slots[TIME, index] < end:
        slots[IDLE, index] += nodes
        index += 1
    _drop_point(slots, gauges, end)
    _drop_point(slots, gauges, begin)


@compiled
def give_back(slots, gauges, now, end, nodes):
    """A job ended at `now` that was expected to keep its nodes until `end`."""
    if end > now:
        index = _use_point(slots, gauges, now)
        while index < gauges[PROFILE_POINTS] and slots[TIME, index] < end:
            slots[IDLE, index] += nodes
            index += 1
        gauges[HOLE_END], gauges[EARLY_END] = max(gauges[HOLE_END], end), 1
        _drop_point(slots, gauges, end)


@compiled
def _forget_past(slots, gauges, now):
    count = gauges[PROFILE_POINTS]
    index = _point_at_or_before(slots, count, now)
    if index > 16 and index > count // 4:
        for column in range(3):
            for place in range(index, count):
                slots[column, place - index] = slots[column, place]
        gauges[PROFILE_POINTS] = count - index


@compiled
def _earliest(slots, gauges, now, nodes, duration, own_start, latest):
    """First instant from `now` with `nodes` free throughout; `latest` if there is none before it.

    own_start: where the asking job's own reservation stands in the profile (its nodes count as free there);
    FOREVER where it has none.
    """
    count = gauges[PROFILE_POINTS]
    index = _point_at_or_before(slots, count, now)
    start = now
    own_end = own_start + duration
    while start < latest:
        own = nodes if own_start <= slots[TIME, index] < own_end else 0
        if slots[IDLE, index] + own < nodes:
            if index + 1 == count:
                return latest
            index += 1
            start = slots[TIME, index]
            continue
        index += 1
        if index == count or slots[TIME, index] >= start + duration:
            return start
    return latest


@compiled
def planned(limit):
    """How long a reservation lasts: a job that asked for no time at all still holds its second."""
    return limit if limit > 0 else SECOND


@compiled
def _reserve(row, start, jobs, slots, gauges):
    if start < FOREVER:
        occupy(slots, gauges, start, start + planned(jobs[LIMIT, row]), jobs[NODES, row])
    jobs[RESERVED, row] = start


@compiled
def cancel_reservation(row, jobs, slots, gauges):
    """A queued job left: whoever it stood in the way of may move up."""
    start = jobs[RESERVED, row]
    if start != UNRESERVED and start < FOREVER:
        end = start + planned(jobs[LIMIT, row])
        vacate(slots, gauges, start, end, jobs[NODES, row])
        gauges[HOLE_END], gauges[EARLY_END] = max(gauges[HOLE_END], end), 1
    jobs[RESERVED, row] = UNRESERVED


@compiled
def plan_conservatively(now, waiting, jobs, r_items, r_info, r_meta, slots, gauges):
    """Move reservations up into holes, reserve for arrivals, and return the rows whose time has come."""
    _forget_past(slots, gauges, now)
    left, moved, early_end = gauges[FREE], False, gauges[EARLY_END] == 1
    hole_end = gauges[HOLE_END]  # nobody can gain a slot that begins after the last hole
    if hole_end == FOREVER:  # a job overran its request or nodes were lost: the promises are void, plan anew
        rebuild(now, jobs, r_items, r_info, r_meta, left, slots, gauges)
        for row in waiting:
            jobs[RESERVED, row] = UNRESERVED
        early_end = False
    ready, count, wake = np.empty(len(waiting), np.int64), 0, FOREVER
    for row in waiting:
        old, nodes, length = jobs[RESERVED, row], jobs[NODES, row], planned(jobs[LIMIT, row])
        if old == UNRESERVED:
            _reserve(row, _earliest(slots, gauges, now, nodes, length, FOREVER, FOREVER), jobs, slots, gauges)
            if jobs[PROMISED, row] == UNRESERVED:
                jobs[PROMISED, row] = jobs[RESERVED, row]
        elif early_end and old > now:
            latest = min(old, hole_end)
            start = _earliest(slots, gauges, now, nodes, length, old, latest)
            if start < latest:
                moved = True
                if old < FOREVER:
                    vacate(slots, gauges, old, old + length, nodes)
                    hole_end = max(hole_end, old + length)
                _reserve(row, start, jobs, slots, gauges)
        if jobs[RESERVED, row] <= now and nodes <= left:
            ready[count] = row
            count += 1
            left -= nodes
            jobs[RESERVED, row] = UNRESERVED
            if jobs[LIMIT, row] == 0:  # it ends within this instant: once started it holds nothing ahead
                vacate(slots, gauges, now, now + SECOND, nodes)
        elif jobs[RESERVED, row] > now:
            wake = min(wake, jobs[RESERVED, row])
    if hole_end == FOREVER or (early_end and not moved):
        hole_end = -FOREVER  # a sweep in which nobody moved leaves nothing to gain; otherwise the next one goes on
    gauges[HOLE_END], gauges[EARLY_END], gauges[WAKE] = hole_end, 0, wake
    return ready[:count]


@compiled
def rebuild(now, jobs, r_items, r_info, r_meta, idle_now, slots, gauges):
    """The profile of the running jobs alone, from now on."""
    slots[TIME, 0], slots[IDLE, 0], slots[USES, 0], count = now, idle_now, 1, 1
    for place in range(r_meta[RUNGS]):
        rung = r_info[ORDER, place]
        for position in range(r_info[SIZE, rung]):
            row = r_items[rung, position]
            if jobs[EXPECTED, row] > slots[TIME, count - 1]:
                slots[TIME, count], slots[IDLE, count] = jobs[EXPECTED, row], slots[IDLE, count - 1]
                slots[USES, count] = 0
                count += 1
            slots[IDLE, count - 1] += jobs[NODES, row]
            slots[USES, count - 1] += 1
    gauges[PROFILE_POINTS] = count


@compiled
def plan_to_depth(now, depth, waiting, second, two_orders, jobs, slots, gauges):
    """Start or reserve in order until `depth` reservations stand; after that start only what disturbs none."""
    ready = np.empty(len(waiting), np.int64)
    count, left, reserved, index = 0, gauges[FREE], 0, 0
    while index < len(waiting) and reserved < depth:
        row = waiting[index]
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        start = _earliest(slots, gauges, now, nodes, limit, FOREVER, FOREVER) if limit > 0 else now
        if start == now and nodes <= left:
            occupy(slots, gauges, now, now + limit, nodes)
            ready[count] = row
            count += 1
            left -= nodes
        else:
            if limit == 0:
                start = _earliest(slots, gauges, now, nodes, SECOND, FOREVER, FOREVER)
            if start < FOREVER:
                occupy(slots, gauges, start, start + planned(limit), nodes)
            reserved += 1
        index += 1
    rest = waiting[index:]
    if two_orders:
        rest = rest[np.argsort(jobs[SEQ][rest], kind="mergesort")]
        rest = rest[np.argsort(second[rest], kind="mergesort")]
    for row in rest:
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        if nodes <= left and (limit == 0 or _earliest(slots, gauges, now, nodes, limit, FOREVER, now + 1) == now):
            occupy(slots, gauges, now, now + limit, nodes)
            ready[count] = row
            count += 1
            left -= nodes
    return ready[:count]
