"""Free nodes over time, compiled: running jobs by requested end, and reservations, for depth two and more.

A point says how many nodes are free from its instant until the next point's; the last one lasts for ever, and a point
stays as long as an interval begins or ends there. Points are in blocks of at most 32, in order of time; for every
block the directory holds bounds of the free nodes in it. So a search skips blocks in which no start is possible or
which cannot prevent one, and an interval changes each block that it covers whole by one number.
It knows intervals and nodes; depth.py and conservative.py decide which job is promised what.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled_inline, compiled_lean, move, trailing_zeros
from cohabit.core.columns import EXPECTED, FREE, NODES, PROFILE_BLOCKS, PROFILE_SPARE, PROMISES, VOID, WAKE, Ints
from cohabit.core.kernels.bundles import Machine
from cohabit.core.kernels.ladder import ORDER, RUNGS, SIZE
from cohabit.model.units import FOREVER

UNRESERVED = -1
BLOCK = 32  # points in a full block
# rows of `slots`, one column per point: from when, nodes free from then on (less SHIFT), intervals that begin or end
TIME, IDLE, USES = 0, 1, 2
# rows of `slots`, one column per block in order of time: its number (its points are columns NUMBER * BLOCK and on), how
# many points, the first one's instant, bounds of the nodes free in it, and what to add to every IDLE in it
NUMBER, POINTS, FROM, MOST, LEAST, SHIFT = 3, 4, 5, 6, 7, 8
# rows of `slots` that other modules use: a heap of promised instants with their rows, and how many
# nodes stay free until when
PROMISED_AT, PROMISED_TO, LASTING = 9, 10, 11


def make(jobs: int, nodes: int) -> NDArray[np.int64]:
    """Return slots for this many jobs; two neighbouring blocks together fill more than half a block."""
    return np.empty((LASTING + 2, 4 * (2 * jobs + 2 * nodes + BLOCK)), np.int64)


def points(slots: NDArray[np.int64], gauges: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all instants at which the number of free nodes may change, and how many are free from each on."""
    times, idle = [], []
    for place in range(int(gauges[PROFILE_BLOCKS])):
        first = int(slots[NUMBER, place]) * BLOCK
        own = slice(first, first + int(slots[POINTS, place]))
        times.append(slots[TIME, own])
        idle.append(slots[IDLE, own] + slots[SHIFT, place])
    return np.concatenate(times), np.concatenate(idle)


# ---- blocks of points ------------------------------------------------------------------------------------------


@compiled_lean
def reset(slots: Ints, gauges: Ints, nodes: int) -> None:
    """Make all nodes free for ever."""
    slots[TIME, 0], slots[IDLE, 0], slots[USES, 0] = -FOREVER, nodes, 1
    slots[NUMBER, 0], slots[POINTS, 0], slots[FROM, 0] = 0, 1, -FOREVER
    slots[MOST, 0], slots[LEAST, 0], slots[SHIFT, 0] = nodes, nodes, 0
    gauges[PROFILE_BLOCKS], gauges[PROFILE_SPARE] = 1, 1
    gauges[PROMISES], gauges[VOID], gauges[WAKE] = 0, 0, FOREVER


@compiled_lean
def _last_at_or_before(slots: Ints, row: int, low: int, high: int, instant: int) -> int:
    """Return the last column of the sorted slots[row, low:high] that is not after `instant`; `low` if there is none."""
    times, place, count = slots[row, low:high], 0, high - low
    while count > 1:  # no branches: they are hard to predict
        half = count >> 1
        place += half * (times[place + half] <= instant)
        count -= half
    return low + place


@compiled_lean
def find(slots: Ints, gauges: Ints, instant: int) -> tuple[int, int]:
    """Return the last point that is not after `instant`: the place of its block, and its column."""
    return _find_from(slots, gauges, 0, instant)


@compiled_lean
def _find_from(slots: Ints, gauges: Ints, place: int, instant: int) -> tuple[int, int]:
    """Do the same, but not in a block before `place`."""
    place = _last_at_or_before(slots, FROM, place, gauges[PROFILE_BLOCKS], instant)
    first = slots[NUMBER, place] * BLOCK
    return place, _last_at_or_before(slots, TIME, first, first + slots[POINTS, place], instant)


