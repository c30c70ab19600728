"""Fewer parts than jobs: jobs are clustered, the ways divided between the clusters, and each cluster shares its part.

Merging begins with every job by itself and always joins the two clusters whose union costs least: for every pair the
ways are divided anew and the best total taken, at the load and price of bandwidth found so far. Every number of
clusters the hardware allows is then run by the law, with occupancy inside a cluster as in an undivided cache, and the
best is kept; one cluster is the undivided cache, so the result is never worse. The idea, with miss curves and a
distance, is KPart's (HPCA 2018). Compiled; `grouping` is the readable cover.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from cohabit.compiled import compiled, compiled_lean
from cohabit.optimise.division import HARMONIC, MINIMUM, MISSED, SLACK, Tables, Work, price_of, value_of
from cohabit.optimise.law import latency, solve_load
from cohabit.optimise.occupancy import AT_REST, settle

ROUNDS = 3  # of clustering at the load found before
ROUGH = 1e-5
INNER = 60  # alternations of shares and load in the final evaluation
LOAD_AT_REST = 1e-12


class Crowd(NamedTuple):
    """The jobs of one node, and what it takes to value them."""

    kinds: Any  # in rising order
    tables: Tables
    objective: int
    work: Work  # for one cluster at a time
    all_work: Work  # for all jobs
    members: Any  # room for the kinds of one cluster


class Cache(NamedTuple):
    """The parts that the hardware can give away: units of one or more ways."""

    ways: Any  # of the first u units
    capacity: Any  # of the first u units, in buckets
    least: int  # ways of a cluster
    each: float  # buckets of a way


@compiled_lean
def pool_value(kinds, count, tables, objective, load, price, work):
    """Value of the members of a cluster with the misses they have, bandwidth charged at this price."""
    cost_now = latency(load)
    total = 0.0
    smallest = np.inf
    for i in range(count):
        ipc = 1.0 / (work.cpi0[i] + work.cost[i] * work.misses[i] * cost_now)
        speed = ipc / tables.alone[kinds[i]]
        bound = tables.bound[kinds[i]]
        if speed < bound - SLACK:
            total -= MISSED * (bound - speed)
        smallest = min(smallest, speed)
        total += -1.0 / speed if objective == HARMONIC else speed
        total -= price * work.misses[i] * ipc
    return smallest if objective == MINIMUM else total


@compiled_lean
def pool_curve(crowd, cluster_of, cluster, load, price, each, curve):
    """curve[w] = value of a cluster that shares w ways of `each` buckets."""
    members, tables, work = crowd.members, crowd.tables, crowd.work
    count = 0
    for i in range(crowd.kinds.shape[0]):
        if cluster_of[i] == cluster:
            members[count] = crowd.kinds[i]
            count += 1
    for w in range(1, curve.shape[0]):
        settle(members, count, tables, w * each, load, ROUGH, work)
        curve[w] = pool_value(members, count, tables, crowd.objective, load, price, work)


@compiled
def own_curves(crowd, cache, load, price):
    """The curve of every job as a cluster of its own."""
    jobs = crowd.kinds.shape[0]
    alone, curves = np.arange(jobs), np.zeros((jobs, cache.ways[-1] + 1))
    for i in range(jobs):
        pool_curve(crowd, alone, i, load, price, cache.each, curves[i])
    return curves


@compiled_lean
def best_total(curves, order, count, ways, least, objective, rows):
    """The most that clusters order[:count] are worth with so many ways together, at least `least` each."""
    for w in range(ways + 1):
        rows[0, w] = curves[order[0], w] if w >= least else -np.inf
    for i in range(1, count):
        curve = curves[order[i]]
        for w in range(ways + 1):
            rows[i, w] = -np.inf
        for s in range(least, ways - i * least + 1):
            worth = curve[s]
            for w in range(s + i * least, ways + 1):
                before = rows[i - 1, w - s]
                total = min(before, worth) if objective == MINIMUM else before + worth
                rows[i, w] = total if total > rows[i, w] else rows[i, w]
    return rows[count - 1, ways]


@compiled_lean
def value_at(curve, each, capacity):
    """A cluster's value at a capacity between two numbers of ways."""
    place = capacity / each
    last = curve.shape[0] - 1
    if place <= 1.0:
        return curve[1] - (1.0 - place) * abs(curve[1])
    if place >= last:
        return curve[last]
    below = int(place)
    return curve[below] + (place - below) * (curve[below + 1] - curve[below])


