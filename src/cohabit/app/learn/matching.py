"""Pair jobs for a user: method by name, clock, names instead of rows.

The mathematics (optimise/matching.py) has no clock; it is here. Nothing here depends on a scheduler.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.optimise import matching
from cohabit.optimise.matching import Matching
from cohabit.trace.degradation import DegradationMatrix

OPTIMAL, GREEDY, SAVING = METHODS = ("optimal", "greedy", "saving")
GROUP_SIZES = (2, 3, 4)


def get_pairs_ready() -> None:
    """Compile or load the kernels of optimal pairing."""
    matching.optimal(np.arange(16.0).reshape(4, 4))


def get_ready() -> None:
    """Compile or load the kernels, so that later timings measure only the work itself."""
    tiny, seconds = np.arange(16.0).reshape(4, 4), np.ones(4)
    matching.optimal(tiny)
    matching.greedy(tiny)
    matching.grouped(tiny, 3)
    matching.makespan_s(matching.grouped_saving(tiny, seconds, 3), tiny, seconds)


def solve(
    percent: NDArray[np.float64], method: str, size: int, threshold: float, durations: NDArray[np.float64] | None
) -> Matching:
    """Return the jobs that run together, by the method of this name."""
    if method == SAVING:
        assert durations is not None
        if size > 2:
            return matching.grouped_saving(percent, durations, size, threshold)
        return matching.saving(percent, durations, threshold)
    if size > 2:
        return matching.grouped(percent, size, threshold)
    return matching.optimal(percent, threshold) if method == OPTIMAL else matching.greedy(percent, threshold)


def match_document(
    matrix: DegradationMatrix,
    method: str = OPTIMAL,
    size: int = 2,
    threshold: float | None = None,
    durations: NDArray[np.float64] | None = None,
) -> dict[str, Any]:
    """Return the document of `cohabit match`; the default threshold is none for saving and 100 % for the others."""
    if threshold is None:
        threshold = np.inf if method == SAVING else matching.THRESHOLD_PCT
    began = time.perf_counter()
    found = solve(matrix.percent, method, size, threshold, durations)
    solve_s = time.perf_counter() - began
    named = [
        [*(matrix.names[job] for job in group), weight]
        for group, weight in zip(found.groups, found.weights, strict=True)
    ]
    document: dict[str, Any] = {
        "method": method,
        "pairs": [group for group in named if len(group) == 3],
        "alone": [matrix.names[job] for job in found.alone],
        "total": found.total,
        "total_matched": found.total_matched,
        "threshold": threshold if np.isfinite(threshold) else None,
        "negatives": matrix.clamped,
        "solve_s": solve_s,
    }
    if size > 2:
        document["groups"] = named
    if durations is not None:
        serial = float(durations.sum())
        document["serial_s"] = serial
        document["makespan_s"] = matching.makespan_s(found, matrix.percent, durations)
        document["saving_s"] = serial - document["makespan_s"]
    return document
