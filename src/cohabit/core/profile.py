"""Free nodes over time, compiled: running jobs by requested end, and reservations, for depth two and more.

times[i] and free[i] say how many nodes are free from times[i] until times[i + 1]; the last point lasts for
ever. Finite depth: built anew in every pass. Conservative: kept between passes; when a job ends early each
queued job in order may move to an earlier slot with all other reservations in place, so no job is ever
promised a later start than before (planning anew from nothing would break that promise).
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled
from cohabit.core.columns import EXPECTED, FREE, HOLE_END, LIMIT, NODES, PROFILE_POINTS, PROMISED, RESERVED, SEQ, WAKE
from cohabit.core.ladder import ORDER, RUNGS, SIZE

FOREVER = 2**62
UNRESERVED = -1


@compiled
def reset(times, free, gauges, nodes):
    """Everything free for ever."""
    times[0], free[0] = -FOREVER, nodes
    gauges[PROFILE_POINTS], gauges[HOLE_END], gauges[WAKE] = 1, -FOREVER, FOREVER


@compiled
def _point_at_or_before(times, count, instant):
    low, high = 0, count
    while high - low > 1:
        middle = (low + high) // 2
        if times[middle] <= instant:
            low = middle
        else:
            high = middle
    return low


@compiled
def _point_at(times, free, gauges, instant):
    """Index of the point exactly at `instant`, made if it is missing."""
    count = gauges[PROFILE_POINTS]
    index = _point_at_or_before(times, count, instant)
    if times[index] == instant:
        return index
    for place in range(count, index + 1, -1):
        times[place], free[place] = times[place - 1], free[place - 1]
    times[index + 1], free[index + 1] = instant, free[index]
    gauges[PROFILE_POINTS] = count + 1
    return index + 1


@compiled
def occupy(times, free, gauges, begin, end, nodes):
    """Take `nodes` (negative: give them back) from `begin` until `end`."""
    if begin >= end:
        return
    first = _point_at(times, free, gauges, begin)
    last = _point_at(times, free, gauges, end)
    for index in range(first, last):
        free[index] -= nodes


@compiled
def give_back(times, free, gauges, now, end, nodes):
    """A job ended at `now` that was expected to keep its nodes until `end`."""
    occupy(times, free, gauges, now, end, -nodes)
    if end > now:
        gauges[HOLE_END] = max(gauges[HOLE_END], end)


@compiled
def _forget_past(times, free, gauges, now):
    count = gauges[PROFILE_POINTS]
    index = _point_at_or_before(times, count, now)
    if index > 16 and index > count // 4:
        for place in range(index, count):
            times[place - index], free[place - index] = times[place], free[place]
        gauges[PROFILE_POINTS] = count - index


@compiled
def _earliest(times, free, gauges, now, nodes, duration, own_start, latest):
    """First instant from `now` with `nodes` free throughout; `latest` if there is none before it.

    own_start: where the asking job's own reservation stands in the profile (its nodes count as free there);
    FOREVER where it has none.
    """
    count = gauges[PROFILE_POINTS]
    index = _point_at_or_before(times, count, now)
    start = now
    own_end = own_start + duration
    while start < latest:
        own = nodes if own_start <= times[index] < own_end else 0
        if free[index] + own < nodes:
            if index + 1 == count:
                return latest
            index += 1
            start = times[index]
            continue
        index += 1
        if index == count or times[index] >= start + duration:
            return start
    return latest


@compiled
def _reserve(row, start, jobs, times, free, gauges):
    if start < FOREVER:
        occupy(times, free, gauges, start, start + jobs[LIMIT, row], jobs[NODES, row])
    jobs[RESERVED, row] = start


@compiled
def cancel_reservation(row, now, jobs, times, free, gauges):
    """A queued job left: whoever it stood in the way of may move up."""
    start = jobs[RESERVED, row]
    if start != UNRESERVED and start < FOREVER:
        occupy(times, free, gauges, start, start + jobs[LIMIT, row], -jobs[NODES, row])
        gauges[HOLE_END] = max(gauges[HOLE_END], start + jobs[LIMIT, row])
    jobs[RESERVED, row] = UNRESERVED


@compiled
def plan_conservatively(now, waiting, arrivals, jobs, times, free, gauges):
    """Move reservations up into holes, reserve for arrivals, and return the rows whose time has come."""
    _forget_past(times, free, gauges, now)
    hole_end = gauges[HOLE_END]
    broken = hole_end == FOREVER  # a job overran its request: promises may have become impossible
    if hole_end > now:
        for row in waiting:
            old, nodes, limit = jobs[RESERVED, row], jobs[NODES, row], jobs[LIMIT, row]
            if old == UNRESERVED or (old <= now and not broken):
                continue
            latest = FOREVER if broken else min(old, hole_end)
            start = _earliest(times, free, gauges, now, nodes, limit, old, latest)
            if start < latest or broken:
                if old < FOREVER:
                    occupy(times, free, gauges, old, old + limit, -nodes)
                    hole_end = max(hole_end, old + limit)
                _reserve(row, start, jobs, times, free, gauges)
    gauges[HOLE_END] = -FOREVER
    for row in waiting:
        if jobs[RESERVED, row] == UNRESERVED:
            start = _earliest(times, free, gauges, now, jobs[NODES, row], jobs[LIMIT, row], FOREVER, FOREVER)
            _reserve(row, start, jobs, times, free, gauges)
            jobs[PROMISED, row] = start
    ready = np.empty(len(waiting), np.int64)
    count, left, wake = 0, gauges[FREE], FOREVER
    for row in waiting:
        start = jobs[RESERVED, row]
        if start <= now and jobs[NODES, row] <= left:
            ready[count] = row
            count += 1
            left -= jobs[NODES, row]
            jobs[RESERVED, row] = UNRESERVED
        elif start > now:
            wake = min(wake, start)
    gauges[WAKE] = wake
    return ready[:count]


@compiled
def rebuild(now, jobs, r_items, r_info, r_meta, idle_now, times, free, gauges):
    """The profile of the running jobs alone, from now on."""
    times[0], free[0], count = now, idle_now, 1
    for place in range(r_meta[RUNGS]):
        rung = r_info[ORDER, place]
        for position in range(r_info[SIZE, rung]):
            row = r_items[rung, position]
            if jobs[EXPECTED, row] > times[count - 1]:
                times[count], free[count] = jobs[EXPECTED, row], free[count - 1]
                count += 1
            free[count - 1] += jobs[NODES, row]
    gauges[PROFILE_POINTS] = count


@compiled
def plan_to_depth(now, depth, waiting, second, two_orders, jobs, times, free, gauges):
    """Start or reserve in order until `depth` reservations stand; after that start only what disturbs none."""
    ready = np.empty(len(waiting), np.int64)
    count, left, reserved, index = 0, gauges[FREE], 0, 0
    while index < len(waiting) and reserved < depth:
        row = waiting[index]
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        start = _earliest(times, free, gauges, now, nodes, limit, FOREVER, FOREVER)
        if start < FOREVER:
            occupy(times, free, gauges, start, start + limit, nodes)
        if start == now and nodes <= left:
            ready[count] = row
            count += 1
            left -= nodes
        else:
            reserved += 1
        index += 1
    rest = waiting[index:]
    if two_orders:
        rest = rest[np.argsort(jobs[SEQ][rest], kind="mergesort")]
        rest = rest[np.argsort(second[rest], kind="mergesort")]
    for row in rest:
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        if nodes <= left and _earliest(times, free, gauges, now, nodes, limit, FOREVER, now + 1) == now:
            occupy(times, free, gauges, now, now + limit, nodes)
            ready[count] = row
            count += 1
            left -= nodes
    return ready[:count]
