"""A sorted list of job rows that stays fast at 200,000 rows: rungs of at most 128 rows with a summary each.

The queue (sorted by score) and the running set (sorted by expected end) are ladders. Inserting or removing
touches one rung; a search skips whole rungs by their summaries: the smallest node count and time limit on
the rung (who could start?) and the sum of its nodes (when will enough be free?). Ties are broken by `seq`,
the order of submission. Everything is a plain array, so a checkpoint is a copy and the compiled kernels
can walk it. It knows nothing of scheduling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled_inline, compiled_lean, move

RUNG = 128  # rows on a full rung
# rows of `info`, one column per rung
ORDER, SIZE, MIN_NODES, MIN_LIMIT, SUM_NODES = 0, 1, 2, 3, 4
# kept by core/conservative.py: nobody on the rung is promised an instant before, or has a smaller score
SOONEST, LEAST_SCORE = 5, 6
# one column per place in the order: what the last row of that rung is sorted by (a float64, as it stands in memory)
LAST_KEY = 7
SUMMARIES = 8
# entries of `meta`
RUNGS, ROWS, SPARE = 0, 1, 2
NO_ROW = 2**62


class Ladder(NamedTuple):
    """Three arrays; pass them whole (`*ladder`) to the kernels."""

    items: NDArray[np.int32]  # [rung, position] -> job row
    info: NDArray[np.int64]  # [ORDER.., rung]; info[ORDER, k] is the k-th rung in sorted order
    meta: NDArray[np.int64]  # RUNGS in use, ROWS in all, SPARE = rungs ever used


def make(capacity: int) -> Ladder:
    """An empty ladder that can hold `capacity` rows."""
    rungs = 8 * capacity // RUNG + 16
    info = np.zeros((SUMMARIES, rungs), np.int64)
    info[ORDER] = np.arange(rungs)
    return Ladder(np.empty((rungs, RUNG), np.int32), info, np.zeros(3, np.int64))


@compiled_lean
def _summarise(items, info, jobs, rung):
    nodes_row, limit_row = 0, 1  # the first two job columns, see core/columns.py
    fewest, shortest, total = NO_ROW, NO_ROW, 0
    for position in range(info[SIZE, rung]):
        row = items[rung, position]
        nodes, limit = jobs[nodes_row, row], jobs[limit_row, row]
        fewest, shortest, total = min(fewest, nodes), min(shortest, limit), total + nodes
    info[MIN_NODES, rung], info[MIN_LIMIT, rung], info[SUM_NODES, rung] = fewest, shortest, total


@compiled_lean
def _note_last(items, info, place, key):
    rung = info[ORDER, place]
    info[LAST_KEY, place] = np.float64(key[items[rung, info[SIZE, rung] - 1]]).view(np.int64)


@compiled_lean
def _find_rung(items, info, meta, key, seq, row):
    """Index (in sorted order) of the first rung whose last row is not before `row`."""
    low, high, wanted, lasts = 0, meta[RUNGS], key[row], info[LAST_KEY]
    while low < high:
        middle = (low + high) >> 1
        last = np.int64(lasts[middle]).view(np.float64)
        before = last < wanted
        if last == wanted:
            rung = info[ORDER, middle]
            before = seq[items[rung, info[SIZE, rung] - 1]] < seq[row]
        if before:
            low = middle + 1
        else:
            high = middle
    return low


@compiled_lean
def _find_position(items, info, rung, key, seq, row):
    low, high = 0, info[SIZE, rung]
    while low < high:
        middle = (low + high) // 2
        other = items[rung, middle]
        if key[other] < key[row] or (key[other] == key[row] and seq[other] < seq[row]):
            low = middle + 1
        else:
            high = middle
    return low


@compiled_lean
def _place_of(items, info, rung, row):
    """At which position of the rung the row stands."""
    rows, position = items[rung, : info[SIZE, rung]], 0
    for index in range(len(rows)):  # all of them: several are compared at once
        position += index * (rows[index] == row)
    return position


@compiled_lean
def _open_rung(info, meta, place):
    """Put an unused rung at `place` in the order; unused rungs wait behind the used ones."""
    count = meta[RUNGS]
    rung = info[ORDER, count]
    move(info[ORDER], place, place + 1, count - place)
    move(info[LAST_KEY], place, place + 1, count - place)
    info[ORDER, place] = rung
    info[SIZE, rung], info[SOONEST, rung], info[LEAST_SCORE, rung] = 0, NO_ROW, NO_ROW
    meta[RUNGS] = count + 1
    return rung


@compiled_lean
def _close_rung(info, meta, place):
    count = meta[RUNGS] - 1
    rung = info[ORDER, place]
    move(info[ORDER], place + 1, place, count - place)
    move(info[LAST_KEY], place + 1, place, count - place)
    info[ORDER, count] = rung
    meta[RUNGS] = count


@compiled_lean
def insert(items, info, meta, jobs, key, seq, row):
    """Add `row`, sorted by (key[row], seq[row])."""
    if meta[RUNGS] == 0:
        _open_rung(info, meta, 0)
        place = 0
    else:
        place = min(_find_rung(items, info, meta, key, seq, row), meta[RUNGS] - 1)
    rung = info[ORDER, place]
    if info[SIZE, rung] == RUNG:
        fresh = _open_rung(info, meta, place + 1)
        at_end = place + 2 == meta[RUNGS] and _find_position(items, info, rung, key, seq, row) == RUNG
        keep = RUNG if at_end else RUNG // 2  # appending in order leaves full rungs behind
        for position in range(keep, RUNG):
            items[fresh, position - keep] = items[rung, position]
        info[SIZE, fresh] = RUNG - keep
        info[SIZE, rung] = keep
        info[LAST_KEY, place + 1] = info[LAST_KEY, place]
        _note_last(items, info, place, key)
        info[SOONEST, fresh], info[LEAST_SCORE, fresh] = info[SOONEST, rung], info[LEAST_SCORE, rung]
        _summarise(items, info, jobs, rung)
        _summarise(items, info, jobs, fresh)
        if at_end or _find_position(items, info, rung, key, seq, row) == keep:
            rung, place = fresh, place + 1
    position = _find_position(items, info, rung, key, seq, row)
    move(items[rung], position, position + 1, info[SIZE, rung] - position)
    items[rung, position] = row
    info[SIZE, rung] += 1
    if position + 1 == info[SIZE, rung]:
        _note_last(items, info, place, key)
    if info[SIZE, rung] == 1:
        _summarise(items, info, jobs, rung)
    else:
        info[MIN_NODES, rung] = min(info[MIN_NODES, rung], jobs[0, row])
        info[MIN_LIMIT, rung] = min(info[MIN_LIMIT, rung], jobs[1, row])
        info[SUM_NODES, rung] += jobs[0, row]
    meta[ROWS] += 1


@compiled_lean
def _nobody_has(items, info, jobs, rung, column, value):
    for position in range(info[SIZE, rung]):
        if jobs[column, items[rung, position]] == value:
            return False
    return True


@compiled_lean
def remove(items, info, meta, jobs, key, seq, row):
    """Take `row` out; its key must not have changed since it was inserted."""
    place = _find_rung(items, info, meta, key, seq, row)
    rung = info[ORDER, place]
    position = _place_of(items, info, rung, row)
    assert items[rung, position] == row
    info[SIZE, rung] -= 1
    move(items[rung], position + 1, position, info[SIZE, rung] - position)
    meta[ROWS] -= 1
    if info[SIZE, rung] == 0:
        _close_rung(info, meta, place)
        return
    if position == info[SIZE, rung]:
        _note_last(items, info, place, key)
    if info[SIZE, rung] <= RUNG // 4 and place + 1 < meta[RUNGS]:
        after = info[ORDER, place + 1]
        if info[SIZE, rung] + info[SIZE, after] <= RUNG // 2:
            for index in range(info[SIZE, after]):
                items[rung, info[SIZE, rung] + index] = items[after, index]
            info[SIZE, rung] += info[SIZE, after]
            for summary in (SOONEST, LEAST_SCORE):
                info[summary, rung] = min(info[summary, rung], info[summary, after])
            info[LAST_KEY, place] = info[LAST_KEY, place + 1]
            _close_rung(info, meta, place + 1)
            _summarise(items, info, jobs, rung)
            return
    info[SUM_NODES, rung] -= jobs[0, row]
    nodes, limit = jobs[0, row], jobs[1, row]
    if (nodes == info[MIN_NODES, rung] and _nobody_has(items, info, jobs, rung, 0, nodes)) or (
        limit == info[MIN_LIMIT, rung] and _nobody_has(items, info, jobs, rung, 1, limit)
    ):
        _summarise(items, info, jobs, rung)


@compiled_lean
def lower(items, info, meta, key, seq, row, soonest, least_score):
    """Of a row on the ladder: this is what it is promised, and a whole number not above its score."""
    rung = info[ORDER, _find_rung(items, info, meta, key, seq, row)]
    info[SOONEST, rung] = min(info[SOONEST, rung], soonest)
    info[LEAST_SCORE, rung] = min(info[LEAST_SCORE, rung], least_score)


@compiled_inline
def all_as_wide(rung, items, info, jobs):
    """On a ladder by size, narrow ones first and of these the short: whether all of a rung ask for as many nodes."""
    return jobs[0, items[rung, 0]] == jobs[0, items[rung, info[SIZE, rung] - 1]]


@compiled_inline
def not_longer(rung, limit, items, info, jobs):
    """How many of such a rung ask for no more than this time; they stand first."""
    short, end = 0, info[SIZE, rung]
    while short < end:
        middle = (short + end) >> 1
        if jobs[1, items[rung, middle]] <= limit:
            short = middle + 1
        else:
            end = middle
    return short


@compiled_lean
def rebuild(items, info, meta, jobs, key, rows, summarised):
    """Put these rows, which are in order, onto the ladder in place of all others; there is room on every rung.

    Not `summarised`: nobody asks for the summaries.
    """
    meta[RUNGS], meta[ROWS] = 0, len(rows)
    for first in range(0, len(rows), 3 * RUNG // 4):
        rung = _open_rung(info, meta, meta[RUNGS])
        info[SIZE, rung] = min(3 * RUNG // 4, len(rows) - first)
        info[SOONEST, rung], info[LEAST_SCORE, rung] = -NO_ROW, -NO_ROW
        for position in range(info[SIZE, rung]):
            items[rung, position] = rows[first + position]
        if summarised:
            _summarise(items, info, jobs, rung)
        _note_last(items, info, meta[RUNGS] - 1, key)


@compiled_lean
def put_back(items, info, jobs, key, rows, rungs, summarised):
    """Put these rows, which stood on the first so many rungs, back in another order."""
    first = 0
    for place in range(rungs):
        rung = info[ORDER, place]
        for position in range(info[SIZE, rung]):
            items[rung, position] = rows[first + position]
        first += info[SIZE, rung]
        if summarised:
            _summarise(items, info, jobs, rung)
        _note_last(items, info, place, key)


@compiled_lean
def rows_in_order(items, info, meta, out):
    """Write all rows in sorted order into `out`; return how many."""
    count = 0
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        rows, there = items[rung], out[count:]  # indices from zero: several are copied at once
        for position in range(info[SIZE, rung]):
            there[position] = rows[position]
        count += info[SIZE, rung]
    return count


def all_rows(rungs: Ladder) -> NDArray[np.int64]:
    """All rows in sorted order, as an array of their own."""
    out = np.empty(int(rungs.meta[ROWS]), np.int64)
    rows_in_order(rungs.items, rungs.info, rungs.meta, out)
    return out
