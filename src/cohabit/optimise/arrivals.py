"""Kernels for jobs that come and go: which node, and which one job is worth moving. Compiled.

Every node has its tables at rest (see `estimates`), so what a job would gain or cost anywhere is a few dozen steps. All
places are estimated, the few best are worked out, and only what is worked out decides.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_lean
from cohabit.optimise.division import divide
from cohabit.optimise.estimates import fill_spare, with_newcomer
from cohabit.optimise.memo import HITS, LOOKUPS, put, slot_of

EMPTY = -1
CLOSER = 8  # places that are worked out after all have been estimated
VACANT = 4  # nodes with room that a displaced job is tried on


@compiled_lean
def set_value(kinds, count, tables, objective, work, memo, out):
    """Value, load and price of a node with these kinds, which must be in rising order."""
    if count == 0:
        out[:] = 0.0
        return
    key = np.uint64(0)
    second = np.uint64(0)
    for i in range(count):
        key += tables.key[kinds[i]]
        second += tables.second_key[kinds[i]]
    memo.counts[LOOKUPS] += 1
    place = slot_of(memo, key, second)
    if memo.keys[place] == key and memo.seconds[place] == second:
        memo.counts[HITS] += 1
        out[0] = memo.values[place]
        out[1] = memo.loads[place]
        out[2] = memo.prices[place]
        return
    out[0] = divide(kinds, count, tables, objective, True, work)
    out[1] = work.rest[0]
    out[2] = work.rest[1]
    put(memo, place, key, second, out[0], out[1], out[2])


@compiled_lean
def listed(row, without, newcomer, kinds):
    """The kinds on a node in rising order, without the one at a seat (or -1), with a newcomer (or -1); how many."""
    count = 0
    for seat in range(row.shape[0] + 1):
        kind = newcomer if seat == row.shape[0] else row[seat]
        if seat == without:
            kind = EMPTY
        if kind == EMPTY:
            continue
        place = count
        while place > 0 and kinds[place - 1] > kind:
            kinds[place] = kinds[place - 1]
            place -= 1
        kinds[place] = kind
        count += 1
    return count


@compiled
def refresh(nodes, state, tables, objective, work, memo):
    """Value these nodes and make their tables."""
    room = state.kinds.shape[1]
    kinds = np.empty(room + 1, np.int64)
    found = np.empty(3)
    for node in nodes:
        count = listed(state.kinds[node], -1, EMPTY, kinds)
        set_value(kinds, count, tables, objective, work, memo, found)
        state.value[node] = found[0]
        state.load[node] = found[1]
        state.price[node] = found[2]
        state.count[node] = count
        size = 0
        for seat in range(room):  # tables follow the seats that are taken
            if state.kinds[node, seat] != EMPTY:
                kinds[size] = state.kinds[node, seat]
                size += 1
        fill_spare(
            kinds, count, tables, objective, found[1], found[2], state.rows, state.left, state.right, state.spare[node]
        )
        state.estimate[node] = state.spare[node, count, tables.mpki.shape[1] - 1]


@compiled_lean
def joining(state, node, kind, tables, objective):
    """Estimated gain of a node from one more job."""
    if state.count[node] == 0:
        row = state.rows[0]
        return with_newcomer(state.spare[node, 0], 0, kind, tables, objective, 0.0, 0.0, row)
    found = with_newcomer(
        state.spare[node, state.count[node]], state.count[node], kind, tables, objective, state.load[node],
        state.price[node], state.rows[0],
    )  # fmt: skip
    return found - state.estimate[node]


@compiled_lean
def place_in(state, node, seat):
    """Which of the node's tables is this seat's."""
    place = 0
    for other in range(seat):
        if state.kinds[node, other] != EMPTY:
            place += 1
    return place


@compiled
def best_node(kind, open_nodes, state, tables, objective, work, memo):
    """The node with room that gains most from this job, and the gain; -1 where none has room."""
    room = state.kinds.shape[1]
    nodes = state.kinds.shape[0]
    guesses = np.full(CLOSER, -np.inf)
    where = np.full(CLOSER, -1)
    for node in range(nodes):
        if not open_nodes[node] or state.count[node] >= room:
            continue
        guess = joining(state, node, kind, tables, objective)
        if guess > guesses[CLOSER - 1]:
            at = CLOSER - 1
            while at > 0 and guesses[at - 1] < guess:
                guesses[at] = guesses[at - 1]
                where[at] = where[at - 1]
                at -= 1
            guesses[at] = guess
            where[at] = node
    kinds = np.empty(room + 1, np.int64)
    found = np.empty(3)
    best = -np.inf
    chosen = -1
    for i in range(CLOSER):
        node = where[i]
        if node < 0:
            break
        count = listed(state.kinds[node], -1, kind, kinds)
        set_value(kinds, count, tables, objective, work, memo, found)
        gain = found[0] - state.value[node]
        if gain > best + 1e-12 or (gain > best - 1e-12 and node < chosen):
            best = max(gain, best)
            chosen = node
    return chosen, best, where


@compiled
def best_displacement(kind, movable, open_nodes, vacant, state, tables, objective, work, memo):
    """The job that should make room for the newcomer and move to a vacant node: its node, seat, new node, the gain.

    The gain is that of all three changes; node -1 where there is nothing to move.
    """
    room = state.kinds.shape[1]
    guesses = np.full(CLOSER, -np.inf)
    where = np.full((CLOSER, 3), -1)
    known = np.full((VACANT, tables.cpi0.shape[0]), np.nan)  # what each kind would gain each vacant node
    for node in range(state.kinds.shape[0]):
        if not open_nodes[node]:
            continue
        place = 0
        for seat in range(room):
            other = state.kinds[node, seat]
            if other == EMPTY:
                continue
            place += 1
            if other == kind or not movable[node, seat]:
                continue
            here = with_newcomer(
                state.spare[node, place - 1], state.count[node] - 1, kind, tables, objective, state.load[node],
                state.price[node], state.rows[0],
            ) - state.estimate[node]  # fmt: skip
            for v in range(VACANT):
                if v >= vacant.shape[0] or vacant[v] < 0 or vacant[v] == node:
                    continue
                if np.isnan(known[v, other]):
                    known[v, other] = joining(state, vacant[v], other, tables, objective)
                guess = here + known[v, other]
                if guess > guesses[CLOSER - 1]:
                    at = CLOSER - 1
                    while at > 0 and guesses[at - 1] < guess:
                        guesses[at] = guesses[at - 1]
                        where[at] = where[at - 1]
                        at -= 1
                    guesses[at] = guess
                    where[at, 0] = node
                    where[at, 1] = seat
                    where[at, 2] = vacant[v]
    kinds = np.empty(room + 1, np.int64)
    found = np.empty(3)
    best = -np.inf
    chosen = np.full(3, -1)
    for i in range(CLOSER):
        node, seat, to = where[i]
        if node < 0:
            break
        count = listed(state.kinds[node], seat, kind, kinds)
        set_value(kinds, count, tables, objective, work, memo, found)
        gain = found[0] - state.value[node]
        count = listed(state.kinds[to], -1, state.kinds[node, seat], kinds)
        set_value(kinds, count, tables, objective, work, memo, found)
        gain += found[0] - state.value[to]
        if gain > best + 1e-12:
            best = gain
            chosen[:] = where[i]
    return chosen[0], chosen[1], chosen[2], best


@compiled
def best_arrival_from(to, movable, open_nodes, state, tables, objective, work, memo):
    """The job elsewhere whose move to node `to` gains most: its node, its seat, the gain."""
    room = state.kinds.shape[1]
    buckets = tables.mpki.shape[1] - 1
    guesses = np.full(CLOSER, -np.inf)
    where = np.full((CLOSER, 2), -1)
    known = np.full(tables.cpi0.shape[0], np.nan)
    for node in range(state.kinds.shape[0]):
        if node == to or not open_nodes[node]:
            continue
        place = 0
        for seat in range(room):
            kind = state.kinds[node, seat]
            if kind == EMPTY:
                continue
            place += 1
            if not movable[node, seat]:
                continue
            if np.isnan(known[kind]):
                known[kind] = joining(state, to, kind, tables, objective)
            left = state.spare[node, place - 1, buckets] if state.count[node] > 1 else 0.0
            guess = known[kind] + left - state.estimate[node]
            if guess > guesses[CLOSER - 1]:
                at = CLOSER - 1
                while at > 0 and guesses[at - 1] < guess:
                    guesses[at] = guesses[at - 1]
                    where[at] = where[at - 1]
                    at -= 1
                guesses[at] = guess
                where[at, 0] = node
                where[at, 1] = seat
    kinds = np.empty(room + 1, np.int64)
    found = np.empty(3)
    best = -np.inf
    chosen = np.full(2, -1)
    for i in range(CLOSER):
        node, seat = where[i]
        if node < 0:
            break
        count = listed(state.kinds[node], seat, EMPTY, kinds)
        set_value(kinds, count, tables, objective, work, memo, found)
        gain = found[0] - state.value[node]
        count = listed(state.kinds[to], -1, state.kinds[node, seat], kinds)
        set_value(kinds, count, tables, objective, work, memo, found)
        gain += found[0] - state.value[to]
        if gain > best + 1e-12:
            best = gain
            chosen[:] = where[i]
    return chosen[0], chosen[1], best
