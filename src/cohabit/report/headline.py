"""The opening sentences of a report: what ran, on what, and with what result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from cohabit.model.records import RunTable
from cohabit.model.units import duration
from cohabit.report.against_alone import slowed
from cohabit.report.intervals import Comparison
from cohabit.report.metrics import Metric
from cohabit.report.wording import jobs_of, shown

Summary = Mapping[str, Metric]


def _machine(run: RunTable) -> str:
    nodes = f"{run.cluster_nodes:,} node{'' if run.cluster_nodes == 1 else 's'}"
    return nodes if run.cluster_cores == run.cluster_nodes else f"{nodes} ({run.cluster_cores:,} cores)"


def _source(run: RunTable) -> str:
    source = run.workload.source
    if source.startswith("sequence of "):  # generated: `sequence of 20 jobs of A, B` (trace/mix.py)
        return f" of {source.partition(' jobs of ')[2]}"
    return f" from {source}" if source else ""


def _number(summary: Summary, key: str) -> float:
    return summary[key] or 0.0


def losses(run: RunTable, summary: Summary) -> str:
    """Return what went wrong, as one sentence, or nothing."""
    verbs = {
        "jobs_killed": "cut at the time asked for",
        "jobs_failed": "failed",
        "jobs_cancelled": "cancelled",
        "jobs_waiting": "still waiting when the run ended",
        "jobs_rejected": "rejected",
    }
    parts = [f"{int(_number(summary, key)):,} {verb}" for key, verb in verbs.items() if _number(summary, key)]
    if not parts:
        return ""
    given = run.reason[run.reason > 0]
    why = ""
    if len(given):
        why = f" The most frequent reason given: {run.reasons[int(np.bincount(given).argmax())]}."
    return f"Of all {jobs_of(len(run))}: {', '.join(parts)}.{why}"


def one_run(run: RunTable, summary: Summary) -> list[str]:
    """The sentences for a single run."""
    ran = int(_number(summary, "jobs_ran"))
    if not ran:
        return [
            f"None of the {jobs_of(len(run))}{_source(run)} ran on {_machine(run)} under {run.policy}.",
            losses(run, summary),
        ]
    count = jobs_of(ran) if ran == len(run) else f"{ran:,} of {jobs_of(len(run))}"
    users = int(_number(summary, "users"))
    people = f" of {users:,} users" if users > 1 else ""
    first = f"{count}{people}{_source(run)} ran on {_machine(run)} under {run.policy}."
    span = _number(summary, "makespan_s")
    busy = shown("share", summary["utilisation"])
    second = f"In {duration(span)} from first submission to last end, {busy} of the cores were in use."
    if not summary["max_wait_s"]:
        third = "No job had to wait."
    else:
        median = _number(summary, "median_wait_s")
        half = "At least half of the jobs started at once"
        if median:
            half = f"Half of the jobs waited no longer than {duration(median)}"
        longest = duration(_number(summary, "max_wait_s"))
        third = f"{half}; the mean wait was {duration(_number(summary, 'mean_wait_s'))} and the longest {longest}."
    return [f"{first} {second} {third}", losses(run, summary)]


def several_runs(groups: Mapping[str, Sequence[RunTable]], comparison: Comparison) -> list[str]:
    """The sentences for a comparison of policies."""
    policies = comparison.policies
    first = groups[policies[0]][0]
    repeats = max(len(runs) for runs in groups.values())
    seeds = " with different seeds" if len({run.seed for runs in groups.values() for run in runs}) > 1 else ""
    often = f", {repeats} times each{seeds}" if repeats > 1 else ""
    opening = f"{len(policies)} policies ran {jobs_of(len(first))}{_source(first)} on {_machine(first)}{often}."
    slows = any(slowed(run) for runs in groups.values() for run in runs)
    found = _best(comparison, "mean_turnaround_s", "mean turnaround") if slows else ""
    return [f"{opening} {found or _best(comparison, 'mean_wait_s', 'mean wait')}".strip()]


def _best(comparison: Comparison, metric: str, called: str) -> str:
    if metric not in comparison.metrics:
        return ""
    known = [
        (cell.value.mean, policy)
        for policy in comparison.policies
        for cell in (comparison.cells[policy, metric],)
        if cell.value.mean is not None
    ]
    if len(known) < 2:
        return ""
    (best, winner), (worst, loser) = (choose(known, key=lambda pair: pair[0]) for choose in (min, max))
    if best == worst:
        return f"The {called} was the same under all of them: {duration(best)}."
    words = f"The {called} was shortest under {winner} ({duration(best)}), longest under {loser} ({duration(worst)})."
    baseline = comparison.policies[0]
    ratio = comparison.cells[winner, metric].ratio
    if winner == baseline or ratio.mean is None:
        return words
    words += f" Under {winner} it was {100 * (1 - ratio.mean):.0f} % less than under {baseline}"
    if ratio.low is None or ratio.high is None:
        return words + "; one run each, so chance is not ruled out."
    if ratio.high < 1:
        return f"{words}, with 95 % confidence between {100 * (1 - ratio.high):.0f} and {100 * (1 - ratio.low):.0f} %."
    return words + ", but the repeats differ as much among themselves: it may be chance."
