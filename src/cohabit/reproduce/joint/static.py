"""Shepherd's mixes (P12 to P14): 64 jobs of one core for eight nodes of eight, all there at once.

The core decides once; who then runs where is judged by the poster's law, with every cache divided as well as can be, or
not at all under a policy that divides nothing. A job that is not started has no speed. Random placement without
division is the baseline, and a search over all placements the poster's own scheme. No job has a slowdown bound there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import StartJob
from cohabit.model.curve import Curve
from cohabit.model.event import JobSubmitted
from cohabit.model.job import Job
from cohabit.model.mix import Ints
from cohabit.model.profile import Profile
from cohabit.model.program import Program, profile_of
from cohabit.model.units import SECOND
from cohabit.optimise import law, starts
from cohabit.optimise.schemes import outcome
from cohabit.optimise.search import Budget, default_swaps, search
from cohabit.optimise.tables import Problem, prepare
from cohabit.reproduce.joint.plan import BUNDLE, FULL, Plan
from cohabit.reproduce.rows import Claim, Row, joined, own, stated
from cohabit.reproduce.shepherd.lab import NODES, Case
from cohabit.reproduce.sns.lab import Strategy
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream
from cohabit.trace.shepherd_programs import drawn

UNBOUNDED = (("alpha", 0.01),)
OURS = Strategy("cohabit", BUNDLE, UNBOUNDED)
SHEPHERD = Strategy("shepherd", "shepherd")
STRATEGIES = (Strategy("ce", "ce"), Strategy("cs", "cs"), Strategy("sns", "sns", UNBOUNDED), SHEPHERD, OURS)
SEARCH, BASELINE = "search", "baseline"
TIME_S = 600.0  # of every job alone: only who is placed where counts
Mix = dict[str, float]  # strategy -> weighted speedup, and "NAME started" -> jobs
MIX_S = 0.6


def run_set(case: Case, seed: int, number: int, mixes: int) -> list[Mix]:
    """One set of mixes: the mixes of `reproduce shepherd`, under policies; runs in a worker."""
    suite = case.suite(number)
    return [_run_mix(prepare(drawn(suite, rng, NODES)), rng) for rng in _streams(seed, number, mixes)]


def _streams(seed: int, number: int, mixes: int) -> list[np.random.Generator]:
    return [stream(seed, f"mix {number} {mix}") for mix in range(mixes)]


def _run_mix(problem: Problem, rng: np.random.Generator) -> Mix:
    start = starts.random_start(problem, rng)
    word = int(rng.integers(0, 2**62))
    found = search(problem, start, word, Budget(default_swaps(len(problem.mix))))
    result: Mix = {
        BASELINE: outcome(problem, start, False).weighted_speedup,
        SEARCH: outcome(problem, found.place, True).weighted_speedup,
    }
    node, known = node_of(problem), profiles(problem)
    for one in STRATEGIES:
        place, divided = decided(problem, one, node, known)
        result[one.name] = outcome(problem, place, divided).weighted_speedup
        result[f"{one.name} started"] = float((place >= 0).sum())
    return result


def node_of(problem: Problem) -> NodeGroup:
    """One of the poster's nodes: a bucket of the cache is a way."""
    mix = problem.mix
    gbs = ((1, mix.bandwidth_cap_gbs), (mix.cores_per_node, mix.bandwidth_cap_gbs))
    return NodeGroup(mix.nodes, mix.cores_per_node, ways=mix.buckets, bandwidth_gbs=gbs)


def profiles(problem: Problem) -> list[Profile]:
    """What was measured of every kind of job alone, with every number of ways."""
    tables, node = problem.tables, node_of(problem)
    ways = tuple(range(1, problem.mix.buckets + 1))
    found = []
    for kind in range(len(tables.mpki)):
        ipc, gbs, waiting = [], [], 0.0
        for size in ways:
            misses = tables.mpki[kind, size : size + 1]
            cpi0, cost = tables.cpi0[kind : kind + 1], tables.cost[kind : kind + 1]
            load = law.solve_load(1, misses, cpi0, cost, tables.relative)
            waiting = float(cost[0] * misses[0] * law.latency(load))
            ipc.append(1.0 / (float(cpi0[0]) + waiting))
            gbs.append(float(misses[0]) * ipc[-1] * law.rate_of(problem.mix.freq_ghz))
        rising = np.maximum.accumulate(np.array(ipc)) / max(ipc)
        program = Program(
            name=f"kind {kind}",
            ce_time_s=TIME_S,
            mu=waiting * ipc[-1],
            ipc=Curve(ways, tuple(rising.tolist())),
            bandwidth_gbs=Curve(ways, tuple(gbs)),
            processes=1,
            single_node=True,
        )
        found.append(profile_of(program, node, ways, 1))
    return found