@compiled_lean
def point_after(slots: Ints, place: int, column: int) -> tuple[int, int]:
    if column + 1 < slots[NUMBER, place] * BLOCK + slots[POINTS, place]:
        return place, column + 1
    return place + 1, slots[NUMBER, place + 1] * BLOCK


@compiled_lean
def _summarise(slots: Ints, place: int) -> None:
    first = slots[NUMBER, place] * BLOCK
    idle = slots[IDLE, first : first + slots[POINTS, place]]  # indices from zero: several are compared at once
    most = least = idle[0]
    for index in range(len(idle)):
        most, least = max(most, idle[index]), min(least, idle[index])
    slots[MOST, place], slots[LEAST, place] = most + slots[SHIFT, place], least + slots[SHIFT, place]


@compiled_lean
def _open_block(slots: Ints, gauges: Ints, place: int) -> None:
    """Put an empty block at `place` in the order; unused numbers are behind those in use."""
    count = gauges[PROFILE_BLOCKS]
    if count == gauges[PROFILE_SPARE]:
        slots[NUMBER, count] = count
        gauges[PROFILE_SPARE] = count + 1
    number = slots[NUMBER, count]
    for row in range(NUMBER, SHIFT + 1):
        move(slots[row], place, place + 1, count - place)
    slots[NUMBER, place], slots[POINTS, place], slots[SHIFT, place] = number, 0, 0
    gauges[PROFILE_BLOCKS] = count + 1


@compiled_lean
def _close_block(slots: Ints, gauges: Ints, place: int) -> None:
    count = gauges[PROFILE_BLOCKS] - 1
    number = slots[NUMBER, place]
    for row in range(NUMBER, SHIFT + 1):
        move(slots[row], place + 1, place, count - place)
    slots[NUMBER, count] = number
    gauges[PROFILE_BLOCKS] = count


@compiled_lean
def _append_points(slots: Ints, place: int, source: int, count: int, change: int) -> None:
    """Copy `count` points from column `source` on to the end of a block, with `change` more nodes free in each."""
    target = slots[NUMBER, place] * BLOCK + slots[POINTS, place]
    for row in range(3):
        points, more = slots[row, source : source + count], change if row == IDLE else 0
        there = slots[row, target : target + count]
        for index in range(count):
            there[index] = points[index] + more
    slots[POINTS, place] += count


@compiled_lean
def _split(slots: Ints, gauges: Ints, place: int) -> None:
    """Move the later half of a full block into a new block."""
    half = BLOCK // 2
    source = slots[NUMBER, place] * BLOCK + half
    _open_block(slots, gauges, place + 1)
    slots[SHIFT, place + 1], slots[FROM, place + 1] = slots[SHIFT, place], slots[TIME, source]
    _append_points(slots, place + 1, source, half, 0)
    slots[POINTS, place] = half
    _summarise(slots, place)
    _summarise(slots, place + 1)


@compiled_lean
def _join(slots: Ints, gauges: Ints, place: int) -> None:
    """Join a block and the next one if together they fill no more than half a block."""
    after = place + 1
    if 0 < after < gauges[PROFILE_BLOCKS] and slots[POINTS, place] + slots[POINTS, after] <= BLOCK // 2:
        change = slots[SHIFT, after] - slots[SHIFT, place]
        _append_points(slots, place, slots[NUMBER, after] * BLOCK, slots[POINTS, after], change)
        slots[MOST, place] = max(slots[MOST, place], slots[MOST, after])
        slots[LEAST, place] = min(slots[LEAST, place], slots[LEAST, after])
        _close_block(slots, gauges, after)


@compiled_lean
def _shift_points(slots: Ints, begin: int, end: int, by: int) -> None:
    """Move the points of these columns to others of the same block."""
    for row in range(3):
        move(slots[row], begin, begin + by, end - begin)


