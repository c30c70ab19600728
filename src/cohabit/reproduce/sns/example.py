"""Experiment 1 (Fig. 1): MG five times over, HC and TS, 16 processes each, on three nodes under CE or two under SNS."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cohabit.model.records import RunTable
from cohabit.model.units import SECOND
from cohabit.model.workload import Workload
from cohabit.report.metrics import node_seconds
from cohabit.reproduce.rows import Expected, Row, expected, joined, missing, row
from cohabit.reproduce.sns.facts import ABOUT_HIDDEN
from cohabit.reproduce.sns.lab import PLAIN, Bench, Conditions, simulate
from cohabit.reproduce.sns.plan import Plan
from cohabit.reproduce.tasks import Task
from cohabit.trace.synthetic import synthetic_workload

NAMES = ("MG", "HC", "TS")
REPEATS = 5
NAME = "example"
OTHER_ORDER = ("MG", "TS", "HC")
CONDITIONS = {"share": PLAIN, "occupancy": Conditions(contention="occupancy")}


def workload(bench: Bench, order: tuple[str, ...] = NAMES) -> Workload:
    """Five runs of MG one after the other, beside HC and TS, submitted in this order."""
    node = bench.node
    programs = [NAMES.index(name) for name in order for _ in range(REPEATS if name == "MG" else 1)]
    run_us = np.rint(
        np.array([bench.programs[NAMES[code]].exclusive_time_s(16, node) for code in programs]) * SECOND
    ).astype(np.int64)
    jobs = synthetic_workload(
        np.zeros(len(programs), np.int64),
        run_us,
        4 * run_us,
        np.full(len(programs), 16, np.int64),
        nodes=3,
        source="Fig. 1",
        program=np.array(programs, np.int32),
        program_names=NAMES,
    )
    names = [str(one) for one in jobs.job_id]
    chained = [number > 0 and code == 0 == programs[number - 1] for number, code in enumerate(programs)]
    after = [(names[number - 1],) if linked else () for number, linked in enumerate(chained)]
    return replace(jobs, after=after)


def run(bench: Bench, seed: int, conditions: Conditions, order: tuple[str, ...] = NAMES) -> dict[str, Any]:
    """Both strategies; runs in a worker."""
    jobs, found = workload(bench, order), {}
    for name, policy, nodes in (("ce", "ce", 3), ("sns", "sns", 2)):
        table = simulate(bench, policy, jobs, conditions, seed=seed, nodes=nodes, record_nodes=True)
        run_s = (table.end_us - table.start_us) / SECOND
        codes = table.workload.program
        found[name] = {
            "run_s": {program: float(run_s[codes == code].mean()) for code, program in enumerate(NAMES)},
            "node_seconds": node_seconds(table),
            "makespan_s": float(table.end_us.max() / SECOND),
            "bars": _bars(table),
            "scales": {program: int(table.scale[codes == code].max()) for code, program in enumerate(NAMES)},
        }
    return found


def _bars(table: RunTable) -> list[tuple[str, int, float, float]]:
    """Program, node, start and end of everything that ran, for the picture."""
    names, codes, ranges = table.workload.program_names, table.workload.program, table.node_ranges
    assert ranges is not None
    return [
        (names[int(codes[job])], node, int(table.start_us[job]) / SECOND, int(table.end_us[job]) / SECOND)
        for job in range(len(table))
        for place in range(int(ranges.offsets[job]), int(ranges.offsets[job + 1]))
        for node in range(int(ranges.first[place]), int(ranges.first[place] + ranges.count[place]))
    ]


def tasks(plan: Plan) -> list[Task]:
    """One run under each contention model; hidden programs have no MG."""
    if plan.hidden:
        return []
    fixed = {"bench": plan.bench, "seed": plan.seed(NAME)}
    found = [
        Task(f"{NAME} {name}", run, {**fixed, "conditions": conditions}, 0.3) for name, conditions in CONDITIONS.items()
    ]
    other = {**fixed, "conditions": PLAIN, "order": OTHER_ORDER}
    return [*found, Task(f"{NAME} other order", run, other, 0.3)]


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Fig. 1 in numbers."""
    ids = ("S50.node_seconds_change_pct", "S50.mg_gain_pct", "S50.ts_gain_pct", "S50.hc_loss_pct")
    change = Expected(
        "S50.makespan_change_pct", "Fig 1: start to end of all jobs, SNS on 2 nodes against CE on 3", 2.62
    )
    if plan.hidden:
        return [missing(expected(name), ABOUT_HIDDEN) for name in ids] + [missing(change, ABOUT_HIDDEN)]
    main, other = (measured(results[f"{NAME} {name}"]) for name in CONDITIONS)
    turned = measured(results[f"{NAME} other order"])
    scales = ", ".join(f"{name} {scale}" for name, scale in results[f"{NAME} share"]["sns"]["scales"].items())
    order = (
        "submitted as MG, HC, TS, the order of the text; HC then takes 16 cores of one node, so that TS cannot spread"
    )
    one_run = "one run: nothing in this experiment is random"
    found = []
    for name in ids:
        key = name.removeprefix("S50.")
        n1 = "the paper's own times give -31.6 % (N1)" if key.startswith("node_seconds") else ""
        swapped = f"submitted as MG, TS, HC all three run at scale 2: {turned[key]:.2f}"
        second = f"second contention model: {other[key]:.2f}"
        why = joined(order, f"scales: {scales}") if key == "ts_gain_pct" else ""
        note = joined(n1, why, swapped, second, one_run)
        found.append(row(expected(name), main[key], note))
    key = "makespan_change_pct"
    found.append(row(change, main[key], joined(f"second contention model: {other[key]:.2f}", one_run)))
    return found


def measured(answer: dict[str, Any]) -> dict[str, float]:
    """Percentages of SNS against CE."""
    ce, sns = answer["ce"], answer["sns"]
    return {
        "node_seconds_change_pct": 100 * (sns["node_seconds"] / ce["node_seconds"] - 1),
        "makespan_change_pct": 100 * (sns["makespan_s"] / ce["makespan_s"] - 1),
        "mg_gain_pct": 100 * (ce["run_s"]["MG"] / sns["run_s"]["MG"] - 1),
        "ts_gain_pct": 100 * (ce["run_s"]["TS"] / sns["run_s"]["TS"] - 1),
        "hc_loss_pct": 100 * (sns["run_s"]["HC"] / ce["run_s"]["HC"] - 1),
    }
