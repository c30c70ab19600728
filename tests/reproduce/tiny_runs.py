"""Reproductions of a few seconds: every experiment, hardly any repeats."""

from __future__ import annotations

from typing import Any

from cohabit.reproduce.papers import Options
from cohabit.reproduce.sns.plan import Sizes

TINY = Sizes(
    sets=1, sequences=3, jobs=8, rough_sequences=2, occupancy_sequences=2, variant_sequences=1, balance=1, shuffles=1,
    learners=1, trinity_jobs=20, trinity_seeds=1, sensitivity_sequences=1,
)  # fmt: skip


def tiny(**more: Any) -> Options:
    """Options for a reproduction in this process."""
    return Options(quick=True, workers=1, sizes=TINY, shared="/nowhere", **more)
