"""A sorted list of job rows that stays fast at 200,000 rows: rungs of at most 128 rows with a summary each.

The queue (sorted by score) and the running set (sorted by expected end) are ladders. Inserting or removing a row
touches one rung. A search skips whole rungs by their summaries: the smallest node count and time limit on the rung
(could any of its jobs start?) and the sum of its nodes (when will enough be free?). Ties are broken by the order of
submission. All data are plain arrays, so a checkpoint is a copy. This module knows nothing of scheduling.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled_inline, compiled_lean, move
from cohabit.core.columns import LIMIT, NODES, SEQ, Floats, Ints

RUNG = 128  # rows on a full rung
# rows of `info`, one column per rung
ORDER, SIZE, MIN_NODES, MIN_LIMIT, SUM_NODES = 0, 1, 2, 3, 4
# kept by conservative.py: no job on the rung is promised an earlier instant, or has a smaller score
SOONEST, LEAST_SCORE = 5, 6
# one column per place in the order: the key of the last row of that rung (a float64, as its bits)
LAST_KEY = 7
SUMMARIES = 8
# entries of `meta`
RUNGS, ROWS, SPARE = 0, 1, 2
NO_ROW = 2**62


class Ladder(NamedTuple):
    """The three arrays of a ladder."""

    items: NDArray[np.int32]  # [rung, position] -> job row
    info: NDArray[np.int64]  # [ORDER.., rung]; info[ORDER, k] is the k-th rung in sorted order
    meta: NDArray[np.int64]  # RUNGS in use, ROWS in all, SPARE = rungs ever used


def make(capacity: int) -> Ladder:
    """An empty ladder that can hold `capacity` rows."""
    rungs = 8 * capacity // RUNG + 16
    info = np.zeros((SUMMARIES, rungs), np.int64)
    info[ORDER] = np.arange(rungs)
    return Ladder(np.zeros((rungs, RUNG), np.int32), info, np.zeros(3, np.int64))


@compiled_lean
def _summarise(items: Ints, info: Ints, jobs: Ints, rung: int) -> None:
    fewest, shortest, total = NO_ROW, NO_ROW, 0
    for position in range(info[SIZE, rung]):
        row = items[rung, position]
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        fewest, shortest, total = min(fewest, nodes), min(shortest, limit), total + nodes
    info[MIN_NODES, rung], info[MIN_LIMIT, rung], info[SUM_NODES, rung] = fewest, shortest, total


@compiled_lean
def _note_last(items: Ints, info: Ints, place: int, key: Floats) -> None:
    rung = info[ORDER, place]
    info[LAST_KEY, place] = np.float64(key[items[rung, info[SIZE, rung] - 1]]).view(np.int64)


@compiled_lean
def _find_rung(ladder: Ladder, seq: Ints, key: Floats, row: int) -> int:
    """Return the index (in sorted order) of the first rung whose last row is not before `row`."""
    items, info, meta = ladder
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
def _find_position(items: Ints, info: Ints, rung: int, seq: Ints, key: Floats, row: int) -> int:
    """The position on the rung before which `row` belongs."""
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
def _position_of(items: Ints, info: Ints, rung: int, row: int) -> int:
    """The position of `row` on the rung."""
    rows, position = items[rung, : info[SIZE, rung]], 0
    for index in range(len(rows)):  # no early exit: several rows are compared at once
        position += index * (rows[index] == row)
    return position


@compiled_lean
def _open_rung(info: Ints, meta: Ints, place: int) -> int:
    """Put an unused rung at `place` in the order; unused rungs are behind the used ones."""
    count = meta[RUNGS]
    rung = info[ORDER, count]
    move(info[ORDER], place, place + 1, count - place)
    move(info[LAST_KEY], place, place + 1, count - place)
    info[ORDER, place] = rung
    info[SIZE, rung], info[SOONEST, rung], info[LEAST_SCORE, rung] = 0, NO_ROW, NO_ROW
    meta[RUNGS] = count + 1
    return int(rung)


@compiled_lean
def _close_rung(info: Ints, meta: Ints, place: int) -> None:
    count = meta[RUNGS] - 1
    rung = info[ORDER, place]
    move(info[ORDER], place + 1, place, count - place)
    move(info[LAST_KEY], place + 1, place, count - place)
    info[ORDER, count] = rung
    meta[RUNGS] = count


@compiled_lean
def insert(ladder: Ladder, jobs: Ints, key: Floats, row: int) -> None:
    """Add `row`, sorted by its key, then by its submission."""
    (items, info, meta), seq = ladder, jobs[SEQ]
    if meta[RUNGS] == 0:
        _open_rung(info, meta, 0)
        place = 0
    else:
        place = min(_find_rung(ladder, seq, key, row), meta[RUNGS] - 1)
    rung = info[ORDER, place]
    if info[SIZE, rung] == RUNG:
        fresh = _open_rung(info, meta, place + 1)
        at_end = place + 2 == meta[RUNGS] and _find_position(items, info, rung, seq, key, row) == RUNG
        keep = RUNG if at_end else RUNG // 2  # appending in order leaves full rungs
        for position in range(keep, RUNG):
            items[fresh, position - keep] = items[rung, position]
        info[SIZE, fresh] = RUNG - keep
        info[SIZE, rung] = keep
        info[LAST_KEY, place + 1] = info[LAST_KEY, place]
        _note_last(items, info, place, key)
        info[SOONEST, fresh], info[LEAST_SCORE, fresh] = info[SOONEST, rung], info[LEAST_SCORE, rung]
        _summarise(items, info, jobs, rung)
        _summarise(items, info, jobs, fresh)
        if at_end or _find_position(items, info, rung, seq, key, row) == keep:
            rung, place = fresh, place + 1
    position = _find_position(items, info, rung, seq, key, row)
    move(items[rung], position, position + 1, info[SIZE, rung] - position)
    items[rung, position] = row
    info[SIZE, rung] += 1
    if position + 1 == info[SIZE, rung]:
        _note_last(items, info, place, key)
    if info[SIZE, rung] == 1:
        _summarise(items, info, jobs, rung)
    else:
        info[MIN_NODES, rung] = min(info[MIN_NODES, rung], jobs[NODES, row])
        info[MIN_LIMIT, rung] = min(info[MIN_LIMIT, rung], jobs[LIMIT, row])
        info[SUM_NODES, rung] += jobs[NODES, row]
    meta[ROWS] += 1


@compiled_lean
def _none_has(items: Ints, info: Ints, jobs: Ints, rung: int, column: int, value: int) -> bool:
    for position in range(info[SIZE, rung]):
        if jobs[column, items[rung, position]] == value:
            return False
    return True


@compiled_lean
def remove(ladder: Ladder, jobs: Ints, key: Floats, row: int) -> None:
    """Take `row` out; its key must not have changed since it was inserted."""
    items, info, meta = ladder
    place = _find_rung(ladder, jobs[SEQ], key, row)
    rung = info[ORDER, place]
    position = _position_of(items, info, rung, row)
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
    info[SUM_NODES, rung] -= jobs[NODES, row]
    nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
    if (nodes == info[MIN_NODES, rung] and _none_has(items, info, jobs, rung, NODES, nodes)) or (
        limit == info[MIN_LIMIT, rung] and _none_has(items, info, jobs, rung, LIMIT, limit)
    ):
        _summarise(items, info, jobs, rung)


@compiled_lean
def lower(ladder: Ladder, jobs: Ints, key: Floats, row: int, soonest: int, least_score: int) -> None:
    """Update the summary of a row's rung with its promise and a whole number not above its score."""
    info = ladder.info
    rung = info[ORDER, _find_rung(ladder, jobs[SEQ], key, row)]
    info[SOONEST, rung] = min(info[SOONEST, rung], soonest)
    info[LEAST_SCORE, rung] = min(info[LEAST_SCORE, rung], least_score)


