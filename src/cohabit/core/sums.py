"""Sums of floating-point numbers as numpy makes them, to the last bit, for orders compiled from a recording.

numpy adds in pairs of blocks, and whole numbers that become floating-point ones in buffers of 8,192. An order that
sums its queue must give the scores its own numpy function gives, so the same additions are made in the same sequence.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_lean, largest_in_eights, least_in_eights, sum_in_eights

BLOCK = 128  # numbers added in eight rows, not in two halves
BUFFER = 8192  # numbers converted at once


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
