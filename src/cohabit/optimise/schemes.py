"""The schemes of the Shepherd poster (PACT 2017): how placement is decided, and whether the cache is divided.

baseline: random placement, nothing divided. part-only: the same placement, every node's cache divided. shepherd:
divided and placed by a search that knows the division. place-only: Shepherd's placement with nothing divided (the
poster's words). place-only-direct: our addition, a search on the undivided cache itself. The poster does not say what
temperatures it used.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cohabit.model.mix import Floats, Ints
from cohabit.optimise.node import Division, by_kind, divided, undivided
from cohabit.optimise.tables import Problem

BASELINE, PART_ONLY, PLACE_ONLY = "baseline", "part-only", "place-only"
PLACE_ONLY_DIRECT, SHEPHERD = "place-only-direct", "shepherd"
SCHEMES = (BASELINE, PART_ONLY, PLACE_ONLY, PLACE_ONLY_DIRECT, SHEPHERD)
SEARCHED = {PLACE_ONLY: False, PLACE_ONLY_DIRECT: True, SHEPHERD: False}  # whether the search leaves caches undivided
DIVIDING = (PART_ONLY, SHEPHERD)


@dataclass(frozen=True)
class Outcome:
    """The result of a placement: the speed of every job."""

    place: Ints
    nodes: list[Division | None]  # None: an empty one
    ipc: Floats  # of every job
    alone: Floats

    @property
    def weighted_speedup(self) -> float:
        """Sum of the jobs' speeds against running alone."""
        return float((self.ipc / self.alone).sum())

    @property
    def harmonic_speed(self) -> float:
        """Harmonic mean of the speeds."""
        return float(len(self.ipc) / (self.alone / self.ipc).sum())

    @property
    def lowest_speed(self) -> float:
        """The lowest speed of any job."""
        return float((self.ipc / self.alone).min())


def outcome(problem: Problem, place: Ints, dividing: bool, objective: str = "weighted") -> Outcome:
    """Run a placement, with every node's cache divided or not."""
    nodes: list[Division | None] = []
    ipc = np.zeros(len(problem.mix))
    known: dict[bytes, Division] = {}  # nodes with the same kinds of jobs are computed once
    for node in range(problem.mix.nodes):
        jobs = np.flatnonzero(place == node)
        if not len(jobs):
            nodes.append(None)
            continue
        order = by_kind(problem, jobs)
        key = problem.kind_of[order].tobytes()
        if key not in known:
            known[key] = divided(problem, order, objective) if dividing else undivided(problem, order)
        found = known[key]
        nodes.append(Division(order, found.sizes, found.ipc, found.alone, found.load))
        ipc[order] = found.ipc
    return Outcome(place, nodes, ipc, problem.alone)
