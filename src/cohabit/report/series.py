"""Curves of a run, small enough to draw: levels over time and shares of jobs.

Long runs are averaged exactly over equal time slices (no sampling), short ones keep every step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.model.records import WAITING, RunTable
from cohabit.model.units import SECOND
from cohabit.report.metrics import RanJobs, ran_jobs

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

EXACT_STEPS = 1200  # up to this many changes every step is kept
SLICES = 600  # otherwise the mean over this many slices
MOST_STEPS = 100  # intervals in which jobs are counted
ROUND_S = (
    1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800, 1209600
)  # fmt: skip


@dataclass(frozen=True)
class Level:
    """A step curve: `value[i]` holds from `at_us[i]` until the next; the last point closes it."""

    at_us: Floats  # since the origin
    value: Floats


def covered(begin: Floats, end: Floats, slices: int) -> tuple[tuple[NDArray[np.int64], Floats], ...]:
    """Return the cover of unit slices 0..slices by intervals as entries of a difference; cumulated, the covered share.

    Four (index, amount) pairs per interval: it rises in the slice of `begin` and the next, and falls likewise.
    """
    entries: list[tuple[NDArray[np.int64], Floats]] = []
    for edge, sign in ((begin, 1.0), (end, -1.0)):
        edge = np.clip(edge, 0, slices)
        place = np.minimum(edge.astype(np.int64), slices - 1)
        beyond = edge - place
        entries += [(place, sign * (1.0 - beyond)), (place + 1, sign * beyond)]
    return tuple(entries)


def slice_means(begin_us: Ints, end_us: Ints, weight: Floats, origin_us: int, span_us: int, slices: int) -> Floats:
    """The mean of the summed weights of the intervals that cover each of `slices` equal slices of the span."""
    width = span_us / slices
    changes = np.zeros(slices + 1)
    for place, amount in covered((begin_us - origin_us) / width, (end_us - origin_us) / width, slices):
        changes += np.bincount(place, weights=amount * weight, minlength=slices + 1)
    return np.cumsum(changes)[:slices]


def level(
    begin_us: Ints, end_us: Ints, weight: Floats, origin_us: int, span_us: int, slices: int | None = None
) -> Level:
    """The sum of weights in force over time; exact where that takes few steps, unless slices are asked for."""
    if slices is None and 2 * len(begin_us) <= EXACT_STEPS:
        moments, place = np.unique(np.concatenate((begin_us, end_us)), return_inverse=True)
        changes = np.bincount(place, weights=np.concatenate((weight, -weight)), minlength=len(moments))
        at = np.concatenate(([0.0], (moments - origin_us).astype(np.float64), [float(span_us)]))
        value = np.concatenate(([0.0], np.cumsum(changes), [0.0]))
        return Level(at, np.maximum(value, 0.0))
    count = slices or SLICES
    means = slice_means(begin_us, end_us, weight, origin_us, span_us, count)
    at = np.linspace(0, span_us, count + 1)
    return Level(at, np.maximum(np.append(means, means[-1]), 0.0))


def horizon(jobs: RanJobs) -> tuple[int, int]:
    """First submission, and the time from there to the last end (at least one microsecond)."""
    origin = int(jobs.submit_us.min())
    return origin, max(int(jobs.end_us.max()) - origin, 1)


def busy_level(run: RunTable, jobs: RanJobs, slices: int | None = None) -> Level:
    """Share of all cores in use, 0 to 1."""
    origin, span = horizon(jobs)
    weight = run.cores[jobs.row] / max(run.cluster_cores, 1)
    return level(jobs.start_us, jobs.end_us, weight, origin, span, slices)


def queue_level(run: RunTable, jobs: RanJobs, slices: int | None = None) -> Level:
    """Jobs submitted and not yet started."""
    origin, span = horizon(jobs)
    still = run.workload.submit_us[run.status == WAITING]
    still = still[still <= origin + span]
    begin = np.concatenate((jobs.submit_us, still))
    end = np.concatenate((jobs.start_us, np.full(len(still), origin + span)))
    return level(begin, end, np.ones(len(begin)), origin, span, slices)


def round_step(span_us: int) -> int:
    """The shortest round interval of which at most MOST_STEPS cover the span."""
    return next((step * SECOND for step in ROUND_S if span_us <= MOST_STEPS * step * SECOND), span_us // MOST_STEPS + 1)


def ended_level(jobs: RanJobs, step_us: int) -> Level:
    """How many jobs ended in each interval since the first submission."""
    origin, span = horizon(jobs)
    steps = span // step_us + 1
    found = np.bincount((jobs.end_us - origin) // step_us, minlength=steps)
    return Level(np.arange(steps + 1, dtype=np.float64) * step_us, np.append(found, found[-1]).astype(np.float64))


def shares_below(values: Floats, low: float, points: int = 300) -> tuple[Floats, Floats]:
    """The cumulative distribution on a logarithmic grid from `low` up: (x, share of values <= x)."""
    ordered = np.sort(values)
    top = max(float(ordered[-1]), low * 1.001)
    grid = np.geomspace(low, top, points)
    grid[-1] = top  # the last point must reach every value, whatever the rounding
    if len(ordered) <= points:
        grid = np.unique(np.concatenate(([low], ordered[ordered > low], [top])))
    return grid, np.searchsorted(ordered, grid, side="right") / len(ordered)


def pooled(runs: list[RunTable]) -> tuple[Floats, Floats]:
    """Waits and run times of all repeats of a policy together, in seconds."""
    jobs = [ran_jobs(run) for run in runs]
    return np.concatenate([part.wait_s for part in jobs]), np.concatenate([part.run_s for part in jobs])
