"""The place of every job of a queue in a stable sort of it, for orders compiled from a recording.

Sorting the queue anew in every pass would take most of a replay. Between two passes few jobs come and go, so the places
of the last pass are kept in the memory of the order (compiled.py) and put right. What is kept is a hint: whatever it
says, the places are those of a sort of these numbers, equal ones in the order of the queue, what is no number last.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_lean

FEW = 32  # so many may come or go before everybody is sorted anew
NEAR = 8  # so many places away one at a place is looked for, from the one who was there before
BLOCK = 32  # so many are compared before anybody asks what came out: the compiler handles several at once


# Slices are taken so that indices start at zero, and indices without a sign: then the compiler need not ask whether
# they are from the end, and handles several numbers at once.


@compiled_lean
def _differences(some, others):
    found = 0
    for index in range(len(some)):
        found += some[index] != others[index]
    return found


@compiled_lean
def _same(some, others):
    """How many are the same from the beginning."""
    most, index = min(len(some), len(others)), 0
    while index + BLOCK <= most and _differences(some[index : index + BLOCK], others[index : index + BLOCK]) == 0:
        index += BLOCK
    while index < most and some[index] == others[index]:
        index += 1
    return index


@compiled_lean
def _equals(values, value):
    found = 0
    for index in range(len(values)):
        found += values[index] == value
    return found


@compiled_lean
def _find(values, value):
    """Where it stands first; -1: nowhere."""
    index = 0
    while index + BLOCK <= len(values) and _equals(values[index : index + BLOCK], value) == 0:
        index += BLOCK
    while index < len(values):
        if values[index] == value:
            return index
        index += 1
    return -1


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
def _before(first, one, second, other):
    """By values, then by who they are."""
    if first == second or (first != first and second != second):
        return one < other
    return first < second or second != second


@compiled_lean
def _misplaced(values, who):
    """How many perhaps do not stand behind the one before them."""
    found = 0
    for place in range(1, len(values)):
        less, equal = values[place - 1] < values[place], values[place - 1] == values[place]
        found += not (less | (equal & (who[place - 1] < who[place])))
    return found


@compiled_lean
def _put_right(values, places, order, in_order):
    """Sort by insertion, for values that have changed since; False: it takes too long."""
    for index in range(len(values)):
        place = np.uint64(places[index])
        order[place], in_order[place] = index, values[index]
    moves, place = 0, 1
    while place < len(values):
        end = min(place + BLOCK, len(values))
        if _misplaced(in_order[place - 1 : end], order[place - 1 : end]) == 0:  # mostly
            place = end
        while place < end:
            value, index, to = in_order[place], order[place], place
            while to > 0 and _before(value, index, in_order[to - 1], order[to - 1]):
                in_order[to], order[to] = in_order[to - 1], order[to - 1]
                to -= 1
            in_order[to], order[to] = value, index
            moves, place = moves + place - to, place + 1
        if moves > 4 * len(values):
            return False
    for place in range(len(values) if moves > 0 else 0):
        places[np.uint64(order[place])] = place
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
        done = (
            fixed or count == 0 or _put_right(values, places, np.empty(count, np.int64), np.empty(count, values.dtype))
        )
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
        order[np.uint64(places[index])] = index
    return order


@compiled_lean
def _less_and_upto(values, value):
    """How many are less than it, and how many are not more."""
    less, upto = 0, 0
    for index in range(len(values)):
        less += values[index] < value
        upto += values[index] <= value
    return less, upto


@compiled_lean
def _next(values, value, above):
    """The nearest that is more than it, or less."""
    found, index = value, 0
    while index < len(values) and not (values[index] > value if above else values[index] < value):
        index += 1
    if index < len(values):
        found = values[index]
    for other in values[index:]:
        if (value < other < found) if above else (found < other < value):
            found = other
    return found


@compiled_lean
def _near(values, value, place):
    """The value at this place, if it is this one or one near it, and whether it is."""
    less, upto = _less_and_upto(values, value)
    for _ in range(NEAR):
        if less <= place < upto:
            break
        nearest = _next(values, value, place >= upto)
        if nearest == value:  # only what is no number is left
            break
        value = nearest
        less, upto = _less_and_upto(values, value)
    return value, less <= place < upto


@compiled
def _at_place(values, rows, place, hint, other):
    """The value at this place in rising order, what is no number last; and whose it is, for the next time.

    The hints tell whose it was, or a neighbour's, last time, as the row plus one: mostly it is there or near.
    """
    near = -1
    for who in (hint, other):
        index = _find(rows, np.int64(who) - 1) if who > 0 else -1
        if index >= 0 and values[index] == values[index]:
            less, upto = _less_and_upto(values, values[index])
            if less <= place < upto:
                return values[index], who
            near = index
    found = False
    if near >= 0:
        value, found = _near(values, values[near], place)
    if not found:
        value = np.sort(values)[place]
    return value, (np.float64(rows[_find(values, value)] + 1) if value == value else 0.0)


@compiled
def _at_place_and_next(values, rows, place, memory, slot):
    """The value at this place in rising order, and at the next if there is one; all are numbers."""
    low, high = memory[slot], memory[slot + 1]
    value, memory[slot] = _at_place(values, rows, place, low, high)
    if place + 1 == len(values):
        return value, value
    likely = high if memory[slot] == low or memory[slot] == high else low
    after, memory[slot + 1] = _at_place(values, rows, place + 1, likely, memory[slot])
    return value, after


@compiled_lean
def _are_numbers(values):
    others = 0
    for index in range(len(values)):
        others += values[index] != values[index]
    return others == 0


@compiled
def at(values, rows, place, memory, slot):
    """The one at a place in rising order, counted from the end if negative."""
    if place < 0:
        place += len(values)
    value, memory[slot] = _at_place(values, rows, min(max(place, 0), len(values) - 1), memory[slot], 0.0)
    return value


@compiled
def middle_of(values, rows, memory, slot):
    """The median; no number if any of them is none."""
    if not _are_numbers(values):
        return np.nan
    low, high = _at_place_and_next(values, rows, (len(values) - 1) // 2, memory, slot)
    return np.float64(low) if len(values) % 2 else (np.float64(low) + np.float64(high)) / 2


@compiled
def quantile_of(values, rows, fraction, memory, slot):
    """As numpy's, between two neighbours in rising order."""
    if not _are_numbers(values):
        return np.nan
    most = len(values) - 1
    between = np.float64(most) * fraction
    place = min(max(np.int64(np.floor(between)), 0), most)
    low, high = _at_place_and_next(values, rows, place, memory, slot)
    share, apart = between - place, high - low
    if share >= 0.5:
        return np.float64(high) - apart * (1.0 - share)
    return np.float64(low) + apart * share


