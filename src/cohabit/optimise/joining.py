"""Compute what nodes gain from one more job, or lose with one fewer, for many nodes in one call. Compiled.

A node is a row of kinds, EMPTY where no job is, with what is computed once per set of residents (`describe`): the two
sums by which the memo knows the set, and its value with the cache divided in the best way. A question about a set the
memo knows is one look-up.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled
from cohabit.optimise.arrivals import EMPTY, listed, set_value
from cohabit.optimise.memo import slot_of


@compiled
def describe(mix, tables, objective, work, memo, words, values, at):
    """words[:, at] and values[at] for a node with this mix."""
    kinds = np.empty(mix.shape[0] + 1, np.int64)
    found = np.empty(3)
    count = listed(mix, -1, EMPTY, kinds)
    words[0, at] = np.uint64(0)
    words[1, at] = np.uint64(0)
    for i in range(count):
        words[0, at] += tables.key[kinds[i]]
        words[1, at] += tables.second_key[kinds[i]]
    set_value(kinds, count, tables, objective, work, memo, found)
    values[at] = found[0]


@compiled
def gains(places, mixes, words, values, newcomer, tables, objective, work, memo, out):
    """out[i] = value of the node at places[i] with the newcomer less its value without."""
    kinds = np.empty(mixes.shape[1] + 1, np.int64)
    found = np.empty(3)
    for i in range(places.shape[0]):
        at = places[i]
        key = words[0, at] + tables.key[newcomer]
        second = words[1, at] + tables.second_key[newcomer]
        slot = slot_of(memo, key, second)
        if memo.keys[slot] == key and memo.seconds[slot] == second:
            out[i] = memo.values[slot] - values[at]
        else:
            count = listed(mixes[at], -1, newcomer, kinds)
            set_value(kinds, count, tables, objective, work, memo, found)
            out[i] = found[0] - values[at]


@compiled
def losses(mix, tables, objective, work, memo, out):
    """out[seat] = value of the node less its value without the job in that seat."""
    kinds = np.empty(mix.shape[0] + 1, np.int64)
    found = np.empty(3)
    count = listed(mix, -1, EMPTY, kinds)
    set_value(kinds, count, tables, objective, work, memo, found)
    whole = found[0]
    for seat in range(mix.shape[0]):
        out[seat] = 0.0
        if mix[seat] != EMPTY:
            count = listed(mix, seat, EMPTY, kinds)
            set_value(kinds, count, tables, objective, work, memo, found)
            out[seat] = whole - found[0]
