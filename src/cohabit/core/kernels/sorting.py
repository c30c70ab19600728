"""Sort rows by their scores, equal scores by submission, in memory that the caller provides.

A few rows are sorted by merging, which costs little if they are nearly in order. Many rows are sorted by the first
half of their scores, digit by digit; only stretches that agree in it are merged.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core.columns import Floats, Ints

STRETCH = 8  # stretches of this many rows are sorted by insertion
DIGIT, VALUES, DIGITS = 8, 256, 4  # bits of a digit, its number of values, digits in half a score
ROOM = VALUES * DIGITS  # for counting digits
MANY = 256  # this many rows or more are sorted by digits, if there is room for that
ALL_BUT_SIGN = 2**63 - 1


@compiled_inline
def before(score: float, row: int, other_score: int, other: int, seq: Ints) -> bool:
    """Return whether a row of this score goes before another: the smaller score, then the earlier submission."""
    return score < other_score or (score == other_score and seq[row] < seq[other])


@compiled_lean
def _sort_few(first: int, end: int, rows: Ints, scores: Floats, seq: Ints) -> None:
    for index in range(first + 1, end):
        row, score, place = rows[index], scores[index], index
        while place > first and before(score, row, scores[place - 1], rows[place - 1], seq):
            rows[place], scores[place] = rows[place - 1], scores[place - 1]
            place -= 1
        rows[place], scores[place] = row, score


@compiled_lean
def _merge(
    first: int, middle: int, end: int, rows: Ints, scores: Floats, spare: tuple[Ints, Floats], seq: Ints
) -> None:
    """Merge two adjacent sorted stretches."""
    spare_rows, spare_scores = spare
    while first < middle and before(scores[first], rows[first], scores[middle], rows[middle], seq):
        first += 1
    for index in range(first, middle):
        spare_rows[index], spare_scores[index] = rows[index], scores[index]
    left, right, place = first, middle, first
    while left < middle and right < end:
        if before(scores[right], rows[right], spare_scores[left], spare_rows[left], seq):
            rows[place], scores[place] = rows[right], scores[right]
            right += 1
        else:
            rows[place], scores[place] = spare_rows[left], spare_scores[left]
            left += 1
        place += 1
    for index in range(left, middle):
        rows[place + index - left], scores[place + index - left] = spare_rows[index], spare_scores[index]


@compiled_lean
def _sort_by_merging(begin: int, end: int, rows: Ints, scores: Floats, spare: tuple[Ints, Floats], seq: Ints) -> None:
    stretch = STRETCH
    for first in range(begin, end, stretch):
        _sort_few(first, min(first + stretch, end), rows, scores, seq)
    while stretch < end - begin:
        for first in range(begin, end - stretch, 2 * stretch):
            middle = first + stretch
            _merge(first, middle, min(middle + stretch, end), rows, scores, spare, seq)
        stretch = 2 * stretch


@compiled_inline
def _first_half(score: float) -> Any:
    """Return the first half of a score's bits, as a number from zero on that grows with the score."""
    bits = np.float64(score + 0.0).view(np.int64)  # -0.0 becomes 0.0
    return ((bits ^ ((bits >> 63) & ALL_BUT_SIGN)) >> 32) + 2**31


@compiled_lean
def _sort_by_digit(
    digit: int, count: int, rows: Ints, scores: Floats, to_rows: Ints, to_scores: Floats, places: Ints
) -> None:
    """Write the first `count` rows sorted by one digit; `places` says how often each value occurs."""
    place, first = 0, digit * VALUES
    for value in range(VALUES):
        place, places[first + value] = place + places[first + value], place
    for index in range(count):
        value = (_first_half(scores[index]) >> (DIGIT * digit)) & (VALUES - 1)
        place = places[first + value]
        to_rows[place], to_scores[place], places[first + value] = rows[index], scores[index], place + 1


@compiled_lean
def _sort_by_digits(count: int, rows: Ints, scores: Floats, spare: tuple[Ints, Floats], places: Ints) -> None:
    """Sort by the first half of the scores."""
    spare_rows, spare_scores = spare
    for value in range(ROOM):
        places[value] = 0
    for index in range(count):
        half = _first_half(scores[index])
        for digit in range(DIGITS):
            places[digit * VALUES + ((half >> (DIGIT * digit)) & (VALUES - 1))] += 1
    there = False
    for digit in range(DIGITS):
        value = (_first_half(scores[0]) >> (DIGIT * digit)) & (VALUES - 1)
        if places[digit * VALUES + value] < count:  # else all rows have the same digit
            if there:
                _sort_by_digit(digit, count, spare_rows, spare_scores, rows, scores, places)
            else:
                _sort_by_digit(digit, count, rows, scores, spare_rows, spare_scores, places)
            there = not there
    if there:
        for index in range(count):
            rows[index], scores[index] = spare_rows[index], spare_scores[index]


@compiled_lean
def sort(count: int, rows: Ints, scores: Floats, spare: tuple[Ints, Floats], places: Ints, seq: Ints) -> None:
    """Sort the first `count`; spare: rows and scores with as much room; places: room to count digits in, or less."""
    if count < MANY or len(places) < ROOM:
        _sort_by_merging(0, count, rows, scores, spare, seq)
        return
    _sort_by_digits(count, rows, scores, spare, places)
    begin = 0
    for end in range(1, count + 1):
        if end == count or _first_half(scores[end]) != _first_half(scores[begin]):
            if end - begin > 1:
                _sort_by_merging(begin, end, rows, scores, spare, seq)
            begin = end