@compiled_lean
def _equal(one, other):
    return one == other or (one != one and other != other)


@compiled
def sorted_of(values, places):
    """The values in rising order."""
    out = np.empty(len(values), values.dtype)
    for index in range(len(values)):
        out[np.uint64(places[index])] = values[index]
    return out


@compiled_lean
def _firsts(values, found):
    """Where those who are equal begin, of values in rising order."""
    first, last = 0, values[0]
    for place in range(len(values)):
        value = values[place]
        first, last = place if value != last else first, value
        found[place] = first


@compiled_lean
def _ends(values, found):
    """Where those who are equal end."""
    end, last = len(values), values[len(values) - 1]
    for step in range(len(values)):
        place = np.uint64(len(values) - 1 - step)
        value = values[place]
        end, last = len(values) - step if value != last else end, value
        found[place] = end


@compiled
def below_of(values, places, or_equal):
    """How many are less than each; or_equal: or equal. What is no number is equal to what is none."""
    count, room = len(values), np.empty(2 * len(values), np.int64)
    in_order, found, out = sorted_of(values, places), room[:count], room[count:]
    if count == 0:
        return out
    if or_equal:
        _ends(in_order, found)
    else:
        _firsts(in_order, found)
    numbers = count
    while numbers > 0 and in_order[numbers - 1] != in_order[numbers - 1]:
        numbers -= 1
    for place in range(numbers, count):
        found[place] = count if or_equal else numbers
    for index in range(count):
        out[index] = found[np.uint64(places[index])]
    return out


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
