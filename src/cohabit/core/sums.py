"""Sums of floating-point numbers as numpy makes them, to the last bit, for orders compiled from a recording.

numpy adds in pairs of blocks, and whole numbers that become floating-point ones in buffers of 8,192. An order that
sums its queue must give the scores its own numpy function gives, so the same additions are made in the same sequence.
Extremes depend on no sequence; they are kept from call to call where that is possible.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import RISING, compiled, compiled_lean, largest_in_eights, least_in_eights, sum_in_eights

BLOCK = 128  # numbers added in eight rows, not in two halves
BUFFER = 8192  # numbers converted at once
SOON = 64  # so many places are looked at for somebody who has moved up


@compiled_lean
def _block(numbers, first, count):
    """The sum of at most BLOCK numbers."""
    whole = count - count % 8
    total = sum_in_eights(numbers, first, whole) if whole > 0 else -0.0
    for index in range(first + whole, first + count):
        total += numbers[index]
    return total


@compiled_lean
def _in_halves(numbers, first, count):
    if count <= BLOCK:
        return _block(numbers, first, count)
    half = count // 2
    half -= half % 8
    return _in_halves(numbers, first, half) + _in_halves(numbers, first + half, count - half)


@compiled_lean
def sum_of(numbers, converted):
    """The sum of an array of floating-point numbers; converted: they were whole before."""
    step, total = BUFFER if converted else max(len(numbers), 1), 0.0
    for first in range(0, len(numbers), step):
        total += _in_halves(numbers, first, min(step, len(numbers) - first))
    return total


@compiled
def running(numbers):
    """The sums of all up to each."""
    out, total = np.empty(len(numbers), numbers.dtype), numbers.dtype.type(0)
    for index in range(len(numbers)):
        total += numbers[index]
        out[index] = total
    return out


@compiled_lean
def most_of(numbers, sign):
    """The largest, or with a sign of -1 the smallest; no number if any of them is none."""
    others, whole, found = 0, len(numbers) - len(numbers) % 8, numbers[0]
    for index in range(len(numbers)):
        others += numbers[index] != numbers[index]
    if whole > 0:
        found = largest_in_eights(numbers, 0, whole) if sign > 0 else least_in_eights(numbers, 0, whole)
    for index in range(whole, len(numbers)):
        found = numbers[index] if sign * numbers[index] > sign * found else found
    return np.nan if others else found


@compiled_lean
def _found_again(row, place, rows):
    """Where a row is that was at this place, before some before it left; -1 if it is not found soon."""
    place = min(place, len(rows) - 1)
    for at in range(place, max(place - SOON, -1), -1):
        if rows[at] == row:
            return at
    return -1


@compiled_lean
def extreme_of(column, rows, sign, memory, first):
    """The largest of these rows in a column of whole numbers, or with a sign of -1 the smallest.

    Where others only come after the last, memory[first] and the next three tell whose number it was and who was the
    last then, with their places; the rows are counted from one there.
    """
    begin, best = 0, -1
    if memory[RISING] > 0.0 and memory[first] > 0.0:
        best = _found_again(np.int64(memory[first]) - 1, np.int64(memory[first + 1]), rows)
        begin = _found_again(np.int64(memory[first + 2]) - 1, np.int64(memory[first + 3]), rows) + 1
    if best < 0 or begin == 0:
        begin, best = 0, 0
    found = sign * column[np.uint64(rows[best])]
    for place in range(begin, len(rows)):
        value = sign * column[np.uint64(rows[place])]
        if value > found:
            best, found = place, value
    memory[first], memory[first + 1] = rows[best] + 1, best
    memory[first + 2], memory[first + 3] = rows[-1] + 1, len(rows) - 1
    return sign * found
