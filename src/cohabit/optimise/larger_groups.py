"""Greedy pairs, and groups of three and more jobs, compiled: the cost of a group, and a search for better ones.

Degradations add up: a job beside two others slows by the sum of what each does to it alone (the additive pressure of
Bubble-Up). Exact grouping is NP-hard from three jobs up; the search ends where no swap, move or merger helps.
The readable cover is `matching`. No clock, no files, no randomness: equal input gives equal groups.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_free

EMPTY = -1
SWEEPS = 200  # far more than ever needed; every accepted change lowers the cost, so the search ends anyway


@compiled
def lowest_first(first, second, count):
    """Take the cheapest pair whose members are both free, again and again; the partner of every job, or EMPTY."""
    partner, left = np.full(count, EMPTY, np.int64), count // 2
    for at in range(len(first)):
        i, j = first[at], second[at]
        if partner[i] == EMPTY and partner[j] == EMPTY:
            partner[i], partner[j] = j, i
            left -= 1
            if left == 0:
                break
    return partner


@compiled
def worst_slowdown(group, degradation):
    """The largest percentage by which a member slows beside all others."""
    worst = 0.0
    for i in group:
        total = 0.0
        if i != EMPTY:
            for j in group:
                if j != EMPTY and j != i:
                    total += degradation[i, j]
        worst = max(worst, total)
    return worst


@compiled
def group_makespan(group, degradation, durations):
    """Seconds until all members are done if they start together; a job that has ended slows no other."""
    left = np.zeros(len(group))
    for place, i in enumerate(group):
        if i != EMPTY:
            left[place] = durations[i]
    now = 0.0
    for _ in range(len(group)):
        step, first = np.inf, -1
        rates = np.zeros(len(group))
        for place, i in enumerate(group):
            if left[place] <= 0.0:
                continue
            slow = 1.0
            for other, j in enumerate(group):
                if other != place and left[other] > 0.0:
                    slow += degradation[i, j] / 100.0
            rates[place] = 1.0 / slow
            if left[place] * slow < step:
                step, first = left[place] * slow, place
        if first < 0:
            break
        now += step
        for place in range(len(group)):
            left[place] -= rates[place] * step
        left[first] = 0.0
    return now


@compiled
def group_cost(group, degradation, durations, by_saving):
    """The cost to be lowered: the worst slowdown, or the seconds saved against running one after the other, negated."""
    if not by_saving:
        return worst_slowdown(group, degradation)
    serial = 0.0
    for i in group:
        if i != EMPTY:
            serial += durations[i]
    return min(0.0, group_makespan(group, degradation, durations) - serial)


@compiled
def _merge(slots, costs, g, h, degradation, durations, by_saving, least):
    """Put two half-empty groups together if that helps."""
    size = slots.shape[1]
    both, count = np.full(size, EMPTY, slots.dtype), 0
    for group in (g, h):
        for i in slots[group]:
            if i != EMPTY:
                if count == size:
                    return False
                both[count] = i
                count += 1
    cost = group_cost(both, degradation, durations, by_saving)
    if cost >= costs[g] + costs[h] - least:
        return False
    slots[g, :], slots[h, :] = both, EMPTY
    costs[g], costs[h] = cost, 0.0
    return True


@compiled_free
def improve(slots, degradation, durations, by_saving, least):
    """Swap, move and merge until nothing gains more than `least`; `slots` [group, place] is changed in place."""
    groups, size = slots.shape
    costs = np.zeros(groups)
    for g in range(groups):
        costs[g] = group_cost(slots[g], degradation, durations, by_saving)
    for _ in range(SWEEPS):
        changed = False
        for g in range(groups):
            for h in range(g + 1, groups):
                if by_saving and _merge(slots, costs, g, h, degradation, durations, by_saving, least):
                    changed = True
                for a in range(size):
                    for b in range(size):
                        if slots[g, a] == slots[h, b]:  # two empty places
                            continue
                        slots[g, a], slots[h, b] = slots[h, b], slots[g, a]
                        here = group_cost(slots[g], degradation, durations, by_saving)
                        there = group_cost(slots[h], degradation, durations, by_saving)
                        if here + there < costs[g] + costs[h] - least:
                            costs[g], costs[h], changed = here, there, True
                        else:
                            slots[g, a], slots[h, b] = slots[h, b], slots[g, a]
        if not changed:
            break
    return costs


@compiled_free
def fill_greedily(first, second, count, size, degradation):
    """Fill groups: the cheapest free pair, then the job that adds least; `first`, `second`: pairs, cheapest first."""
    groups = (count + size - 1) // size
    slots, taken = np.full((groups, size), EMPTY, np.int64), np.zeros(count, np.bool_)
    nothing, at = np.zeros(0), 0
    for g in range(groups):
        while at < len(first) and (taken[first[at]] or taken[second[at]]):
            at += 1
        if at < len(first):
            slots[g, 0], slots[g, 1] = first[at], second[at]
            taken[first[at]] = taken[second[at]] = True
        for place in range(2 if at < len(first) else 0, size):
            best, least = EMPTY, np.inf
            for i in range(count):
                if not taken[i]:
                    slots[g, place] = i
                    cost = group_cost(slots[g], degradation, nothing, False)
                    if cost < least:
                        best, least = i, cost
            slots[g, place] = best
            if best == EMPTY:
                break
            taken[best] = True
    return slots