@compiled
def lay_out(curves, order, count, cache, objective, ends):
    """Give runs of units to the clusters in this order, from the lowest up; ends[i] = units up to cluster i."""
    ways, capacity = cache.ways, cache.capacity
    units = ways.shape[0] - 1
    rows = np.full((count, units + 1), -np.inf)
    choice = np.zeros((count, units + 1), np.int64)
    for i in range(count):
        for end in range(1, units + 1):
            for begin in range(end):
                if (i == 0) != (begin == 0) or ways[end] - ways[begin] < cache.least:
                    continue
                if i > 0 and rows[i - 1, begin] == -np.inf:
                    continue
                worth = value_at(curves[order[i]], cache.each, capacity[end] - capacity[begin])
                total = worth
                if i > 0:
                    total = min(rows[i - 1, begin], worth) if objective == MINIMUM else rows[i - 1, begin] + worth
                if total > rows[i, end]:
                    rows[i, end] = total
                    choice[i, end] = begin
    ends[count - 1] = units
    for i in range(count - 1, 0, -1):
        ends[i - 1] = choice[i, ends[i]]
    return rows[count - 1, units]


@compiled
def arrange(curves, order, count, cache, objective, ends):
    """The best layout: any cluster may have the top of the cache, where units may be wider or worth less."""
    ways, capacity = cache.ways, cache.capacity
    alike = True
    for u in range(ways.shape[0] - 1):
        if ways[u + 1] - ways[u] != 1 or abs(capacity[u + 1] - capacity[u] - cache.each) > 1e-9:
            alike = False
    best = lay_out(curves, order, count, cache, objective, ends)
    if alike:
        return best
    trial = np.empty(count, np.int64)
    trial_ends = np.empty(count, np.int64)
    kept = order[:count].copy()
    for top in range(count - 1):
        for i in range(count):
            trial[i] = order[i]
        trial[top] = order[count - 1]
        trial[count - 1] = order[top]
        total = lay_out(curves, trial, count, cache, objective, trial_ends)
        if total > best:
            best = total
            kept[:] = trial
            ends[:count] = trial_ends
    order[:count] = kept
    return best


@compiled
def reckon(crowd, cluster_of, order, count, ends, capacity, load, shares):
    """The law for clusters with these runs of units, shares and load at rest; fill shares, return value and load."""
    kinds, tables, members, work, all_work = crowd.kinds, crowd.tables, crowd.members, crowd.work, crowd.all_work
    jobs = kinds.shape[0]
    where = np.empty(jobs, np.int64)
    for i in range(jobs):
        all_work.cpi0[i] = tables.cpi0[kinds[i]]
        all_work.cost[i] = tables.cost[kinds[i]]
    for _ in range(INNER):
        for c in range(count):
            size = 0
            for i in range(jobs):
                if cluster_of[i] == order[c]:
                    members[size] = kinds[i]
                    where[size] = i
                    size += 1
            room = capacity[ends[c]] - (capacity[ends[c - 1]] if c > 0 else 0.0)
            settle(members, size, tables, room, load, AT_REST, work)
            for i in range(size):
                shares[where[i]] = work.shares[i]
                all_work.misses[where[i]] = work.misses[i]
        solved = solve_load(jobs, all_work.misses, all_work.cpi0, all_work.cost, tables.relative)
        moved = abs(solved - load)
        load = solved
        if moved <= LOAD_AT_REST:
            break
    return value_of(kinds, jobs, tables, crowd.objective, load, all_work), load


