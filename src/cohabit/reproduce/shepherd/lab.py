"""One mix of 64 jobs under every scheme: one group of bars in the poster's Fig. 1. Nothing here judges.

A `Case` is the programs and the machine; everything an experiment varies is in it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.model.mix import Floats, Ints, Mix
from cohabit.optimise import starts
from cohabit.optimise.grouping import clustered, one_each
from cohabit.optimise.node import Division, divided, grown
from cohabit.optimise.schemes import outcome
from cohabit.optimise.search import Budget, default_swaps, search
from cohabit.optimise.tables import Problem, prepare
from cohabit.optimise.ways import Limits
from cohabit.sim.streams import stream
from cohabit.trace.shepherd_programs import (
    SET_A,
    SET_C,
    drawn,
    hidden_suite,
    read_measured_suite,
    suite_of,
    with_measured_costs,
)

HIDDEN, MEASURED_COST, REAL = "hidden", "measured cost", "real"
NODES = 8
XEON_D = Limits(12, inseparable=((10, 11),))  # P10: the hardware the simulated node follows
REAL_WAYS = Limits(11)  # the cache the curves were measured on
REAL_FINE = 4  # buckets per way where real curves are divided finely
PLACEMENTS = 10  # random ones, over which the benefit of a divided cache is averaged
DIRECT_SWAPS = 64  # per job, where the undivided cache itself is searched (each costs ten times as much)


@dataclass(frozen=True)
class Case:
    """Programs and machine."""

    programs: str = SET_C
    cap_gbs: float = 25.0
    seed: int = 0  # of hidden programs
    path: str = ""  # of measured curves
    factors: tuple[tuple[str, float], ...] = ()  # assumed parameters, varied

    @property
    def limits(self) -> Limits:
        """Return what its hardware could enforce."""
        return REAL_WAYS if self.programs == REAL else XEON_D

    def suite(self, number: int) -> Mix:
        """Return the programs; hidden ones differ in every set."""
        found = _suite(self.programs, self.cap_gbs, self.path, self.seed if self.programs == HIDDEN else 0, number)
        for name, factor in self.factors:
            found = varied(found, name, factor)
        return found


@cache
def _suite(programs: str, cap_gbs: float, path: str, seed: int, number: int) -> Mix:
    if programs == HIDDEN:
        return hidden_suite(stream(seed, f"hidden programs {number}"), cap_gbs=cap_gbs)
    if programs == MEASURED_COST:
        return with_measured_costs(suite_of(SET_A, cap_gbs))
    if programs == REAL:
        measured = read_measured_suite(Path(path), cap_gbs=cap_gbs)
        return measured.with_buckets(REAL_FINE * measured.buckets)
    return suite_of(programs, cap_gbs)


def varied(suite: Mix, name: str, factor: float) -> Mix:
    """The programs with one assumption multiplied."""
    if name == "cost per miss":
        return replace(suite, cycles_per_miss=suite.cycles_per_miss * factor)
    if name == "cpi without misses":
        return replace(suite, cpi0=suite.cpi0 * factor)
    if name == "bandwidth":
        return replace(suite, bandwidth_cap_gbs=suite.bandwidth_cap_gbs * factor)
    if name == "misses":
        return replace(suite, mpki=suite.mpki * factor)
    assert name == "working sets", name  # the same curves for a cache that is larger or smaller by the factor
    sizes = np.arange(suite.buckets + 1) / factor
    known = np.arange(suite.buckets + 1)
    curves = np.array([np.interp(sizes, known, row) for row in suite.mpki])
    return replace(suite, mpki=curves)


def run_set(case: Case, seed: int, number: int, mixes: int, swaps: int, parts: tuple[str, ...]) -> list[dict[str, Any]]:
    """One set of mixes, each under every scheme."""
    suite = case.suite(number)
    return [run_mix(case, suite, stream(seed, f"mix {number} {mix}"), swaps, parts) for mix in range(mixes)]


def run_mix(case: Case, suite: Mix, rng: np.random.Generator, swaps: int, parts: tuple[str, ...]) -> dict[str, Any]:
    """All schemes on one random mix; `parts` names additions to the poster's four schemes."""
    problem = prepare(drawn(suite, rng, NODES))
    start = starts.random_start(problem, rng)
    word = int(rng.integers(0, 2**62))
    began = time.perf_counter()
    found = search(problem, start, word, Budget(swaps or default_swaps(len(problem.mix))))
    took = time.perf_counter() - began
    plain, placed = outcome(problem, start, True), outcome(problem, found.place, True)
    shared, moved = outcome(problem, start, False), outcome(problem, found.place, False)
    result: dict[str, Any] = {
        "baseline": shared.weighted_speedup,
        "part-only": plain.weighted_speedup,
        "place-only": moved.weighted_speedup,
        "shepherd": placed.weighted_speedup,
        "search_s": took,
        "swap_us": 1e6 * took / max(found.swaps, 1),
        "hit_rate": found.hits / max(found.lookups, 1),
        "idle reference": _idle_gain(problem, shared.ipc, placed.ipc),
        "lowest": {"baseline": shared.lowest_speed, "shepherd": placed.lowest_speed},
    }
    if "benefit" in parts:
        result["separation"] = separation(problem, benefit(problem, rng), start, found.place)
        result["utility separation"] = separation(problem, starts.utility(problem), start, found.place)
    if "direct" in parts:
        direct = search(problem, start, word, Budget(DIRECT_SWAPS * len(problem.mix)), shared=True)
        result["place-only-direct"] = direct.value
    if "ways" in parts:
        result |= _by_ways(problem, start, found.place, case.limits)
    if "growth" in parts:
        result["growth baseline"] = _sum_over(problem, start, lambda jobs: grown(problem, jobs))
        result["growth place-only"] = _sum_over(problem, found.place, lambda jobs: grown(problem, jobs))
    if "plain" in parts:
        result["uncharged"] = _sum_over(problem, start, lambda jobs: divided(problem, jobs, charged=False))
    return result


