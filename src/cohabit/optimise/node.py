"""One node, readable: how its cache is divided, or not, and what every job's speed is then.

A thin cover over the kernels for all that is not a search. Jobs are handed to the kernels in order of kind, so that a
set of jobs has one division whatever the order of its members.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cohabit.model.mix import Floats, Ints
from cohabit.optimise import division, law, occupancy
from cohabit.optimise.division import make_work
from cohabit.optimise.tables import OBJECTIVES, Problem

GROWTH_STEPS = 512


@dataclass(frozen=True)
class Division:
    """The result for the jobs of one node."""

    jobs: Ints
    sizes: Floats  # buckets; whole where the cache is divided by buckets, shares of it where not
    ipc: Floats
    alone: Floats
    load: float  # of memory

    @property
    def speeds(self) -> Floats:
        """The speed of every job relative to running alone."""
        return self.ipc / self.alone

    @property
    def weighted_speedup(self) -> float:
        """The sum of the speeds."""
        return float(self.speeds.sum())


def by_kind(problem: Problem, jobs: Sequence[int] | Ints) -> Ints:
    """Jobs in order of kind, then of number."""
    chosen = np.asarray(jobs, dtype=np.int64)
    return chosen[np.lexsort((chosen, problem.kind_of[chosen]))]


def divided(
    problem: Problem, jobs: Sequence[int] | Ints, objective: str = "weighted", charged: bool = True
) -> Division:
    """The best division of the cache between these jobs, one partition each."""
    ordered = by_kind(problem, jobs)
    work = make_work(len(ordered), problem.mix.buckets)
    kinds = problem.kind_of[ordered]
    division.divide(kinds, len(ordered), problem.tables, OBJECTIVES[objective], charged, work)
    return law_at(problem, ordered, work.kept.astype(np.float64))


def equally_divided(problem: Problem, jobs: Sequence[int] | Ints) -> Division:
    """Equal sizes; what does not divide evenly goes to the first."""
    chosen = np.asarray(jobs, dtype=np.int64)
    sizes = np.zeros(len(chosen), np.int64)
    division.split_equally(len(chosen), problem.mix.buckets, sizes)
    return law_at(problem, chosen, sizes.astype(np.float64))


def undivided(problem: Problem, jobs: Sequence[int] | Ints) -> Division:
    """Evaluate an undivided cache: sizes are the shares that misses win."""
    ordered = by_kind(problem, jobs)
    work = make_work(len(ordered), problem.mix.buckets)
    occupancy.share(problem.kind_of[ordered], len(ordered), problem.tables, 0, work)
    return law_at(problem, ordered, work.shares.copy())


def grown(problem: Problem, jobs: Sequence[int] | Ints) -> Division:
    """Evaluate an undivided cache by the second law: shares grow with misses until the cache is full."""
    ordered = by_kind(problem, jobs)
    work = make_work(len(ordered), problem.mix.buckets)
    occupancy.grow(problem.kind_of[ordered], len(ordered), problem.tables, 0, GROWTH_STEPS, work)
    return law_at(problem, ordered, work.shares.copy())


def law_at(problem: Problem, jobs: Ints, sizes: Floats) -> Division:
    """The law at these sizes, which need not be whole, with the load solved for."""
    kinds, tables = problem.kind_of[jobs], problem.tables
    misses = np.array([law.misses_at(tables.mpki[kind], size) for kind, size in zip(kinds, sizes, strict=True)])
    cpi0, cost = tables.cpi0[kinds], tables.cost[kinds]
    load = law.solve_load(len(jobs), misses, cpi0, cost, tables.relative)
    ipc = 1.0 / (cpi0 + cost * misses * law.latency(load))
    return Division(jobs, sizes, ipc, tables.alone[kinds], float(load))
