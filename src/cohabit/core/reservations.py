"""Reservations in the profile of free nodes, compiled: who is promised what, who moves up, and who may start now.

Finite depth: planned anew in every pass. Conservative: kept between passes; when a job ends early each queued job in
order may move to an earlier slot with all other reservations in place, so no job is ever promised a later start than
before (planning anew from nothing would break that promise).
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_lean, leading_zeros
from cohabit.core.columns import (
    DUE,
    EARLY_END,
    FREE,
    FREED_UNTIL,
    HEAD,
    HOLE_END,
    LIMIT,
    NODES,
    PROFILE_BLOCKS,
    PROMISED,
    RESERVED,
    SEQ,
    WAKE,
)
from cohabit.core.ladder import MIN_LIMIT, MIN_NODES, ORDER, RUNGS, SIZE
from cohabit.core.profile import (
    BLOCK,
    FOREVER,
    GAPS,
    IDLE,
    LATER_GAPS,
    LENGTHS,
    LEVELS,
    OPEN_GAPS,
    SECOND,
    SHIFT,
    TIME,
    UNRESERVED,
    earliest,
    extended_left,
    find,
    forget_past,
    let_others_move_up,
    occupy,
    point_after,
    point_before,
    rebuild,
    shift_bound,
    vacate,
)

# ---- what has become free -----------------------------------------------------------------------------------------
# A queued job stands where nothing earlier was free when it was last asked. A better slot must therefore meet nodes
# that have become free since: it reaches the job's own reservation, or it lies in a gap that meets them. Such gaps are
# noted as they come up, by the powers of two of their nodes and length, so that hardly any job looks in vain.


@compiled_lean
def _level_of(nodes):
    return min(63 - leading_zeros(nodes), LEVELS - 1)


@compiled_lean
def _length_of(us):
    return min(64 - leading_zeros(us >> 22), LENGTHS - 1)  # the first takes all below 4 s


@compiled_lean
def _end_gaps(slots, lowest, above, instant):
    """The open gaps of these levels end here: they are the first of their length and of all shorter ones, or not."""
    for level in range(lowest, above):
        begin = slots[GAPS, OPEN_GAPS + level]
        for first in (level * LENGTHS, LATER_GAPS + level * LENGTHS):
            column = first + _length_of(instant - begin)
            while column >= first and slots[GAPS, column] > begin:
                slots[GAPS, column] = begin
                column -= 1


@compiled_lean
def _note_gaps(slots, gauges, now, begin, end):
    """Nodes became free between two instants: note how long the gaps are that they are part of."""
    place, column = find(slots, gauges, begin)
    levels = reach = _level_of(slots[IDLE, column] + slots[SHIFT, place]) + 1
    left_place, left = place, column
    while reach > 0:  # to the left: where did the gaps begin that are open at `begin`?
        instant, level = slots[TIME, left], -1
        if instant > now:
            left_place, left = point_before(slots, left_place, left)
            level = _level_of(slots[IDLE, left] + slots[SHIFT, left_place])
        for higher in range(level + 1, reach):
            slots[GAPS, OPEN_GAPS + higher] = max(instant, now)
        reach = min(reach, level + 1)
    instant = begin
    while instant < end or levels > 0:  # to the right: gaps open until `end`, and close
        place, column = point_after(slots, place, column)
        instant, level = FOREVER, -1
        if place < gauges[PROFILE_BLOCKS]:
            instant, level = slots[TIME, column], _level_of(slots[IDLE, column] + slots[SHIFT, place])
        if level + 1 < levels:
            _end_gaps(slots, level + 1, levels, instant)
            levels = level + 1
        elif instant < end:
            for higher in range(levels, level + 1):
                slots[GAPS, OPEN_GAPS + higher] = instant
            levels = level + 1


@compiled_lean
def planned(limit):
    """How long a reservation lasts: a job that asked for no time at all still holds its second."""
    return limit if limit > 0 else SECOND


@compiled_lean
def _reserve(row, start, jobs, slots, gauges):
    if start < FOREVER:
        occupy(slots, gauges, start, start + planned(jobs[LIMIT, row]), jobs[NODES, row])
    jobs[RESERVED, row] = start


@compiled_lean
def cancel_reservation(row, jobs, slots, gauges):
    """A queued job left: whoever it stood in the way of may move up."""
    start = jobs[RESERVED, row]
    if start != UNRESERVED and start < FOREVER:
        end = start + planned(jobs[LIMIT, row])
        vacate(slots, gauges, start, end, jobs[NODES, row])
        let_others_move_up(gauges, end)
    jobs[RESERVED, row] = UNRESERVED


@compiled_lean
def _move(slots, gauges, now, old, start, length, nodes):
    """A reservation moves up; often by less than its length."""
    if start + length > old:
        shift_bound(slots, gauges, old, start, -nodes)
        shift_bound(slots, gauges, old + length, start + length, nodes)
    else:
        vacate(slots, gauges, old, old + length, nodes)
        occupy(slots, gauges, start, start + length, nodes)
    _note_gaps(slots, gauges, now, max(old, start + length), old + length)


@compiled_lean
def only_arrivals_matter(now, gauges):
    """Whether nothing ended early, no promise is void and nobody's time has come: all reservations stay as they are."""
    return gauges[EARLY_END] == 0 and gauges[HOLE_END] != FOREVER and gauges[DUE] > now


