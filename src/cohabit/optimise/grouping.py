"""Groups of jobs on one node that hardware can keep apart, readable: the cover over `clusters`.

Also the plain ways: every job its own ways by the dynamic programme, or equal ones, where there are enough of both ways
and groups. All give `Grouped`: speeds by the law, and runs of ways that become schemata lines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.mix import Ints
from cohabit.optimise import clusters, division, law
from cohabit.optimise.clusters import Cache, Crowd
from cohabit.optimise.division import make_work
from cohabit.optimise.node import Division, by_kind, law_at
from cohabit.optimise.tables import OBJECTIVES, Problem
from cohabit.optimise.ways import Group, Limits


@dataclass(frozen=True)
class Grouped:
    """The result for the jobs of one node: speeds, and which jobs share which ways."""

    division: Division  # sizes are the shares, in buckets
    groups: tuple[Group, ...]  # from the lowest ways up


def clustered(problem: Problem, jobs: Sequence[int] | Ints, limits: Limits, objective: str = "weighted") -> Grouped:
    """The best groups found: at most as many as the hardware has, each sharing a run of ways."""
    ordered = by_kind(problem, jobs)
    crowd, cache = _prepared(problem, ordered, limits, objective)
    runs, ends, shares = clusters.cluster(crowd, cache, limits.groups)
    begins = np.concatenate([[0], ends[:-1]])
    members = [tuple(sorted(ordered[runs == run].tolist())) for run in range(len(ends))]
    return Grouped(law_at(problem, ordered, shares), _groups(members, cache.ways, begins, ends))


def _prepared(problem: Problem, jobs: Ints, limits: Limits, objective: str) -> tuple[Crowd, Cache]:
    """Return the jobs and the cache as the kernels take them."""
    count, buckets = len(jobs), problem.mix.buckets
    work, all_work = make_work(count, buckets), make_work(count, buckets)
    room = np.zeros(count, np.int64)
    crowd = Crowd(problem.kind_of[jobs], problem.tables, OBJECTIVES[objective], work, all_work, room)
    return crowd, Cache(*limits.reach(buckets), limits.min_ways, buckets / limits.ways)


def one_each(
    problem: Problem, jobs: Sequence[int] | Ints, limits: Limits, objective: str = "weighted", equal: bool = False
) -> Grouped:
    """Give every job its own run of ways: equal ones, or by the dynamic programme over whole units at rest."""
    ordered = by_kind(problem, jobs)
    check_one_each(len(ordered), limits)
    crowd, cache = _prepared(problem, ordered, limits, objective)
    if equal:
        return _equal(problem, ordered, limits, cache)
    count, best = len(ordered), None
    trial = law_at(problem, ordered, np.full(count, problem.mix.buckets / count))
    for _ in range(division.ROUNDS):
        load = trial.load
        curves = clusters.own_curves(crowd, cache, load, _price(problem, trial, crowd))
        order, ends = np.arange(count), np.zeros(count, np.int64)
        clusters.arrange(curves, order, count, cache, crowd.objective, ends)
        begins = np.concatenate([[0], ends[:-1]])
        sizes = np.zeros(count)
        sizes[order] = cache.capacity[ends] - cache.capacity[begins]
        trial = law_at(problem, ordered, sizes)
        if best is None or _worth(trial, objective) > _worth(best.division, objective) + 1e-12:
            best = Grouped(trial, _groups([(job,) for job in ordered[order].tolist()], cache.ways, begins, ends))
        elif abs(trial.load - load) < 1e-9:
            break
    assert best is not None
    return best


def check_one_each(count: int, limits: Limits) -> None:
    """Refuse if not every job can have ways and a group of its own."""
    most = min(limits.groups, limits.most_runs())
    if count > most:
        have = f"{limits.groups} groups, {limits.ways} ways, at least {limits.min_ways} each"
        raise InputError(
            f"{count} jobs cannot have ways of their own: there are {have}, so {most} can",
            "",
            "use --method clusters",
        )


def _price(problem: Problem, one: Division, crowd: Crowd) -> float:
    """The price of bandwidth at these sizes."""
    kinds, tables, work = crowd.kinds, problem.tables, crowd.work
    for at, (kind, size) in enumerate(zip(kinds.tolist(), one.sizes.tolist(), strict=True)):
        work.misses[at] = law.misses_at(tables.mpki[kind], size)
    work.cpi0[:], work.cost[:] = tables.cpi0[kinds], tables.cost[kinds]
    return float(division.price_of(kinds, len(kinds), tables, crowd.objective, one.load, work))


def _worth(one: Division, objective: str) -> float:
    if objective == "harmonic":
        return -float((1.0 / one.speeds).sum())
    return float(one.speeds.min()) if objective == "min" else one.weighted_speedup


def _equal(problem: Problem, jobs: Ints, limits: Limits, cache: Cache) -> Grouped:
    count, ways = len(jobs), cache.ways
    ends: list[int] = []
    for number in range(count):  # as near to equal as whole units and the fewest ways allow
        aim, begin, after = limits.ways * (number + 1) / count, ends[-1] if ends else 0, count - 1 - number
        fits = [
            end
            for end in range(begin + 1, len(ways))
            if ways[end] - ways[begin] >= limits.min_ways and limits.most_runs(end) >= after
        ]
        ends.append(len(ways) - 1 if not after else min(fits, key=lambda end: abs(float(ways[end]) - aim)))
    stops = np.array(ends)
    begins = np.concatenate([[0], stops[:-1]])
    sizes = cache.capacity[stops] - cache.capacity[begins]
    return Grouped(law_at(problem, jobs, sizes), _groups([(job,) for job in jobs.tolist()], ways, begins, stops))


def _groups(members: Sequence[tuple[int, ...]], ways: Ints, begins: Ints, ends: Ints) -> tuple[Group, ...]:
    return tuple(
        Group(jobs, int(ways[begin]), int(ways[end] - ways[begin]))
        for jobs, begin, end in zip(members, begins.tolist(), ends.tolist(), strict=True)
    )
