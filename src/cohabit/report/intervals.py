"""Uncertainty of a comparison: bootstrap confidence intervals over repeats, and policies beside each other.

Repeats are runs of one policy with different seeds. The i-th repeat of every policy is expected to see the same
jobs, so ratios are bootstrapped in pairs where the numbers of repeats agree. With one repeat there is nothing
to resample: low and high are None.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cohabit.model.records import RunTable
from cohabit.report.metrics import Metric, summarise
from cohabit.report.variation import first_policy_norms

CONFIDENCE = 0.95
RESAMPLES = 2000
COMPARED = (
    "mean_turnaround_s", "mean_slowdown_alone", "run_against_alone", "jobs_below_promise", "mean_wait_s",
    "median_wait_s", "p95_wait_s", "max_wait_s", "user_max_slowdown_alone", "user_fairness_alone", "utilisation",
    "node_hours_occupied", "makespan_s", "throughput_per_s", "mean_queue_length", "varying_runs", "run_variation",
    "longest_run_ratio", "mean_bounded_slowdown", "user_max_slowdown", "user_fairness", "node_hours", "jobs_ran",
)  # fmt: skip


@dataclass(frozen=True)
class Interval:
    """The mean over repeats and its confidence interval."""

    mean: Metric
    low: Metric
    high: Metric
    repeats: int


@dataclass(frozen=True)
class Cell:
    """One metric of one policy, and its ratio to the first policy (None where that is zero or unknown)."""

    value: Interval
    ratio: Interval


@dataclass(frozen=True)
class Comparison:
    """Policies x metrics; the first policy is the one the others are measured against."""

    policies: tuple[str, ...]
    metrics: tuple[str, ...]
    cells: Mapping[tuple[str, str], Cell]  # keyed by (policy, metric)

    def rows(self) -> list[dict[str, str | Metric]]:
        """The table as plain data, one row per policy and metric, for JSON and CSV."""
        return [
            {
                "policy": policy,
                "metric": metric,
                "repeats": cell.value.repeats,
                "mean": cell.value.mean,
                "low": cell.value.low,
                "high": cell.value.high,
                "ratio": cell.ratio.mean,
                "ratio_low": cell.ratio.low,
                "ratio_high": cell.ratio.high,
            }
            for policy in self.policies
            for metric in self.metrics
            for cell in (self.cells[policy, metric],)
        ]


def _draws(repeats: int, rng: np.random.Generator) -> NDArray[np.int64]:
    return rng.integers(0, repeats, (RESAMPLES, repeats))


def _interval(mean: float, means: NDArray[np.float64], repeats: int) -> Interval:
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(means, (tail, 1 - tail))
    return Interval(mean, float(low), float(high), repeats)


def bootstrap_interval(values: Iterable[Metric], rng: np.random.Generator) -> Interval:
    """Percentile bootstrap of the mean; repeats without a value are left out."""
    known = np.array([value for value in values if value is not None], dtype=np.float64)
    if not len(known):
        return Interval(None, None, None, 0)
    mean = float(known.mean())
    if len(known) == 1:
        return Interval(mean, None, None, 1)
    return _interval(mean, known[_draws(len(known), rng)].mean(axis=1), len(known))


def ratio_interval(values: Sequence[Metric], baseline: Sequence[Metric], rng: np.random.Generator) -> Interval:
    """mean(values) / mean(baseline), resampled in pairs when both have the same number of repeats."""
    ours = np.array([np.nan if value is None else value for value in values], dtype=np.float64)
    theirs = np.array([np.nan if value is None else value for value in baseline], dtype=np.float64)
    unknown = not len(ours) or not len(theirs) or bool(np.isnan(ours).any() or np.isnan(theirs).any())
    if unknown or theirs.mean() == 0:
        return Interval(None, None, None, 0)
    ratio = float(ours.mean() / theirs.mean())
    if len(ours) == 1 or len(theirs) == 1:
        return Interval(ratio, None, None, 1)
    drawn = _draws(len(ours), rng)
    drawn_of_baseline = drawn if len(ours) == len(theirs) else _draws(len(theirs), rng)
    bottoms = theirs[drawn_of_baseline].mean(axis=1)
    ratios = ours[drawn].mean(axis=1)[bottoms != 0] / bottoms[bottoms != 0]
    return _interval(ratio, ratios, len(ours))


def compare(
    summaries: Mapping[str, Sequence[Mapping[str, Metric]]],
    rng: np.random.Generator,
    metrics: Sequence[str] = COMPARED,
) -> Comparison:
    """Policies (name -> one summary per repeat) against the first of them, metric by metric."""
    policies = tuple(summaries)
    cells: dict[tuple[str, str], Cell] = {}
    for metric in metrics:
        baseline = [summary.get(metric) for summary in summaries[policies[0]]] if policies else []
        for policy in policies:
            values = [summary.get(metric) for summary in summaries[policy]]
            cells[policy, metric] = Cell(bootstrap_interval(values, rng), ratio_interval(values, baseline, rng))
    return Comparison(policies, tuple(metrics), cells)


def by_policy(runs: Sequence[RunTable]) -> dict[str, list[RunTable]]:
    """Runs grouped by policy name, in the order they first appear; the repeats of a policy share its name."""
    groups: dict[str, list[RunTable]] = {}
    for run in runs:
        groups.setdefault(run.policy, []).append(run)
    return groups


def compare_runs(runs: Sequence[RunTable], rng: np.random.Generator) -> Comparison:
    """Compare runs that are in memory."""
    norms = first_policy_norms(runs)
    return compare({policy: [summarise(run, norms) for run in group] for policy, group in by_policy(runs).items()}, rng)
