"""The numbers that describe one run, as they appear under "metrics" in summary.json.

Exact formulas, units and the paper each one comes from: docs/metrics.md. Everything is vectorised, and
nothing here may change a run. A value that has no meaning (no job ran, no user is known) is None, never NaN,
so that the JSON stays valid.

What counts: every mean, percentile and sum over jobs covers the jobs that ran, that is every row with a start
and an end, whether it was done, killed or failed. Jobs still waiting also count in the queue length. Rejected
and cancelled jobs that never started appear only in the counts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cohabit.model.records import NEVER, STATUS_NAMES, WAITING, RunTable
from cohabit.model.units import SECOND

if TYPE_CHECKING:
    from cohabit.report.variation import Norms

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Metric = float | None

LIVE = "live"  # the source of a workload whose stated run times are the measured ones
BOUND_S = 10.0  # a shorter run counts as this long in the bounded slowdown


@dataclass(frozen=True)
class RanJobs:
    """The jobs of a run that started and ended, in seconds where it says so; `row` points into the run."""

    row: Ints
    submit_us: Ints
    start_us: Ints
    end_us: Ints
    wait_s: Floats  # S67: start - submit
    run_s: Floats  # S67: end - start
    turnaround_s: Floats  # S67: end - submit

    def __len__(self) -> int:
        return len(self.row)


def ran_rows(run: RunTable) -> Ints:
    """Rows of the jobs that started and ended."""
    return np.flatnonzero((run.start_us != NEVER) & (run.end_us != NEVER)).astype(np.int64)


def ran_jobs(run: RunTable) -> RanJobs:
    """Return the times from which all other metrics are computed."""
    row = ran_rows(run)
    if len(row) == len(run):
        submit_us, start_us, end_us = run.workload.submit_us, run.start_us, run.end_us
    else:
        submit_us, start_us, end_us = run.workload.submit_us[row], run.start_us[row], run.end_us[row]
    return RanJobs(
        row,
        submit_us,
        start_us,
        end_us,
        wait_s=(start_us - submit_us) / SECOND,
        run_s=(end_us - start_us) / SECOND,
        turnaround_s=(end_us - submit_us) / SECOND,
    )


def slowdown(wait_s: Floats, run_s: Floats) -> Floats:
    """C17: (wait + run) / run of every job that ran for some time; a run time of zero has none and is left out."""
    lasting = run_s > 0
    if not lasting.all():
        wait_s, run_s = wait_s[lasting], run_s[lasting]
    return (wait_s + run_s) / run_s


def bounded_slowdown(wait_s: Floats, run_s: Floats, bound_s: float = BOUND_S) -> Floats:
    """max(1, (wait + run) / max(run, bound)): defined for every job, also one of zero length."""
    return np.maximum((wait_s + run_s) / np.maximum(run_s, bound_s), 1.0)


def span_us(jobs: RanJobs) -> int:
    """From the first submission to the last end, over the jobs that ran; 0 if none did."""
    return int(jobs.end_us.max()) - int(jobs.submit_us.min()) if len(jobs) else 0


def busy_core_seconds(run: RunTable, jobs: RanJobs) -> float:
    """Cores occupied times seconds, summed over the jobs that ran."""
    return float((run.cores[jobs.row] * jobs.run_s).sum())


def user_slowdowns(run: RunTable, jobs: RanJobs, per_job: Floats) -> Floats:
    """Each known user's mean of a per-job slowdown (NaN: not known), for the users with at least one job that ran."""
    user = run.workload.user[jobs.row]
    known = (user >= 0) & ~np.isnan(per_job)
    if not known.any():
        return np.empty(0)
    if not known.all():
        user, per_job = user[known], per_job[known]
    count = np.bincount(user)
    total = np.bincount(user, weights=per_job)
    return np.asarray(total[count > 0] / count[count > 0], dtype=np.float64)


def jain_fairness(values: Floats) -> Metric:
    """(sum x)^2 / (n sum x^2): 1 when all are equal, 1/n when one has everything; None without values."""
    squares = float((values * values).sum())
    return float(values.sum()) ** 2 / (len(values) * squares) if squares > 0 else None


def mean(values: Floats) -> Metric:
    """Return the mean, or None without values."""
    return float(values.mean()) if len(values) else None


def _top(values: Floats) -> Metric:
    return float(values.max()) if len(values) else None


def _waits(jobs: RanJobs) -> dict[str, Metric]:
    names = ("median_wait_s", "p95_wait_s", "p99_wait_s")
    marks = np.percentile(jobs.wait_s, (50, 95, 99)) if len(jobs) else (None, None, None)
    named = {name: None if mark is None else float(mark) for name, mark in zip(names, marks, strict=True)}
    return {"mean_wait_s": mean(jobs.wait_s), **named, "max_wait_s": _top(jobs.wait_s)}


