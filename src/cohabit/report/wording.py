"""Numbers formatted for readers, and what each metric means in one plain sentence.

`GLOSSARY` must name every key of `metrics.summarise`; a test compares the two.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from cohabit.model.units import duration
from cohabit.report.metrics import Metric

MISSING = "\u2013"
_UNITS = (("s", 1.0), ("min", 60.0), ("h", 3600.0), ("days", 86400.0))
LOG_TICKS_S = tuple(
    (at, duration(at)) for at in (1, 10, 60, 600, 3600, 21600, 86400, 7 * 86400, 30 * 86400, 365 * 86400)
)


@dataclass(frozen=True)
class Entry:
    """The name, format and explanation of a metric; `better` is "lower", "higher" or nothing."""

    label: str
    kind: str  # duration, number, share, count, hours, per_hour
    meaning: str
    better: str = ""


GLOSSARY = {
    "mean_turnaround_s": Entry("Mean turnaround", "duration", "From submission to end: wait plus run time.", "lower"),
    "mean_wait_s": Entry("Mean wait", "duration", "From submission to start, mean over the jobs that ran.", "lower"),
    "median_wait_s": Entry("Median wait", "duration", "Half of the jobs waited no longer than this.", "lower"),
    "p95_wait_s": Entry("95th percentile wait", "duration", "19 of 20 jobs waited no longer than this.", "lower"),
    "p99_wait_s": Entry("99th percentile wait", "duration", "99 of 100 jobs waited no longer than this.", "lower"),
    "max_wait_s": Entry("Longest wait", "duration", "The job that waited longest.", "lower"),
    "mean_run_s": Entry("Mean run time", "duration", "From start to end, averaged over the jobs that ran."),
    "mean_slowdown_alone": Entry(
        "Slowdown against alone", "number",
        "Turnaround divided by the run time alone, both at least 10 s: it counts waiting and neighbours. It is below 1 "
        "where jobs gain more by running on more nodes than they lose.", "lower",
    ),
    "user_max_slowdown_alone": Entry(
        "Slowdown against alone, worst user", "number", "The mean slowdown against alone of the worst served user.",
        "lower",
    ),
    "user_fairness_alone": Entry(
        "Fairness against alone", "number",
        "Jain's index of the users' slowdowns against alone: 1 if all fare the same.", "higher",
    ),
    "run_against_alone": Entry(
        "Run time against alone", "number",
        "Run time divided by the run time alone, geometric mean: above 1 neighbours slow jobs down.", "lower",
    ),
    "jobs_below_promise": Entry(
        "Jobs below their promise", "count",
        "Jobs that ran longer than 1 + (1 - alpha) times their time alone: 1.1 times at an alpha of 0.9.", "lower",
    ),
    "jobs_alone_known": Entry("Time alone known", "count", "Jobs that ran, and of which the time alone is known."),
    "utilisation": Entry(
        "Utilisation", "share",
        "Core-seconds in use out of all the machine offered, first submission to last end. Slowed runs raise it, too.",
    ),
    "makespan_s": Entry("Makespan", "duration", "From the first submission to the last end.", "lower"),
    "throughput_per_s": Entry("Throughput", "per_hour", "One divided by the mean turnaround.", "higher"),
    "jobs_per_hour": Entry("Jobs per hour", "number", "Jobs that ran, divided by the makespan.", "higher"),
    "node_hours_occupied": Entry(
        "Node-hours occupied", "hours", "Time in which a node had at least one job: a shared node counts once.", "lower"
    ),
    "node_hours": Entry(
        "Node-hours", "hours", "Nodes times run time, summed over jobs: a shared node counts for each of them."
    ),
    "core_hours": Entry("Core-hours", "hours", "Cores times run time, summed over jobs."),
    "mean_queue_length": Entry(
        "Mean queue length", "number", "Jobs submitted and not yet started, averaged over time.", "lower"
    ),
    "max_queue_length": Entry("Longest queue", "count", "The largest number of jobs waiting at one instant.", "lower"),
    "varying_runs": Entry(
        "Varying runs", "count",
        "Runs that took longer than the mean of their program by more than 1.5 deviations; beside other policies, mean "
        "and deviation are those of the first.", "lower",
    ),
    "run_variation": Entry(
        "Variation of run times", "share", "Deviation divided by mean of each program's runs, mean over programs.",
        "lower",
    ),
    "longest_run_ratio": Entry(
        "Longest run against the mean", "number", "Of the program where that is largest.",
        "lower",
    ),
    # over the run time as it was: better where neighbours slow jobs down, so no run is called better by them
    "mean_slowdown": Entry(
        "Mean slowdown", "number",
        "Turnaround divided by the run time as it was: 1 means no waiting. It looks better where neighbours slow jobs "
        "down. Short jobs dominate it; jobs of no length are left out."
    ),
    "mean_bounded_slowdown": Entry(
        "Mean bounded slowdown", "number",
        "Turnaround divided by the run time as it was, which counts as at least 10 s; at least 1."
    ),
    "p95_bounded_slowdown": Entry(
        "95th percentile bounded slowdown", "number", "19 of 20 jobs were slowed down no more than this."
    ),
    "user_mean_slowdown": Entry(
        "Slowdown per user, mean", "number", "Bounded slowdown averaged within each user, then over users."
    ),
    "user_max_slowdown": Entry(
        "Slowdown per user, worst", "number", "The mean bounded slowdown of the worst served user."
    ),
    "user_fairness": Entry(
        "Fairness between users", "number",
        "Jain's index of the users' slowdowns: 1 if all fare the same, near 0 if a few bear everything."
    ),
    "jobs_total": Entry("Jobs in the input", "count", "Every row of the workload, run or not."),
    "jobs_ran": Entry("Jobs that ran", "count", "Jobs that started and ended: done, killed or failed."),
    "jobs_waiting": Entry("Still waiting", "count", "Jobs the run ended without starting."),
    "jobs_done": Entry("Done", "count", "Jobs that ran to their own end."),
    "jobs_killed": Entry("Killed", "count", "Jobs cut at the time they had asked for."),
    "jobs_failed": Entry("Failed", "count", "Jobs that ended badly, for example with their node."),
    "jobs_cancelled": Entry("Cancelled", "count", "Jobs withdrawn before they ended."),
    "jobs_rejected": Entry("Rejected", "count", "Jobs that could never run: no size, no run time, or too large."),
    "users": Entry("Users", "count", "Users with at least one job that ran."),
}  # fmt: skip


def significant(value: float, digits: int = 3) -> str:
    """A few significant digits, thousands separated, never in scientific notation for everyday sizes."""
    if value == 0 or not math.isfinite(value):
        return f"{value:g}"
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, decimals):,.{min(max(decimals, 0), 9)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def shown(kind: str, value: Metric) -> str:
    """A metric's value as text."""
    if value is None:
        return MISSING
    if kind == "duration":
        return duration(value)
    if kind == "share":
        return f"{round(100 * value, 1) + 0.0:.1f} %"  # never -0.0
    if kind == "count":
        return f"{int(value):,}" if float(value).is_integer() else f"{value:,.1f}"
    if kind == "per_hour":
        return f"{significant(3600 * value)} per h"
    if kind == "hours":
        return f"{value:,.0f}" if value >= 1000 else significant(value)
    return significant(value, 4)


