"""Numbers made of the whole queue that an order's scores depend on, and between which others they may stay.

Bounds of scores (core/shortlist.py) hold as long as each number is no further than a width from where it was when the
window began. A width doubles where the number went beyond it, and shrinks where it stayed well within. Sums depend on
the sequence of what is added, so the queue is kept in order of arrival, too. An order without such numbers has empty
`spans`. Nothing is decided here.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean, move

LEVELS = 3  # of windows, see core/shortlist.py
# spans[...], one of each for every number: its value, as it is in memory (a whole number is one there), and from here
# on for each level of windows its value when the window began, and how far from it may be
VALUE, RAW, AT, WIDTH = 0, 1, 2, 2 + LEVELS
SPANS = 2 + 2 * LEVELS
NARROWER = 0.8
COUNT = 0  # queued[COUNT] is how many wait; their rows follow in order of arrival


@compiled_lean
def add(row, queued):
    """A job came into the queue, after all others."""
    queued[COUNT] += 1
    queued[queued[COUNT]] = row


@compiled_lean
def remove(row, queued):
    """A job left the queue."""
    first, last = 1, queued[COUNT]
    while first < last:
        middle = (first + last) // 2
        if queued[middle] < row:
            first = middle + 1
        else:
            last = middle
    move(queued, first + 1, first, queued[COUNT] - first)
    queued[COUNT] -= 1


@compiled_inline
def gather(now, gather_entry, gather_numbers, jobs, usage, queued, spans, parameters):
    """Make the numbers of the queue as it is now, and give them to the order."""
    count = spans.shape[1]
    if count > 0:
        rows = queued[1:]
        gather_entry(
            jobs.ctypes, jobs.shape[1], usage.ctypes, usage.shape[1] - 1, rows.ctypes, queued[COUNT], now,
            gather_numbers.ctypes, spans.ctypes,
        )  # fmt: skip
        for index in range(count):
            parameters[len(parameters) - count + index] = spans[RAW, index]


@compiled_inline
def are_beyond(level, spans):
    """Whether a number has gone beyond its width since the window began."""
    for index in range(spans.shape[1]):
        at, width = spans[AT + level, index], spans[WIDTH + level, index]
        if not (at - width <= spans[VALUE, index] <= at + width):
            return True
    return False


@compiled_lean
def begin_window(level, spans):
    """From now on they are bounded around what they are now."""
    for index in range(spans.shape[1]):
        apart, width = abs(spans[VALUE, index] - spans[AT + level, index]), spans[WIDTH + level, index]
        if apart > width and apart < np.inf:
            spans[WIDTH + level, index] = 2.0 * width if width > 0.0 else apart
        elif apart < 0.25 * width:
            spans[WIDTH + level, index] = NARROWER * width
        spans[AT + level, index] = spans[VALUE, index]


@compiled_inline
def give_bounds(level, spans, bound_parameters):
    """Tell between which numbers they may be; they stand before the last parameter."""
    count = spans.shape[1]
    low = len(bound_parameters) - 1 - 2 * count
    for index in range(count):
        at, width = spans[AT + level, index], spans[WIDTH + level, index]
        bound_parameters[low + index], bound_parameters[low + count + index] = at - width, at + width
