"""An undivided cache: each program holds the share that its misses per second win it. Compiled.

A line comes in at a miss and pushes out another program's as easily as one's own, so in the long run a program's
share of the space is its share of all misses per second. More space means fewer misses, so the shares settle; from
equal ones, a step of 0.4 towards the aim each time, a shorter one where a steep curve makes that overshoot. Source:
the unpartitioned rule of the same group's KPart and Whirlpool work. Where curves have cliffs there may be several
states of rest; the one reached from equal shares is taken.
"""

from __future__ import annotations

from cohabit.compiled import compiled_lean
from cohabit.optimise.division import value_of
from cohabit.optimise.law import latency, misses_at, solve_load

DAMPING = 0.4
STEPS = 4000
PATIENCE = 60  # steps before the damping is halved
AT_REST = 1e-11  # of the cache


@compiled_lean
def miss_rates(count, load, work):
    """Put the misses per second of all programs at this load into work.aims and return their sum."""
    cost_now = latency(load)
    total = 0.0
    for i in range(count):
        work.aims[i] = work.misses[i] / (work.cpi0[i] + work.cost[i] * work.misses[i] * cost_now)
        total += work.aims[i]
    return total


@compiled_lean
def settle(kinds, count, tables, capacity, load, precision, work):
    """Shares of a cache (or part of one) of this capacity in work.shares, misses in work.misses; returns the load.

    With a load of 0 or more, memory is taken to be that busy; with a negative one the load is solved for, too. The
    shares are at rest when none moves by more than `precision` of the capacity.
    """
    solving = load < 0.0
    if solving:
        load = 0.0
    for i in range(count):
        work.shares[i] = capacity / count
        work.cpi0[i] = tables.cpi0[kinds[i]]
        work.cost[i] = tables.cost[kinds[i]]
        work.misses[i] = misses_at(tables.mpki[kinds[i]], work.shares[i])
    damping = DAMPING
    for step in range(1, STEPS + 1):
        if solving:
            load = solve_load(count, work.misses, work.cpi0, work.cost, tables.relative)
        total = miss_rates(count, load, work)
        if total <= 0.0:  # no program misses, so none displaces another
            break
        moved = 0.0
        for i in range(count):
            change = damping * (capacity * work.aims[i] / total - work.shares[i])
            work.shares[i] += change
            moved = max(moved, abs(change))
            work.misses[i] = misses_at(tables.mpki[kinds[i]], work.shares[i])
        if moved <= precision * damping * capacity:
            break
        if step % PATIENCE == 0:
            damping *= 0.5
    if solving:
        load = solve_load(count, work.misses, work.cpi0, work.cost, tables.relative)
    return load


@compiled_lean
def grow(kinds, count, tables, objective, steps, work):
    """The second law of undivided caches: shares grow from nothing, each by its misses per second, until it is full.

    This is the growth rule of Whirlpool and KPart; it is never revised, so it is not a state of rest.
    """
    capacity = float(tables.mpki.shape[1] - 1)
    for i in range(count):
        work.shares[i] = 0.0
        work.cpi0[i] = tables.cpi0[kinds[i]]
        work.cost[i] = tables.cost[kinds[i]]
        work.misses[i] = tables.mpki[kinds[i], 0]
    load = 0.0
    for _ in range(steps):
        load = solve_load(count, work.misses, work.cpi0, work.cost, tables.relative)
        total = miss_rates(count, load, work)
        for i in range(count):
            part = work.aims[i] / total if total > 0.0 else 1.0 / count
            work.shares[i] += capacity / steps * part
            work.misses[i] = misses_at(tables.mpki[kinds[i]], work.shares[i])
    load = solve_load(count, work.misses, work.cpi0, work.cost, tables.relative)
    return value_of(kinds, count, tables, objective, load, work)


@compiled_lean
def share(kinds, count, tables, objective, work):
    """Value of the programs `kinds[:count]` on a node with an undivided cache; their shares are in work.shares."""
    load = settle(kinds, count, tables, float(tables.mpki.shape[1] - 1), -1.0, AT_REST, work)
    return value_of(kinds, count, tables, objective, load, work)