@compiled_lean
def plan_conservatively(now, waiting, jobs, r_items, r_info, r_meta, slots, gauges, ready):
    """Move reservations up into holes, reserve for arrivals; the rows whose time has come go into `ready`: how many?

    waiting: the queue in order, with gauges[DUE] FOREVER; or, where `only_arrivals_matter`, just the arrivals.
    """
    forget_past(slots, gauges, now)
    left, moved, early_end = gauges[FREE], False, gauges[EARLY_END] == 1
    hole_end = gauges[HOLE_END]  # nobody can gain a slot that begins after the last hole
    if hole_end == FOREVER:  # a job overran its request or nodes were lost: the promises are void, plan anew
        rebuild(now, jobs, r_items, r_info, r_meta, left, slots, gauges)
        for row in waiting:
            jobs[RESERVED, row] = UNRESERVED
        early_end = False
    if early_end and len(waiting) > 0:
        _note_gaps(slots, gauges, now, now, gauges[FREED_UNTIL])
        for column in range(LATER_GAPS, OPEN_GAPS):
            slots[GAPS, column] = FOREVER
    count, wake, kept_waiting = 0, gauges[DUE], False
    for row in waiting:
        old, nodes, length = jobs[RESERVED, row], jobs[NODES, row], planned(jobs[LIMIT, row])
        if old == UNRESERVED:
            _reserve(row, earliest(slots, gauges, now, nodes, length, FOREVER, FOREVER), jobs, slots, gauges)
            if jobs[PROMISED, row] == UNRESERVED:
                jobs[PROMISED, row] = jobs[RESERVED, row]
        elif early_end and old > now:
            latest = min(old, hole_end)
            start = latest
            if old <= hole_end:
                start = extended_left(slots, gauges, now, nodes, old)
            gap = max(now, slots[GAPS, _level_of(nodes) * LENGTHS + _length_of(length)])
            if gap < start and gap + length <= old:
                start = earliest(slots, gauges, gap, nodes, length, old, start)
            if start < latest:
                moved = True
                if old < FOREVER:
                    hole_end = max(hole_end, old + length)
                    _move(slots, gauges, now, old, start, length, nodes)
                    jobs[RESERVED, row] = start
                else:
                    _reserve(row, start, jobs, slots, gauges)
        if jobs[RESERVED, row] <= now and nodes <= left:
            ready[count] = row
            count += 1
            left -= nodes
            jobs[RESERVED, row] = UNRESERVED
            if jobs[LIMIT, row] == 0:  # it ends within this instant: once started it holds nothing ahead
                vacate(slots, gauges, now, now + SECOND, nodes)
                _note_gaps(slots, gauges, now, now, now + SECOND)
        elif jobs[RESERVED, row] > now:
            wake = min(wake, jobs[RESERVED, row])
        else:  # due, but a job of request 0 is still there: if it runs on, it is expected in one second
            wake, kept_waiting = min(wake, now + SECOND), True
    if hole_end == FOREVER or (early_end and not moved):
        hole_end = -FOREVER  # a sweep in which nobody moved leaves nothing to gain; otherwise the next one goes on
    if early_end and len(waiting) > 0:  # everybody has looked at all gaps but those that came up after his turn
        for column in range(LATER_GAPS):
            slots[GAPS, column] = slots[GAPS, LATER_GAPS + column]
    gauges[HOLE_END], gauges[EARLY_END], gauges[WAKE], gauges[DUE] = hole_end, 0, wake, now if kept_waiting else wake
    gauges[FREED_UNTIL] = -FOREVER
    return count


@compiled_lean
def _note_lasting(slots, gauges, now, lasting):
    """lasting[1, i] nodes stay free from `now` until lasting[0, i], and fewer after that; down to none."""
    place, column = find(slots, gauges, now)
    least, steps = slots[IDLE, column] + slots[SHIFT, place], 0
    while least > 0:
        place, column = point_after(slots, place, column)
        instant, idle = FOREVER, 0
        if place < gauges[PROFILE_BLOCKS]:
            instant, idle = slots[TIME, column], slots[IDLE, column] + slots[SHIFT, place]
        if idle < least:
            lasting[0, steps], lasting[1, steps] = instant, least
            steps += 1
            least = idle
    lasting[0, steps], lasting[1, steps] = 2 * (FOREVER - 1), 0