@compiled_lean
def _use_point(slots: Ints, gauges: Ints, place: int, instant: int) -> tuple[int, int]:
    """Count one more interval that begins or ends at `instant`, in block `place` or later; add a missing point."""
    place, column = _find_from(slots, gauges, place, instant)
    if slots[TIME, column] != instant:
        if slots[POINTS, place] == BLOCK:
            _split(slots, gauges, place)
            place, column = _find_from(slots, gauges, place, instant)
        end = slots[NUMBER, place] * BLOCK + slots[POINTS, place]
        column += 1
        _shift_points(slots, column, end, 1)
        slots[TIME, column], slots[IDLE, column], slots[USES, column] = instant, slots[IDLE, column - 1], 0
        slots[POINTS, place] += 1
    slots[USES, column] += 1
    return place, column


@compiled_lean
def _drop_point(slots: Ints, gauges: Ints, instant: int) -> None:
    """Count one interval fewer that begins or ends at `instant`; remove a point that has none."""
    place, column = find(slots, gauges, instant)
    first = slots[NUMBER, place] * BLOCK
    forgotten = slots[TIME, column] != instant or (place == 0 and column == first)  # it is in the past
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
def _change_in_block(slots: Ints, place: int, begin: int, end: int, nodes: int) -> None:
    idle = slots[IDLE, begin:end]
    for index in range(len(idle)):
        idle[index] += nodes
    _summarise(slots, place)


@compiled_lean
def _change(slots: Ints, place: int, column: int, last: int, stop: int, nodes: int) -> None:
    """Add `nodes` to the free nodes from one point to another."""
    if place < last:
        _change_in_block(slots, place, column, slots[NUMBER, place] * BLOCK + slots[POINTS, place], nodes)
        column = slots[NUMBER, last] * BLOCK
        for row in (MOST, LEAST, SHIFT):
            whole = slots[row, place + 1 : last]
            for index in range(len(whole)):
                whole[index] += nodes
    if column < stop:
        _change_in_block(slots, last, column, stop, nodes)


@compiled_lean
def _change_between(slots: Ints, gauges: Ints, begin: int, end: int, nodes: int) -> None:
    """Do the same between two instants; there is a point at `begin`, and one at `end` or later."""
    place, column = find(slots, gauges, begin)
    last, stop = _find_from(slots, gauges, place, end)
    _change(slots, place, column, last, stop + (slots[TIME, stop] < end), nodes)


# ---- intervals --------------------------------------------------------------------------------------------------


@compiled_lean
def occupy(slots: Ints, gauges: Ints, begin: int, end: int, nodes: int) -> None:
    """Take `nodes` from `begin` until `end`."""
    if begin < end:
        place, column = _use_point(slots, gauges, 0, begin)
        _occupy_from(slots, gauges, place, column, end, nodes)


@compiled_lean
def _occupy_from(slots: Ints, gauges: Ints, place: int, column: int, end: int, nodes: int) -> None:
    """Do the same from a point on."""
    blocks, begin = gauges[PROFILE_BLOCKS], slots[TIME, column]
    last, stop = _use_point(slots, gauges, place, end)
    if gauges[PROFILE_BLOCKS] != blocks:  # one was split
        place, column = _find_from(slots, gauges, place, begin)
    _change(slots, place, column, last, stop, -nodes)


@compiled_lean
def vacate(slots: Ints, gauges: Ints, begin: int, end: int, nodes: int) -> None:
    """Undo `occupy` for an interval that lies wholly ahead."""
    if begin < end:
        _change_between(slots, gauges, begin, end, nodes)
        _drop_point(slots, gauges, end)
        _drop_point(slots, gauges, begin)


@compiled_lean
def give_back(slots: Ints, gauges: Ints, now: int, end: int, nodes: int) -> None:
    """Free the nodes of a job that ended at `now` and was expected to keep them until `end`."""
    if end > now:
        _use_point(slots, gauges, 0, now)
        _change_between(slots, gauges, now, end, nodes)
        _drop_point(slots, gauges, end)


