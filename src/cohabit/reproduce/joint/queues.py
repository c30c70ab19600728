"""Colocation's queues with objective makespan, against `pair-saving`, which puts two jobs on the same cores.

The server, the programs, their measurements and the random queues of `reproduce colocation`: 50 programs of eight
threads, all there at once, on one server of eight cores. pair-saving goes by the forest's predictions, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from cohabit.model.errors import InputError
from cohabit.predict.estimators import FOREST, need_scikit_learn
from cohabit.reproduce.colocation.lab import CATALOGUE, HIDDEN, Bench, Policy
from cohabit.reproduce.colocation.queues import FIFO, RANDOM, SHARED, Queue, Work, run_set
from cohabit.reproduce.joint.plan import BUNDLE, FULL, OURS, Plan
from cohabit.reproduce.rows import Row, expected, joined, missing, own, stated
from cohabit.reproduce.tasks import Task

SAVING = f"{FOREST} saving"  # pair-saving
OTHERS = tuple((name, Policy(name)) for name in ("ce-easy", "cs", "sns"))
MAKESPAN = (OURS.name, Policy(BUNDLE, keys=(("objective", "makespan"),)))
EVERY = (FIFO, SHARED, *(name for name, _ in OTHERS), SAVING, OURS.name)
ROW = "J.saving_minus_points"
Queues = Sequence[Queue]


def possible() -> str:
    """Return why predictions cannot be made here; empty where they can."""
    try:
        need_scikit_learn()
    except InputError as error:
        return str(error)
    return ""


def tasks(plan: Plan) -> list[Task]:
    """One task per set of queues."""
    sizes, found = plan.sizes, []
    for number in range(sizes.queue_sets) if not possible() else ():
        bench = Bench(HIDDEN, plan.seed("hidden queue programs"), number) if plan.hidden else Bench(CATALOGUE)
        levels = ((RANDOM, sizes.queues, EVERY),)
        usual = (sizes.queue_jobs, sizes.trees, sizes.searching)
        work = Work(bench, plan.seed("measured"), number, levels, *usual, others=(*OTHERS, MAKESPAN))
        found.append(Task(f"queues {number}", run_set, {"work": work}, 2.0 + 0.5 * sizes.queues))
    return found


def gain_pct(policy: str) -> Callable[[Queues], float]:
    """Makespan saved against one after the other, in percent."""
    return lambda queues: float(np.mean([-one[policy]["pct"] for one in queues]))


def turnaround_pct(policy: str) -> Callable[[Queues], float]:
    """Mean turnaround saved against one after the other, in percent."""
    return lambda queues: float(np.mean([-one[policy]["turnaround_pct"] for one in queues]))


def minus_saving(queues: Queues) -> float:
    """Return the points of gain over pair-saving."""
    return gain_pct(OURS.name)(queues) - gain_pct(SAVING)(queues)


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """The contract, then every policy."""
    if why := possible():
        return [missing(expected(ROW), why)]
    sizes = plan.sizes
    sets = [results[f"queues {number}"][RANDOM] for number in range(sizes.queue_sets)]
    size = joined(
        plan.shortened(len(sets), FULL.queue_sets, "seeds"),
        plan.shortened(sizes.queues, FULL.queues, "queues of a set"),
    )
    words = "colocation's queues: {} saved against one after the other by {}"
    claims = [stated(ROW, minus_saving, "pair-saving with the forest's predictions, as in reproduce colocation")]
    for policy in EVERY[1:]:
        name = "pair-saving" if policy == SAVING else policy
        tag = f"J-queues.{name.replace('-', '_')}"
        claims += [
            own(f"{tag}_gain_pct", words.format("makespan", name), gain_pct(policy)),
            own(f"{tag}_turnaround_pct", words.format("turnaround", name), turnaround_pct(policy)),
        ]
    return [plan.measured(one, sets, size) for one in claims]
