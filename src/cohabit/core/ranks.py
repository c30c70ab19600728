"""The place of every job of a queue in a stable sort of it, for orders compiled from a recording.

Sorting the queue anew in every pass would take most of a replay. Between two passes few jobs come and go, so the places
of the last pass are kept in the memory of the order (compiled.py) and put right. What is kept is a hint: whatever it
says, the places are those of a sort of these numbers, equal ones in the order of the queue, what is no number last.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_lean

FEW = 32  # so many may come or go before everybody is sorted anew


# Slices are taken so that indices start at zero: then the compiler handles several numbers at once.


@compiled_lean
def _same(some, others):
    """How many are the same from the beginning."""
    most = min(len(some), len(others))
    for index in range(most):
        if some[index] != others[index]:
            return index
    return most


@compiled_lean
def _move(array, to, at, count):
    """Towards the beginning."""
    there, here = array[to:], array[at : at + count]
    for index in range(count):
        there[index] = here[index]


@compiled_lean
def _close_gap(places, gap):
    for index in range(len(places)):
        places[index] -= places[index] > gap


@compiled_lean
def _drop_gone(rows, known, before, places):
    """Keep the places of those who were here before, and close the gaps; how many are kept? -1: too few."""
    kept, old, gone = 0, 0, 0
    while True:
        run = _same(before[old:known], rows[kept:])
        if kept < old:
            _move(before, kept, old, run)
            _move(places, kept, old, run)
        kept, old = kept + run, old + run
        if old == known:
            return kept
        if gone == FEW:
            return -1
        gap = places[old]
        _close_gap(places[:kept], gap)
        _close_gap(places[old + 1 : known], gap)
        old, gone = old + 1, gone + 1


@compiled_lean
def _put_in(values, kept, places):
    """Places for those who came, one by one, behind their equals."""
    for index in range(kept, len(values)):
        value, place = values[index], 0
        for other in range(index):
            place += values[other] <= value
        if value != value:
            place = index
        for other in range(index):
            places[other] += places[other] >= place
        places[index] = place


@compiled_lean
def _before(values, one, other):
    first, second = values[one], values[other]
    if first == second or (first != first and second != second):
        return one < other
    return first < second or second != second


@compiled_lean
def _put_right(values, places, order):
    """Sort by insertion, for values that have changed since; False: it takes too long."""
    for index in range(len(values)):
        order[places[index]] = index
    moves, last = 0, order[0]
    for place in range(len(values)):
        index = order[place]
        if place == 0 or values[last] < values[index]:  # mostly
            last = index
            continue
        to = place
        while to > 0 and _before(values, index, order[to - 1]):
            order[to] = order[to - 1]
            to -= 1
        order[to], last = index, order[place] if to < place else index
        moves += place - to
        if moves > 4 * len(values):
            return False
    for place in range(len(values)):
        places[order[place]] = place
    return True


@compiled
def places_of(values, rows, fixed, memory, slot, first, capacity):
    """The place of each value in a stable sort; fixed: the value of a row is the same in every pass.

    memory[slot] is how many were ranked before; who and where is kept from memory[first] on.
    """
    count, kept = len(rows), 0
    before = memory[first : first + capacity].view(np.int64)
    places = memory[first + capacity : first + 2 * capacity].view(np.int64)
    if memory[slot] > 0:
        kept = _drop_gone(rows, np.int64(memory[slot]), before, places)
    done = kept >= 0 and count - kept <= FEW
    if done:
        _put_in(values, kept, places)
        done = fixed or count == 0 or _put_right(values, places, np.empty(count, np.int64))
    if not done:
        order = np.argsort(values, kind="mergesort")
        for place in range(count):
            places[order[place]] = place
    for index in range(max(kept, 0) if done else 0, count):
        before[index] = rows[index]
    memory[slot] = count
    return places[:count]


@compiled
def order_of(places):
    """Who stands at each place."""
    order = np.empty(len(places), np.int64)
    for index in range(len(places)):
        order[places[index]] = index
    return order


@compiled
def middle_of(values, places):
    """The median; no number if any of them is none."""
    count, low, high = len(values), 0.0, 0.0
    for index in range(count):
        value = np.float64(values[index])
        if value != value:
            return np.nan
        if places[index] == (count - 1) // 2:
            low = value
        if places[index] == count // 2:
            high = value
    return low if count % 2 else (low + high) / 2


@compiled
def sizes_of(values, places):
    """How many are equal to each; and how many different ones there are."""
    order, sizes = order_of(places), np.empty(len(values), np.int64)
    first, different = 0, 0
    for place in range(1, len(values) + 1):
        if place == len(values) or values[order[place]] != values[order[first]]:
            for same in range(first, place):
                sizes[order[same]] = place - first
            first, different = place, different + 1
    return sizes, different
