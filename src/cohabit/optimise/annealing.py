"""Simulated annealing over placements, one stretch of swaps at a time. Compiled.

A swap exchanges two jobs of different nodes, or a job and an empty seat where a node has room. Only the two nodes it
touches are valued again: from the memo where their sets of jobs are known, and not at all where an estimate says
that the swap would be refused by far. A better placement is always taken, a worse one with probability exp(loss /
temperature). Jobs of the same kind are never exchanged: nothing would change. The random numbers are a splitmix64
sequence from the word handed in, so a stretch is the same on every machine.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from cohabit.compiled import compiled_free, compiled_lean
from cohabit.model.mix import Ints
from cohabit.optimise.division import MINIMUM
from cohabit.optimise.estimates import Planes, fill_spare, make_planes, with_newcomer
from cohabit.optimise.memo import insert, look_up, work_out

DRAWS = 64  # attempts to find two jobs that differ
EMPTY = -1
TABLED = -1
PATIENCE = 3  # proposals without a change before tables are made for a node


class Seating(NamedTuple):
    """The jobs of every node: `room` seats per node, one after another."""

    room: int
    seats: Any  # job, or EMPTY
    seat_of: Any  # of every job
    kind_of: Any
    key: Any  # of every node: sums of its members' words
    second: Any
    value: Any  # of every node
    load: Any
    price: Any
    age: Any  # proposals since the node changed; TABLED: its tables are there
    spare: Any  # node x (room + 1) x (buckets + 1): see estimates
    estimate: Any  # of every node as it is, from its tables
    best: Any  # the seats of the best placement seen
    totals: Any  # value of the present placement, of the best
    word: Any  # state of the random sequence


class Scratch(NamedTuple):
    """Room for one node at a time."""

    kinds: Any
    planes: Planes
    found: Any  # value, load, price of the node looked at


def make_scratch(room: int, buckets: int) -> Scratch:
    """Scratch space for nodes of so many seats."""
    return Scratch(np.zeros(room + 1, np.int64), make_planes(room, buckets), np.zeros(3))


def make_seating(seats: Ints, kind_of: Ints, nodes: int, buckets: int, word: int) -> Seating:
    """A seating that `seat_all` will value; word begins the random sequence."""
    room = len(seats) // nodes
    return Seating(
        room,
        seats.copy(),
        np.zeros(len(kind_of), np.int64),
        kind_of,
        np.zeros(nodes, np.uint64),
        np.zeros(nodes, np.uint64),
        np.zeros(nodes),
        np.zeros(nodes),
        np.zeros(nodes),
        np.zeros(nodes, np.int64),
        np.zeros((nodes, room + 1, buckets + 1)),
        np.zeros(nodes),
        seats.copy(),
        np.zeros(2),
        np.array([word], np.uint64),
    )


@compiled_lean
def next_uniform(word):
    """The next number in [0, 1)."""
    word[0] += np.uint64(0x9E3779B97F4A7C15)
    mixed = word[0]
    mixed = (mixed ^ (mixed >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    mixed = (mixed ^ (mixed >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed = mixed ^ (mixed >> np.uint64(31))
    return float(mixed >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled_lean
def value_after(seating, node, out_seat, in_kind, key, second, valuer, scratch):
    """Value a node after an exchange at one of its seats, and remember it; the answer is in scratch.found."""
    count = 0
    for seat in range(node * seating.room, (node + 1) * seating.room):
        if seat == out_seat:
            kind = in_kind
        else:
            job = seating.seats[seat]
            kind = seating.kind_of[job] if job != EMPTY else EMPTY
        if kind != EMPTY:
            insert(scratch.kinds, count, kind)
            count += 1
    work_out(scratch.kinds, count, key, second, valuer, scratch.found)


@compiled_lean
def tabled(seating, node, valuer, scratch):
    """Return whether the node's tables exist; they are made once it has not changed for some time."""
    if seating.age[node] == TABLED:
        return True
    seating.age[node] += 1
    if seating.age[node] < PATIENCE:
        return False
    count = 0
    for seat in range(node * seating.room, (node + 1) * seating.room):
        job = seating.seats[seat]
        if job != EMPTY:
            scratch.kinds[count] = seating.kind_of[job]
            count += 1
    tables, load, price = valuer.tables, seating.load[node], seating.price[node]
    fill_spare(scratch.kinds, count, tables, valuer.objective, load, price, scratch.planes, seating.spare[node])
    seating.estimate[node] = seating.spare[node, count, tables.mpki.shape[1] - 1]
    seating.age[node] = TABLED
    return True


@compiled_lean
def estimated_change(seating, seat, in_kind, valuer, scratch):
    """Gain of the node of this seat from another kind there, by its tables."""
    room, tables, objective = seating.room, valuer.tables, valuer.objective
    node = seat // room
    place = 0
    count = 0
    for other in range(node * room, (node + 1) * room):
        if seating.seats[other] != EMPTY:
            count += 1
            if other < seat:
                place += 1
    others = count - 1
    if seating.seats[seat] == EMPTY:
        place = count
        others = count
    if in_kind == EMPTY:
        left = seating.spare[node, place, tables.mpki.shape[1] - 1] if others > 0 else 0.0
        return left - seating.estimate[node]
    spare, load, price = seating.spare[node, place], seating.load[node], seating.price[node]
    found = with_newcomer(spare, others, in_kind, tables, objective, load, price, scratch.planes.rows[room])
    return found - seating.estimate[node]


