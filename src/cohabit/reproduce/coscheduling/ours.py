"""C26, C52 and what is beyond the paper: deadlock, agree, bounded hold, other jobs, another backfilling, real logs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cohabit.reproduce.coscheduling.lab import (
    LUBLIN,
    MACHINES,
    Cell,
    Outcome,
    moved_by_coupling,
    run_cell,
    run_logs,
)
from cohabit.reproduce.coscheduling.plan import AGREE, BASE, COMBINATIONS, FULL, HIGH, MEDIUM, Plan
from cohabit.reproduce.coscheduling.studies import (
    LOAD,
    LOSS,
    PROPORTION,
    SYNC,
    WAIT,
    Metric,
    Set,
    gathered,
    together,
    value,
)
from cohabit.reproduce.plans import shared_file
from cohabit.reproduce.rows import CHECK, Expected, Row, expected, joined, missing, row, stated
from cohabit.reproduce.tasks import Task

BOUND_S = 1200.0  # of bounded hold
THETA, THETA_GPU = "data/argonne/lumos_data_theta.csv.xz", "data/argonne/lumos_data_thetagpu.csv.xz"
LOGS_FROM_S = 1_675_209_600.0  # 1 February 2023: both logs are well under way
LOGS_SHARE = 0.1
OTHERS_WAIT = Metric("mean_wait_others_s", divisor=60.0)
OTHERS = ("HH", "YY", AGREE, BASE)


def tasks(plan: Plan) -> list[Task]:
    """Return all tasks."""
    sizes, found = plan.sizes, []
    days = sizes.deadlock_jobs / 300
    for number in range(sizes.deadlocks):
        seed, jobs = plan.seed("deadlock") * 1000 + number, sizes.deadlock_jobs
        cell = Cell(seed, jobs, "HH", load=HIGH, release=False, filled=sizes.filled)
        found.append(Task(f"no release {number}", run_cell, {"cell": cell}, days))
    for number in range(sizes.others):
        seed = plan.seed("others") * 1000 + number
        plain = Cell(seed, sizes.jobs, "HH", load=MEDIUM, filled=sizes.filled)
        cells = {"bounded": replace(plain, bounded_hold_s=BOUND_S), "full hold": plain}
        for schemes in OTHERS:
            cells[f"first-fit {schemes}"] = replace(plain, schemes=schemes, small_backfill="first-fit")
            cells[f"lublin {schemes}"] = replace(plain, schemes=schemes, source=LUBLIN)
        found += [Task(f"{name} {number}", run_cell, {"cell": cell}, sizes.jobs / 300) for name, cell in cells.items()]
    small = Cell(plan.seed("identical"), min(sizes.jobs, 1200), "YY", load=MEDIUM)
    found.append(Task("identical", moved_by_coupling, {"cell": small}, 3.0))
    paths = _logs(plan)
    for schemes in OTHERS if paths else ():
        work = {
            "paths": paths,
            "begin_s": LOGS_FROM_S,
            "days": 30.0 if sizes.months else 2.0,
            "schemes": schemes,
            "proportion": LOGS_SHARE,
        }
        found.append(Task(f"logs {schemes}", run_logs, work, 40.0 if sizes.months else 3.0))
    return found


def _logs(plan: Plan) -> tuple[str, str] | None:
    theta, gpu = (shared_file(name, plan.options.shared) for name in (THETA, THETA_GPU))
    return None if theta is None or gpu is None else (str(theta), str(gpu))


def stuck(outcome: Outcome) -> bool:
    """Return whether the case ended with groups that never started."""
    return bool(outcome["coupling"]["deadlock"]) or outcome["coupling"]["groups_not_started"] > 0


def _pooled(jobs: list[tuple[float, int]]) -> float:
    """Return the mean in minutes over the jobs of both machines, from a mean in seconds and a number of each."""
    return float(sum(mean * count for mean, count in jobs) / max(sum(count for _, count in jobs), 1)) / 60.0


def pooled_sync(outcome: Outcome) -> float:
    """Return the synchronisation time over the jobs of both machines, minutes."""
    return _pooled([(outcome[name]["mean_sync_s"] or 0.0, outcome[name]["mates_started"]) for name in MACHINES])


def pooled_wait(outcome: Outcome) -> float:
    """Return the mean wait of jobs without mates over both machines, minutes."""
    tables = [outcome[name] for name in MACHINES]
    return _pooled([(one["mean_wait_others_s"] or 0.0, one["jobs_ran"] - one["mates_started"]) for one in tables])


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return the rows of deadlock, agree, and the rest."""
    by_load = gathered(plan, results, LOAD)
    found = [*_deadlock(plan, results), *_agree(plan, by_load), *_others(plan, results), *_of_logs(plan, results)]
    apart = float(results["identical"])
    words = "a check of C52: the whole-trace driver against the coupled worlds, both machines"
    about = Expected(
        "C52.moved_s", "largest move of a start when machines are coupled without pairs", 0.0, 0.0, 0.0, CHECK
    )
    return [*found, row(about, apart, words)]


