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


@compiled_lean
def _equal(one, other):
    return one == other or (one != one and other != other)


@compiled
def below_of(values, places, or_equal):
    """How many are less than each; or_equal: or equal."""
    order, out = order_of(places), np.empty(len(values), np.int64)
    first = 0
    for place in range(1, len(values) + 1):
        if place == len(values) or not _equal(values[order[place]], values[order[first]]):
            for same in range(first, place):
                out[order[same]] = place if or_equal else first
            first = place
    return out


@compiled
def sorted_of(values, places):
    """The values in rising order."""
    out = np.empty(len(values), values.dtype)
    for index in range(len(values)):
        out[places[index]] = values[index]
    return out


@compiled_lean
def at(values, place):
    """The one at a place, counted from the end if negative."""
    if place < 0:
        place += len(values)
    return values[min(max(place, 0), len(values) - 1)]


@compiled_lean
def quantile_of(values, fraction):
    """As numpy's, between two neighbours of values in rising order."""
    most = len(values) - 1
    if values[most] != values[most]:
        return np.nan
    between = np.float64(most) * fraction
    low = min(max(np.int64(np.floor(between)), 0), most)
    high = min(low + 1, most)
    share, apart = between - low, values[high] - values[low]
    if share >= 0.5:
        return np.float64(values[high]) - apart * (1.0 - share)
    return np.float64(values[low]) + apart * share


@compiled_lean
def passed(values, value, or_equal):
    """How many of these in rising order are less than another, or equal; what is no number comes last."""
    low, high = 0, len(values)
    while low < high:
        middle = (low + high) // 2
        other = values[middle]
        if other < value or (value != value and other == other) or (or_equal and _equal(other, value)):
            low = middle + 1
        else:
            high = middle
    return low


@compiled
def number(values, rows, everybody, out):
    """Number the different values of all, or of these rows, in rising order."""
    count = len(values) if everybody else len(rows)
    chosen = np.empty(count, values.dtype)
    for index in range(count):
        chosen[index] = values[index if everybody else rows[index]]
    order, rank = np.argsort(chosen, kind="mergesort"), 0
    for place in range(count):
        index = order[place]
        rank += place > 0 and not _equal(chosen[index], chosen[order[place - 1]])
        out[index if everybody else rows[index]] = rank


@compiled_lean
def _span(values):
    """The least of them, and how many numbers there are from it to the largest; -1: many."""
    least, most = values[0], values[0]
    for index in range(len(values)):
        least, most = min(least, values[index]), max(most, values[index])
    near = most - least
    return least, (near + 1 if 0 <= near < 4 * len(values) + 256 else -1)


@compiled
def sizes_of(values, rows, fixed, memory, slot, first, capacity):
    """How many are equal to each; and how many different ones there are."""
    count, sizes, different = len(values), np.empty(len(values), np.int64), 0
    if count == 0:
        return sizes, different
    least, span = _span(values)
    if span > 0:
        bins = np.zeros(span, np.int64)
        for index in range(count):
            different += bins[values[index] - least] == 0
            bins[values[index] - least] += 1
        for index in range(count):
            sizes[index] = bins[values[index] - least]
        return sizes, different
    order, start = order_of(places_of(values, rows, fixed, memory, slot, first, capacity)), 0
    for place in range(1, count + 1):
        if place == count or values[order[place]] != values[order[start]]:
            for same in range(start, place):
                sizes[order[same]] = place - start
            start, different = place, different + 1
    return sizes, different


@compiled
def totals_of(values, weights):
    """The sum of the weights of all with the same value, in the order of the queue."""
    count, totals = len(values), np.empty(len(values))
    if count == 0:
        return totals
    least, span = _span(values)
    if span > 0:
        bins = np.zeros(span)
        for index in range(count):
            bins[values[index] - least] += weights[index]
        for index in range(count):
            totals[index] = bins[values[index] - least]
        return totals
    order, start = np.argsort(values, kind="mergesort"), 0
    for place in range(1, count + 1):
        if place == count or values[order[place]] != values[order[start]]:
            total = 0.0
            for same in range(start, place):
                total += weights[order[same]]
            for same in range(start, place):
                totals[order[same]] = total
            start = place
    return totals