@compiled_free
def seat_all(seating, valuer, scratch):
    """Value every node of a fresh seating and begin the totals."""
    room, tables = seating.room, valuer.tables
    total = 0.0
    for node in range(seating.value.shape[0]):
        key = np.uint64(0)
        second = np.uint64(0)
        for seat in range(node * room, (node + 1) * room):
            job = seating.seats[seat]
            if job != EMPTY:
                seating.seat_of[job] = seat
                key += tables.key[seating.kind_of[job]]
                second += tables.second_key[seating.kind_of[job]]
        seating.key[node] = key
        seating.second[node] = second
        if not look_up(valuer.memo, key, second, scratch.found):
            value_after(seating, node, -1, EMPTY, key, second, valuer, scratch)
        seating.value[node] = scratch.found[0]
        seating.load[node] = scratch.found[1]
        seating.price[node] = scratch.found[2]
        seating.age[node] = 0
        total += seating.value[node]
    seating.totals[0] = total
    seating.totals[1] = total
    seating.best[:] = seating.seats


@compiled_free
def anneal(seating, valuer, scratch, margin, swaps, temperature, cooling):
    """Propose so many swaps, the temperature times `cooling` after each; return how many could be proposed.

    An estimate that falls short by more than `margin` decides alone; below 0 estimates decide nothing.
    """
    room, tables, memo = seating.room, valuer.tables, valuer.memo
    jobs = seating.seat_of.shape[0]
    seats = seating.seats.shape[0]
    estimating = not valuer.shared and valuer.objective != MINIMUM and margin >= 0.0
    for done in range(swaps):
        found = False
        here = 0
        there = 0
        kind_here = 0
        kind_there = 0
        for _ in range(DRAWS):
            here = seating.seat_of[int(next_uniform(seating.word) * jobs)]
            there = int(next_uniform(seating.word) * seats)
            if here // room == there // room:
                continue
            kind_here = seating.kind_of[seating.seats[here]]
            other = seating.seats[there]
            kind_there = seating.kind_of[other] if other != EMPTY else EMPTY
            if kind_here != kind_there:
                found = True
                break
        if not found:
            return done
        least = temperature * math.log(1.0 - next_uniform(seating.word))  # the largest loss that would be accepted now
        temperature *= cooling
        a = here // room
        b = there // room
        key_move = tables.key[kind_here]
        second_move = tables.second_key[kind_here]
        if kind_there != EMPTY:
            key_move -= tables.key[kind_there]
            second_move -= tables.second_key[kind_there]
        key_a = seating.key[a] - key_move
        second_a = seating.second[a] - second_move
        key_b = seating.key[b] + key_move
        second_b = seating.second[b] + second_move

        known_a = look_up(memo, key_a, second_a, scratch.found)
        value_a, load_a, price_a = scratch.found[0], scratch.found[1], scratch.found[2]
        known_b = look_up(memo, key_b, second_b, scratch.found)
        value_b, load_b, price_b = scratch.found[0], scratch.found[1], scratch.found[2]
        if estimating and not (known_a and known_b):
            guess = 0.0
            sure = True
            if known_a:
                guess += value_a - seating.value[a]
            elif tabled(seating, a, valuer, scratch):
                guess += estimated_change(seating, here, kind_there, valuer, scratch)
            else:
                sure = False
            if known_b:
                guess += value_b - seating.value[b]
            elif sure and tabled(seating, b, valuer, scratch):
                guess += estimated_change(seating, there, kind_here, valuer, scratch)
            else:
                sure = False
            if sure and guess < least - margin:
                continue
        if not known_a:
            value_after(seating, a, here, kind_there, key_a, second_a, valuer, scratch)
            value_a, load_a, price_a = scratch.found[0], scratch.found[1], scratch.found[2]
        if not known_b:
            value_after(seating, b, there, kind_here, key_b, second_b, valuer, scratch)
            value_b, load_b, price_b = scratch.found[0], scratch.found[1], scratch.found[2]
        change = (value_a + value_b) - (seating.value[a] + seating.value[b])
        if change < least:
            continue
        mine = seating.seats[here]
        other = seating.seats[there]
        seating.seats[here] = other
        seating.seats[there] = mine
        seating.seat_of[mine] = there
        if other != EMPTY:
            seating.seat_of[other] = here
        seating.key[a] = key_a
        seating.key[b] = key_b
        seating.second[a] = second_a
        seating.second[b] = second_b
        seating.value[a] = value_a
        seating.value[b] = value_b
        seating.load[a] = load_a
        seating.load[b] = load_b
        seating.price[a] = price_a
        seating.price[b] = price_b
        seating.age[a] = 0
        seating.age[b] = 0
        seating.totals[0] += change
        if seating.totals[0] > seating.totals[1] + 1e-12:
            seating.totals[1] = seating.totals[0]
            seating.best[:] = seating.seats
    return swaps