def _deadlock(plan: Plan, results: dict[str, Any]) -> list[Row]:
    sizes = plan.sizes
    runs = [results[f"no release {number}"] for number in range(sizes.deadlocks)]
    hits = [stuck(one) for one in runs]
    hours = [one["coupling"]["last_start_h"] for one, hit in zip(runs, hits, strict=True) if hit]
    when = f"the last start came after {np.median(hours) / 24:.1f} days (median)" if hours else "none did"
    few = plan.shortened(sizes.deadlocks, FULL.deadlocks, "seeds")
    short = plan.shortened(sizes.deadlock_jobs, FULL.deadlock_jobs, "jobs on the large machine")
    drawn = plan.resampling("deadlock").choice(np.array(hits, float), (2000, len(hits))).mean(axis=1)
    low, high = (100.0 * np.quantile(drawn, (0.025, 0.975))).tolist()
    released = [
        case
        for study in (LOAD, PROPORTION)
        for part in gathered(plan, results, study)
        for one in part
        for (_, schemes), case in one.items()
        if schemes in COMBINATIONS
    ]
    return [
        row(
            expected("C26.deadlock_without_release_pct"),
            100.0 * float(np.mean(hits)),
            joined(when, few, short),
            interval=(low, high),
            n_seeds=len(hits),
        ),
        row(
            expected("C26.deadlock_with_release"),
            float(sum(stuck(one) for one in released)),
            joined(f"of {len(released)} runs of both studies", plan.note()),
            n_seeds=plan.sizes.sets,
        ),
    ]


def _agree(plan: Plan, sets: list[list[Set]]) -> list[Row]:
    def change(of: Any) -> Any:
        def statistic(part: Sequence[Set]) -> float:
            ours, theirs = (float(np.mean([of(one[MEDIUM, name]) for one in part])) for name in (AGREE, "YY"))
            return 100.0 * (ours / theirs - 1.0) if theirs else 0.0

        return statistic

    def lost(part: Sequence[Set]) -> float:
        return 100.0 * max(
            float(np.mean([one[MEDIUM, AGREE][name]["held_share"] for one in part])) for name in MACHINES
        )

    flat = [one for part in sets for one in part]

    def shown(metric: Metric, machine: str, schemes: str) -> str:
        return f"{value(metric, machine, MEDIUM, schemes)(flat) or 0:.1f}"

    def against(metric: Metric) -> str:
        return ", ".join(
            f"{name} {shown(metric, name, AGREE)} against {shown(metric, name, 'YY')} min" for name in MACHINES
        )

    held = ", ".join(f"{name} {shown(SYNC, name, 'HH')}" for name in MACHINES)
    syncs = f"jobs of both machines; {against(SYNC)}; hold-hold: {held} min"
    waits = f"jobs without mates; {against(OTHERS_WAIT)}"
    claims = [
        stated("C-agree.sync_vs_yield_pct", change(pooled_sync), syncs),
        stated("C-agree.loss_pct", lost, "of the machine that loses more"),
        stated("C-agree.wait_vs_yield_pct", change(pooled_wait), waits),
    ]
    return [plan.measured(one, sets, plan.note()) for one in claims]


def _others(plan: Plan, results: dict[str, Any]) -> list[Row]:
    count = plan.sizes.others
    few = joined(plan.note(), plan.shortened(count, FULL.others, "seeds"))

    def runs(name: str) -> list[Outcome]:
        return [results[f"{name} {number}"] for number in range(count)]

    def mean(name: str, metric: Metric, machine: str) -> float:
        each = [float(one[machine][metric.key] or 0.0) for one in runs(name)]
        return float(np.mean([metric.factor * one / metric.divisor for one in each]))

    found = []
    for machine in MACHINES:
        for name, words, metric, shape in (
            ("loss_pct", "service-unit loss", LOSS, "{:.2f} %"),
            ("sync_min", "synchronisation", SYNC, "{:.1f} min"),
        ):
            about = Expected(f"B-C2.{machine}_{name}", f"{machine}: {words} with hold bounded to 20 minutes")
            unbound = f"without bound {shape.format(mean('full hold', metric, machine))}"
            found.append(row(about, mean("bounded", metric, machine), joined(unbound, few), n_seeds=count))
    for source, words in (
        ("first-fit", "small machine starts whatever fits, in order of score (K13)"),
        ("lublin", "jobs of Lublin and Feitelson on both machines"),
    ):
        whole = [{(MEDIUM, scheme): one} for scheme in OTHERS[:-1] for one in runs(f"{source} {scheme}")]
        about = Expected(f"C25.{source}_together_pct", f"groups together; {words}", 100.0, 100.0, 100.0)
        found.append(row(about, together(whole), few, n_seeds=count))
        for metric, unit, schemes in ((WAIT, "wait_min", OTHERS), (SYNC, "sync_min", OTHERS[:-1])):
            for machine in MACHINES:
                for scheme in schemes:
                    name = f"C25.{source}_{machine}_{scheme.lower()}_{unit}"
                    about = Expected(name, f"{machine}, {scheme}: {metric.key}; {words}")
                    found.append(row(about, mean(f"{source} {scheme}", metric, machine), few, n_seeds=count))
    return found


def _of_logs(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Theta and ThetaGPU, real logs of one site that overlap in time."""
    about = Expected(
        "C24.logs_together_pct", "Theta and ThetaGPU, a month, 10 % pairs: groups started together", 100.0, 100.0, 100.0
    )
    days = "" if plan.sizes.months else "quick: 2 days instead of a month"
    if f"logs {AGREE}" not in results:
        return [missing(about, "the logs are not there: they are public data, not part of the package")]
    whole: Sequence[Set] = [{(MEDIUM, scheme): results[f"logs {scheme}"]} for scheme in OTHERS[:-1]]
    found = [row(about, together(whole), days)]
    for machine in ("theta", "thetagpu"):
        for scheme in OTHERS:
            told = results[f"logs {scheme}"][machine]
            measured = [("wait_min", "mean wait", float(told["mean_wait_s"]) / 60.0)]
            if scheme != BASE:
                measured.append(("sync_min", "synchronisation", float(told["mean_sync_s"] or 0.0) / 60.0))
                measured.append(("loss_pct", "service-unit loss", 100.0 * float(told["held_share"])))
            for unit, words, number in measured:
                about = Expected(f"C24.{machine}_{scheme.lower()}_{unit}", f"{machine}, {scheme}: {words}")
                found.append(row(about, number, days))
    return found
