"""Divide caches and place programs for a user: scheme by name, seeds, clock, cores.

The mathematics (optimise/) has no clock and no threads; both are here. Restarts run in parallel, each with its own
random stream, and the best is chosen by value, then by number: the result does not depend on the number of cores.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np

from cohabit.compiled import is_warm
from cohabit.model.mix import Ints, Mix
from cohabit.optimise import starts
from cohabit.optimise.grouping import clustered, one_each
from cohabit.optimise.incremental import Nodes
from cohabit.optimise.memo import make_memo, move
from cohabit.optimise.node import Division, divided, equally_divided, grown
from cohabit.optimise.schemes import DIVIDING, SEARCHED, Outcome, outcome
from cohabit.optimise.search import Budget, Found, Progress, default_swaps, search
from cohabit.optimise.tables import Problem, prepare
from cohabit.optimise.ways import Group, Limits, lines_by_domain, schemata
from cohabit.sim.streams import stream

DP, EQUAL, CLUSTERS = "dp", "equal", "clusters"
METHODS = (DP, EQUAL, CLUSTERS)


@dataclass(frozen=True)
class SearchSettings:
    """The settings of a search."""

    seed: int = 1
    swaps: int | None = None  # None: a number that fits the size
    budget_s: float | None = None
    restarts: int = 1
    workers: int | None = None
    start: str = starts.RANDOM
    objective: str = "weighted"
    limits: Limits | None = None  # whole ways and groups instead of buckets


@dataclass(frozen=True)
class Placed:
    """The result of one scheme."""

    scheme: str
    outcome: Outcome
    divided: bool
    swaps: int
    search_s: float  # spent in searches, summed over restarts
    solve_s: float
    lookups: int
    hits: int
    start_value: float | None = None
    value: float | None = None
    groups: dict[int, tuple[Group, ...]] | None = None  # by node, if whole ways were requested


def _small_mix() -> Mix:
    curves = np.linspace([8.0, 9.0, 7.0, 6.0], [1.0, 2.0, 3.0, 4.0], 13).T.copy()
    return Mix(2, 2, 12, 25.0, 2.0, ("a", "b", "c", "d"), curves, np.ones(4), np.full(4, 30.0))


def is_ready() -> bool:
    """Return whether the kernels are compiled already; if not, `get_ready` takes about a minute, once."""
    return is_warm("annealing.anneal")


def get_ready(ways: bool = False) -> None:
    """Compile or load the kernels, so that later timings measure only the work itself."""
    problem = prepare(_small_mix())
    for shared in (False, True):
        search(problem, np.array([0, 0, 1, 1]), 1, Budget(8), shared=shared)
    move(make_memo(), make_memo())
    for dividing in (True, False):
        outcome(problem, np.array([0, 0, 1, 1]), dividing)
    if ways:
        clustered(problem, [0, 1], Limits(4))
        one_each(problem, [0, 1], Limits(4))


def get_all_ready() -> None:
    """Compile every kernel of the optimiser."""
    get_ready(ways=True)
    problem = prepare(_small_mix())
    grown(problem, [0, 1])
    nodes = Nodes(problem.tables, 2, 2)
    nodes.arrive(0, 0)
    nodes.arrive(1, 1, moves=1)
    nodes.arrive(2, 2, moves=1)
    nodes.leave(0, moves=1)


def place(mix: Mix, scheme: str, settings: SearchSettings, progress: Progress | None = None) -> Placed:
    """Run one scheme on a mix."""
    began = time.perf_counter()
    problem = prepare(mix)
    start = _start(problem, settings)
    found: list[Found] = []
    search_s = 0.0
    if scheme in SEARCHED:
        found, search_s = _searches(problem, start, SEARCHED[scheme], settings, progress)
    best = max(found, key=lambda one: one.value) if found else None  # the first of equals
    where = start if best is None else best.place
    dividing = scheme in DIVIDING
    groups = None
    if dividing and settings.limits is not None:
        run, groups = _by_ways(problem, where, settings.limits, settings.objective)
    else:
        run = outcome(problem, where, dividing, settings.objective)
    return Placed(
        scheme,
        run,
        dividing,
        sum(one.swaps for one in found),
        search_s,
        time.perf_counter() - began,
        sum(one.lookups for one in found),
        sum(one.hits for one in found),
        best.start_value if best else None,
        best.value if best else None,
        groups,
    )


def _by_ways(
    problem: Problem, where: Ints, limits: Limits, objective: str
) -> tuple[Outcome, dict[int, tuple[Group, ...]]]:
    """Return the placement with the jobs of every node in groups that the hardware can separate."""
    nodes: list[Division | None] = []
    groups = {}
    ipc = np.zeros(len(problem.mix))
    for node in range(problem.mix.nodes):
        jobs = np.flatnonzero(where == node)
        if not len(jobs):
            nodes.append(None)
            continue
        found = clustered(problem, jobs, limits, objective)
        nodes.append(found.division)
        groups[node] = found.groups
        ipc[found.division.jobs] = found.division.ipc
    return Outcome(where, nodes, ipc, problem.alone), groups


def _start(problem: Problem, settings: SearchSettings) -> Ints:
    if settings.start == starts.UTILITY:
        return starts.utility_start(problem)
    return starts.random_start(problem, stream(settings.seed, "placement"))


def _searches(
    problem: Problem, start: Ints, shared: bool, settings: SearchSettings, progress: Progress | None
) -> tuple[list[Found], float]:
    rng = stream(settings.seed, "annealing")
    words = [int(word) for word in rng.integers(0, 2**63, settings.restarts)]
    swaps = default_swaps(len(problem.mix)) if settings.swaps is None else settings.swaps
    workers = min(settings.workers or os.cpu_count() or 1, settings.restarts)
    spent = [0.0] * settings.restarts
    done = [0] * settings.restarts

    def advance(number: int) -> Progress | None:
        if progress is None:
            return None

        def tell(swaps_done: int, _: int) -> None:
            done[number] = swaps_done
            progress(sum(done), swaps * settings.restarts)

        return tell

    def one(number: int) -> Found:
        began = time.perf_counter()
        limit = None if settings.budget_s is None else settings.budget_s * workers / settings.restarts
        budget = Budget(swaps) if limit is None else Budget(used=_clock(limit))
        found = search(
            problem, start, words[number], budget, shared=shared, objective=settings.objective, progress=advance(number)
        )
        spent[number] = time.perf_counter() - began
        return found

    if workers == 1:
        return [one(number) for number in range(settings.restarts)], sum(spent)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(one, range(settings.restarts))), sum(spent)


def _clock(budget_s: float) -> Callable[[], float]:
    began = time.perf_counter()
    return lambda: (time.perf_counter() - began) / budget_s


def placed_document(placed: Placed, mix: Mix, seed: int, domains: int = 1) -> dict[str, Any]:
    """Return the JSON of the command contract plus some keys; `domains`: nodes of the mix per server."""
    found = {
        "scheme": placed.scheme,
        **_speeds_document(placed.outcome, mix, placed.divided),
        "swaps": placed.swaps,
        "swap_us": placed.search_s / placed.swaps * 1e6 if placed.swaps else None,
        "memo_hit_rate": placed.hits / placed.lookups if placed.lookups else None,
        "solve_s": placed.solve_s,
        "seed": seed,
    }
    if placed.groups is not None:
        by_node = {node: groups_document(groups, mix, (0,)) for node, groups in placed.groups.items()}
        found["groups"] = {str(node): groups for node, groups in by_node.items()}
        if domains > 1:
            found["servers"] = _servers_document(placed.groups, mix, domains)
    return found


def _servers_document(groups: dict[int, tuple[Group, ...]], mix: Mix, domains: int) -> dict[str, list[dict[str, Any]]]:
    """Return lines for all domains of each server at once: several nodes of the mix are its L3 domains."""
    found: dict[str, list[dict[str, Any]]] = {}
    for server in range(-(-mix.nodes // domains)):
        own = {
            domain: groups[server * domains + domain]
            for domain in range(domains)
            if server * domains + domain in groups
        }
        together = [
            [mix.names[job] for parts in own.values() if number < len(parts) for job in parts[number].jobs]
            for number in range(max(map(len, own.values()), default=0))
        ]
        lines = lines_by_domain(own)
        found[str(server)] = [{"jobs": jobs, "schemata": line} for jobs, line in zip(together, lines, strict=True)]
    return found


def _speeds_document(run: Outcome, mix: Mix, divided: bool) -> dict[str, Any]:
    """Return the results of the jobs, in the order of the file."""
    ipc, alone = (
        dict(zip(mix.names, run.ipc.tolist(), strict=True)),
        dict(zip(mix.names, run.alone.tolist(), strict=True)),
    )
    found: dict[str, Any] = {
        "weighted_speedup": run.weighted_speedup,
        "harmonic_speed": run.harmonic_speed,
        "lowest_speed": run.lowest_speed,
        "placement": dict(zip(mix.names, run.place.tolist(), strict=True)),
        "partition": _partitions(run.nodes, mix) if divided else None,
        "ipc": ipc,
        "ipc_alone": alone,
        "memory_load": {str(node): None if one is None else one.load for node, one in enumerate(run.nodes)},
    }
    if mix.alpha is not None:
        bounds = dict(zip(mix.names, mix.alpha.tolist(), strict=True))
        found["bounds_missed"] = [name for name in mix.names if ipc[name] / alone[name] < bounds[name] - 1e-9]
    return found


def _partitions(nodes: Sequence[Division | None], mix: Mix) -> dict[str, dict[str, float]]:
    return {str(node): sizes_by_name(one, mix) for node, one in enumerate(nodes) if one is not None}


def sizes_by_name(one: Division, mix: Mix) -> dict[str, float]:
    """Return the buckets of every program of a node, in the order of the file; integral values as integers."""
    sizes = dict(zip(one.jobs.tolist(), one.sizes.tolist(), strict=True))
    return {mix.names[job]: int(sizes[job]) if sizes[job] == int(sizes[job]) else sizes[job] for job in sorted(sizes)}


def groups_document(groups: Sequence[Group], mix: Mix, domains: Sequence[int]) -> list[dict[str, Any]]:
    """Return which jobs share which ways, and the line for each group's file `schemata`."""
    lines = schemata(groups, domains)
    return [
        {
            "jobs": [mix.names[job] for job in group.jobs],
            "first_way": group.first_way,
            "ways": group.ways,
            "mask": f"{group.mask:x}",
            "schemata": line,
        }
        for group, line in zip(groups, lines, strict=True)
    ]


