"""Backfilling as one algorithm with a reservation depth: how many blocked jobs are promised a start time.

0 none (strict order), 1 EASY (Lifka 1995; the head only), k (Fluxion's hybrid), infinite = conservative (every job; a
promise never moves later). Finite depths promise anew in every pass; conservative keeps its promises between passes.
-1 promises nothing and skips every job that does not fit (first fit): full machines, and starvation of wide jobs.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cohabit.core.cycles import Cycle
from cohabit.core.kernels.bundles import CONSERVATIVE, EASY, FIRST_FIT, STRICT
from cohabit.model.errors import InputError

if TYPE_CHECKING:
    from cohabit.core.timeline import Timeline

NAMED_DEPTHS = {"none": STRICT, "easy": EASY, "conservative": CONSERVATIVE, "first-fit": FIRST_FIT}


@dataclass(frozen=True)
class ReservationDepth:
    """A later job may start if, by requested times, it takes nothing from the reservations made so far."""

    depth: int
    cycle: Cycle | None = None

    def allowed(self, limit_us: int, timeline: Timeline) -> NDArray[np.int64]:
        """Nodes of each kind that stay free of running jobs, windows and reservations for the job's whole request."""
        return np.minimum(timeline.free_throughout(timeline.now_us, limit_us), timeline.idle)


def backfill_named(name: str | int, cycle: Cycle | None = None) -> ReservationDepth:
    """Read "easy", "none", "conservative", "first-fit" or a depth."""
    text = str(name).strip().lower()
    if text in NAMED_DEPTHS:
        return ReservationDepth(NAMED_DEPTHS[text], cycle)
    if text.isdigit():
        return ReservationDepth(min(int(text), CONSERVATIVE - 1), cycle)
    near = difflib.get_close_matches(text, NAMED_DEPTHS, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"use {', '.join(NAMED_DEPTHS)} or a whole number"
    raise InputError(f"{name!r} is not a kind of backfilling", "backfill", hint)
