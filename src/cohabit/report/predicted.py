"""Predicted against measured slowdown: how far a policy's model or profiles were right about runs that shared nodes.

Both are against running alone at the same scale. Only jobs count of which both are known; docs/metrics.md defines
every number.
"""

from __future__ import annotations

from typing import Any, TypedDict

import numpy as np

from cohabit.model.records import RunTable
from cohabit.report.metrics import Floats, Ints
from cohabit.report.wording import shown


class Compared(TypedDict):
    """Jobs of a finished run: job, program, predicted, actual; and how far predictions were right."""

    points: list[dict[str, str | float]]
    mean_abs_error: float


def compared_rows(run: RunTable) -> Ints:
    """Return the rows of jobs whose slowdown was predicted and measured."""
    if run.slowdowns is None:
        return np.empty(0, np.int64)
    return np.flatnonzero(np.isfinite(run.slowdowns.predicted) & np.isfinite(run.slowdowns.measured))


def slowdown_figures(run: RunTable) -> dict[str, Any]:
    """Return `slowdowns` of summary.json: all jobs together and by program; nothing if no job can be compared."""
    rows, slowdowns = compared_rows(run), run.slowdowns
    if slowdowns is None or not len(rows):
        return {}
    program = run.workload.program[rows]
    by_program = [
        {"program": _name(run, int(code))} | _figures(slowdowns.predicted[own], slowdowns.measured[own])
        for code, own in ((code, rows[program == code]) for code in np.unique(program))
    ]
    whole = _figures(slowdowns.predicted[rows], slowdowns.measured[rows])
    return {"slowdowns": whole | {"programs": sorted(by_program, key=lambda one: str(one["program"]))}}


def _name(run: RunTable, code: int) -> str:
    return str(run.workload.program_names[code]) if code >= 0 else ""


def _figures(predicted: Floats, measured: Floats) -> dict[str, Any]:
    return {
        "jobs": len(predicted),
        "mean_predicted": float(predicted.mean()),
        "mean_measured": float(measured.mean()),
        "mean_abs_error": float(np.abs(predicted - measured).mean()),
        "mean_abs_error_of_none": float(np.abs(measured - 1.0).mean()),
    }


def in_words(figures: dict[str, Any]) -> str:
    """Return one sentence about all jobs together."""
    error, without = 100 * figures["mean_abs_error"], 100 * figures["mean_abs_error_of_none"]
    return (
        f"Slowdown beside neighbours, over {figures['jobs']:,} {'job' if figures['jobs'] == 1 else 'jobs'}: predicted "
        f"{percent(figures['mean_predicted'])}, measured {percent(figures['mean_measured'])}; a prediction errs by "
        f"{error:.1f} points on average, saying that no job is slowed by {without:.1f}."
    )


def percent(factor: float) -> str:
    """Format how much longer than alone."""
    return shown("share", factor - 1)