@compiled_lean
def forget_past(slots: Ints, gauges: Ints, now: int) -> None:
    while gauges[PROFILE_BLOCKS] > 1 and slots[FROM, 1] <= now:
        _close_block(slots, gauges, 0)
    _, column = find(slots, gauges, now)
    first = slots[NUMBER, 0] * BLOCK
    past = column - first
    if past > BLOCK // 4:
        slots[POINTS, 0] -= past
        _shift_points(slots, column, column + slots[POINTS, 0], -past)
        slots[FROM, 0] = slots[TIME, first]
        _join(slots, gauges, 0)


@compiled_inline
def _where_enough(slots: Ints, begin: int, end: int, needed: int) -> np.int64:
    """Return a bit for every point of these columns, the first one's lowest: are `needed` nodes free (less SHIFT)?"""
    idle, bits = slots[IDLE, begin:end], np.int64(0)
    for index in range(len(idle)):
        bits |= np.int64(idle[index] >= needed) << index
    return bits


@compiled_lean
def earliest(slots: Ints, gauges: Ints, now: int, nodes: int, duration: int) -> tuple[int, int, int]:
    """Return the first instant from `now` with `nodes` free throughout, else FOREVER; and the last point till then."""
    place, column = find(slots, gauges, now)
    at, at_column = place, column
    start, goal, found = now, FOREVER, False  # found: enough nodes from `start` on, as far as searched
    while True:
        if slots[LEAST, place] < nodes if found else slots[MOST, place] >= nodes:
            end, index = slots[NUMBER, place] * BLOCK + slots[POINTS, place], 0
            times, enough = slots[TIME, column:end], _where_enough(slots, column, end, nodes - slots[SHIFT, place])
            while found or enough >> index != 0:
                if not found:
                    index += trailing_zeros(enough >> index)
                    start, at, at_column = max(times[index], now), place, column + index
                    goal = start + duration
                index += trailing_zeros(~(enough >> index))  # the next point with too few nodes
                found = index == end - column
                if found:
                    break
                if times[index] >= goal:
                    return start, at, at_column
        place += 1
        if place == gauges[PROFILE_BLOCKS] or (found and slots[FROM, place] >= goal):
            return start if found else FOREVER, at, at_column
        column = slots[NUMBER, place] * BLOCK


@compiled_lean
def reserve(slots: Ints, gauges: Ints, now: int, nodes: int, duration: int) -> int:
    """Take `nodes` for `duration` as early as they are free, and return from when; FOREVER: they never are."""
    start, place, column = earliest(slots, gauges, now, nodes, duration)
    if start < FOREVER:
        if slots[TIME, column] == start:
            slots[USES, column] += 1
        else:
            place, column = _use_point(slots, gauges, place, start)
        _occupy_from(slots, gauges, place, column, start + duration, nodes)
    return start


@compiled_lean
def rebuild(now: int, jobs: Ints, machine: Machine) -> None:
    """Make the profile of the running jobs alone, from now on."""
    (items, info, meta), slots, gauges = machine.running, machine.slots, machine.gauges
    idle_now = gauges[FREE]
    full = BLOCK * 3 // 4  # leave room for new points
    slots[TIME, 0], slots[IDLE, 0], slots[USES, 0] = now, idle_now, 1
    slots[FROM, 0], slots[LEAST, 0] = now, idle_now
    block, column, idle = 0, 0, idle_now
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        for position in range(info[SIZE, rung]):
            row = items[rung, position]
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
def _finish_block(slots: Ints, block: int, count: int, most: int) -> None:
    slots[NUMBER, block], slots[POINTS, block], slots[MOST, block], slots[SHIFT, block] = block, count, most, 0


@compiled_lean
def still_holds(now: int, slots: Ints, gauges: Ints) -> bool:
    """Return whether no point has passed since `rebuild`; the profile is then taken to begin now."""
    place, column = find(slots, gauges, now)
    holds = place == 0 and column == slots[NUMBER, 0] * BLOCK
    if holds:
        slots[TIME, column] = slots[FROM, 0] = now
    return holds
