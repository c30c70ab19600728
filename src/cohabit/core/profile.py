"""Free nodes over time, compiled: running jobs by requested end, and reservations, for depth two and more.

A point says how many nodes are free from its instant until the next point's; the last one lasts for ever, and a point
stays as long as an interval begins or ends there. Points live in blocks of at most 32, in order of time; for every
block the directory holds bounds of what is free in it, so a search skips blocks in which nothing can begin or in which
nothing can get in the way, and an interval is taken from the blocks it covers whole by one number each.

Finite depth: built anew in every pass. Conservative: kept between passes; when a job ends early each queued job in
order may move to an earlier slot with all other reservations in place, so no job is ever promised a later start than
before (planning anew from nothing would break that promise).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled, compiled_lean, leading_zeros
from cohabit.core.columns import (
    DUE,
    EARLY_END,
    EXPECTED,
    FREE,
    FREED_UNTIL,
    HEAD,
    HOLE_END,
    LIMIT,
    NODES,
    PROFILE_BLOCKS,
    PROFILE_SPARE,
    PROMISED,
    RESERVED,
    SEQ,
    WAKE,
)
from cohabit.core.ladder import ORDER, RUNGS, SIZE

FOREVER = 2**62
SECOND = 1_000_000
UNRESERVED = -1
BLOCK = 32  # points in a full block
# rows of `slots`, one column per point: from when, nodes free from then on (less SHIFT), intervals that begin or end
TIME, IDLE, USES = 0, 1, 2
# rows of `slots`, one column per block in order of time: its number (its points are columns NUMBER * BLOCK and on), how
# many points, the first one's instant, bounds of the nodes free in it, and what to add to every IDLE in it
NUMBER, POINTS, FROM, MOST, LEAST, SHIFT = 3, 4, 5, 6, 7, 8
# the last row of `slots`: for every power of two of nodes and of length, when the first gap begins that some job has
# not looked at yet; the same for gaps that came up in this sweep; and since when the gap being measured is open
GAPS = 9
LEVELS, LENGTHS = 20, 20  # powers of two; more nodes and longer times count as the last
LATER_GAPS, OPEN_GAPS = LEVELS * LENGTHS, 2 * LEVELS * LENGTHS


def make(jobs: int, nodes: int) -> NDArray[np.int64]:
    """Room for the intervals of so many jobs; two neighbouring blocks are together more than half a block."""
    return np.empty((10, max(4 * (2 * jobs + 2 * nodes + BLOCK), OPEN_GAPS + LEVELS)), np.int64)


def points(slots: NDArray[np.int64], gauges: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """All instants at which the number of free nodes may change, and how many are free from each on."""
    times, idle = [], []
    for place in range(int(gauges[PROFILE_BLOCKS])):
        first = int(slots[NUMBER, place]) * BLOCK
        own = slice(first, first + int(slots[POINTS, place]))
        times.append(slots[TIME, own])
        idle.append(slots[IDLE, own] + slots[SHIFT, place])
    return np.concatenate(times), np.concatenate(idle)


# ---- blocks of points ------------------------------------------------------------------------------------------


@compiled_lean
def reset(slots, gauges, nodes):
    """Everything free for ever."""
    slots[TIME, 0], slots[IDLE, 0], slots[USES, 0] = -FOREVER, nodes, 1
    slots[NUMBER, 0], slots[POINTS, 0], slots[FROM, 0] = 0, 1, -FOREVER
    slots[MOST, 0], slots[LEAST, 0], slots[SHIFT, 0] = nodes, nodes, 0
    gauges[PROFILE_BLOCKS], gauges[PROFILE_SPARE] = 1, 1
    for column in range(OPEN_GAPS):
        slots[GAPS, column] = FOREVER
    gauges[HOLE_END], gauges[FREED_UNTIL], gauges[WAKE], gauges[DUE] = -FOREVER, -FOREVER, FOREVER, FOREVER


@compiled_lean
def _last_at_or_before(slots, row, low, high, instant):
    """The last column of the sorted slots[row, low:high] that is not after `instant`; `low` if there is none."""
    while high - low > 1:
        middle = (low + high) >> 1
        if slots[row, middle] <= instant:
            low = middle
        else:
            high = middle
    return low


@compiled_lean
def _find(slots, gauges, instant):
    """The last point that is not after `instant`: the place of its block, and its column."""
    place = _last_at_or_before(slots, FROM, 0, gauges[PROFILE_BLOCKS], instant)
    first = slots[NUMBER, place] * BLOCK
    return place, _last_at_or_before(slots, TIME, first, first + slots[POINTS, place], instant)


@compiled_lean
def _point_before(slots, place, column):
    if column > slots[NUMBER, place] * BLOCK:
        return place, column - 1
    return place - 1, slots[NUMBER, place - 1] * BLOCK + slots[POINTS, place - 1] - 1


@compiled_lean
def _point_after(slots, place, column):
    if column + 1 < slots[NUMBER, place] * BLOCK + slots[POINTS, place]:
        return place, column + 1
    return place + 1, slots[NUMBER, place + 1] * BLOCK


@compiled_lean
def _summarise(slots, place):
    first = slots[NUMBER, place] * BLOCK
    most = least = slots[IDLE, first]
    for column in range(first + 1, first + slots[POINTS, place]):
        most, least = max(most, slots[IDLE, column]), min(least, slots[IDLE, column])
    slots[MOST, place], slots[LEAST, place] = most + slots[SHIFT, place], least + slots[SHIFT, place]


@compiled_lean
def _open_block(slots, gauges, place):
    """An empty block at `place` in the order; numbers no longer in use wait behind those in use."""
    count = gauges[PROFILE_BLOCKS]
    if count == gauges[PROFILE_SPARE]:
        slots[NUMBER, count] = count
        gauges[PROFILE_SPARE] = count + 1
    number = slots[NUMBER, count]
    for row in range(NUMBER, SHIFT + 1):
        for index in range(count, place, -1):
            slots[row, index] = slots[row, index - 1]
    slots[NUMBER, place], slots[POINTS, place], slots[SHIFT, place] = number, 0, 0
    gauges[PROFILE_BLOCKS] = count + 1


@compiled_lean
def _close_block(slots, gauges, place):
    count = gauges[PROFILE_BLOCKS] - 1
    number = slots[NUMBER, place]
    for row in range(NUMBER, SHIFT + 1):
        for index in range(place, count):
            slots[row, index] = slots[row, index + 1]
    slots[NUMBER, count] = number
    gauges[PROFILE_BLOCKS] = count


@compiled_lean
def _append_points(slots, place, source, count, change):
    """Copy `count` points from column `source` on to the end of a block, with `change` more nodes free in each."""
    target = slots[NUMBER, place] * BLOCK + slots[POINTS, place]
    for index in range(count):
        slots[TIME, target + index] = slots[TIME, source + index]
        slots[IDLE, target + index] = slots[IDLE, source + index] + change
        slots[USES, target + index] = slots[USES, source + index]
    slots[POINTS, place] += count


@compiled_lean
def _split(slots, gauges, place):
    """Move the later half of a full block into one of its own."""
    half = BLOCK // 2
    source = slots[NUMBER, place] * BLOCK + half
    _open_block(slots, gauges, place + 1)
    slots[SHIFT, place + 1], slots[FROM, place + 1] = slots[SHIFT, place], slots[TIME, source]
    _append_points(slots, place + 1, source, half, 0)
    slots[POINTS, place] = half
    _summarise(slots, place)
    _summarise(slots, place + 1)


@compiled_lean
def _join(slots, gauges, place):
    """Join a block and the next one if together they fill no more than half a block."""
    after = place + 1
    if 0 < after < gauges[PROFILE_BLOCKS] and slots[POINTS, place] + slots[POINTS, after] <= BLOCK // 2:
        change = slots[SHIFT, after] - slots[SHIFT, place]
        _append_points(slots, place, slots[NUMBER, after] * BLOCK, slots[POINTS, after], change)
        slots[MOST, place] = max(slots[MOST, place], slots[MOST, after])
        slots[LEAST, place] = min(slots[LEAST, place], slots[LEAST, after])
        _close_block(slots, gauges, after)


@compiled_lean
def _shift_points(slots, begin, end, by):
    """Move the points of these columns to others of the same block."""
    for row in range(3):
        if by > 0:
            for index in range(end - 1, begin - 1, -1):
                slots[row, index + by] = slots[row, index]
        else:
            for index in range(begin, end):
                slots[row, index + by] = slots[row, index]


@compiled_lean
def _use_point(slots, gauges, instant):
    """One more interval begins or ends at `instant`; its point is made if it is missing."""
    place, column = _find(slots, gauges, instant)
    if slots[TIME, column] != instant:
        if slots[POINTS, place] == BLOCK:
            _split(slots, gauges, place)
            place, column = _find(slots, gauges, instant)
        end = slots[NUMBER, place] * BLOCK + slots[POINTS, place]
        column += 1
        _shift_points(slots, column, end, 1)
        slots[TIME, column], slots[IDLE, column], slots[USES, column] = instant, slots[IDLE, column - 1], 0
        slots[POINTS, place] += 1
    slots[USES, column] += 1


@compiled_lean
def _drop_point(slots, gauges, instant):
    """One interval fewer begins or ends at `instant`; a point of none is taken out."""
    place, column = _find(slots, gauges, instant)
    first = slots[NUMBER, place] * BLOCK
    forgotten = slots[TIME, column] != instant or (place == 0 and column == first)  # it lies in the past
    if not forgotten:
        slots[USES, column] -= 1
    if not forgotten and slots[USES, column] == 0:
        slots[POINTS, place] -= 1
        end = first + slots[POINTS, place]
        _shift_points(slots, column + 1, end + 1, -1)
        slots[FROM, place] = slots[TIME, first]
        if end == first:
            _close_block(slots, gauges, place)
        else:
            _join(slots, gauges, place)
            _join(slots, gauges, place - 1)


@compiled_lean
def _change_in_block(slots, place, begin, end, nodes):
    for column in range(begin, end):
        slots[IDLE, column] += nodes
    _summarise(slots, place)


@compiled_lean
def _change(slots, gauges, begin, end, nodes):
    """So many nodes more are free between two instants; there is a point at `begin`, and one at `end` or later."""
    place, column = _find(slots, gauges, begin)
    last = _last_at_or_before(slots, FROM, place, gauges[PROFILE_BLOCKS], end)
    first = slots[NUMBER, last] * BLOCK
    stop = _last_at_or_before(slots, TIME, first, first + slots[POINTS, last], end)
    stop += slots[TIME, stop] < end
    if place < last:
        _change_in_block(slots, place, column, slots[NUMBER, place] * BLOCK + slots[POINTS, place], nodes)
        column = first
    for whole in range(place + 1, last):
        slots[MOST, whole] += nodes
        slots[LEAST, whole] += nodes
        slots[SHIFT, whole] += nodes
    _change_in_block(slots, last, column, stop, nodes)


# ---- intervals --------------------------------------------------------------------------------------------------


@compiled_lean
def occupy(slots, gauges, begin, end, nodes):
    """Take `nodes` from `begin` until `end`."""
    if begin < end:
        _use_point(slots, gauges, begin)
        _use_point(slots, gauges, end)
        _change(slots, gauges, begin, end, -nodes)


@compiled_lean
def vacate(slots, gauges, begin, end, nodes):
    """Undo `occupy` for an interval that lies wholly ahead."""
    if begin < end:
        _change(slots, gauges, begin, end, nodes)
        _drop_point(slots, gauges, end)
        _drop_point(slots, gauges, begin)


@compiled_lean
def _let_others_move_up(gauges, end):
    """Nodes that were taken until `end` are free again."""
    gauges[EARLY_END] = 1
    gauges[HOLE_END], gauges[FREED_UNTIL] = max(gauges[HOLE_END], end), max(gauges[FREED_UNTIL], end)


@compiled_lean
def give_back(slots, gauges, now, end, nodes):
    """A job ended at `now` that was expected to keep its nodes until `end`."""
    if end > now:
        _use_point(slots, gauges, now)
        _change(slots, gauges, now, end, nodes)
        _drop_point(slots, gauges, end)
        _let_others_move_up(gauges, end)


@compiled_lean
def _forget_past(slots, gauges, now):
    while gauges[PROFILE_BLOCKS] > 1 and slots[FROM, 1] <= now:
        _close_block(slots, gauges, 0)
    _, column = _find(slots, gauges, now)
    first = slots[NUMBER, 0] * BLOCK
    past = column - first
    if past > BLOCK // 4:
        slots[POINTS, 0] -= past
        _shift_points(slots, column, column + slots[POINTS, 0], -past)
        slots[FROM, 0] = slots[TIME, first]
        _join(slots, gauges, 0)


@compiled_lean
def _earliest(slots, gauges, now, nodes, duration, own_start, latest):
    """First instant from `now` with `nodes` free throughout; `latest` if there is none before it.

    own_start: where the asking job's own reservation begins, not before `latest`; FOREVER where it has none. Its nodes
    count as free, and they last: a slot is long enough as soon as it reaches it.
    """
    place, column = _find(slots, gauges, now)
    start, goal, found = now, FOREVER, False  # found: enough nodes from `start` on, as far as we have looked
    done = False
    while not done:
        if slots[LEAST, place] < nodes if found else slots[MOST, place] >= nodes:
            needed = nodes - slots[SHIFT, place]
            for index in range(column, slots[NUMBER, place] * BLOCK + slots[POINTS, place]):
                if found:
                    if slots[TIME, index] >= goal:
                        done = True
                        break
                    found = slots[IDLE, index] >= needed
                elif slots[IDLE, index] >= needed:
                    start = max(slots[TIME, index], now)
                    goal, found = min(start + duration, own_start), True
        place += 1
        done = done or place == gauges[PROFILE_BLOCKS] or slots[FROM, place] >= (goal if found else latest)
        column = slots[NUMBER, place] * BLOCK
    return min(start, latest) if found else latest


@compiled_lean
def _extended_left(slots, gauges, now, nodes, start):
    """From when on, but not before `now`, so many nodes are free without a break until `start`."""
    place, column = _find(slots, gauges, start - 1)
    while start > now and slots[IDLE, column] + slots[SHIFT, place] >= nodes:
        start = max(slots[TIME, column], now)
        if start > now:
            place, column = _point_before(slots, place, column)
    return start


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
    place, column = _find(slots, gauges, begin)
    levels = reach = _level_of(slots[IDLE, column] + slots[SHIFT, place]) + 1
    left_place, left = place, column
    while reach > 0:  # to the left: where did the gaps begin that are open at `begin`?
        instant, level = slots[TIME, left], -1
        if instant > now:
            left_place, left = _point_before(slots, left_place, left)
            level = _level_of(slots[IDLE, left] + slots[SHIFT, left_place])
        for higher in range(level + 1, reach):
            slots[GAPS, OPEN_GAPS + higher] = max(instant, now)
        reach = min(reach, level + 1)
    instant = begin
    while instant < end or levels > 0:  # to the right: gaps open until `end`, and close
        place, column = _point_after(slots, place, column)
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
        _let_others_move_up(gauges, end)
    jobs[RESERVED, row] = UNRESERVED


@compiled_lean
def _move(slots, gauges, now, old, start, length, nodes):
    """A reservation moves up; often by less than its length."""
    if start + length > old:
        _shift_bound(slots, gauges, old, start, -nodes)
        _shift_bound(slots, gauges, old + length, start + length, nodes)
    else:
        vacate(slots, gauges, old, old + length, nodes)
        occupy(slots, gauges, start, start + length, nodes)
    _note_gaps(slots, gauges, now, max(old, start + length), old + length)


@compiled_lean
def _shift_bound(slots, gauges, old, new, nodes):
    """One bound of an interval moves up: so many nodes more are free between the two instants."""
    place, column = _find(slots, gauges, new)
    end = slots[NUMBER, place] * BLOCK + slots[POINTS, place]
    at_old = column + 1
    while at_old < end and slots[TIME, at_old] < old:
        at_old += 1
    comes = slots[TIME, column] < new
    goes = at_old < end and slots[USES, at_old] == 1
    if at_old < end and (slots[POINTS, place] < BLOCK or goes or not comes):  # all of it within one block
        if comes:
            column += 1
            _shift_points(slots, column, at_old if goes else end, 1)
            slots[TIME, column], slots[IDLE, column], slots[USES, column] = new, slots[IDLE, column - 1], 0
            at_old += 1
        elif goes:
            _shift_points(slots, at_old + 1, end, -1)
        slots[POINTS, place] += comes - goes
        slots[USES, column] += 1
        if not goes:
            slots[USES, at_old] -= 1
        _change_in_block(slots, place, column, at_old, nodes)
        if goes and not comes:
            _join(slots, gauges, place)
            _join(slots, gauges, place - 1)
    else:
        _use_point(slots, gauges, new)
        _change(slots, gauges, new, old, nodes)
        _drop_point(slots, gauges, old)


@compiled_lean
def only_arrivals_matter(now, gauges):
    """Whether nothing ended early, no promise is void and nobody's time has come: all reservations stay as they are."""
    return gauges[EARLY_END] == 0 and gauges[HOLE_END] != FOREVER and gauges[DUE] > now


