"""C25 and C27 to C37: the load study and the proportion study. Statistics and rows; the lab runs the cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from cohabit.reproduce.coscheduling.lab import LARGE, MACHINES, SMALL, Outcome, run_cell
from cohabit.reproduce.coscheduling.plan import (
    AGREE,
    BASE,
    COMBINATIONS,
    HIGH,
    LOADS,
    MEDIUM,
    PROPORTIONS,
    SCHEMES,
    Plan,
)
from cohabit.reproduce.rows import CALIBRATED, CHECK, Expected, Row, expected, joined, row_over_sets
from cohabit.reproduce.tasks import Task
from cohabit.sim.streams import stream

Set = dict[tuple[float, str], Outcome]  # (load or proportion, schemes) -> outcome; one seed
Statistic = Callable[[Sequence[Set]], float | None]
LOAD, PROPORTION = "load", "proportion"
LEVEL = {0.25: "025", 0.5: "050", 0.75: "075"}
SHARE = {0.025: "2_5", 0.05: "5", 0.1: "10", 0.2: "20", 0.33: "33"}
LOCAL = {LARGE: 0, SMALL: 1}  # which letter of a combination is a machine's own


def tasks(plan: Plan) -> list[Task]:
    """Return one task per case and seed; high loads and many pairs take longest."""
    found = []
    days = plan.sizes.jobs / 300
    for number in range(plan.sizes.sets):
        for schemes in (BASE, *SCHEMES):
            cost = days * (0.02 if schemes == BASE else 1.0)
            for load in LOADS:
                cell = plan.load_cell(number, load, schemes)
                found.append(Task(f"load {load} {schemes} {number}", run_cell, {"cell": cell}, cost * (0.5 + load)))
            for share in PROPORTIONS:
                cell = plan.proportion_cell(number, share, schemes)
                name = f"proportion {share} {schemes} {number}"
                found.append(Task(name, run_cell, {"cell": cell}, cost * (1 + 3 * share)))
    return found


def gathered(plan: Plan, results: dict[str, Any], study: str) -> list[list[Set]]:
    """One set per seed, as the only member of its list."""
    values = LOADS if study == LOAD else PROPORTIONS
    return [
        [{
            (value, schemes): results[f"{study} {value} {schemes} {number}"]
            for value in values for schemes in (BASE, *SCHEMES)
        }]
        for number in range(plan.sizes.sets)
    ]  # fmt: skip


# ---- statistics of one seed ---------------------------------------------------------------------------------------


def _mean(sets: Sequence[Set], of: Callable[[Set], float | None]) -> float | None:
    known = [value for one in sets if (value := of(one)) is not None]
    return float(np.mean(known)) if known else None


def minutes(machine: str, key: str, value: float, schemes: str) -> Statistic:
    """A duration of a case."""

    def of(one: Set) -> float | None:
        found = one[value, schemes][machine][key]
        return None if found is None else float(found) / 60.0

    return lambda sets: _mean(sets, of)


def number(machine: str, key: str, value: float, schemes: str, factor: float = 1.0) -> Statistic:
    """Any other number of a case."""

    def of(one: Set) -> float | None:
        found = one[value, schemes][machine][key]
        return None if found is None else factor * float(found)

    return lambda sets: _mean(sets, of)


def extra(machine: str, key: str, value: float, schemes: str) -> Statistic:
    """Return how much a case is above the uncoupled machine, in the unit of the metric."""
    return lambda sets: _mean(
        sets, lambda one: float(one[value, schemes][machine][key]) - float(one[value, BASE][machine][key])
    )


def most(parts: Sequence[Statistic], factor: float = 1.0) -> Statistic:
    """The largest of several."""

    def statistic(sets: Sequence[Set]) -> float | None:
        known = [value for part in parts if (value := part(sets)) is not None]
        return factor * max(known) if known else None

    return statistic


def least(parts: Sequence[Statistic]) -> Statistic:
    """The smallest of several."""
    negative: list[Statistic] = [lambda sets, part=part: _negated(part(sets)) for part in parts]  # type: ignore[misc]
    return lambda sets: _negated(most(negative)(sets))


def _negated(value: float | None) -> float | None:
    return None if value is None else -value


def cells(machines: Sequence[str], values: Sequence[float]) -> list[tuple[str, float, str, str]]:
    """(machine, load, own hold, own yield) for every remote scheme."""
    found = []
    for machine in machines:
        for value in values:
            for remote in "HY":
                pair = ["H" + remote, "Y" + remote] if LOCAL[machine] == 0 else [remote + "H", remote + "Y"]
                found.append((machine, value, pair[0], pair[1]))
    return found


def share_of_cells(key: str, machines: Sequence[str], values: Sequence[float], larger: bool) -> Statistic:
    """Percent of cells in which hold has the larger (or the smaller) value."""

    def of(one: Set) -> float:
        signs = []
        for machine, value, hold, other in cells(machines, values):
            held, yielded = one[value, hold][machine][key] or 0.0, one[value, other][machine][key] or 0.0
            signs.append(held > yielded if larger else held < yielded)
        return 100.0 * float(np.mean(signs))

    return lambda sets: _mean(sets, of)


def together(sets: Sequence[Set]) -> float | None:
    """Percent of groups that started at the same instant, over all cases."""
    told = [case["coupling"] for one in sets for case in one.values() if "coupling" in case]
    groups = sum(one["groups"] for one in told)
    return 100.0 * sum(one["groups_together"] for one in told) / groups if groups else None


def yield_loss(sets: Sequence[Set]) -> float:
    """Node-hours lost on machines that yield, in all cases."""
    return sum(
        float(one[value, schemes][machine]["held_node_hours"])
        for one in sets for value, schemes in one if schemes in COMBINATIONS
        for machine in MACHINES if schemes[LOCAL[machine]] == "Y"
    )  # fmt: skip


def hold_over_yield(sets: Sequence[Set]) -> float | None:
    """The large machine's mean wait at a third of pairs: the worse of its hold cases over the mean of yield."""
    waits = {name: minutes(LARGE, "mean_wait_s", 0.33, name)(sets) or 0.0 for name in COMBINATIONS}
    yielding = (waits["YH"] + waits["YY"]) / 2
    return max(waits["HH"], waits["HY"]) / yielding if yielding else None


