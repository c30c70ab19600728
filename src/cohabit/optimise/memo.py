"""The value of a set of jobs on a node, remembered in a hash table. Compiled.

A set is known by two sums of random words, one word of each sum per kind of its members: the same whatever the order,
and brought up to date by one addition and one subtraction when a job is exchanged. Both sums are compared, 128 bits,
so two different sets are practically never taken for each other. A full table drops the set at the place of the new
one.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cohabit.compiled import compiled_lean
from cohabit.optimise.division import Tables, Work, divide
from cohabit.optimise.occupancy import share

PROBES = 16
LOOKUPS, HITS, USED = 0, 1, 2
SMALLEST, LARGEST = 2**12, 2**21  # entries of 40 bytes


class Memo(NamedTuple):
    """The table and its counters."""

    keys: Any
    seconds: Any
    values: Any
    loads: Any  # of memory, at that value
    prices: Any  # of bandwidth
    counts: Any


class Valuer(NamedTuple):
    """All that it takes to value a set of kinds on a node."""

    tables: Tables
    objective: int
    work: Work
    memo: Memo
    shared: bool = False  # the cache is not divided


def make_memo(entries: int = SMALLEST) -> Memo:
    """An empty table with room for a power of two of entries."""
    size = SMALLEST
    while size < min(entries, LARGEST):
        size *= 2
    words, numbers = [np.zeros(size, np.uint64) for _ in range(2)], [np.zeros(size) for _ in range(3)]
    keys, seconds = words
    values, loads, prices = numbers
    return Memo(keys, seconds, values, loads, prices, np.zeros(3, np.int64))


def grown(memo: Memo) -> Memo:
    """The same table, twice as large once it is half full."""
    if len(memo.keys) >= LARGEST or 2 * memo.counts[USED] < len(memo.keys):
        return memo
    larger = make_memo(4 * len(memo.keys))
    move(memo, larger)
    larger.counts[:] = memo.counts
    return larger


@compiled_lean
def slot_of(memo, key, second):
    """The place of the set, or the place where it would be put."""
    mask = np.uint64(memo.keys.shape[0] - 1)
    home = (key ^ (key >> np.uint64(29))) & mask
    place = home
    for _ in range(PROBES):
        if memo.keys[place] == key and memo.seconds[place] == second:
            return place
        if memo.keys[place] == np.uint64(0) and memo.seconds[place] == np.uint64(0):
            return place
        place = (place + np.uint64(1)) & mask
    return home


@compiled_lean
def look_up(memo, key, second, out):
    """Return whether the set is remembered; its value, load and price are then in out."""
    memo.counts[LOOKUPS] += 1
    place = slot_of(memo, key, second)
    if memo.keys[place] != key or memo.seconds[place] != second:
        return False
    memo.counts[HITS] += 1
    out[0] = memo.values[place]
    out[1] = memo.loads[place]
    out[2] = memo.prices[place]
    return True


@compiled_lean
def put(memo, place, key, second, value, load, price):
    """Remember a value at its place."""
    if memo.keys[place] == np.uint64(0) and memo.seconds[place] == np.uint64(0):
        memo.counts[USED] += 1
    memo.keys[place] = key
    memo.seconds[place] = second
    memo.values[place] = value
    memo.loads[place] = load
    memo.prices[place] = price


@compiled_lean
def insert(kinds, count, kind):
    """Add a kind to a set listed in rising order, as it must be valued: one set, one value."""
    place = count
    while place > 0 and kinds[place - 1] > kind:
        kinds[place] = kinds[place - 1]
        place -= 1
    kinds[place] = kind


@compiled_lean
def worth(kinds, count, valuer):
    """Value of a node with these jobs; load and price are left in work.rest where the cache is divided."""
    if count == 0:
        valuer.work.rest[:] = 0.0
        return 0.0
    if valuer.shared:
        return share(kinds, count, valuer.tables, valuer.objective, valuer.work)
    return divide(kinds, count, valuer.tables, valuer.objective, True, valuer.work)


@compiled_lean
def work_out(kinds, count, key, second, valuer, out):
    """Value a set that is not remembered, and remember it; out: value, load and price."""
    out[0] = worth(kinds, count, valuer)
    out[1] = valuer.work.rest[0]
    out[2] = valuer.work.rest[1]
    put(valuer.memo, slot_of(valuer.memo, key, second), key, second, out[0], out[1], out[2])


@compiled_lean
def set_value(kinds, count, valuer, out):
    """Value, load and price of a node with these kinds, which must be in rising order."""
    if count == 0:
        out[:] = 0.0
        return
    key = np.uint64(0)
    second = np.uint64(0)
    for i in range(count):
        key += valuer.tables.key[kinds[i]]
        second += valuer.tables.second_key[kinds[i]]
    if not look_up(valuer.memo, key, second, out):
        work_out(kinds, count, key, second, valuer, out)


@compiled_lean
def move(memo, larger):
    """Put everything into another table."""
    for i in range(memo.keys.shape[0]):
        if memo.keys[i] != np.uint64(0) or memo.seconds[i] != np.uint64(0):
            place = slot_of(larger, memo.keys[i], memo.seconds[i])
            put(larger, place, memo.keys[i], memo.seconds[i], memo.values[i], memo.loads[i], memo.prices[i])
