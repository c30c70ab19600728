"""The metrics the five papers report, one pure function each, named after the requirement that defines it.

They take plain arrays, so that reproductions can feed them from any source. Times are in seconds unless the
name says otherwise. Arithmetic means are for seconds, geometric means for ratios (S65). An empty input gives
None, never NaN. docs/metrics.md gives every formula in words.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from cohabit.report.metrics import Metric, mean, slowdown

Floats = NDArray[np.float64]


def _floats(values: ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


def wait_s(submit_s: ArrayLike, start_s: ArrayLike) -> Floats:
    """S67, C16: start - submit."""
    return _floats(start_s) - _floats(submit_s)


def run_s(start_s: ArrayLike, end_s: ArrayLike) -> Floats:
    """S67: end - start."""
    return _floats(end_s) - _floats(start_s)


def turnaround_s(submit_s: ArrayLike, end_s: ArrayLike) -> Floats:
    """S67: end - submit."""
    return _floats(end_s) - _floats(submit_s)


def throughput_per_s(turnarounds_s: ArrayLike) -> Metric:
    """S64: 1 / mean time from submission to finish, over all jobs of a sequence."""
    seconds = mean(_floats(turnarounds_s))
    return 1.0 / seconds if seconds else None


def normalised_run_time(policy_run_s: ArrayLike, exclusive_run_s: ArrayLike) -> Floats:
    """S65: T_policy / T_CE, job by job; a job whose exclusive time is zero counts as unchanged (1)."""
    ours, alone = _floats(policy_run_s), _floats(exclusive_run_s)
    return np.divide(ours, alone, out=np.ones_like(ours), where=alone > 0)


def geometric_mean(ratios: ArrayLike) -> Metric:
    """S65: the mean to use for ratios; 0 as soon as one of them is 0."""
    values = _floats(ratios)
    if not len(values):
        return None
    if (values <= 0).any():
        return 0.0
    return float(np.exp(np.log(values).mean()))


def scaling_ratio(core_hours: ArrayLike, is_scaling: ArrayLike) -> Metric:
    """S66: core-hours of the scaling jobs / core-hours of all jobs, both as they are under CE."""
    hours, scaling = _floats(core_hours), np.asarray(is_scaling, dtype=bool)
    total = float(hours.sum())
    return float(hours[scaling].sum()) / total if total > 0 else None


def alpha_violations(policy_run_s: ArrayLike, exclusive_run_s: ArrayLike, alpha: float = 0.9) -> NDArray[np.bool_]:
    """S68: which jobs ran longer than their promise allows: T / T_CE > 1 + (1 - alpha), so 1.1 at alpha 0.9.

    The paper counts against 1.1 and not against 1 / 0.9 = 1.111; the same rule is kept for every alpha.
    """
    return normalised_run_time(policy_run_s, exclusive_run_s) > 2.0 - alpha


def bandwidth_imbalance(episode_gbs: ArrayLike, peak_gbs: float | None = None) -> Metric:
    """S69: standard deviation / peak over all node-episodes (nodes x time slices, any shape).

    The peak is the largest episode unless the machine's own peak is given; the deviation is of the population.
    """
    cells = _floats(episode_gbs).ravel()
    if not len(cells):
        return None
    peak = float(cells.max()) if peak_gbs is None else peak_gbs
    return float(cells.std()) / peak if peak > 0 else None


def mean_wait_minutes(submit_s: ArrayLike, start_s: ArrayLike) -> Metric:
    """C16: mean of start - submit over all jobs of a machine, in minutes."""
    seconds = mean(wait_s(submit_s, start_s))
    return None if seconds is None else seconds / 60


def mean_slowdown(waits_s: ArrayLike, runs_s: ArrayLike, bound_s: float = 0.0) -> Metric:
    """C17: mean of (wait + run) / run. With a bound, as in Cobalt's own analysis, both terms are at least that long."""
    waits, runs = _floats(waits_s), _floats(runs_s)
    if bound_s > 0:
        return mean(np.maximum(waits + runs, bound_s) / np.maximum(runs, bound_s))
    return mean(slowdown(waits, runs))


