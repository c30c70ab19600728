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
    count = len(ordered)
    ways, capacity = limits.reach(problem.mix.buckets)
    work, all_work = make_work(count, problem.mix.buckets), make_work(count, problem.mix.buckets)
    members, ends, shares = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count)
    _, runs, _ = clusters.cluster(
        problem.kind_of[ordered], count, problem.tables, OBJECTIVES[objective], ways, capacity, limits.min_ways,
        limits.groups, work, all_work, members, ends, shares,
    )  # fmt: skip
    begins = [0, *ends[: runs - 1].tolist()]
    groups = tuple(
        Group(tuple(sorted(ordered[members == run].tolist())), int(ways[begins[run]]),
              int(ways[ends[run]] - ways[begins[run]]))
        for run in range(runs)
    )  # fmt: skip
    return Grouped(law_at(problem, ordered, shares), groups)


def one_each(
    problem: Problem, jobs: Sequence[int] | Ints, limits: Limits, objective: str = "weighted", equal: bool = False
) -> Grouped:
    """Give every job its own run of ways: equal ones, or by the dynamic programme over whole units at rest."""
    ordered = by_kind(problem, jobs)
    check_one_each(len(ordered), limits)
    ways, capacity = limits.reach(problem.mix.buckets)
    count = len(ordered)
    if equal:
        return _equal(problem, ordered, limits, ways, capacity)
    each = problem.mix.buckets / limits.ways
    work = make_work(count, problem.mix.buckets)
    kinds, code = problem.kind_of[ordered], OBJECTIVES[objective]
    alone_runs, found, best = np.arange(count), np.zeros(count, np.int64), None
    trial = law_at(problem, ordered, np.full(count, problem.mix.buckets / count))
    for _ in range(division.ROUNDS):
        load, price = trial.load, _price(problem, trial, code, work)
        curves = np.zeros((count, limits.ways + 1))
        for job in range(count):
            clusters.pool_curve(
                kinds, alone_runs, job, count, problem.tables, code, load, price, each, found, curves[job], work
            )
        order, ends = np.arange(count), np.zeros(count, np.int64)
        clusters.arrange(curves, order, count, ways, capacity, limits.min_ways, each, code, ends)
        begins = np.concatenate([[0], ends[:-1]])
        sizes = np.zeros(count)
        sizes[order] = capacity[ends] - capacity[begins]
        trial = law_at(problem, ordered, sizes)
        if best is None or _worth(trial, objective) > _worth(best.division, objective) + 1e-12:
            best = Grouped(trial, _runs(ordered[order], ways, begins, ends))
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


def _price(problem: Problem, one: Division, code: int, work: division.Work) -> float:
    """The price of bandwidth at these sizes."""
    kinds, tables = problem.kind_of[one.jobs], problem.tables
    for at, (kind, size) in enumerate(zip(kinds.tolist(), one.sizes.tolist(), strict=True)):
        work.misses[at] = law.misses_at(tables.mpki[kind], size)
        work.cpi0[at], work.cost[at] = tables.cpi0[kind], tables.cost[kind]
    return float(division.price_of(kinds, len(kinds), tables, code, one.load, work))


def _worth(one: Division, objective: str) -> float:
    if objective == "harmonic":
        return -float((1.0 / one.speeds).sum())
    return float(one.speeds.min()) if objective == "min" else one.weighted_speedup


def _equal(problem: Problem, jobs: Ints, limits: Limits, ways: Ints, capacity: np.ndarray) -> Grouped:
    count = len(jobs)
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
    sizes = capacity[stops] - capacity[begins]
    return Grouped(law_at(problem, jobs, sizes), _runs(jobs, ways, begins, stops))


def _runs(jobs: Ints, ways: Ints, begins: Ints, ends: Ints) -> tuple[Group, ...]:
    return tuple(
        Group((job,), int(ways[begin]), int(ways[end] - ways[begin]))
        for job, begin, end in zip(jobs.tolist(), begins.tolist(), ends.tolist(), strict=True)
    )
