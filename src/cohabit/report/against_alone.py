"""Slowdown against the time alone: what a job lost by waiting and by its neighbours together.

Slowdown over the run time as it was (metrics.py) gets better where neighbours make runs longer. Here the run time of
the same job alone on its nodes is the measure, where it is known: in a simulation it is the run time that the workload
states; live it follows from the measured slowdown. docs/metrics.md defines every number.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from cohabit.model.records import DONE, RunTable
from cohabit.model.units import SECOND
from cohabit.report.metrics import (
    BOUND_S,
    LIVE,
    Floats,
    Metric,
    RanJobs,
    bounded_slowdown,
    jain_fairness,
    mean,
    node_seconds,
    ran_jobs,
    user_slowdowns,
)
from cohabit.report.paper_metrics import geometric_mean

USUAL_ALPHA = 0.9  # the share of its speed alone that a job keeps unless job or site say otherwise


def alone_s(run: RunTable, jobs: RanJobs) -> Floats:
    """Return the run time alone of each job that ran; NaN where it is not known.

    A run that was cut counts as at most as long alone as it was: how long it would have been is not known.
    """
    if run.workload.source == LIVE:
        measured = None if run.slowdowns is None else run.slowdowns.measured[jobs.row]
        return np.full(len(jobs), np.nan) if measured is None else np.asarray(jobs.run_s / measured, np.float64)
    stated_s = (run.workload.run_us[jobs.row] + run.canary_us) / SECOND
    whole = run.status[jobs.row] == DONE
    return np.asarray(np.where(whole, stated_s, np.minimum(stated_s, jobs.run_s)), np.float64)


def slowdowns(run: RunTable, jobs: RanJobs) -> Floats:
    """Return turnaround over the time alone, both at least 10 s; NaN where the time alone is not known.

    Below 1 a job was back sooner than alone on the fewest nodes: it ran on more of them.
    """
    return np.asarray(np.maximum(jobs.turnaround_s, BOUND_S) / np.maximum(alone_s(run, jobs), BOUND_S), np.float64)


def job_slowdowns(run: RunTable, jobs: RanJobs, alone: bool) -> Floats:
    """Return the slowdown of every job: against the time alone, or bounded over the run time as it was."""
    return slowdowns(run, jobs) if alone else bounded_slowdown(jobs.wait_s, jobs.run_s)


def promises(run: RunTable, jobs: RanJobs) -> Floats:
    """Return the alpha of each job: its own, else the site's, else 0.9."""
    policy = run.settings.get("policy")
    site = (policy.get("alpha") if isinstance(policy, dict) else None) or USUAL_ALPHA
    own = run.workload.extra.get("alpha")
    if own is None:
        return np.full(len(jobs), float(site))
    stated = np.asarray(own[jobs.row], np.float64)
    return np.where(np.isfinite(stated) & (stated > 0), stated, float(site))


def run_ratios(run: RunTable, jobs: RanJobs) -> Floats:
    """Return run time over the time alone; NaN where that is not known, 1 where it is zero."""
    alone = alone_s(run, jobs)
    return np.divide(jobs.run_s, alone, out=np.where(np.isnan(alone), np.nan, 1.0), where=alone > 0)


def slowed(run: RunTable) -> bool:
    """Return whether run times differ from those alone: in a plain replay of a log they cannot."""
    ratio = run_ratios(run, ran_jobs(run))
    return bool((np.abs(ratio[~np.isnan(ratio)] - 1.0) > 1e-6).any())


def known_of_all(runs: Iterable[RunTable]) -> bool:
    """Return whether the time alone of every job that ran is known."""
    return not any(np.isnan(alone_s(run, ran_jobs(run))).any() for run in runs)


def metrics_against_alone(run: RunTable, jobs: RanJobs) -> dict[str, Metric]:
    """Return the metrics that need the time alone; None where it is known of no job."""
    ratio, per_job = run_ratios(run, jobs), slowdowns(run, jobs)
    known = ~np.isnan(ratio)
    count, may_share = int(known.sum()), run.shares is not None or run.workload.source == LIVE
    by_user = user_slowdowns(run, jobs, per_job)
    return {
        "mean_slowdown_alone": mean(per_job[known]),
        "user_max_slowdown_alone": float(by_user.max()) if len(by_user) else None,
        "user_fairness_alone": jain_fairness(by_user),
        "run_against_alone": geometric_mean(ratio[known]),
        "jobs_below_promise": int((ratio[known] > 2.0 - promises(run, jobs)[known]).sum()) if count else None,
        "jobs_alone_known": count,
        "node_hours_occupied": (node_seconds(run) if may_share else float((run.nodes[jobs.row] * jobs.run_s).sum()))
        / 3600,
    }