@compiled_inline
def all_as_wide(rung: int, ladder: Ladder, jobs: Ints) -> bool:
    """Return whether all jobs of a rung ask for as many nodes; the ladder is sorted by size: nodes, then time."""
    items = ladder.items
    found: bool = jobs[NODES, items[rung, 0]] == jobs[NODES, items[rung, ladder.info[SIZE, rung] - 1]]
    return found


@compiled_inline
def not_longer(rung: int, limit: int, ladder: Ladder, jobs: Ints) -> int:
    """Return how many jobs of such a rung request at most this time; they come first."""
    short, end = 0, ladder.info[SIZE, rung]
    while short < end:
        middle = (short + end) >> 1
        if jobs[LIMIT, ladder.items[rung, middle]] <= limit:
            short = middle + 1
        else:
            end = middle
    return short


@compiled_lean
def rebuild(ladder: Ladder, jobs: Ints, key: Floats, rows: Ints) -> None:
    """Replace all rows of the ladder by these, which are sorted; every rung has room for more."""
    items, info, meta = ladder
    meta[RUNGS], meta[ROWS] = 0, len(rows)
    for first in range(0, len(rows), 3 * RUNG // 4):
        rung = _open_rung(info, meta, meta[RUNGS])
        info[SIZE, rung] = min(3 * RUNG // 4, len(rows) - first)
        info[SOONEST, rung], info[LEAST_SCORE, rung] = -NO_ROW, -NO_ROW
        for position in range(info[SIZE, rung]):
            items[rung, position] = rows[first + position]
        _summarise(items, info, jobs, rung)
        _note_last(items, info, meta[RUNGS] - 1, key)


@compiled_lean
def rows_in_order(ladder: Ladder, out: Ints) -> int:
    """Write all rows in sorted order into `out`; return how many."""
    items, info, meta = ladder
    count = 0
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        rows, there = items[rung], out[count:]  # indices from zero: several are copied at once
        for position in range(info[SIZE, rung]):
            there[position] = rows[position]
        count += info[SIZE, rung]
    return count


def all_rows(ladder: Ladder) -> NDArray[np.int64]:
    """All rows in sorted order, in a new array."""
    out = np.empty(int(ladder.meta[ROWS]), np.int64)
    rows_in_order(ladder, out)
    return out