def _sum_over(problem: Problem, place: Ints, run: Any) -> float:
    total = 0.0
    for node in range(problem.mix.nodes):
        one: Division = run(np.flatnonzero(place == node))
        total += one.weighted_speedup
    return total


def _by_ways(problem: Problem, start: Ints, place: Ints, limits: Limits) -> dict[str, float]:
    return {
        "ways part-only": _sum_over(problem, start, lambda jobs: clustered(problem, jobs, limits).division),
        "ways shepherd": _sum_over(problem, place, lambda jobs: clustered(problem, jobs, limits).division),
        "ways each": _sum_over(problem, start, lambda jobs: one_each(problem, jobs, limits).division),
    }


def benefit(problem: Problem, rng: np.random.Generator) -> Floats:
    """Return each job's gain in speed from a divided cache, on average over random placements."""
    total = np.zeros(len(problem.mix))
    for _ in range(PLACEMENTS):
        place = starts.random_start(problem, rng)
        total += (outcome(problem, place, True).ipc - outcome(problem, place, False).ipc) / problem.alone
    found: Floats = total / PLACEMENTS
    return found


def separation(problem: Problem, need: Floats, start: Ints, place: Ints) -> float:
    """Return how evenly cache need is spread: deviation of its sums over the nodes, relative to the start."""

    def spread(where: Ints) -> float:
        return float(np.std(summed(problem, need, where)))

    return spread(place) / max(spread(start), 1e-12)


def summed(problem: Problem, need: Floats, place: Ints) -> list[float]:
    """The need of the jobs of every node together."""
    return [float(need[place == node].sum()) for node in range(problem.mix.nodes)]


def _idle_gain(problem: Problem, before: Floats, after: Floats) -> float:
    """Shepherd's gain where "alone" means idle memory (P7), not the program's own load on it (laws)."""
    kinds, tables = problem.kind_of, problem.tables
    alone = 1.0 / (tables.cpi0 + tables.cost * tables.mpki[:, -1])[kinds]
    return float((after / alone).sum() / (before / alone).sum())
