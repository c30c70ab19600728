"""Worlds that must give known answers (5.6.5), the second contention model (5.6.9), assumptions varied (5.6.7)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cohabit.predict.estimators import FOREST, TREES_IN_SEARCH
from cohabit.reproduce.colocation.lab import FREE, RUINOUS, Bench
from cohabit.reproduce.colocation.makespans import largest_distance, mean, minus
from cohabit.reproduce.colocation.plan import FULL, Plan
from cohabit.reproduce.colocation.queues import (
    FIFO,
    INTENSITY,
    MAIN,
    MODEL,
    ORACLE,
    RANDOM,
    SHARED,
    Queue,
    Work,
    run_set,
)
from cohabit.reproduce.rows import CHECK, Expected, Row, joined, own, row
from cohabit.reproduce.tasks import Task

METAMORPHIC = (FIFO, MODEL, f"{FOREST} greedy", f"{ORACLE} optimal", f"{ORACLE} greedy", f"{ORACLE} saving")
FACTORS = {"down": 0.5, "up": 1.5}
PARAMETERS = {
    "memory_cycles": "cycles of a miss (calibrated)",
    "stream": "memory bandwidth of the server",
    "q": "cache pressure of a core (q)",
    "latency_slope": "slope of memory latency",
    "latency_knee": "knee of memory latency",
    "refs_per_ki": "cache references of every program",
    "footprint_mb": "footprint of every program",
    "overlap": "overlap of misses",
    "cpu_fraction": "share of its cores a program keeps busy",
    "error": "noise of times and counters",
}


def cases(plan: Plan) -> dict[str, tuple[str, Bench]]:
    """Every parameter, down and up."""
    return {
        f"{name}_{way}": (f"{words} x {factor:g}", replace(plan.bench(), factors=((name, factor),)))
        for name, words in PARAMETERS.items()
        for way, factor in FACTORS.items()
    }


def tasks(plan: Plan) -> list[Task]:
    """One set of queues each, with the usual parameters of the forest."""
    sizes = plan.sizes
    seed, bench = plan.seed("measured"), plan.bench()

    def task(name: str, world: Bench, queues: int, policies: tuple[str, ...]) -> Task:
        work = Work(world, seed, 0, ((RANDOM, queues, policies),), sizes.jobs, TREES_IN_SEARCH, False)
        return Task(name, run_set, {"work": work}, 1.5 + 0.07 * queues * len(policies))

    found = [
        task("free", replace(bench, world=FREE), sizes.other_queues, METAMORPHIC),
        task("ruinous", replace(bench, world=RUINOUS), sizes.other_queues, METAMORPHIC),
        task("occupancy", replace(bench, contention="occupancy"), sizes.other_queues, MAIN),
    ]
    if plan.sensitivity:
        found += [
            task(f"sensitivity {name}", world, sizes.sensitivity_queues, MAIN)
            for name, (_, world) in cases(plan).items()
        ]
    return found


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return checks, then signs."""
    size = plan.shortened(plan.sizes.other_queues, FULL.other_queues, "queues")
    return _known_answers(plan, results, size) + _occupancy(plan, results, size) + _sensitivity(plan, results)


def _known_answers(plan: Plan, results: dict[str, Any], size: str) -> list[Row]:
    free, ruinous = results["free"][RANDOM], results["ruinous"][RANDOM]
    half = plan.sizes.jobs // 2
    fewest = min(one[policy]["pairs"] for one in free for policy in METAMORPHIC if policy != FIFO)
    furthest = max(largest_distance(policy)(ruinous) or 0.0 for policy in METAMORPHIC)
    apart = "largest distance to FIFO where neighbours all but stop each other"
    note = joined("all pair policies, forest and oracle", size)
    pairs = f"fewest pairs of {half} made where no job slows another"
    return [
        row(Expected("I-world.free_pairs", pairs, half, half, half, CHECK), fewest, note),
        row(Expected("I-world.ruinous_pct", apart, 0, 0, 0, CHECK), furthest, note),
    ]


def _occupancy(plan: Plan, results: dict[str, Any], size: str) -> list[Row]:
    note = joined("cache divided by misses alone; not calibrated for it: only signs are claimed", size)
    second, intensity = "second contention model", minus(INTENSITY, MODEL)
    claims = [
        own("I31.fifo_shared_pct_occupancy", f"fifo-shared, {second}", mean(SHARED)),
        own("I31.mean_makespan_pct_occupancy", f"pair-optimal, {second}", mean(MODEL), high=0),
        own("I31.di_minus_model_occupancy", f"distributed intensity minus pair-optimal, {second}", intensity, low=0),
    ]
    return [plan.measured(one, [results["occupancy"][RANDOM]], note) for one in claims]


def signs(queues: list[Queue]) -> tuple[int, str]:
    """Return the signs of three claims: pairs beat FIFO, fifo-shared and distributed intensity, on average."""
    by_policy = {policy: float(np.mean([one[policy]["pct"] for one in queues])) for policy in MAIN}
    model = by_policy[MODEL]
    kept = [model < 0.0, model < by_policy[SHARED], model < by_policy[INTENSITY]]
    words = (
        f"pair-optimal {model:+.1f} %, fifo-shared {by_policy[SHARED]:+.1f} %, distributed intensity "
        f"{by_policy[INTENSITY]:+.1f} %"
    )
    return sum(kept), words


def _sensitivity(plan: Plan, results: dict[str, Any]) -> list[Row]:
    found = []
    for name, (words, _) in cases(plan).items() if plan.sensitivity else ():
        queues = results[f"sensitivity {name}"][RANDOM]
        kept, note = signs(queues)
        about = Expected(f"I-sensitivity.{name}", f"claims whose sign survives with {words} (of 3)", None, 3, 3, CHECK)
        size = plan.shortened(len(queues), FULL.sensitivity_queues, "queues")
        found.append(row(about, float(kept), joined(note, size)))
    return found
