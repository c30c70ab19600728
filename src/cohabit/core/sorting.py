"""Rows into the order of their scores, equal ones into that of submission, in memory that is handed in.

Few are merged, which costs little where they nearly are in order. Many go through the first half of their scores digit
by digit, and only stretches that agree in it are merged.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean

STRETCH = 8  # so many are sorted by putting one after the other into its place
DIGIT, VALUES, DIGITS = 8, 256, 4  # bits of a digit, what it can be, how many there are in half a score
ROOM = VALUES * DIGITS  # for counting them
MANY = 256  # or more are sorted by digits, if there is room for that
ALL_BUT_SIGN, SIGN = 2**63 - 1, -(2**63)


@compiled_inline
def before(score, row, other_score, other):
    """The smaller score goes first; rows are numbered in order of submission here."""
    return score < other_score or (score == other_score and row < other)


@compiled_inline
def below(score, steps):
    """What is so many steps below a score, from one float64 to the next."""
    bits = np.float64(score).view(np.int64)
    place = (bits if bits >= 0 else -(bits & ALL_BUT_SIGN)) - steps
    return np.int64(place if place >= 0 else SIGN - place).view(np.float64)


@compiled_lean
def _sort_few(first, end, rows, scores):
    for index in range(first + 1, end):
        row, score, place = rows[index], scores[index], index
        while place > first and before(score, row, scores[place - 1], rows[place - 1]):
            rows[place], scores[place] = rows[place - 1], scores[place - 1]
            place -= 1
        rows[place], scores[place] = row, score


@compiled_lean
def _merge(first, middle, end, rows, scores, spare_rows, spare_scores):
    """Two stretches that are in order, one behind the other, into one."""
    while first < middle and before(scores[first], rows[first], scores[middle], rows[middle]):
        first += 1
    for index in range(first, middle):
        spare_rows[index], spare_scores[index] = rows[index], scores[index]
    left, right, place = first, middle, first
    while left < middle and right < end:
        if before(scores[right], rows[right], spare_scores[left], spare_rows[left]):
            rows[place], scores[place] = rows[right], scores[right]
            right += 1
        else:
            rows[place], scores[place] = spare_rows[left], spare_scores[left]
            left += 1
        place += 1
    for index in range(left, middle):
        rows[place + index - left], scores[place + index - left] = spare_rows[index], spare_scores[index]


@compiled_lean
def _sort_by_merging(begin, end, rows, scores, spare_rows, spare_scores):
    stretch = STRETCH
    for first in range(begin, end, stretch):
        _sort_few(first, min(first + stretch, end), rows, scores)
    while stretch < end - begin:
        for first in range(begin, end - stretch, 2 * stretch):
            middle = first + stretch
            _merge(first, middle, min(middle + stretch, end), rows, scores, spare_rows, spare_scores)
        stretch = 2 * stretch


@compiled_inline
def _first_half(score):
    """The first half of a score's bits, as a number from zero on that grows with the score."""
    bits = np.float64(score + 0.0).view(np.int64)  # there are two zeros
    return ((bits ^ ((bits >> 63) & ALL_BUT_SIGN)) >> 32) + 2**31


@compiled_lean
def _sort_by_digit(digit, count, rows, scores, to_rows, to_scores, places):
    """Write so many in order of one digit, else as they stand; `places` says how often each value is there."""
    place, first = 0, digit * VALUES
    for value in range(VALUES):
        place, places[first + value] = place + places[first + value], place
    for index in range(count):
        value = (_first_half(scores[index]) >> (DIGIT * digit)) & (VALUES - 1)
        place = places[first + value]
        to_rows[place], to_scores[place], places[first + value] = rows[index], scores[index], place + 1


@compiled_lean
def _sort_by_digits(count, rows, scores, spare_rows, spare_scores, places):
    """Sort by the first half of the scores."""
    for value in range(ROOM):
        places[value] = 0
    for index in range(count):
        half = _first_half(scores[index])
        for digit in range(DIGITS):
            places[digit * VALUES + ((half >> (DIGIT * digit)) & (VALUES - 1))] += 1
    there = False
    for digit in range(DIGITS):
        value = (_first_half(scores[0]) >> (DIGIT * digit)) & (VALUES - 1)
        if places[digit * VALUES + value] < count:  # else all are the same
            if there:
                _sort_by_digit(digit, count, spare_rows, spare_scores, rows, scores, places)
            else:
                _sort_by_digit(digit, count, rows, scores, spare_rows, spare_scores, places)
            there = not there
    if there:
        for index in range(count):
            rows[index], scores[index] = spare_rows[index], spare_scores[index]


@compiled_lean
def sort(count, rows, scores, spare_rows, spare_scores, places):
    """So many into order; the last three have room for as many, or `places` for more."""
    if count < MANY or len(places) < ROOM:
        _sort_by_merging(0, count, rows, scores, spare_rows, spare_scores)
        return
    _sort_by_digits(count, rows, scores, spare_rows, spare_scores, places)
    begin = 0
    for end in range(1, count + 1):
        if end == count or _first_half(scores[end]) != _first_half(scores[begin]):
            if end - begin > 1:
                _sort_by_merging(begin, end, rows, scores, spare_rows, spare_scores)
            begin = end