@compiled_lean
def _fits_now(now, nodes, limit, lasting):
    step = 0
    while lasting[0, step] < now + limit:
        step += 1
    return nodes <= lasting[1, step]


@compiled_lean
def _start_rows(now, rows, begin, end, left, jobs, slots, gauges, lasting, ready, count):
    """Start those of rows[begin:end] who find nodes from now on for all their time; nodes left, how many ready."""
    for index in range(begin, end):
        row = rows[index]
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        if nodes <= left and (limit == 0 or _fits_now(now, nodes, limit, lasting)):
            occupy(slots, gauges, now, now + limit, nodes)
            _note_lasting(slots, gauges, now, lasting)
            ready[count] = row
            count += 1
            left -= nodes
    return left, count


@compiled_lean
def _start_from_ladder(
    now, left, jobs, q_items, q_info, q_meta, place, position, slots, gauges, lasting, ready, count
):  # fmt: skip
    while place < q_meta[RUNGS] and left > 0:
        rung = q_info[ORDER, place]
        fewest, shortest = q_info[MIN_NODES, rung], q_info[MIN_LIMIT, rung]
        if fewest <= left and (shortest == 0 or _fits_now(now, fewest, shortest, lasting)):
            left, count = _start_rows(
                now, q_items[rung], position, q_info[SIZE, rung], left, jobs, slots, gauges, lasting, ready, count
            )  # fmt: skip
        place, position = place + 1, 0
    return count


@compiled
def _start_what_fits(
    now, rest, left, jobs, q_items, q_info, q_meta, place, position, slots, gauges, ready, count
):  # fmt: skip
    """Whoever finds nodes free from now on for all its time may start; it disturbs no reservation."""
    lasting = np.empty((2, gauges[PROFILE_BLOCKS] * BLOCK + 2 * left + 2), np.int64)
    _note_lasting(slots, gauges, now, lasting)
    left, count = _start_rows(now, rest, 0, len(rest), left, jobs, slots, gauges, lasting, ready, count)
    return _start_from_ladder(
        now, left, jobs, q_items, q_info, q_meta, place, position, slots, gauges, lasting, ready, count
    )  # fmt: skip


@compiled_lean
def _reserve_to_depth(now, depth, waiting, jobs, slots, gauges, ready):
    """Start or reserve in order until `depth` reservations stand; how many are ready, nodes left, how far it went."""
    count, left, reserved, index = 0, gauges[FREE], 0, 0
    while index < len(waiting) and reserved < depth:
        row = waiting[index]
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        start = earliest(slots, gauges, now, nodes, limit, FOREVER, FOREVER) if limit > 0 else now
        if start == now and nodes <= left:
            occupy(slots, gauges, now, now + limit, nodes)
            ready[count] = row
            count += 1
            left -= nodes
        else:
            if limit == 0:
                start = earliest(slots, gauges, now, nodes, SECOND, FOREVER, FOREVER)
            if start < FOREVER:
                occupy(slots, gauges, start, start + planned(limit), nodes)
            reserved += 1
        index += 1
    gauges[HEAD] = waiting[index - 1] if reserved == depth else -1  # the last one with a reservation
    return count, left, index


@compiled
def plan_to_depth(
    now, depth, waiting, second, two_orders, jobs, q_items, q_info, q_meta, place, position, slots, gauges, ready
):  # fmt: skip
    """Start or reserve in order until `depth` reservations stand; after that start only what disturbs none.

    waiting: the queue in order as far as needed for that; the rest is on the ladder from this place and position on.
    """
    count, left, index = _reserve_to_depth(now, depth, waiting, jobs, slots, gauges, ready)
    rest = waiting[index:]
    if two_orders:
        rest = rest[np.argsort(jobs[SEQ][rest], kind="mergesort")]
        rest = rest[np.argsort(second[rest], kind="mergesort")]
    return _start_what_fits(
        now, rest, left, jobs, q_items, q_info, q_meta, place, position, slots, gauges, ready, count
    )  # fmt: skip


@compiled
def plan_arrivals(now, arrivals, jobs, q_items, q_info, q_meta, slots, gauges, ready):
    """The reservations stand: start the arrivals that disturb none."""
    place = q_meta[RUNGS]  # nobody else
    return _start_what_fits(
        now, arrivals, gauges[FREE], jobs, q_items, q_info, q_meta, place, 0, slots, gauges, ready, 0
    )  # fmt: skip
