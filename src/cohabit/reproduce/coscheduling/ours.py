"""C26, C52 and what is beyond the paper: deadlock, agree, bounded hold, other jobs, another backfilling, real logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cohabit.reproduce.coscheduling.lab import (
    LARGE,
    LUBLIN,
    MACHINES,
    SMALL,
    Cell,
    Outcome,
    moved_by_coupling,
    run_cell,
    run_logs,
)
from cohabit.reproduce.coscheduling.plan import AGREE, BASE, COMBINATIONS, FULL, HIGH, MEDIUM, Plan
from cohabit.reproduce.coscheduling.studies import LOAD, PROPORTION, Set, gathered, minutes, together
from cohabit.reproduce.rows import CHECK, Expected, Row, expected, joined, missing, row, row_over_sets
from cohabit.reproduce.shared_data import shared_file
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream

BOUND_S = 1200.0  # of bounded hold
THETA, THETA_GPU = "data/argonne/lumos_data_theta.csv.xz", "data/argonne/lumos_data_thetagpu.csv.xz"
LOGS_FROM_S = 1_675_209_600.0  # 1 February 2023: both logs are well under way
LOGS_SHARE = 0.1
OTHERS = ("HH", "YY", AGREE, BASE)


def tasks(plan: Plan) -> list[Task]:
    """Return all tasks."""
    sizes, found = plan.sizes, []
    days = sizes.deadlock_jobs / 300
    for number in range(sizes.deadlocks):
        cell = Cell(plan.seed("deadlock") * 1000 + number, sizes.deadlock_jobs, "HH", load=HIGH, release=False)
        found.append(Task(f"no release {number}", run_cell, {"cell": cell}, days))
    for number in range(sizes.others):
        seed = plan.seed("others") * 1000 + number
        cells = {
            "bounded": Cell(seed, sizes.jobs, "HH", load=MEDIUM, bounded_hold_s=BOUND_S),
            "full hold": Cell(seed, sizes.jobs, "HH", load=MEDIUM),
        }
        for schemes in OTHERS:
            cells[f"first-fit {schemes}"] = Cell(seed, sizes.jobs, schemes, load=MEDIUM, small_backfill="first-fit")
            cells[f"lublin {schemes}"] = Cell(seed, sizes.jobs, schemes, load=MEDIUM, source=LUBLIN)
        found += [
            Task(f"{name} {number}", run_cell, {"cell": cell}, sizes.jobs / 300) for name, cell in cells.items()
        ]  # fmt: skip
    small = Cell(plan.seed("identical"), min(sizes.jobs, 1200), "YY", load=MEDIUM)
    found.append(Task("identical", moved_by_coupling, {"cell": small}, 3.0))
    paths = _logs(plan)
    for schemes in OTHERS if paths else ():
        work = {
            "paths": paths, "begin_s": LOGS_FROM_S, "days": 30.0 if sizes.months else 2.0, "schemes": schemes,
            "proportion": LOGS_SHARE,
        }  # fmt: skip
        found.append(Task(f"logs {schemes}", run_logs, work, 40.0 if sizes.months else 3.0))
    return found


def _logs(plan: Plan) -> tuple[str, str] | None:
    found = [shared_file(name, plan.options.shared) for name in (THETA, THETA_GPU)]
    if found[0] is None or found[1] is None:
        return None
    return str(found[0]), str(found[1])


def stuck(outcome: Outcome) -> bool:
    """Return whether the case ended with groups that never started."""
    return bool(outcome["coupling"]["deadlock"]) or outcome["coupling"]["groups_not_started"] > 0


def pooled_sync(outcome: Outcome) -> float:
    """Return the synchronisation time over the jobs of both machines, minutes."""
    jobs = [(outcome[name]["mean_sync_s"] or 0.0, outcome[name]["mates_started"]) for name in MACHINES]
    return float(sum(mean * count for mean, count in jobs) / max(sum(count for _, count in jobs), 1)) / 60.0


def pooled_wait(outcome: Outcome) -> float:
    """Return the mean wait of jobs without mates over both machines, minutes."""
    jobs = [
        (outcome[name]["mean_wait_others_s"] or 0.0, outcome[name]["jobs_ran"] - outcome[name]["mates_started"])
        for name in MACHINES
    ]
    return float(sum(mean * count for mean, count in jobs) / max(sum(count for _, count in jobs), 1)) / 60.0


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
    drawn = stream(plan.seed("bootstrap"), "deadlock").choice(np.array(hits, float), (2000, len(hits))).mean(axis=1)
    low, high = (100.0 * np.quantile(drawn, (0.025, 0.975))).tolist()
    released = [
        case for study in (LOAD, PROPORTION) for part in gathered(plan, results, study) for one in part
        for (_, schemes), case in one.items() if schemes in COMBINATIONS
    ]  # fmt: skip
    return [
        row(expected("C26.deadlock_without_release_pct"), 100.0 * float(np.mean(hits)), joined(when, few, short),
            interval=(low, high), n_seeds=len(hits)),
        row(expected("C26.deadlock_with_release"), float(sum(stuck(one) for one in released)),
            joined(f"of {len(released)} runs of both studies", plan.note()), n_seeds=plan.sizes.sets),
    ]  # fmt: skip


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
    sync = ", ".join(
        f"{name} {minutes(name, 'mean_sync_s', MEDIUM, AGREE)(flat) or 0:.1f} against "
        f"{minutes(name, 'mean_sync_s', MEDIUM, 'YY')(flat) or 0:.1f} min" for name in MACHINES
    )  # fmt: skip
    held = ", ".join(f"{name} {minutes(name, 'mean_sync_s', MEDIUM, 'HH')(flat) or 0:.1f}" for name in MACHINES)
    waits = ", ".join(
        f"{name} {minutes(name, 'mean_wait_others_s', MEDIUM, AGREE)(flat) or 0:.1f} against "
        f"{minutes(name, 'mean_wait_others_s', MEDIUM, 'YY')(flat) or 0:.1f} min" for name in MACHINES
    )  # fmt: skip

    def add(name: str, statistic: Any, *words: str) -> Row:
        return row_over_sets(
            expected(name), sets, statistic, stream(plan.seed("bootstrap"), name), joined(*words, plan.note())
        )

    return [
        add("C-agree.sync_vs_yield_pct", change(pooled_sync), f"jobs of both machines; {sync}; hold-hold: {held} min"),
        add("C-agree.loss_pct", lost, "of the machine that loses more"),
        add("C-agree.wait_vs_yield_pct", change(pooled_wait), f"jobs without mates; {waits}"),
    ]


def _others(plan: Plan, results: dict[str, Any]) -> list[Row]:
    count = plan.sizes.others
    few = joined(plan.note(), plan.shortened(count, FULL.others, "seeds"))

    def runs(name: str) -> list[Outcome]:
        return [results[f"{name} {number}"] for number in range(count)]

    def mean(name: str, of: Any) -> float:
        return float(np.mean([of(one) for one in runs(name)]))

    found = []
    for machine in MACHINES:

        def loss(one: Outcome, machine: str = machine) -> float:
            return 100.0 * float(one[machine]["held_share"])

        def sync(one: Outcome, machine: str = machine) -> float:
            return float(one[machine]["mean_sync_s"] or 0.0) / 60.0

        found += [
            row(Expected(f"B-C2.{machine}_loss_pct", f"{machine}: service-unit loss with hold bounded to 20 minutes"),
                mean("bounded", loss), joined(f"without bound {mean('full hold', loss):.2f} %", few), n_seeds=count),
            row(Expected(f"B-C2.{machine}_sync_min", f"{machine}: synchronisation with hold bounded to 20 minutes"),
                mean("bounded", sync), joined(f"without bound {mean('full hold', sync):.1f} min", few), n_seeds=count),
        ]  # fmt: skip
    for source, words in (("first-fit", "small machine starts whatever fits, in order of score (K13)"),
                          ("lublin", "jobs of Lublin and Feitelson on both machines")):  # fmt: skip
        pairs = [(LARGE, "mean_wait_s", "wait_min"), (SMALL, "mean_wait_s", "wait_min"),
                 (LARGE, "mean_sync_s", "sync_min"), (SMALL, "mean_sync_s", "sync_min")]  # fmt: skip
        whole = [{(MEDIUM, scheme): one} for scheme in OTHERS[:-1] for one in runs(f"{source} {scheme}")]
        found.append(row(Expected(f"C25.{source}_together_pct", f"groups together; {words}", 100.0, 100.0, 100.0),
                         together(whole), few, n_seeds=count))  # fmt: skip
        for machine, key, unit in pairs:
            for scheme in OTHERS:
                if key == "mean_sync_s" and scheme == BASE:
                    continue
                found.append(row(
                    Expected(f"C25.{source}_{machine}_{scheme.lower()}_{unit}", f"{machine}, {scheme}: {key}; {words}"),
                    mean(f"{source} {scheme}", lambda one, m=machine, k=key: float(one[m][k] or 0.0) / 60.0), few,
                    n_seeds=count,
                ))  # fmt: skip
    return found


def _of_logs(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Theta and ThetaGPU, real logs of one site that overlap in time."""
    about = Expected("C24.logs_together_pct", "Theta and ThetaGPU, a month, 10 % pairs: groups started together", 100.0,
                     100.0, 100.0)  # fmt: skip
    days = "" if plan.sizes.months else "quick: 2 days instead of a month"
    if f"logs {AGREE}" not in results:
        return [missing(about, "the logs are not there: they are public data, not part of the package")]
    whole: Sequence[Set] = [{(MEDIUM, scheme): results[f"logs {scheme}"]} for scheme in OTHERS[:-1]]
    found = [row(about, together(whole), days)]
    for machine in ("theta", "thetagpu"):
        for scheme in OTHERS:
            told = results[f"logs {scheme}"][machine]
            found.append(row(Expected(f"C24.{machine}_{scheme.lower()}_wait_min", f"{machine}, {scheme}: mean wait"),
                             float(told["mean_wait_s"]) / 60.0, days))  # fmt: skip
            if scheme != BASE:
                found += [
                    row(Expected(f"C24.{machine}_{scheme.lower()}_sync_min", f"{machine}, {scheme}: synchronisation"),
                        float(told["mean_sync_s"] or 0.0) / 60.0, days),
                    row(Expected(f"C24.{machine}_{scheme.lower()}_loss_pct", f"{machine}, {scheme}: service-unit loss"),
                        100.0 * float(told["held_share"]), days),
                ]  # fmt: skip
    return found
