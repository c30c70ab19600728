"""The same on other programs: drawn again from the priors, and from abandoned versions of the priors.

The one calibrated row does not determine a population. All of these have fifo-shared near +13 % on average over many
draws; the other rows show how far the results depend on the programs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.predict.estimators import FOREST, MLP, TREES_IN_SEARCH
from cohabit.reproduce.colocation.lab import HIDDEN
from cohabit.reproduce.colocation.makespans import GREEDY, NO_LEVEL, SAVING, Statistic, mean, minus
from cohabit.reproduce.colocation.plan import FULL, Plan
from cohabit.reproduce.colocation.queues import HIGH, INTENSITY, MAIN, MODEL, RANDOM, SHARED, Work, run_set
from cohabit.reproduce.rows import Row, joined, missing, own
from cohabit.reproduce.tasks import Task

POPULATIONS = {
    HIDDEN: ("programs drawn from the priors", ""),
    "guessed": (
        "programs from the second version of the priors",
        "patterns with guessed shares; given up for measured shares after a first run",
    ),
    "independent": (
        "programs from the first version of the priors",
        "cache and memory traits have nothing to do with each other, so that 27 programs do not show what the next one "
        "will be like; given up after this was seen: blind scores are not free of hindsight",
    ),
}
POLICIES = (*MAIN, GREEDY, SAVING)
CLAIMS: tuple[tuple[str, str, str, Statistic], ...] = (
    ("I31.fifo_shared_pct", "fifo-shared against FIFO", RANDOM, mean(SHARED)),
    ("I31.mean_makespan_pct", "pair-optimal with the forest against FIFO", RANDOM, mean(MODEL)),
    ("I31.di_minus_model_points", "distributed intensity minus pair-optimal", RANDOM, minus(INTENSITY, MODEL)),
    ("I32.greedy_minus_optimal_points", "greedy against optimal", RANDOM, minus(GREEDY, MODEL)),
    ("I-saving.minus_optimal_points", "pair-saving minus pair-optimal", RANDOM, minus(SAVING, MODEL)),
    ("I30.queue_high_shared_x", "fifo-shared on queue_high", HIGH, mean(SHARED, "x")),
    ("I30.queue_high_model_x", "pair-optimal on queue_high", HIGH, mean(MODEL, "x")),
)


def tasks(plan: Plan) -> list[Task]:
    """A few queues of every population."""
    sizes, found = plan.sizes, []
    levels = ((RANDOM, sizes.population_queues, POLICIES), (HIGH, 1, POLICIES))
    for tag in POPULATIONS:
        for number in range(_count(plan, tag)):
            same = (plan.drawn(number, tag), plan.seed("measured"), number)
            work = Work(*same, levels, sizes.jobs, TREES_IN_SEARCH, False, blind=True)
            found.append(Task(f"{tag} {number}", run_set, {"work": work}, 2.5 + 0.4 * sizes.population_queues))
    return found


def _count(plan: Plan, tag: str) -> int:
    return plan.sizes.populations if tag == HIDDEN else plan.sizes.former_populations


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The main claims of each."""
    found = []
    for tag, (words, why) in POPULATIONS.items():
        each = [results[f"{tag} {number}"] for number in range(_count(plan, tag))]
        size = plan.shortened(len(each), FULL.populations, "sets of 32 programs")
        found += [
            _blind(plan, tag, kind, [one[f"blind {kind}"]["r2"] for one in each], joined(why, size))
            for kind in (FOREST, MLP)
        ]
        size = joined(why, size, plan.shortened(plan.sizes.population_queues, FULL.population_queues, "queues of each"))
        for name, claim, level, statistic in CLAIMS:
            sets = [one[level] for one in each if one[level]]
            row = own(f"{name}_{tag}", f"{claim}, {words}", statistic)
            found.append(plan.measured(row, sets, size) if sets else missing(row.about, NO_LEVEL))
    return found


def _blind(plan: Plan, tag: str, kind: str, scores: list[float | None], note: str) -> Row:
    known = [one for one in scores if one is not None]
    shown = f"median {np.median(known):.2f}, {sum(one < 0.6 for one in known)} of {len(known)} below 0.6"
    words = f"{kind} on unseen applications, {POPULATIONS[tag][0]}"
    claim = own(f"I7.{kind}_blind_r2_{tag}", words, lambda members: members[0])
    return plan.measured(claim, [[one] for one in scores], shown, note)
