"""Dividing one node's cache: bandwidth estimate and dynamic programme in turns, the best division kept. Compiled.

A round takes the load of memory at the present sizes, turns every program's surface into a curve of value against
size at that load, finds the sizes of the largest sum by dynamic programming, and solves the law at those sizes, until
they stand still or for 8 rounds. With `charged` each program also pays for the bandwidth it draws, at the price that
a little more load costs all of them: without it the fixed point overlooks that the neighbours suffer from a program's
misses, and is up to 5 % worse on single nodes, never better. What is returned is always the law at the sizes returned,
never the estimate it was found with.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cohabit.compiled import compiled_lean
from cohabit.optimise.law import HIGHEST_LOAD, latency, latency_slope, solve_load

WEIGHTED, HARMONIC, MINIMUM = 0, 1, 2
ROUNDS = 8
FEW = 64  # divisions that are tried one by one instead: as fast, and exact
FEW_FOR_FAIRNESS = 4096  # of the minimum, which is not searched with: its fixed point may miss the best by some 0.3 %
MISSED = 1e6  # the cost of missing a bound by the whole speed; far above any gain
SLACK = 1e-12


class Tables(NamedTuple):
    """Programs of different kinds, as arrays; a job is known to the kernels by the row of its kind."""

    mpki: Any  # kinds x (buckets + 1)
    cpi0: Any
    cost: Any  # cycles per miss / 1000
    alone: Any  # IPC
    bound: Any  # share of it that must be kept; 0: none
    key: Any  # random words: a set of jobs is known by the sum of its members' words
    second_key: Any
    relative: float  # load of memory per miss per thousand instructions at one instruction per cycle


class Work(NamedTuple):
    """Scratch space of one search."""

    misses: Any
    cpi0: Any
    cost: Any
    values: Any  # jobs x (buckets + 1)
    best: Any
    sizes: Any
    kept: Any
    before: Any
    rest: Any  # load and price at the sizes kept
    shares: Any  # sizes that need not be whole, for the undivided cache
    aims: Any


def make_work(room: int, buckets: int) -> Work:
    """Scratch space for so many jobs on a node."""
    plane = (room, buckets + 1)
    return Work(
        np.zeros(room),
        np.zeros(room),
        np.zeros(room),
        np.zeros(plane),
        np.zeros(plane),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(room, np.int64),
        np.zeros(2),
        np.zeros(room),
        np.zeros(room),
    )


@compiled_lean
def split_equally(count, buckets, sizes):
    """Equal sizes; what does not divide evenly goes to the first."""
    for i in range(count):
        sizes[i] = buckets // count + (1 if i < buckets % count else 0)


@compiled_lean
def load_at(kinds, count, tables, sizes, work):
    """The load of memory at these whole sizes."""
    for i in range(count):
        work.misses[i] = tables.mpki[kinds[i], sizes[i]]
        work.cpi0[i] = tables.cpi0[kinds[i]]
        work.cost[i] = tables.cost[kinds[i]]
    return solve_load(count, work.misses, work.cpi0, work.cost, tables.relative)


@compiled_lean
def value_of(kinds, count, tables, objective, load, work):
    """Value of programs that miss `work.misses` at this load; larger is better, missed bounds count heavily."""
    cost_now = latency(load)
    total = 0.0
    smallest = np.inf
    for i in range(count):
        speed = 1.0 / ((work.cpi0[i] + work.cost[i] * work.misses[i] * cost_now) * tables.alone[kinds[i]])
        bound = tables.bound[kinds[i]]
        if speed < bound - SLACK:
            total -= MISSED * (bound - speed)
        smallest = min(smallest, speed)
        if objective == HARMONIC:
            total -= 1.0 / speed
        else:
            total += speed
    if objective == MINIMUM:  # the sum only decides between divisions of the same minimum
        return smallest + 1e-6 * total
    return total


@compiled_lean
def price_of(kinds, count, tables, objective, load, work):
    """Return what one more unit of load per unit of demand costs all jobs, per miss and instruction per cycle."""
    if load >= HIGHEST_LOAD:
        return 0.0
    cost_now = latency(load)
    slope_now = latency_slope(load)
    worth = 0.0
    demand = 0.0
    for i in range(count):
        stall = work.cost[i] * work.misses[i]
        ipc = 1.0 / (work.cpi0[i] + stall * cost_now)
        if objective == HARMONIC:
            worth -= tables.alone[kinds[i]] * stall * slope_now
        else:
            worth -= ipc * ipc * stall * slope_now / tables.alone[kinds[i]]
        demand -= work.misses[i] * ipc * ipc * stall * slope_now
    return -worth * tables.relative / (1.0 - demand * tables.relative)


@compiled_lean
def curve_of(kind, tables, objective, load, price, floor, top, row):
    """Value of one kind against size at this load and price, sizes 1 to top; speeds below its bound or floor lose."""
    own = tables.alone[kind]
    fixed = tables.cpi0[kind] * own
    each = tables.cost[kind] * own * latency(load)
    charged = price * own
    curve = tables.mpki[kind]
    if objective == HARMONIC:
        for s in range(1, top + 1):
            slowdown = fixed + each * curve[s]
            row[s] = -slowdown - charged * curve[s] / slowdown
    else:
        for s in range(1, top + 1):
            row[s] = (1.0 - charged * curve[s]) / (fixed + each * curve[s])
    bound = max(tables.bound[kind], floor)
    if bound > 0.0:
        for s in range(1, top + 1):
            speed = 1.0 / (fixed + each * curve[s])
            if speed < bound - SLACK:
                row[s] -= MISSED * (bound - speed)


@compiled_lean
def project(kinds, count, tables, objective, load, price, floor, work):
    """Value curves at this load: one row of work.values per program, of all sizes that leave the others one each."""
    top = tables.mpki.shape[1] - count
    for i in range(count):
        curve_of(kinds[i], tables, objective, load, price, floor, top, work.values[i])


@compiled_lean
def largest_sum(count, buckets, values, best, sizes):
    """Sizes from 1 up that use all buckets and have the largest sum of values; ties: smaller sizes of later jobs."""
    top = buckets - count + 1
    if count == 1:
        sizes[0] = buckets
        return values[0, buckets]
    first = best[0]
    for t in range(1, top + 1):
        first[t] = values[0, t]
    for i in range(1, count - 1):
        before = best[i - 1]
        now = best[i]
        row = values[i]
        for t in range(i + 1, i + top + 1):
            now[t] = before[t - 1] + row[1]
        for s in range(2, top + 1):
            worth = row[s]
            for t in range(i + s, i + top + 1):
                found = before[t - s] + worth
                now[t] = found if found > now[t] else now[t]
    left = buckets
    total = -np.inf
    for i in range(count - 1, 0, -1):
        before = best[i - 1]
        row = values[i]
        highest = -np.inf
        for s in range(max(1, left - (i - 1 + top)), left - i + 1):
            found = before[left - s] + row[s]
            if found > highest:
                highest = found
                sizes[i] = s
        if i == count - 1:
            total = highest
        left -= sizes[i]
    sizes[0] = left
    return total


@compiled_lean
def divisions(count, buckets):
    """Return in how many ways the cache can be divided; it counts no further than needed."""
    found = 1
    for i in range(1, count):
        found = found * (buckets - i) // i
        if found > FEW_FOR_FAIRNESS:
            break
    return found


@compiled_lean
def largest_minimum(count, buckets, values, best):
    """The largest value that every program can have at once."""
    top = buckets - count + 1
    for t in range(1, top + 1):
        best[0, t] = values[0, t]
    for i in range(1, count):
        for t in range(i + 1, i + top + 1):
            highest = -np.inf
            for s in range(max(1, t - (i - 1 + top)), t - i + 1):
                found = min(best[i - 1, t - s], values[i, s])
                highest = max(highest, found)
            best[i, t] = highest
    return best[count - 1, buckets]


@compiled_lean
def try_all(kinds, count, tables, objective, work):
    """The best of all divisions by the law itself; for caches of a few buckets."""
    buckets = tables.mpki.shape[1] - 1
    highest = -np.inf
    for i in range(count):
        work.sizes[i] = 1
    work.sizes[count - 1] = buckets - count + 1
    while True:
        load = load_at(kinds, count, tables, work.sizes, work)
        value = value_of(kinds, count, tables, objective, load, work)
        if value > highest:
            highest = value
            work.rest[0] = load
            work.rest[1] = price_of(kinds, count, tables, objective, load, work)
            for i in range(count):
                work.kept[i] = work.sizes[i]
        # the next division: the last but one that can grow does, at the cost of the last; what follows it is 1 again
        place = count - 2
        while place >= 0 and work.sizes[count - 1] == 1:
            work.sizes[count - 1] += work.sizes[place] - 1
            work.sizes[place] = 1
            place -= 1
        if place < 0:
            return highest
        work.sizes[place] += 1
        work.sizes[count - 1] -= 1


@compiled_lean
def divide(kinds, count, tables, objective, charged, work):
    """Value of the best division found for the programs `kinds[:count]`; their sizes are left in work.kept."""
    buckets = tables.mpki.shape[1] - 1
    split_equally(count, buckets, work.sizes)
    for i in range(count):
        work.kept[i] = work.sizes[i]
    load = load_at(kinds, count, tables, work.sizes, work)
    highest = value_of(kinds, count, tables, objective, load, work)
    price = price_of(kinds, count, tables, objective, load, work)
    work.rest[0] = load
    work.rest[1] = price
    if count == 1 or count == buckets:
        return highest
    if divisions(count, buckets) <= (FEW_FOR_FAIRNESS if objective == MINIMUM else FEW):
        return try_all(kinds, count, tables, objective, work)
    aim = WEIGHTED if objective == MINIMUM else objective  # the search for fairness starts from the best throughput
    for _ in range(ROUNDS):
        floor = 0.0
        if aim == MINIMUM:
            project(kinds, count, tables, WEIGHTED, load, 0.0, 0.0, work)
            floor = largest_minimum(count, buckets, work.values, work.best)
        project(kinds, count, tables, aim, load, price if charged else 0.0, floor, work)
        for i in range(count):
            work.before[i] = work.sizes[i]
        largest_sum(count, buckets, work.values, work.best, work.sizes)
        same = True
        for i in range(count):
            if work.sizes[i] != work.before[i]:
                same = False
        if same:
            if aim == objective:
                break
            aim = objective
            continue
        load = load_at(kinds, count, tables, work.sizes, work)
        value = value_of(kinds, count, tables, objective, load, work)
        price = price_of(kinds, count, tables, objective, load, work)
        if value > highest:
            highest = value
            work.rest[0] = load
            work.rest[1] = price
            for i in range(count):
                work.kept[i] = work.sizes[i]
    return highest