@dataclass(frozen=True)
class DividedNode:
    """One node's cache, divided by a method."""

    division: Division
    groups: tuple[Group, ...] | None  # if whole ways were requested
    solve_s: float


def divide_node(mix: Mix, method: str, objective: str, limits: Limits | None) -> DividedNode:
    """Divide one node's cache between its programs: by buckets, or by whole ways where hardware has limits."""
    began = time.perf_counter()
    problem = prepare(mix)
    jobs = list(range(len(mix)))
    if limits is None and method == CLUSTERS:
        limits = Limits(mix.buckets)
    if limits is None:
        found = equally_divided(problem, jobs) if method == EQUAL else divided(problem, jobs, objective)
        return DividedNode(found, None, time.perf_counter() - began)
    if method == CLUSTERS:
        grouped = clustered(problem, jobs, limits, objective)
    else:
        grouped = one_each(problem, jobs, limits, objective, equal=method == EQUAL)
    return DividedNode(grouped.division, grouped.groups, time.perf_counter() - began)


def node_document(node: DividedNode, mix: Mix, method: str, objective: str, domains: Sequence[int]) -> dict[str, Any]:
    """Return the same keys as for a placement, for one node."""
    one = node.division
    order = one.jobs.argsort()
    run = Outcome(np.zeros(len(mix), np.int64), [one], one.ipc[order], one.alone[order])
    found: dict[str, Any] = {
        "scheme": method,
        "objective": objective,
        **_speeds_document(run, mix, divided=True),
        "swaps": 0,
        "swap_us": None,
        "memo_hit_rate": None,
        "solve_s": node.solve_s,
        "seed": None,
    }
    if node.groups is not None:
        found["groups"] = groups_document(node.groups, mix, domains)
    return found