@compiled
def merge_all(crowd, cache, load, price, plans, curves):
    """plans[k] = the cluster of every job when there are k clusters, for every k from `jobs` down to 1.

    A cluster is named by its first member; curves[name, k] is its value curve while it exists under that name.
    """
    jobs, total_ways = crowd.kinds.shape[0], cache.ways[-1]
    members = np.arange(jobs)
    alive = np.ones(jobs, np.bool_)
    pair = np.zeros((jobs, jobs, total_ways + 1))
    rows = np.zeros((jobs, total_ways + 1))
    order = np.empty(jobs, np.int64)
    now = own_curves(crowd, cache, load, price)
    joined = members.copy()
    for a in range(jobs):
        for b in range(a + 1, jobs):
            joined[:] = members
            joined[b] = a
            pool_curve(crowd, joined, a, load, price, cache.each, pair[a, b])
    for count in range(jobs, 0, -1):
        plans[count] = members
        curves[count] = now
        if count == 1:
            break
        best = -np.inf
        best_a = -1
        best_b = -1
        for a in range(jobs):
            for b in range(a + 1, jobs):
                if not (alive[a] and alive[b]):
                    continue
                kept = now[a].copy()
                now[a] = pair[a, b]
                size = 0
                for c in range(jobs):
                    if alive[c] and c != b:
                        order[size] = c
                        size += 1
                few = cache.least if size * cache.least <= total_ways else 0
                total = best_total(now, order, size, total_ways, few, crowd.objective, rows)
                now[a] = kept
                if total > best or best_a < 0:
                    best = total
                    best_a = a
                    best_b = b
        now[best_a] = pair[best_a, best_b]
        alive[best_b] = False
        for i in range(jobs):
            if members[i] == best_b:
                members[i] = best_a
        for c in range(jobs):
            if not alive[c] or c == best_a:
                continue
            low = min(c, best_a)
            high = max(c, best_a)
            for i in range(jobs):
                joined[i] = low if members[i] == high else members[i]
            pool_curve(crowd, joined, low, load, price, cache.each, pair[low, high])


@compiled
def cluster(crowd, cache, groups):
    """The best clustering: the run of every job, counted from the lowest ways up, units up to every run, shares."""
    kinds, tables, objective = crowd.kinds, crowd.tables, crowd.objective
    jobs, units, total_ways = kinds.shape[0], cache.ways.shape[0] - 1, cache.ways[-1]
    most = min(jobs, groups, units, total_ways // cache.least)
    plans = np.zeros((jobs + 1, jobs), np.int64)
    curves = np.zeros((jobs + 1, jobs, total_ways + 1))
    order = np.empty(jobs, np.int64)
    trial_ends = np.zeros(jobs, np.int64)
    trial_shares = np.zeros(jobs)
    runs = np.zeros(jobs, np.int64)
    ends = np.zeros(0, np.int64)
    shares = np.zeros(jobs)
    best = -np.inf
    best_load = 0.0
    load = settle(kinds, jobs, tables, cache.capacity[units], -1.0, AT_REST, crowd.work)
    price = price_of(kinds, jobs, tables, objective, load, crowd.work)
    for _ in range(ROUNDS):
        before = best
        merge_all(crowd, cache, load, price, plans, curves)
        for count in range(1, most + 1):
            size = 0
            for c in range(jobs):
                if plans[count, c] == c:
                    order[size] = c
                    size += 1
            total = arrange(curves[count], order, count, cache, objective, trial_ends)
            if total == -np.inf:
                continue
            value, found_load = reckon(
                crowd, plans[count], order, count, trial_ends, cache.capacity, load, trial_shares
            )
            if value > best:
                best = value
                best_load = found_load
                shares[:] = trial_shares
                ends = trial_ends[:count].copy()
                for i in range(jobs):
                    for c in range(count):
                        if order[c] == plans[count, i]:
                            runs[i] = c
                next_price = price_of(kinds, jobs, tables, objective, found_load, crowd.all_work)
        if best <= before + 1e-12:
            break
        load = best_load
        price = next_price
    return runs, ends, shares
