"""Placements that a search begins with: at random, or with the jobs that need cache most spread over the nodes.

A placement is one number per job: its node. The caller passes the random stream.
"""

from __future__ import annotations

import numpy as np

from cohabit.model.mix import Floats, Ints
from cohabit.optimise.tables import Problem

RANDOM, UTILITY = "random", "utility"
STARTS = (RANDOM, UTILITY)


def random_start(problem: Problem, rng: np.random.Generator) -> Ints:
    """Place jobs at random; nodes have the same number of jobs, or one more."""
    return dealt(rng.permutation(len(problem.mix)), problem.mix.nodes)


def utility_start(problem: Problem) -> Ints:
    """Deal jobs out in order of cache utility, to and fro: every node gets its share of cache-hungry jobs."""
    order = np.lexsort((np.arange(len(problem.mix)), -utility(problem)))
    nodes = problem.mix.nodes
    place = np.empty(len(order), np.int64)
    for rank, job in enumerate(order.tolist()):
        turn, at = divmod(rank, nodes)
        place[job] = at if turn % 2 == 0 else nodes - 1 - at
    return place


def utility(problem: Problem) -> Floats:
    """Return each job's cache utility: speed with all of it, less its mean speed over all sizes (idle memory)."""
    tables = problem.tables
    speeds = 1.0 / (tables.cpi0[:, None] + tables.cost[:, None] * tables.mpki[:, 1:])
    gain: Floats = (speeds[:, -1] - speeds.mean(axis=1)) / speeds[:, -1]
    return gain[problem.kind_of]


def dealt(order: Ints, nodes: int) -> Ints:
    """Deal jobs in this order, one to each node in turn."""
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order)) % nodes
    return place


def canonical(place: Ints, nodes: int) -> tuple[Ints, Ints]:
    """Renumber nodes by their first job, empty ones last; return the placement and the old number of every new one.

    A search from here does not depend on how nodes were numbered.
    """
    first = np.full(nodes, len(place), np.int64)
    np.minimum.at(first, place, np.arange(len(place)))
    old = np.lexsort((np.arange(nodes), first))
    new = np.empty(nodes, np.int64)
    new[old] = np.arange(nodes)
    return new[place], old


def seats_of(place: Ints, nodes: int, room: int) -> Ints:
    """Return the job of every seat, node after node, or -1."""
    seats = np.full((nodes, room), -1, np.int64)
    taken = np.zeros(nodes, np.int64)
    for job, node in enumerate(place.tolist()):
        seats[node, taken[node]] = job
        taken[node] += 1
    return seats.reshape(-1)


def place_of(seats: Ints, jobs: int, room: int) -> Ints:
    """Return the node of every job."""
    place = np.empty(jobs, np.int64)
    taken = np.flatnonzero(seats >= 0)
    place[seats[taken]] = taken // room
    return place