@compiled_lean
def plan_conservatively(now, waiting, jobs, r_items, r_info, r_meta, slots, gauges, ready):
    """Move reservations up into holes, reserve for arrivals; the rows whose time has come go into `ready`: how many?

    waiting: the queue in order, with gauges[DUE] FOREVER; or, where `only_arrivals_matter`, just the arrivals.
    """
    _forget_past(slots, gauges, now)
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
            _reserve(row, _earliest(slots, gauges, now, nodes, length, FOREVER, FOREVER), jobs, slots, gauges)
            if jobs[PROMISED, row] == UNRESERVED:
                jobs[PROMISED, row] = jobs[RESERVED, row]
        elif early_end and old > now:
            latest = min(old, hole_end)
            start = latest
            if old <= hole_end:
                start = _extended_left(slots, gauges, now, nodes, old)
            gap = max(now, slots[GAPS, _level_of(nodes) * LENGTHS + _length_of(length)])
            if gap < start and gap + length <= old:
                start = _earliest(slots, gauges, gap, nodes, length, old, start)
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
def rebuild(now, jobs, r_items, r_info, r_meta, idle_now, slots, gauges):
    """The profile of the running jobs alone, from now on."""
    full = BLOCK * 3 // 4  # room for what comes
    slots[TIME, 0], slots[IDLE, 0], slots[USES, 0] = now, idle_now, 1
    slots[FROM, 0], slots[LEAST, 0] = now, idle_now
    block, column, idle = 0, 0, idle_now
    for place in range(r_meta[RUNGS]):
        rung = r_info[ORDER, place]
        for position in range(r_info[SIZE, rung]):
            row = r_items[rung, position]
            if jobs[EXPECTED, row] > slots[TIME, column]:
                if column + 1 == block * BLOCK + full:
                    _finish_block(slots, block, full, idle)
                    block += 1
                    column = block * BLOCK
                    slots[FROM, block], slots[LEAST, block] = jobs[EXPECTED, row], idle
                else:
                    column += 1
                slots[TIME, column], slots[USES, column] = jobs[EXPECTED, row], 0
            idle += jobs[NODES, row]
            slots[IDLE, column] = idle
            slots[USES, column] += 1
    _finish_block(slots, block, column + 1 - block * BLOCK, idle)
    gauges[PROFILE_BLOCKS] = gauges[PROFILE_SPARE] = block + 1


