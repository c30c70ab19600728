"""What waiting for calm is worth by how long noise lasts: ADAA with spells of 2.5 to 20 minutes, every way to wait.

The calibrated weather is not touched: its noise job stays heavy as often as always, and only holds what it sends for
longer. The trials run beside those of the paper's experiments, with their models. Nothing is run here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from cohabit.report.figures import Figure, colour, layout
from cohabit.reproduce.papers import Picture
from cohabit.reproduce.rows import Claim, Row, joined, own
from cohabit.reproduce.rush.lab import FCFS, ORACLE, PAYING, RANDOM, RUSH
from cohabit.reproduce.rush.outcomes import in_vivo, makespan_change, reduction, varying
from cohabit.reproduce.rush.plan import FULL, Plan
from cohabit.reproduce.rush.trials import SPELLS, Trial, gathered
from cohabit.reproduce.tasks import Task

WAYS = {
    RUSH: "RUSH",
    PAYING: "rush-paying (ours)",
    RANDOM: "random skips at RUSH's rate",
    ORACLE: "skips by who knows the weather",
}
Statistic = Callable[[Sequence[Trial]], float | None]


def tasks(plan: Plan) -> list[Task]:
    """Return nothing: the trials are part of the tasks that train the models."""
    return []


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return for every length of noise what each way of waiting saves and what it costs."""
    size = joined(
        plan.shortened(plan.sizes.sets, FULL.sets, "sets"), plan.shortened(plan.sizes.spells, FULL.spells, "trials")
    )
    found = []
    for name, minutes in SPELLS.items():
        sets = gathered(plan, results, name)
        found += [plan.measured(one, sets, size) for one in _claims(name, minutes)]
    return found


def _claims(name: str, minutes: float) -> list[Claim]:
    tag = f"{minutes:g}".replace(".", "_")
    found = [
        own(f"B-R.spells_{tag}_varying", f"varying runs per ADAA trial under FCFS+EASY, {name}", varying(FCFS)),
        own(f"B-R.spells_{tag}_precision", f"share of RUSH's warnings that were right, {name}", in_vivo("precision")),
    ]
    for policy, words in WAYS.items():
        found += saved_and_paid(f"B-R.spells_{tag}_{policy}", policy, f"{words}, {name}")
    return found


def saved_and_paid(start: str, policy: str, where: str) -> list[Claim]:
    """Return what a way of waiting saves and what it costs; `start`: of the names of the rows."""
    return [
        own(f"{start}_reduction_pct", f"fewer varying runs, {where}", reduction(policy)),
        own(f"{start}_makespan_pct", f"makespan against FCFS+EASY, {where}", makespan_pct(policy)),
        own(f"{start}_wait_s", f"mean wait of all jobs against FCFS+EASY, {where}", mean_wait(policy)),
    ]


def makespan_pct(policy: str) -> Statistic:
    """Return the change of the makespan in percent of that under FCFS+EASY."""

    def statistic(trials: Sequence[Trial]) -> float:
        return 100.0 * float(np.mean([one[policy]["makespan_s"] / one[FCFS]["makespan_s"] - 1.0 for one in trials]))

    return statistic


def mean_wait(policy: str) -> Statistic:
    """Return the change of the mean wait of all jobs in seconds."""
    return lambda trials: float(np.mean([(one[policy]["wait_s"] - one[FCFS]["wait_s"]).mean() for one in trials]))


def picture(plan: Plan, results: Mapping[str, Any]) -> Picture:
    """Draw what each way of waiting saves against what it costs, one mark for every length of noise."""
    data: list[Figure] = []
    for number, (policy, words) in enumerate(WAYS.items()):
        trials = {
            minutes: [one for part in gathered(plan, dict(results), name) for one in part]
            for name, minutes in SPELLS.items()
        }
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers+text",
                "name": words,
                "x": [makespan_change(policy)(one) for one in trials.values()],
                "y": [reduction(policy)(one) for one in trials.values()],
                "text": [f"{minutes:g} min" for minutes in trials],
                "textposition": "top center",
                "line": {"color": colour(number), "width": 1},
            }
        )
    words = (
        "Every way of waiting (ours): how many varying runs it saves, and what it adds to the makespan, by the mean "
        "time for which noise lasts. Left of zero and high up is better."
    )
    figure = {"data": data, "layout": layout(380, "makespan (s)", "fewer varying runs (%)", showlegend=True)}
    return Picture("Waiting, by how long noise lasts", figure, words)
