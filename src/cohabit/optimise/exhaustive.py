"""Proven optima of small cases, by exhaustive search: the reference for the fast methods."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import combinations

import numpy as np

from cohabit.model.mix import Ints
from cohabit.optimise.node import Division, divided, law_at
from cohabit.optimise.tables import Problem

MOST_JOBS = 16


def all_sizes(jobs: int, buckets: int) -> Iterator[tuple[int, ...]]:
    """Every division of the buckets, at least one each."""
    for cuts in combinations(range(1, buckets), jobs - 1):
        edges = (0, *cuts, buckets)
        yield tuple(edges[i + 1] - edges[i] for i in range(jobs))


def best_division(problem: Problem, jobs: Sequence[int], worth: Callable[[Division], float] | None = None) -> Division:
    """The best of all divisions by the law with the load solved for; by weighted speedup unless told otherwise."""
    value = worth or (lambda one: one.weighted_speedup)
    chosen = np.asarray(jobs, dtype=np.int64)
    trials = (law_at(problem, chosen, np.array(sizes, float)) for sizes in all_sizes(len(jobs), problem.mix.buckets))
    return max(trials, key=value)


def best_placement(problem: Problem) -> tuple[float, Ints]:
    """The largest weighted speedup of any placement, and one that has it.

    Nodes are alike, so the first job that has no node yet begins the next one: every set of sets is tried once.
    """
    jobs, room = len(problem.mix), problem.mix.room
    assert jobs <= MOST_JOBS, f"{jobs} jobs are too many to try everything"

    @cache
    def worth(mask: int) -> float:
        return divided(problem, _members(mask)).weighted_speedup

    @cache
    def best(mask: int, nodes: int) -> tuple[float, int]:
        if not mask:
            return 0.0, 0
        first, others = _members(mask)[0], _members(mask)[1:]
        highest, chosen = -np.inf, 0
        for size in range(max(1, len(others) + 1 - (nodes - 1) * room), min(room, len(others) + 1) + 1):
            for more in combinations(others, size - 1):
                own = 1 << first | sum(1 << job for job in more)
                total = worth(own) + best(mask & ~own, nodes - 1)[0]
                if total > highest:
                    highest, chosen = total, own
        return highest, chosen

    place = np.empty(jobs, np.int64)
    mask = (1 << jobs) - 1
    value = best(mask, problem.mix.nodes)[0]
    for node in range(problem.mix.nodes):
        own = best(mask, problem.mix.nodes - node)[1]
        place[_members(own)] = node
        mask &= ~own
    return value, place


def _members(mask: int) -> list[int]:
    return [job for job in range(mask.bit_length()) if mask >> job & 1]
