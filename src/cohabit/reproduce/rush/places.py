"""What choosing calm nodes is worth where noise has a place: ADAA with noise at some nodes only, gate by gate.

The trials run beside those of the paper's experiments, with their models, which were trained where noise is everywhere.
Nothing is run here. Where noise has no place, the same gate is the row B-R.choose_nodes_* of outcomes.py.
"""

from __future__ import annotations

from typing import Any

from cohabit.reproduce.rows import Claim, Row, joined, own
from cohabit.reproduce.rush.lab import CALM_NODES, FCFS, JOB_NODES, PAYING_CALM, RUSH
from cohabit.reproduce.rush.outcomes import varying
from cohabit.reproduce.rush.plan import FULL, Plan
from cohabit.reproduce.rush.spells import saved_and_paid
from cohabit.reproduce.rush.trials import PLACED, PLACED_MIN, gathered
from cohabit.reproduce.tasks import Task

GATES = {
    RUSH: ("rush", "RUSH"),
    JOB_NODES: ("jobnodes", "a gate that sees the job's nodes only (ours)"),
    CALM_NODES: ("choose_nodes", "a gate that chooses nodes first (ours)"),
    PAYING_CALM: ("paying_nodes", "rush-paying that chooses nodes first (ours)"),
}


def tasks(plan: Plan) -> list[Task]:
    """Return nothing: the trials are part of the tasks that train the models."""
    return []


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return for every kind of place what each gate saves and what it costs; nothing where no trial was run."""
    if not plan.sizes.placed:
        return []
    sizes = plan.sizes
    size = joined(plan.shortened(sizes.sets, FULL.sets, "sets"), plan.shortened(sizes.placed, FULL.placed, "trials"))
    found = []
    for name, place in PLACED.items():
        sets = gathered(plan, results, name)
        found += [plan.measured(one, sets, size) for one in _claims(name, place)]
    return found


def _claims(name: str, place: str) -> list[Claim]:
    where = f"{name}, held for {PLACED_MIN:g} min"
    found = [own(f"B-R.{place}_varying", f"varying runs per ADAA trial under FCFS+EASY, {where}", varying(FCFS))]
    for policy, (tag, words) in GATES.items():
        found += saved_and_paid(f"B-R.{place}_{tag}", policy, f"{words}, {where}")
    return found