def _slowdowns(run: RunTable, jobs: RanJobs) -> dict[str, Metric]:
    bounded = bounded_slowdown(jobs.wait_s, jobs.run_s)
    by_user = user_slowdowns(run, jobs, bounded)
    return {
        "mean_slowdown": mean(slowdown(jobs.wait_s, jobs.run_s)),
        "mean_bounded_slowdown": mean(bounded),
        "p95_bounded_slowdown": float(np.percentile(bounded, 95)) if len(bounded) else None,
        "user_mean_slowdown": mean(by_user),
        "user_max_slowdown": _top(by_user),
        "user_fairness": jain_fairness(by_user),
    }


def _machine(run: RunTable, jobs: RanJobs) -> dict[str, Metric]:
    span_s = span_us(jobs) / SECOND
    core_seconds = busy_core_seconds(run, jobs)
    offered = run.cluster_cores * span_s
    turnaround = mean(jobs.turnaround_s)
    return {
        "utilisation": core_seconds / offered if offered > 0 else None,
        "makespan_s": span_s if len(jobs) else None,
        "throughput_per_s": 1.0 / turnaround if turnaround else None,
        "jobs_per_hour": len(jobs) / span_s * 3600 if span_s > 0 else None,
        "node_hours": float((run.nodes[jobs.row] * jobs.run_s).sum()) / 3600,
        "core_hours": core_seconds / 3600,
    }


def _queue(run: RunTable, jobs: RanJobs) -> dict[str, Metric]:
    """Jobs submitted and not yet started, from first submission to last end; a job that starts at once never queues."""
    span = span_us(jobs)
    if span == 0:
        return {"mean_queue_length": None, "max_queue_length": None}
    waiting = run.workload.submit_us[run.status == WAITING]
    end = int(jobs.end_us.max())
    waited_us = float((jobs.start_us - jobs.submit_us).sum(dtype=np.float64))
    still_us = float(np.clip(end - waiting, 0, span).sum(dtype=np.float64))
    arrivals = np.sort(np.concatenate((jobs.submit_us, waiting[waiting <= end])), kind="stable")  # mostly sorted
    leavings = np.sort(jobs.start_us)
    last_of_instant = np.flatnonzero(np.append(arrivals[1:] != arrivals[:-1], True))
    gone = np.searchsorted(leavings, arrivals[last_of_instant], side="right")
    return {
        "mean_queue_length": (waited_us + still_us) / span,
        "max_queue_length": int((last_of_instant + 1 - gone).max()),
    }


def _counts(run: RunTable, jobs: RanJobs) -> dict[str, Metric]:
    by_status = np.bincount(run.status, minlength=len(STATUS_NAMES))
    named = {f"jobs_{name}": int(count) for name, count in zip(STATUS_NAMES, by_status, strict=True)}
    user = run.workload.user[jobs.row]
    users = int(np.count_nonzero(np.bincount(user[user >= 0]))) if len(user) else 0
    return {"jobs_total": len(run), "jobs_ran": len(jobs), **named, "users": users}


def summarise(run: RunTable, norms: Norms | None = None) -> dict[str, Metric]:
    """Every metric of one run by name, ready for summary.json; None where a value has no meaning.

    Runs vary against `norms`; None: against the mean of this run itself.
    """
    from cohabit.report.against_alone import metrics_against_alone
    from cohabit.report.variation import variation_metrics

    jobs = ran_jobs(run)
    return {
        **_waits(jobs),
        "mean_run_s": mean(jobs.run_s),
        "mean_turnaround_s": mean(jobs.turnaround_s),
        **_slowdowns(run, jobs),
        **metrics_against_alone(run, jobs),
        **_machine(run, jobs),
        **_queue(run, jobs),
        **variation_metrics(run, norms),
        **_counts(run, jobs),
    }


def node_seconds(run: RunTable) -> float:
    """S69: for every node the time during which at least one job had it, summed over nodes.

    Without node lists it is the sum of nodes x run time, which is the same wherever nodes are not shared.
    """
    jobs = ran_jobs(run)
    ranges = run.node_ranges
    if ranges is None:
        return float((run.nodes[jobs.row] * jobs.run_s).sum())
    owner = np.repeat(np.arange(len(run)), np.diff(ranges.offsets))
    ran = np.isin(owner, jobs.row)
    owner, first, count = owner[ran], ranges.first[ran].astype(np.int64), ranges.count[ran].astype(np.int64)
    owner_of_node = np.repeat(owner, count)
    within = np.arange(len(owner_of_node)) - np.repeat(np.cumsum(count) - count, count)
    node = np.repeat(first, count) + within
    start_us, end_us = run.start_us[owner_of_node], run.end_us[owner_of_node]
    order = np.lexsort((start_us, node))
    node, start_us, end_us = node[order], start_us[order], end_us[order]
    return _covered_us(node, start_us, end_us) / SECOND


def _covered_us(node: Ints, start_us: Ints, end_us: Ints) -> float:
    """Length of the union of intervals, per node, summed; rows are sorted by node, then start."""
    borders = np.flatnonzero(np.diff(node)) + 1
    total = 0
    for start, end in zip(np.split(start_us, borders), np.split(end_us, borders), strict=True):
        if len(start):
            seen = np.maximum.accumulate(end)
            before = np.concatenate((start[:1], seen[:-1]))
            total += int(np.maximum(end - np.maximum(start, before), 0).sum())
    return float(total)