def sync_time_minutes(first_ready_s: ArrayLike, start_s: ArrayLike) -> Metric:
    """C18: mean of start - first ready over paired jobs, in minutes; 0 when there are no pairs (C53).

    First ready is when the job first held or yielded; a job whose mate was never missing has it equal to its
    start, or NaN, and counts as 0.
    """
    extra = _floats(start_s) - _floats(first_ready_s)
    return float(np.nan_to_num(extra, nan=0.0).mean()) / 60 if len(extra) else 0.0


def service_unit_loss_node_hours(held_nodes: ArrayLike, held_s: ArrayLike) -> float:
    """C19: node-hours of nodes held idle for a mate, on the machine that holds them; 0 when nothing was held."""
    return float((_floats(held_nodes) * _floats(held_s)).sum()) / 3600


def service_unit_loss_fraction(loss_node_hours: float, machine_nodes: int, span_s: float) -> Metric:
    """C19: the loss as a fraction of all node-hours of the span."""
    offered = machine_nodes * span_s / 3600
    return loss_node_hours / offered if offered > 0 else None


def makespan_s(submit_s: ArrayLike, end_s: ArrayLike) -> Metric:
    """R45: first submission to last end."""
    submits, ends = _floats(submit_s), _floats(end_s)
    return float(ends.max() - submits.min()) if len(submits) else None


def mean_queue_time_s(submit_s: ArrayLike, start_s: ArrayLike) -> Metric:
    """R45: mean time in the queue."""
    return mean(wait_s(submit_s, start_s))


def run_deviation(run_time_s: ArrayLike, mean_s: ArrayLike, sigma_s: ArrayLike) -> Floats:
    """(run - mean) / sigma, each run against the frozen mean and sigma of its own application; 0 where sigma is 0.

    Mean and sigma come from the training window or the FCFS trials: taken from the run being judged, a scheduler
    that delays jobs would shrink sigma and hide the variation it causes.
    """
    distance, sigma = _floats(run_time_s) - _floats(mean_s), _floats(sigma_s)
    return np.divide(distance, sigma, out=np.zeros_like(distance), where=sigma > 0)


def varying_runs(deviation: ArrayLike, threshold: float = 1.5) -> NDArray[np.bool_]:
    """R32, R45: the runs that experience variation: slower than their application's mean by more than 1.5 sigma."""
    return _floats(deviation) > threshold


def variation_by_application(applications: Sequence[str], deviation: ArrayLike) -> dict[str, float]:
    """R45: mean deviation, in sigmas, of the runs of each application."""
    values = _floats(deviation)
    names, index = np.unique(np.asarray(applications, dtype=str), return_inverse=True)
    totals = np.bincount(index, weights=values, minlength=len(names))
    counts = np.bincount(index, minlength=len(names))
    return {str(name): float(total / count) for name, total, count in zip(names, totals, counts, strict=True)}


def weighted_speedup(ipc: ArrayLike, ipc_alone: ArrayLike) -> float:
    """P7: sum of IPC / IPC alone (whole cache, unloaded memory, one node); reported relative to a baseline scheme."""
    return float((_floats(ipc) / _floats(ipc_alone)).sum())


def queue_makespan_s(start_s: ArrayLike, end_s: ArrayLike) -> Metric:
    """I34: start of the first to end of the last application of the queue."""
    starts, ends = _floats(start_s), _floats(end_s)
    return float(ends.max() - starts.min()) if len(starts) else None


def normalised_makespan(queue_makespan: float, fifo_makespan: float) -> Metric:
    """I34: the queue's makespan relative to FIFO on the same queue."""
    return queue_makespan / fifo_makespan if fifo_makespan > 0 else None