def decided(problem: Problem, strategy: Strategy, node: NodeGroup, known: Sequence[Profile]) -> tuple[Ints, bool]:
    """Return the node of every job as the core decides at once, -1: not started; and whether it divides the cache."""
    policies = build(PolicyConfig(name=strategy.bundle, **dict(strategy.keys)))
    exclusive = policies.placer.exclusive
    core = SchedulerCore(
        Cluster((node,), "exclusive" if exclusive else "shared"), policies, profiles=() if exclusive else known
    )
    limit_us = round(4 * TIME_S) * SECOND
    jobs = [
        JobSubmitted(Job(str(row), limit_us, 1, program=f"kind {kind}", single_node=True))
        for row, kind in enumerate(problem.kind_of.tolist())
    ]
    place = np.full(len(jobs), -1, np.int64)
    for command in core.step(0, jobs):
        if isinstance(command, StartJob):
            place[int(command.job_id)] = command.nodes[0][0]
    return place, policies.partitioner is not None


def tasks(plan: Plan) -> list[Task]:
    """One task per set."""
    sizes, seed = plan.sizes, plan.seed("mixes")
    arguments = {"case": Case(), "seed": seed, "mixes": sizes.mixes}
    return [
        Task(f"mixes {number}", run_set, {**arguments, "number": number}, MIX_S * sizes.mixes)
        for number in range(sizes.mix_sets)
    ]


def gathered(plan: Plan, results: dict[str, Any]) -> list[list[Mix]]:
    """Return the sets."""
    return [results[f"mixes {number}"] for number in range(plan.sizes.mix_sets)]


Statistic = Callable[[Sequence[Mix]], float | None]


def gain_pct(strategy: str) -> Statistic:
    """Weighted speedup over random placement on undivided caches, in percent."""
    return lambda mixes: float(np.mean([100 * (one[strategy] / one[BASELINE] - 1) for one in mixes]))


def minus(first: str, second: str) -> Statistic:
    """Return the points of gain between two."""
    return lambda mixes: (gain_pct(first)(mixes) or 0.0) - (gain_pct(second)(mixes) or 0.0)


def started(strategy: str) -> Statistic:
    """Return how many jobs of a mix are started at once."""
    return lambda mixes: float(np.mean([one[f"{strategy} started"] for one in mixes]))


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The contract, then every strategy."""
    sets, sizes = gathered(plan, results), plan.sizes
    size = joined(
        plan.shortened(len(sets), FULL.mix_sets, "seeds"), plan.shortened(sizes.mixes, FULL.mixes, "mixes of a set")
    )
    scheduler = (
        "both as bundles through the scheduler, which places jobs in order and knows no search; the next row is "
        "against the poster's search over all placements"
    )
    words = "Shepherd's mixes"
    claims: list[Claim] = [
        stated("J.shepherd_minus_points", minus(OURS.name, SHEPHERD.name), scheduler),
        own("J-mixes.minus_search_points", f"{words}: gain less that of the poster's search", minus(OURS.name, SEARCH)),
        own("J-mixes.search_gain_pct", f"{words}: weighted speedup gain of the poster's search", gain_pct(SEARCH)),
    ]
    for one in STRATEGIES:
        tag = f"J-mixes.{one.name}"
        claims += [
            own(f"{tag}_gain_pct", f"{words}: weighted speedup gain of {one.name}", gain_pct(one.name)),
            own(f"{tag}_started", f"{words}: jobs of 64 that {one.name} starts at once", started(one.name)),
        ]
    return [plan.measured(one, sets, size) for one in claims]