def holding(machine: str) -> list[str]:
    """Return the combinations in which the machine holds."""
    return [name for name in COMBINATIONS if name[LOCAL[machine]] == "H"]


def losses(machine: str, value: float, key: str = "held_share", factor: float = 100.0) -> list[Statistic]:
    """Return the machine's loss in each combination in which it holds."""
    return [number(machine, key, value, name, factor) for name in holding(machine)]


def grows(sets: Sequence[Sequence[Set]]) -> float:
    """1 if the mean loss over seeds and hold cases never falls as the proportion rises, on both machines."""
    flat = [one for part in sets for one in part]
    for machine in MACHINES:
        means = [np.mean([statistic(flat) or 0.0 for statistic in losses(machine, share)]) for share in PROPORTIONS]
        if any(later < earlier for earlier, later in pairwise(means)):
            return 0.0
    return 1.0


# ---- rows ---------------------------------------------------------------------------------------------------------

Add = Callable[..., Row]


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return the rows of the contract, then all other rows of the paper."""
    sets = {study: gathered(plan, results, study) for study in (LOAD, PROPORTION)}
    both = [first + second for first, second in zip(sets[LOAD], sets[PROPORTION], strict=True)]

    def add(about: Expected, study: str, statistic: Statistic, *words: str) -> Row:
        chosen = both if study == "both" else sets[study]
        return row_over_sets(
            about, chosen, statistic, stream(plan.seed("bootstrap"), about.id), joined(*words, plan.note())
        )

    found = _contract(plan, add, sets[PROPORTION])
    return [*found, *_of_load(add), *_of_proportion(add), *_put_in(add)]


def _contract(plan: Plan, add: Add, by_share: list[list[Set]]) -> list[Row]:
    from cohabit.reproduce.rows import row

    def extra_wait(load: float) -> Statistic:
        return most([extra(LARGE, "mean_wait_s", load, name) for name in COMBINATIONS], 1 / 60)

    worst = "of the worst of the four combinations, as the paper says it"
    return [
        add(expected("C25.groups_together_pct"), "both", together),
        add(expected("C27.extra_wait_025_min"), LOAD, extra_wait(0.25), worst),
        add(expected("C27.extra_wait_050_min"), LOAD, extra_wait(MEDIUM), worst),
        add(expected("C27.extra_wait_075_min"), LOAD, extra_wait(HIGH), worst),
        add(expected("C30.hold_worse_than_yield_pct"), LOAD,
            share_of_cells("mean_wait_s", MACHINES, (MEDIUM, HIGH), larger=True),
            "both machines, two loads, two remote schemes: eight cells a seed; all jobs, with and without mates"),
        add(expected("C31.sync_hold_below_yield_pct"), LOAD,
            share_of_cells("mean_sync_s", MACHINES, LOADS, larger=False), "twelve cells a seed"),
        add(expected("C32.loss_yield"), "both", yield_loss, "node-hours over all cases of a seed"),
        add(expected("C33.wait_hold_over_yield_33"), PROPORTION, hold_over_yield,
            "the large machine; the worse of HH and HY over the mean of YH and YY"),
        row(expected("C37.loss_monotone"), grows(by_share), joined("of means over seeds, both machines", plan.note()),
            n_seeds=len(by_share)),
    ]  # fmt: skip


def _of_load(add: Add) -> list[Row]:
    """Return the rows of figures 3 to 6, and of agree."""
    found = []
    paper_slowdown = {0.25: 0.6, 0.5: 1.5, 0.75: 6.3}
    paper_base = {0.25: 1.7, 0.5: 12.5, 0.75: 37.1}
    paper_sync = {0.25: 10.0, 0.5: 50.0, 0.75: 150.0}
    for load in LOADS:
        at, words = LEVEL[load], f"small machine at {load:g}"
        for schemes in SCHEMES:
            low = schemes.lower()
            for machine in MACHINES:
                found += [
                    add(Expected(f"C27.{machine}_{low}_{at}_wait_extra_min", f"{machine}, {schemes}: extra mean wait, "
                                 f"{words}"), LOAD,
                        most([extra(machine, "mean_wait_s", load, schemes)], 1 / 60)),
                    add(Expected(f"C31.{machine}_{low}_{at}_sync_min", f"{machine}, {schemes}: synchronisation time, "
                                 f"{words}"), LOAD, minutes(machine, "mean_sync_s", load, schemes)),
                    add(Expected(f"C32.{machine}_{low}_{at}_loss_pct", f"{machine}, {schemes}: service-unit loss, "
                                 f"{words}"), LOAD, number(machine, "held_share", load, schemes, 100.0)),
                ]  # fmt: skip
        found += [
            add(Expected(f"C29.slowdown_extra_{at}", f"large machine: slowdown above base at most, {words}",
                         paper_slowdown[load]), LOAD,
                most([extra(LARGE, "mean_slowdown", load, name) for name in COMBINATIONS])),
            add(Expected(f"C29.small_base_slowdown_{at}", f"small machine by itself: mean slowdown, {words}",
                         paper_base[load]), LOAD, number(SMALL, "mean_slowdown", load, BASE)),
            add(Expected(f"C28.small_wait_extra_{at}_min", f"small machine: extra mean wait at most, {words}",
                         {0.25: 5.0, 0.5: 7.0, 0.75: 8.0}[load]), LOAD,
                most([extra(SMALL, "mean_wait_s", load, name) for name in COMBINATIONS], 1 / 60)),
            add(Expected(f"C31.large_hold_sync_{at}_min", f"large machine with hold: synchronisation time, {words}",
                         paper_sync[load]), LOAD,
                most([minutes(LARGE, "mean_sync_s", load, name) for name in holding(LARGE)]),
                "the larger of HH and HY"),
            add(Expected(f"C32.large_loss_{at}_node_hours", f"large machine: node-hours lost at most, {words}",
                         {0.25: 135_000.0, 0.5: None, 0.75: 1_200_000.0}[load]), LOAD,
                most(losses(LARGE, load, "held_node_hours", 1.0))),
            add(Expected(f"C32.small_loss_{at}_node_hours", f"small machine: node-hours lost at most, {words}",
                         3_500.0), LOAD, most(losses(SMALL, load, "held_node_hours", 1.0)),
                "the paper's text has 25,000 to 35,000, ten times what its percentages say (N7)"),
        ]  # fmt: skip
    found += [
        add(Expected("C31.small_hold_sync_min", "small machine with hold: shortest synchronisation time", 35.0), LOAD,
            least([minutes(SMALL, "mean_sync_s", load, name) for load in LOADS for name in holding(SMALL)])),
        add(Expected("C31.small_hold_sync_max_min", "small machine with hold: longest", 111.0), LOAD,
            most([minutes(SMALL, "mean_sync_s", load, name) for load in LOADS for name in holding(SMALL)])),
        add(Expected("C31.small_yield_sync_min", "small machine with yield: shortest", 52.0), LOAD,
            least([minutes(SMALL, "mean_sync_s", load, name) for load in LOADS for name in ("HY", "YY")])),
        add(Expected("C31.small_yield_sync_max_min", "small machine with yield: longest", 137.0), LOAD,
            most([minutes(SMALL, "mean_sync_s", load, name) for load in LOADS for name in ("HY", "YY")])),
        add(Expected("C27.large_yield_extra_075_min", "large machine with yield: extra mean wait at high load", 25.0),
            LOAD, most([extra(LARGE, "mean_wait_s", HIGH, name) for name in ("YH", "YY")], 1 / 60)),
    ]  # fmt: skip
    for machine in MACHINES:
        found += [
            add(Expected(f"C30.{machine}_wait_pct", f"{machine}: cells where hold waits longer than yield"), LOAD,
                share_of_cells("mean_wait_s", (machine,), (MEDIUM, HIGH), larger=True)),
            add(Expected(f"C30.{machine}_others_wait_pct", f"{machine}: the same of jobs without mates"), LOAD,
                share_of_cells("mean_wait_others_s", (machine,), (MEDIUM, HIGH), larger=True)),
            add(Expected(f"C30.{machine}_slowdown_pct", f"{machine}: the same of slowdown"), LOAD,
                share_of_cells("mean_slowdown", (machine,), (MEDIUM, HIGH), larger=True)),
            add(Expected(f"C31.{machine}_sync_pct", f"{machine}: cells where hold synchronises faster"), LOAD,
                share_of_cells("mean_sync_s", (machine,), LOADS, larger=False)),
        ]  # fmt: skip
    return found


def _of_proportion(add: Add) -> list[Row]:
    """Return the rows of figures 7 to 10."""
    found = []
    paper_wait = {0.025: None, 0.05: None, 0.1: 76.0, 0.2: 100.0, 0.33: 187.0}
    for share in PROPORTIONS:
        at, words = SHARE[share], f"{100 * share:g} % of jobs paired"
        for schemes in SCHEMES:
            low = schemes.lower()
            for machine in MACHINES:
                found += [
                    add(Expected(f"C33.{machine}_{low}_{at}_wait_min", f"{machine}, {schemes}: mean wait, {words}"),
                        PROPORTION, minutes(machine, "mean_wait_s", share, schemes)),
                    add(Expected(f"C36.{machine}_{low}_{at}_sync_min", f"{machine}, {schemes}: synchronisation time, "
                                 f"{words}"), PROPORTION, minutes(machine, "mean_sync_s", share, schemes)),
                    add(Expected(f"C37.{machine}_{low}_{at}_loss_pct", f"{machine}, {schemes}: service-unit loss, "
                                 f"{words}"), PROPORTION, number(machine, "held_share", share, schemes, 100.0)),
                ]  # fmt: skip
        found += [
            add(Expected(f"C33.large_wait_{at}_min", f"large machine: mean wait at most, {words}", paper_wait[share]),
                PROPORTION, most([minutes(LARGE, "mean_wait_s", share, name) for name in COMBINATIONS])),
            add(Expected(f"C35.large_slowdown_{at}", f"large machine: mean slowdown at most, {words}",
                         {0.1: 7.5, 0.33: 12.9}.get(share)), PROPORTION,
                most([number(LARGE, "mean_slowdown", share, name) for name in COMBINATIONS])),
            add(Expected(f"C35.small_slowdown_extra_{at}", f"small machine: slowdown above base at most, {words}"),
                PROPORTION, most([extra(SMALL, "mean_slowdown", share, name) for name in COMBINATIONS]),
                "the paper: one digit up to 10 % of pairs, two digits above"),
            add(Expected(f"C34.small_wait_extra_{at}_min", f"small machine: extra mean wait at most, {words}"),
                PROPORTION, most([extra(SMALL, "mean_wait_s", share, name) for name in COMBINATIONS], 1 / 60)),
        ]  # fmt: skip
    found += [
        add(Expected("C36.large_hold_sync_max_min", "large machine with hold: longest synchronisation time", 124.0),
            PROPORTION, most([minutes(LARGE, "mean_sync_s", share, name)
                              for share in PROPORTIONS for name in holding(LARGE)])),
        add(Expected("C36.large_hold_sync_min", "large machine with hold: shortest", 75.0), PROPORTION,
            least([minutes(LARGE, "mean_sync_s", share, name) for share in PROPORTIONS for name in holding(LARGE)])),
        add(Expected("C36.small_hold_sync_max_min", "small machine with hold: longest", 122.0), PROPORTION,
            most([minutes(SMALL, "mean_sync_s", share, name) for share in PROPORTIONS for name in holding(SMALL)])),
        add(Expected("C36.hold_below_yield_pct", "cells where hold synchronises faster than yield", 100.0), PROPORTION,
            share_of_cells("mean_sync_s", MACHINES, PROPORTIONS, larger=False)),
        add(Expected("C37.large_loss_max_pct", "large machine: largest service-unit loss", 9.3), PROPORTION,
            most([part for share in PROPORTIONS for part in losses(LARGE, share)])),
        add(Expected("C37.small_loss_max_pct", "small machine: largest service-unit loss", 21.0), PROPORTION,
            most([part for share in PROPORTIONS for part in losses(SMALL, share)])),
        add(Expected("C37.large_loss_10_pct", "large machine: service-unit loss up to 10 % of pairs", 3.0), PROPORTION,
            most([part for share in (0.025, 0.05, 0.1) for part in losses(LARGE, share)])),
        add(Expected("C37.small_loss_10_pct", "small machine: service-unit loss up to 10 % of pairs", 5.0), PROPORTION,
            most([part for share in (0.025, 0.05, 0.1) for part in losses(SMALL, share)])),
        add(Expected("C38.hold_worse_10_pct", "cells from 10 % of pairs on where hold waits longer than yield", 100.0),
            PROPORTION, share_of_cells("mean_wait_s", MACHINES, (0.1, 0.2, 0.33), larger=True)),
        add(Expected("C33.hh_over_yy_33", "large machine: mean wait of HH over YY at 33 % of pairs"), PROPORTION,
            lambda sets: (minutes(LARGE, "mean_wait_s", 0.33, "HH")(sets) or 0.0)
            / (minutes(LARGE, "mean_wait_s", 0.33, "YY")(sets) or 1.0)),
    ]  # fmt: skip
    return found


def _put_in(add: Add) -> list[Row]:
    """Return rows that check the calibrated values."""
    found = [
        add(Expected("C27.base_wait_min", "large machine by itself: mean wait", 61.0, 46.0, 76.0, CALIBRATED), LOAD,
            minutes(LARGE, "mean_wait_s", MEDIUM, BASE), "fitted: shape of the jobs, then load"),
        add(Expected("C29.base_slowdown", "large machine by itself: mean slowdown", 6.1, 4.0, 9.0, CALIBRATED), LOAD,
            number(LARGE, "mean_slowdown", MEDIUM, BASE)),
        add(Expected("C22.small_utilisation", "small machine of the proportion study: utilisation", 0.5, 0.45, 0.55,
                     CALIBRATED), PROPORTION, number(SMALL, "utilisation", 0.1, BASE)),
        add(Expected("C53.base_sync", "synchronisation and loss without pairs", 0.0, 0.0, 0.0, CHECK), LOAD,
            most([number(machine, "held_node_hours", load, BASE) for machine in MACHINES for load in LOADS])),
    ]  # fmt: skip
    for load in LOADS:
        at = LEVEL[load]
        found += [
            add(Expected(f"C21.paired_{at}_pct", f"jobs of the large machine with a mate, small machine at {load:g}"),
                LOAD, lambda sets, load=load: _mean(sets, lambda one: 100.0 * one[load, AGREE]["coupling"][
                    "paired_share"]), "the paper: 5 to 10 %"),
            add(Expected(f"C21.utilisation_{at}", "small machine by itself: utilisation", load, load - 0.05,
                         load + 0.05, CALIBRATED), LOAD, number(SMALL, "utilisation", load, BASE)),
        ]  # fmt: skip
    return found
