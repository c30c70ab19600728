"""What plans promised and what happened: the past error of forecasts, kept as plain data in the policy's memory.

Of every job it notes when it was first planned and when it should have ended. The error is by how much longer jobs took
from then on than they should have, in all; earlier jobs count for less and less. Jobs that no plan was followed for
count as forecast right, so that a policy that has stopped following its plans tries them again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from cohabit.core.columns import SUBMIT
from cohabit.model.units import SECOND

if TYPE_CHECKING:
    from cohabit.core.view import View

FADING = 0.95  # of what earlier jobs say, with every job that ends
Memory = dict[str, Any]


def taken_in(old: Memory, view: View) -> Memory:
    """Return the memory with the jobs that have ended since the last pass."""
    running = {view.job_id(row): int(view.jobs[SUBMIT, row]) for row in view.placed}
    jobs, actual_s, forecast_s = dict(old.get("jobs", {})), old.get("actual_s", 0.0), old.get("forecast_s", 0.0)
    for name, submit_us in old.get("running", {}).items():
        if name not in running:
            planned_us, end_us = jobs.pop(name, (submit_us, view.now_us))
            actual_s = FADING * actual_s + (view.now_us - planned_us) / SECOND
            forecast_s = FADING * forecast_s + (end_us - planned_us) / SECOND
    here = {name: one for name, one in jobs.items() if name in running or view.waits(name)}
    return {**old, "running": running, "jobs": here, "actual_s": actual_s, "forecast_s": forecast_s}


def error_of(memory: Memory, value_s: float) -> float:
    """Return by what part forecasts were too short; few jobs say little beside a plan of so many seconds."""
    missed_s: float = memory["actual_s"] - memory["forecast_s"]
    counted_s: float = memory["forecast_s"] + value_s
    return max(0.0, missed_s) / max(counted_s, 1e-9)


def note_ends(memory: Memory, names: Sequence[str], end_s: Sequence[float], now_us: int) -> None:
    """Note when the jobs of a plan that is followed should end, unless an earlier plan has said so."""
    for name, end in zip(names, end_s, strict=True):
        memory["jobs"].setdefault(name, [now_us, now_us + round(end * SECOND)])
