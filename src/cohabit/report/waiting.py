"""Why jobs waited, over time: of the jobs in the queue, how many needed more than was free, and how many did not.

Found from the table of the run alone, at equally spaced instants, so it says what a reader could count; `cohabit why`
replays the run and gives the scheduler's own reason for one job.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cohabit.model.records import NEVER, RunTable
from cohabit.model.units import SECOND
from cohabit.report.figures import Figure, colour, layout, packed
from cohabit.report.metrics import RanJobs, ran_jobs
from cohabit.report.series import horizon
from cohabit.report.wording import time_unit

Ints = NDArray[np.int64]
INSTANTS, FEW_INSTANTS = 240, 60
MANY_JOBS = 200_000  # of more, fewer instants are looked at
OTHER_JOB, TOO_FEW, ENOUGH = 0, 1, 2


def causes(run: RunTable) -> tuple[Ints, dict[str, Ints]]:
    """Return instants, and for each cause how many jobs waited for it then; causes that never occur are left out."""
    jobs = ran_jobs(run)
    origin, span = horizon(jobs)
    count = FEW_INSTANTS if len(jobs) > MANY_JOBS else INSTANTS
    at = origin + (np.arange(count, dtype=np.int64) * 2 + 1) * span // (2 * count)
    shared = run.shares is not None
    need = (run.cores if shared else run.nodes)[jobs.row].astype(np.int64)
    free = (run.cluster_cores if shared else run.cluster_nodes) - _in_force(jobs.start_us, jobs.end_us, need, at)
    ready = _ready_us(run, jobs)
    found = np.zeros((3, count), np.int64)
    for place, now in enumerate(at.tolist()):
        waits = (jobs.submit_us <= now) & (now < jobs.start_us)
        early = waits & (now < ready)
        too_large = waits & ~early & (need > free[place])
        found[:, place] = early.sum(), too_large.sum(), (waits & ~early & ~too_large).sum()
    unit = "cores" if shared else "nodes"
    names = {
        OTHER_JOB: "waits for another job to end, or for its begin time",
        TOO_FEW: f"needs more {unit} than are free",
        ENOUGH: f"enough {unit} are free, but others go first or a rule keeps it back",
    }
    return at - origin, {name: found[code] for code, name in names.items() if found[code].any()}


def _in_force(start_us: Ints, end_us: Ints, weight: Ints, at: Ints) -> Ints:
    """The sum of the weights of the intervals that hold each instant."""

    def until(moments: Ints) -> Ints:
        order = np.argsort(moments, kind="stable")
        total = np.concatenate(([0], np.cumsum(weight[order])))
        return np.asarray(total[np.searchsorted(moments[order], at, side="right")], np.int64)

    return until(start_us) - until(end_us)


def _ready_us(run: RunTable, jobs: RanJobs) -> Ints:
    """From when on a job waits for no other job, and may begin."""
    begin, after = run.workload.extra.get("begin_after_us"), run.workload.after
    ready = jobs.submit_us + (0 if begin is None else np.maximum(begin[jobs.row], 0))
    if after is None:
        return ready
    ends = dict(zip(run.workload.job_id.astype(str).tolist(), run.end_us.tolist(), strict=True))
    for place, row in enumerate(jobs.row.tolist()):
        known = [end for one in after[row] if (end := ends.get(str(one), NEVER)) != NEVER]
        ready[place] = max([int(ready[place]), *known])
    return ready


def cause_figures(runs: Mapping[str, RunTable]) -> dict[str, Figure]:
    """One stacked picture for each run in which jobs waited."""
    found = {name: causes(run) for name, run in runs.items() if len(ran_jobs(run))}
    return {name: _figure(at, counts) for name, (at, counts) in found.items() if counts}


def _figure(at: Ints, counts: Mapping[str, Ints]) -> Figure:
    unit, size = time_unit(float(at[-1] + at[0]) / SECOND)
    traces = [
        {
            "type": "scatter",
            "mode": "lines",
            "name": name,
            "x": packed(at / SECOND / size),
            "y": packed(values.astype(np.float64)),
            "stackgroup": "jobs",
            "line": {"width": 0.5, "shape": "hvh", "color": colour(number)},
            "fillcolor": colour(number),
            "hovertemplate": f"%{{x:.2f}} {unit}<br>%{{y:,.0f}} jobs: {name}<extra></extra>",
        }
        for number, (name, values) in enumerate(counts.items())
    ]
    plan = layout(
        320,
        f"time since the first submission ({unit})",
        "jobs waiting",
        showlegend=True,
        xaxis={"range": [0, float(at[-1] + at[0]) / SECOND / size]},
        yaxis={"rangemode": "tozero", "tickformat": ",~r"},
    )
    return {"data": traces, "layout": plan}
