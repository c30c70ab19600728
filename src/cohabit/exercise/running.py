"""Run one exercise for some time, or for a fixed amount of work, which takes longer beside a neighbour."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass

from cohabit.exercise.catalogue import EXERCISES

MOST_MB = 1 << 20


@dataclass(frozen=True)
class Outcome:
    """What was done, and how fast."""

    name: str
    size_mb: float
    rounds: int
    operations: int
    unit: str
    seconds: float
    rate_per_s: float
    checksum: int


def run(name: str, seconds: float = 2.0, rounds: int | None = None, size_mb: float | None = None) -> Outcome:
    """About so many seconds, or exactly so many rounds; the time of preparing does not count."""
    for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
        os.environ.setdefault(variable, "1")  # one program, one core: how many it gets is the caller's affair
    entry = EXERCISES[name]
    size = entry.size_mb if size_mb is None else size_mb
    exercise = entry.prepare(name, max(4096, int(size * 2**20)))
    try:
        done = operations = 0
        began_s = time.perf_counter()
        while (done < rounds) if rounds is not None else (time.perf_counter() - began_s < seconds):
            operations += exercise.work()
            done += 1
        took_s = time.perf_counter() - began_s
        return Outcome(
            name, size, done, operations, entry.unit, took_s, operations / max(took_s, 1e-9), exercise.checksum()
        )
    finally:
        exercise.close()
