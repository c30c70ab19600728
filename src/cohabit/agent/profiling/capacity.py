"""Measure what the cores of this machine can draw from memory, by the number of active cores: one stream on each (S43).

Each copy is bound to one core and streams through vectors larger than the caches; the sum over all copies that run at
the same time is the capacity. Nothing else should run meanwhile. Nothing here decides what the numbers are used for.
"""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from cohabit.agent.launch.process import Request, launch
from cohabit.model.errors import InputError

SECONDS, SIZE_MB = 2.0, 256.0
GIGA = 1e9


def active_counts(cores: int) -> tuple[int, ...]:
    """Return 1, 2, 3, 4, 6, 8, 12, 16 ... and all: denser where the curve bends."""
    found, step = {cores}, 1
    while step <= cores:
        found |= {step, step * 3 // 2} if step > 1 else {step}
        step *= 2
    return tuple(sorted(count for count in found if count <= cores))


def measure_capacity(
    cores: Sequence[int],
    seconds: float = SECONDS,
    size_mb: float = SIZE_MB,
    advance: Callable[[int, int], None] | None = None,
) -> tuple[tuple[int, float], ...]:
    """Return (active cores, GB/s) by rising number of cores."""
    counts, found = active_counts(len(cores)), []
    for number, active in enumerate(counts):
        if advance is not None:
            advance(number, len(counts))
        found.append((active, _together(cores[:active], seconds, size_mb)))
    return tuple(found)


def _together(cores: Sequence[int], seconds: float, size_mb: float) -> float:
    """Return GB/s of streams that start at the same moment, each on its own core."""
    options = ("--seconds", f"{seconds:g}", "--size", f"{size_mb:g}", "--json")
    command = (sys.executable, "-m", "cohabit.cli", "exercise", "stream", *options)
    with tempfile.TemporaryDirectory(prefix="cohabit-capacity-") as folder, contextlib.ExitStack() as stack:
        out = [Path(folder, f"{core}.out") for core in cores]
        wrong = [Path(folder, f"{core}.err") for core in cores]
        running = [
            stack.enter_context(launch(Request(command, (core,), stdout=out[at], stderr=wrong[at])))
            for at, core in enumerate(cores)
        ]
        for one in running:
            one.release()
        for at, one in enumerate(running):
            ended = one.wait(60 + 10 * seconds)
            if ended is None or ended.status != 0:
                said = wrong[at].read_text(errors="replace").strip().splitlines()
                raise InputError(
                    f"the stream did not run ({said[-1] if said else 'it did not end'})", "", "choose a smaller --size"
                )
        return sum(float(json.loads(path.read_text())["rate_per_s"]) for path in out) / GIGA