def shown_range(kind: str, low: float, high: float) -> str:
    """Two values as one range, with their unit once where it is the same."""
    left, right = shown(kind, low), shown(kind, high)
    number, _, unit = left.partition(" ")
    same = unit and right.partition(" ")[2] == unit and " " not in unit
    return f"{number} to {right}" if same else f"{left} to {right}"


def shown_ratio(ratio: float) -> str:
    """A ratio such as 0.85 or 0.012."""
    return f"{ratio:.2f}" if ratio >= 0.1 or ratio == 0 else significant(ratio, 2)


def unbroken(sentence: str) -> str:
    """The sentence with numbers and their units kept on one line."""
    kept = r"(?<=\d) (?=(?:%|s|min|h|d|jobs?|nodes?|cores)\b|%)|(?<=\d (?:h|d)) (?=\d)|(?<=\d min) (?=\d)"
    return re.sub(kept, "\u00a0", sentence)


def time_unit(span_s: float) -> tuple[str, float]:
    """The unit, and its seconds, that gives an axis over this span everyday numbers."""
    chosen = _UNITS[0]
    for unit in _UNITS:
        if span_s >= 3 * unit[1]:
            chosen = unit
    return chosen


def jobs_of(count: int) -> str:
    """1 job, 2 jobs, 3,000 jobs."""
    return f"{count:,} job" if count == 1 else f"{count:,} jobs"