@compiled_lean
def _finish_block(slots, block, count, most):
    slots[NUMBER, block], slots[POINTS, block], slots[MOST, block], slots[SHIFT, block] = block, count, most, 0


@compiled
def plan_to_depth(now, depth, waiting, second, two_orders, jobs, slots, gauges, ready):
    """Start or reserve in order until `depth` reservations stand; after that start only what disturbs none."""
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
    gauges[HEAD] = waiting[index - 1] if reserved == depth else -1  # the last one with a reservation
    rest = waiting[index:]
    if two_orders:
        rest = rest[np.argsort(jobs[SEQ][rest], kind="mergesort")]
        rest = rest[np.argsort(second[rest], kind="mergesort")]
    return _start_what_fits(now, rest, left, jobs, slots, gauges, ready, count)


@compiled_lean
def _note_lasting(slots, gauges, now, lasting):
    """lasting[1, i] nodes stay free from `now` until lasting[0, i], and fewer after that; down to none."""
    place, column = _find(slots, gauges, now)
    least, steps = slots[IDLE, column] + slots[SHIFT, place], 0
    while least > 0:
        place, column = _point_after(slots, place, column)
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


@compiled
def _start_what_fits(now, rest, left, jobs, slots, gauges, ready, count):
    """Whoever finds nodes free from now on for all its time may start; it disturbs no reservation."""
    lasting = np.empty((2, gauges[PROFILE_BLOCKS] * BLOCK + 2 * len(rest) + 2), np.int64)
    _note_lasting(slots, gauges, now, lasting)
    for row in rest:
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        if nodes <= left and (limit == 0 or _fits_now(now, nodes, limit, lasting)):
            occupy(slots, gauges, now, now + limit, nodes)
            _note_lasting(slots, gauges, now, lasting)
            ready[count] = row
            count += 1
            left -= nodes
    return count


@compiled_lean
def still_holds(now, slots, gauges):
    """Whether no point has passed since `rebuild`; the profile is then taken to begin now."""
    place, column = _find(slots, gauges, now)
    holds = place == 0 and column == slots[NUMBER, 0] * BLOCK
    if holds:
        slots[TIME, column] = slots[FROM, 0] = now
    return holds


@compiled
def plan_arrivals(now, arrivals, jobs, slots, gauges, ready):
    """The reservations stand: start the arrivals that disturb none."""
    return _start_what_fits(now, arrivals, gauges[FREE], jobs, slots, gauges, ready, 0)
