"""I33: how long it takes to predict all pairs of a queue and to pair it, at 50, 100 and 150 jobs."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from cohabit.model.mix import Floats
from cohabit.optimise import matching
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.estimators import FOREST, MLP
from cohabit.reproduce.colocation.lab import HIDDEN, Bench, Measured, bench_of, measure
from cohabit.reproduce.colocation.models import data_of, features, trained
from cohabit.reproduce.colocation.plan import FULL, Plan
from cohabit.reproduce.rows import CHECK, Expected, Row, joined, row
from cohabit.reproduce.tasks import Task

COUNTS = (50, 100, 150)
PAPER_GREEDY_MS = {50: 0.01, 150: 0.15}  # all the paper states
TIMED = "processor time of one core, kernels loaded, best of some; depends on the machine"
PREDICTED = "all pairs of so many different programs, features put together from their profiles included"


def tasks(plan: Plan) -> list[Task]:
    """Return one task, timed alone."""
    arguments = {"seed": plan.seed("overhead"), "trees": plan.sizes.timed_trees, "repeats": plan.sizes.timings}
    return [Task("overhead", overhead, arguments, 12.0)]


def overhead(seed: int, trees: int, repeats: int) -> dict[str, float]:
    """Return milliseconds by step and number of jobs."""
    found: dict[str, float] = {}
    benches = [bench_of(Bench(HIDDEN, seed, number)) for number in range(-(-COUNTS[-1] // 32))]
    known = [measure(bench, seed) for bench in benches]
    learn, _ = data_of(benches[0], known[0])
    models = {kind: trained(learn, kind, seed, trees, False) for kind in (FOREST, MLP)}
    for count in COUNTS:
        many = _first(known, count)
        for kind, model in models.items():
            found[f"{kind} {count}"] = _best(partial(_predict, model, many), repeats)
        percent = models[FOREST].estimate_pairs(*features(many))
        weights = matching.pair_weights(percent)
        order = matching.all_pairs_sorted(weights)
        found[f"optimal {count}"] = _best(partial(matching.optimal, percent), repeats)
        found[f"greedy {count}"] = _best(partial(matching.lowest_pairs, *order, count), repeats)
        found[f"greedy sorted {count}"] = _best(partial(matching.greedy, percent), repeats)
        found[f"saving {count}"] = _best(partial(matching.saving, percent, many.times_s), repeats)
    return found


def _predict(model: DegradationModel, many: Measured) -> Floats:
    return model.estimate_pairs(*features(many))


def _first(known: list[Measured], count: int) -> Measured:
    times = np.concatenate([one.times_s for one in known])[:count]
    counters = tuple(profile for one in known for profile in one.counters)[:count]
    return Measured(times, counters, np.zeros((count, count)))


def _best(work: Callable[[], object], repeats: int) -> float:
    work()
    took = []
    for _ in range(repeats):
        began = time.process_time()
        work()
        took.append(time.process_time() - began)
    return 1000.0 * min(took)


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Fig. 8."""
    took, size = results["overhead"], plan.shortened(plan.sizes.timings, FULL.timings, "timings")
    found = []
    for count in COUNTS:
        at = f"{count} jobs"
        for name, words, high, step, note in (
            (
                "greedy",
                f"greedy pairs of {at}, sorted before (ms)",
                2,
                "greedy",
                f"{TIMED}; the paper: 0.01 to 0.15 ms",
            ),
            ("greedy_with_sort", "the same with sorting (ms)", 50, "greedy sorted", TIMED),
            ("optimal", f"optimal pairs of {at} (ms)", 100, "optimal", f"{TIMED}; the paper: up to 10 s at 150"),
            ("saving", f"saving pairs of {at} (ms), ours", 100, "saving", TIMED),
            ("predict_forest", f"forest, all pairs of {at} (ms)", 1000, FOREST, f"{PREDICTED}; {TIMED}"),
            ("predict_mlp", f"MLP, all pairs of {at} (ms)", 1000, MLP, f"{PREDICTED}; {TIMED}"),
        ):
            paper = PAPER_GREEDY_MS.get(count) if name == "greedy" else None
            about = Expected(f"I33.{name}_{count}_ms", words, paper, 0, high, CHECK)
            found.append(row(about, took[f"{step} {count}"], joined(note, size)))
    growth = Expected("I33.optimal_150_to_100", "time of optimal pairs, 150 jobs to 100", 2.5)
    slower = "prediction time at 150 jobs, forest to MLP (the paper: much slower)"
    return [
        *found,
        row(growth, took["optimal 150"] / max(took["optimal 100"], 1e-9), joined(TIMED, size)),
        row(
            Expected("I33.forest_to_mlp", slower),
            took[f"{FOREST} 150"] / max(took[f"{MLP} 150"], 1e-9),
            joined(TIMED, size),
        ),
    ]
