"""Kernels for jobs that come and go: choose a node, and the one job worth moving. Compiled.

Every node has its tables at rest (see `estimates`), so what a job would gain or cost anywhere is a few dozen steps. All
places are estimated, the few best are computed exactly, and only exact values decide. Where nodes are many and known by
their residents alone (`Residents`), nothing is estimated: a question about a set the memo knows is one look-up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cohabit.compiled import compiled, compiled_lean
from cohabit.optimise.division import curve_of
from cohabit.optimise.estimates import at_most, best_with, fill_spare, with_newcomer
from cohabit.optimise.memo import insert, set_value, slot_of

EMPTY = -1
CLOSER = 8  # places that are computed exactly after all have been estimated
VACANT = 2  # nodes with room that a displaced job is tried on; more found nothing better and took longer


class Residents(NamedTuple):
    """The jobs of many nodes; two sums of words and a value are computed once per set of residents (`describe`)."""

    kinds: Any  # nodes x seats; EMPTY where no job is
    words: Any  # 2 x nodes: the sums by which the memo knows the set
    values: Any  # with the cache divided in the best way


@compiled_lean
def listed(row, without, newcomer, kinds):
    """The kinds on a node in rising order, without the one at a seat (or -1), with a newcomer (or -1); how many."""
    count = 0
    for seat in range(row.shape[0] + 1):
        kind = newcomer if seat == row.shape[0] else row[seat]
        if seat == without:
            kind = EMPTY
        if kind != EMPTY:
            insert(kinds, count, kind)
            count += 1
    return count


@compiled
def refresh(nodes, state, valuer):
    """Value these nodes and make their tables."""
    room = state.kinds.shape[1]
    kinds = np.empty(room + 1, np.int64)
    found = np.empty(3)
    for node in nodes:
        count = listed(state.kinds[node], -1, EMPTY, kinds)
        set_value(kinds, count, valuer, found)
        state.value[node] = found[0]
        state.load[node] = found[1]
        state.price[node] = found[2]
        state.count[node] = count
        size = 0
        for seat in range(room):  # tables follow the seats that are taken
            if state.kinds[node, seat] != EMPTY:
                kinds[size] = state.kinds[node, seat]
                size += 1
        tables, spare = valuer.tables, state.spare[node]
        fill_spare(kinds, count, tables, valuer.objective, found[1], found[2], state.planes, spare)
        state.estimate[node] = spare[count, tables.mpki.shape[1] - 1]


@compiled_lean
def joining(state, node, kind, valuer):
    """Estimated gain of a node from one more job."""
    count, row = state.count[node], state.planes.rows[0]
    if count == 0:
        return with_newcomer(state.spare[node, 0], 0, kind, valuer.tables, valuer.objective, 0.0, 0.0, row)
    spare, load, price = state.spare[node, count], state.load[node], state.price[node]
    found = with_newcomer(spare, count, kind, valuer.tables, valuer.objective, load, price, row)
    return found - state.estimate[node]


@compiled_lean
def keep_best(guesses, where, guess, node, seat, to):
    """Enter a place into the list of the best by estimate, the best first; of equals the one met first."""
    at = guesses.shape[0] - 1
    if guess <= guesses[at]:
        return
    while at > 0 and guesses[at - 1] < guess:
        guesses[at] = guesses[at - 1]
        for i in range(3):
            where[at, i] = where[at - 1, i]
        at -= 1
    guesses[at] = guess
    where[at, 0] = node
    where[at, 1] = seat
    where[at, 2] = to


@compiled_lean
def change_at(node, seat, newcomer, state, valuer, kinds, found):
    """Gain of a node from a newcomer (or none) in the place of the job at a seat (or -1), exactly."""
    count = listed(state.kinds[node], seat, newcomer, kinds)
    set_value(kinds, count, valuer, found)
    return found[0] - state.value[node]


@compiled
def best_node(kind, open_nodes, state, valuer):
    """The node with room that gains most from this job, and the gain; -1 where none has room. Then the near best."""
    room = state.kinds.shape[1]
    guesses = np.full(CLOSER, -np.inf)
    where = np.full((CLOSER, 3), -1)
    for node in range(state.kinds.shape[0]):
        if open_nodes[node] and state.count[node] < room:
            keep_best(guesses, where, joining(state, node, kind, valuer), node, -1, -1)
    kinds = np.empty(room + 1, np.int64)
    found = np.empty(3)
    best = -np.inf
    chosen = -1
    for i in range(CLOSER):
        node = where[i, 0]
        if node < 0:
            break
        gain = change_at(node, -1, kind, state, valuer, kinds, found)
        if gain > best + 1e-12 or (gain > best - 1e-12 and node < chosen):
            best = max(gain, best)
            chosen = node
    return chosen, best, where[:, 0].copy()


@compiled
def best_displacement(kind, movable, open_nodes, vacant, state, valuer):
    """The job that should make room for the newcomer and move to a vacant node: its node, seat, new node, the gain.

    The gain is that of all three changes; node -1 where there is nothing to move.
    """
    tables, objective, row = valuer.tables, valuer.objective, state.planes.rows[1]
    room = state.kinds.shape[1]
    buckets = tables.mpki.shape[1] - 1
    guesses = np.full(CLOSER, -np.inf)
    where = np.full((CLOSER, 3), -1)
    known = np.full((VACANT, tables.cpi0.shape[0]), np.nan)  # what each kind would gain each vacant node
    for node in range(state.kinds.shape[0]):
        if not open_nodes[node] or state.count[node] == 0:
            continue
        top = buckets - state.count[node] + 1
        curve_of(kind, tables, objective, state.load[node], state.price[node], 0.0, top, row)
        place = 0
        for seat in range(room):
            other = state.kinds[node, seat]
            if other == EMPTY:
                continue
            place += 1
            if other == kind or not movable[node, seat]:
                continue
            here = best_with(state.spare[node, place - 1], row, top) - state.estimate[node]
            for v in range(VACANT):
                if v >= vacant.shape[0] or vacant[v] < 0 or vacant[v] == node:
                    continue
                if np.isnan(known[v, other]):
                    to = vacant[v]
                    spare, load, price = state.spare[to, state.count[to]], state.load[to], state.price[to]
                    most = at_most(spare, state.count[to], other, tables, objective, load, price) - state.estimate[to]
                    if here + most <= guesses[CLOSER - 1]:
                        continue
                    known[v, other] = joining(state, to, other, valuer)
                keep_best(guesses, where, here + known[v, other], node, seat, vacant[v])
    return worked_out(kind, where, state, valuer)


@compiled
def best_arrival_from(to, movable, open_nodes, state, valuer):
    """The job elsewhere whose move to node `to` gains most: its node, its seat, the gain."""
    buckets = valuer.tables.mpki.shape[1] - 1
    guesses = np.full(CLOSER, -np.inf)
    where = np.full((CLOSER, 3), -1)
    known = np.full(valuer.tables.cpi0.shape[0], np.nan)
    for node in range(state.kinds.shape[0]):
        if node == to or not open_nodes[node]:
            continue
        place = 0
        for seat in range(state.kinds.shape[1]):
            kind = state.kinds[node, seat]
            if kind == EMPTY:
                continue
            place += 1
            if not movable[node, seat]:
                continue
            if np.isnan(known[kind]):
                known[kind] = joining(state, to, kind, valuer)
            left = state.spare[node, place - 1, buckets] if state.count[node] > 1 else 0.0
            keep_best(guesses, where, known[kind] + left - state.estimate[node], node, seat, to)
    node, seat, _, gain = worked_out(EMPTY, where, state, valuer)
    return node, seat, gain


@compiled
def worked_out(newcomer, where, state, valuer):
    """Of these moves (node, seat, new node), with a newcomer (or none) in the seat left, the one that gains most."""
    kinds = np.empty(state.kinds.shape[1] + 1, np.int64)
    found = np.empty(3)
    best = -np.inf
    chosen = -1
    for i in range(where.shape[0]):
        node, seat, to = where[i]
        if node < 0:
            break
        gain = change_at(node, seat, newcomer, state, valuer, kinds, found)
        gain += change_at(to, -1, state.kinds[node, seat], state, valuer, kinds, found)
        if gain > best + 1e-12:
            best = gain
            chosen = i
    if chosen < 0:
        return -1, -1, -1, best
    return where[chosen, 0], where[chosen, 1], where[chosen, 2], best


# ---- nodes known by their residents alone ---------------------------------------------------------------------------


@compiled
def describe(nodes, at, valuer):
    """Fill the words and the value of the node at this place."""
    kinds = np.empty(nodes.kinds.shape[1] + 1, np.int64)
    found = np.empty(3)
    count = listed(nodes.kinds[at], -1, EMPTY, kinds)
    nodes.words[0, at] = np.uint64(0)
    nodes.words[1, at] = np.uint64(0)
    for i in range(count):
        nodes.words[0, at] += valuer.tables.key[kinds[i]]
        nodes.words[1, at] += valuer.tables.second_key[kinds[i]]
    set_value(kinds, count, valuer, found)
    nodes.values[at] = found[0]


@compiled
def gains(nodes, places, newcomer, valuer):
    """Gain of the node at each of these places from the newcomer."""
    tables, memo, gained = valuer.tables, valuer.memo, np.empty(places.shape[0])
    kinds = np.empty(nodes.kinds.shape[1] + 1, np.int64)
    found = np.empty(3)
    for i in range(places.shape[0]):
        at = places[i]
        key = nodes.words[0, at] + tables.key[newcomer]
        second = nodes.words[1, at] + tables.second_key[newcomer]
        slot = slot_of(memo, key, second)
        if memo.keys[slot] == key and memo.seconds[slot] == second:
            gained[i] = memo.values[slot] - nodes.values[at]
        else:
            count = listed(nodes.kinds[at], -1, newcomer, kinds)
            set_value(kinds, count, valuer, found)
            gained[i] = found[0] - nodes.values[at]
    return gained


@compiled
def losses(row, valuer):
    """Loss of a node without the job in each of its seats."""
    kinds = np.empty(row.shape[0] + 1, np.int64)
    found, lost = np.empty(3), np.zeros(row.shape[0])
    set_value(kinds, listed(row, -1, EMPTY, kinds), valuer, found)
    whole = found[0]
    for seat in range(row.shape[0]):
        if row[seat] != EMPTY:
            set_value(kinds, listed(row, seat, EMPTY, kinds), valuer, found)
            lost[seat] = whole - found[0]
    return lost
