"""C25 and C27 to C37: the load study and the proportion study. Statistics and rows; the lab runs the cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

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
from cohabit.reproduce.rows import CALIBRATED, CHECK, Claim, Row, expected, joined, own, row, stated
from cohabit.reproduce.tasks import Task

Set = dict[tuple[float, str], Outcome]  # (load or proportion, schemes) -> outcome; one seed
Statistic = Callable[[Sequence[Set]], float | None]
LOAD, PROPORTION, BOTH = "load", "proportion", "both"
VALUES = {LOAD: LOADS, PROPORTION: PROPORTIONS}
TAGS = {0.25: "025", 0.5: "050", 0.75: "075", 0.025: "2_5", 0.05: "5", 0.1: "10", 0.2: "20", 0.33: "33"}
FEW_PAIRS = (0.025, 0.05, 0.1)
HOLD = {LARGE: ("HH", "HY"), SMALL: ("HH", "YH")}  # the combinations in which a machine holds,
YIELD = {LARGE: ("YH", "YY"), SMALL: ("HY", "YY")}  # and those with the same other side in which it yields


class Metric(NamedTuple):
    """A key of the lab's metrics, and its unit."""

    key: str
    factor: float = 1.0
    divisor: float = 1.0
    extra: bool = False  # the difference to the uncoupled machine


WAIT, SYNC = Metric("mean_wait_s", divisor=60.0), Metric("mean_sync_s", divisor=60.0)  # minutes
SLOWDOWN, UTILISATION = Metric("mean_slowdown"), Metric("utilisation")
LOSS, LOST = Metric("held_share", 100.0), Metric("held_node_hours")
EXTRA_WAIT, EXTRA_SLOWDOWN = Metric("mean_wait_s", 1 / 60, extra=True), Metric("mean_slowdown", extra=True)


def tasks(plan: Plan) -> list[Task]:
    """Return one task per case and seed; high loads and many pairs take longest."""
    found = []
    days, paired_days = plan.sizes.jobs / 300, plan.sizes.paired_jobs / 300
    for number in range(plan.sizes.sets):
        for load, schemes in cases(plan, number, LOAD):
            cell, cost = plan.load_cell(number, load, schemes), days * (0.5 + load)
            cost *= 0.02 if schemes == BASE else 1.0
            found.append(Task(f"load {load} {schemes} {number}", run_cell, {"cell": cell}, cost))
        for share, schemes in cases(plan, number, PROPORTION):
            cell, cost = plan.proportion_cell(number, share, schemes), paired_days * (1 + 36 * share)
            cost *= 0.02 if schemes == BASE else 1.0
            found.append(Task(f"proportion {share} {schemes} {number}", run_cell, {"cell": cell}, cost))
    return found


def cases(plan: Plan, number: int, study: str) -> list[tuple[float, str]]:
    """Return the cases of a seed. With agree, which is ours, only the first seeds run the proportion study."""
    ours = [AGREE] if study == LOAD or number < plan.sizes.others else []
    return [(at, schemes) for at in VALUES[study] for schemes in (BASE, *COMBINATIONS, *ours)]


def gathered(plan: Plan, results: dict[str, Any], study: str) -> list[list[Set]]:
    """Return one set per seed, as the only member of its list."""
    return [
        [{(at, schemes): results[f"{study} {at} {schemes} {number}"] for at, schemes in cases(plan, number, study)}]
        for number in range(plan.sizes.sets)
    ]


# ---- statistics of one seed ---------------------------------------------------------------------------------------


def _mean(sets: Sequence[Set], of: Callable[[Set], float | None]) -> float | None:
    known = [value for one in sets if (value := of(one)) is not None]
    return float(np.mean(known)) if known else None


def value(metric: Metric, machine: str, at: float, schemes: str) -> Statistic:
    """Return a metric of a machine in a case."""

    def of(one: Set) -> float | None:
        found = one[at, schemes][machine][metric.key] if (at, schemes) in one else None
        if found is None:
            return None
        base = float(one[at, BASE][machine][metric.key]) if metric.extra else 0.0
        return metric.factor * (float(found) - base) / metric.divisor

    return lambda sets: _mean(sets, of)


def extreme(
    choose: Callable[..., Any], metric: Metric, machine: str, values: Sequence[float], schemes: Sequence[str]
) -> Statistic:
    """Return the largest or the smallest of several cases."""
    parts = [value(metric, machine, at, name) for at in values for name in schemes]
    return lambda sets: choose((known for part in parts if (known := part(sets)) is not None), default=None)


most, least = partial(extreme, max), partial(extreme, min)


def share_of_cells(key: str, machines: Sequence[str], values: Sequence[float], larger: bool) -> Statistic:
    """Return the percentage of cells in which hold has the larger (or the smaller) value."""

    def of(one: Set) -> float:
        signs = []
        for machine in machines:
            for at in values:
                for hold, other in zip(HOLD[machine], YIELD[machine], strict=True):
                    held, yielded = (one[at, name][machine][key] or 0.0 for name in (hold, other))
                    signs.append(held > yielded if larger else held < yielded)
        return 100.0 * float(np.mean(signs))

    return lambda sets: _mean(sets, of)


def together(sets: Sequence[Set]) -> float | None:
    """Percent of groups that started at the same instant, over all cases."""
    told = [case["coupling"] for one in sets for case in one.values() if "coupling" in case]
    groups = sum(one["groups"] for one in told)
    return 100.0 * sum(one["groups_together"] for one in told) / groups if groups else None


def paired(load: float) -> Statistic:
    """Percent of the jobs of the large machine that have a mate."""
    return lambda sets: _mean(sets, lambda one: 100.0 * one[load, AGREE]["coupling"]["paired_share"])


def yield_loss(sets: Sequence[Set]) -> float:
    """Node-hours lost on machines that yield, in all cases."""
    return sum(
        float(one[at, schemes][machine]["held_node_hours"])
        for one in sets
        for at, schemes in one
        for machine in MACHINES
        if schemes in YIELD[machine]
    )


def hold_over_yield(sets: Sequence[Set]) -> float | None:
    """The large machine's mean wait at a third of pairs: the worse of its hold cases over the mean of yield."""
    waits = {name: value(WAIT, LARGE, 0.33, name)(sets) or 0.0 for name in COMBINATIONS}
    yielding = (waits["YH"] + waits["YY"]) / 2
    return max(waits["HH"], waits["HY"]) / yielding if yielding else None


def both_hold_over_both_yield(sets: Sequence[Set]) -> float:
    """The large machine's mean wait at a third of pairs, of HH over YY."""
    hold, other = (value(WAIT, LARGE, 0.33, name)(sets) for name in ("HH", "YY"))
    return (hold or 0.0) / (other or 1.0)


def lost_without_pairs(sets: Sequence[Set]) -> float:
    """Largest number of node-hours lost on an uncoupled machine."""
    return max(most(LOST, machine, LOADS, (BASE,))(sets) or 0.0 for machine in MACHINES)


def grows(sets: Sequence[Sequence[Set]]) -> float:
    """1 if the mean loss over seeds and hold cases never falls as the proportion rises, on both machines."""
    flat = [one for part in sets for one in part]
    for machine in MACHINES:
        means = [
            np.mean([value(LOSS, machine, share, name)(flat) or 0.0 for name in HOLD[machine]]) for share in PROPORTIONS
        ]
        if any(later < earlier for earlier, later in pairwise(means)):
            return 0.0
    return 1.0


# ---- rows ---------------------------------------------------------------------------------------------------------

# Rows of every case: number and end of the name, claim, metric.
CASES = {
    LOAD: (
        ("C27", "wait_extra_min", "extra mean wait", EXTRA_WAIT),
        ("C31", "sync_min", "synchronisation time", SYNC),
        ("C32", "loss_pct", "service-unit loss", LOSS),
    ),
    PROPORTION: (
        ("C33", "wait_min", "mean wait", WAIT),
        ("C36", "sync_min", "synchronisation time", SYNC),
        ("C37", "loss_pct", "service-unit loss", LOSS),
    ),
}
# Rows of the largest value at every load or proportion: name, claim, metric, machine, schemes, paper's values, note.
LARGEST: dict[str, tuple[tuple[str, str, Metric, str, Sequence[str], Sequence[float | None], str], ...]] = {
    LOAD: (
        ("C29.slowdown_extra_{}", "large machine: slowdown above base at most",
         EXTRA_SLOWDOWN, LARGE, COMBINATIONS, (0.6, 1.5, 6.3), ""),
        ("C29.small_base_slowdown_{}", "small machine by itself: mean slowdown",
         SLOWDOWN, SMALL, (BASE,), (1.7, 12.5, 37.1), ""),
        ("C28.small_wait_extra_{}_min", "small machine: extra mean wait at most",
         EXTRA_WAIT, SMALL, COMBINATIONS, (5.0, 7.0, 8.0), ""),
        ("C31.large_hold_sync_{}_min", "large machine with hold: synchronisation time",
         SYNC, LARGE, HOLD[LARGE], (10.0, 50.0, 150.0), "the larger of HH and HY"),
        ("C32.large_loss_{}_node_hours", "large machine: node-hours lost at most",
         LOST, LARGE, HOLD[LARGE], (135_000.0, None, 1_200_000.0), ""),
        ("C32.small_loss_{}_node_hours", "small machine: node-hours lost at most",
         LOST, SMALL, HOLD[SMALL], (3_500.0, 3_500.0, 3_500.0),
         "the paper's text has 25,000 to 35,000, ten times what its percentages say (N7)"),
    ),
    PROPORTION: (
        ("C33.large_wait_{}_min", "large machine: mean wait at most",
         WAIT, LARGE, COMBINATIONS, (None, None, 76.0, 100.0, 187.0), ""),
        ("C35.large_slowdown_{}", "large machine: mean slowdown at most",
         SLOWDOWN, LARGE, COMBINATIONS, (None, None, 7.5, None, 12.9), ""),
        ("C35.small_slowdown_extra_{}", "small machine: slowdown above base at most",
         EXTRA_SLOWDOWN, SMALL, COMBINATIONS, (None, None, None, None, None),
         "the paper: one digit up to 10 % of pairs, two digits above"),
        ("C34.small_wait_extra_{}_min", "small machine: extra mean wait at most",
         EXTRA_WAIT, SMALL, COMBINATIONS, (None, None, None, None, None), ""),
    ),
}  # fmt: skip
# Rows of a whole study: name, claim, statistic, paper's value.
WHOLE: dict[str, tuple[tuple[str, str, Statistic, float | None], ...]] = {
    LOAD: (
        ("C31.small_hold_sync_min", "small machine with hold: shortest synchronisation time",
         least(SYNC, SMALL, LOADS, HOLD[SMALL]), 35.0),
        ("C31.small_hold_sync_max_min", "small machine with hold: longest",
         most(SYNC, SMALL, LOADS, HOLD[SMALL]), 111.0),
        ("C31.small_yield_sync_min", "small machine with yield: shortest",
         least(SYNC, SMALL, LOADS, YIELD[SMALL]), 52.0),
        ("C31.small_yield_sync_max_min", "small machine with yield: longest",
         most(SYNC, SMALL, LOADS, YIELD[SMALL]), 137.0),
        ("C27.large_yield_extra_075_min", "large machine with yield: extra mean wait at high load",
         most(EXTRA_WAIT, LARGE, (HIGH,), YIELD[LARGE]), 25.0),
    ),
    PROPORTION: (
        ("C36.large_hold_sync_max_min", "large machine with hold: longest synchronisation time",
         most(SYNC, LARGE, PROPORTIONS, HOLD[LARGE]), 124.0),
        ("C36.large_hold_sync_min", "large machine with hold: shortest",
         least(SYNC, LARGE, PROPORTIONS, HOLD[LARGE]), 75.0),
        ("C36.small_hold_sync_max_min", "small machine with hold: longest",
         most(SYNC, SMALL, PROPORTIONS, HOLD[SMALL]), 122.0),
        ("C36.hold_below_yield_pct", "cells where hold synchronises faster than yield",
         share_of_cells("mean_sync_s", MACHINES, PROPORTIONS, larger=False), 100.0),
        ("C37.large_loss_max_pct", "large machine: largest service-unit loss",
         most(LOSS, LARGE, PROPORTIONS, HOLD[LARGE]), 9.3),
        ("C37.small_loss_max_pct", "small machine: largest service-unit loss",
         most(LOSS, SMALL, PROPORTIONS, HOLD[SMALL]), 21.0),
        ("C37.large_loss_10_pct", "large machine: service-unit loss up to 10 % of pairs",
         most(LOSS, LARGE, FEW_PAIRS, HOLD[LARGE]), 3.0),
        ("C37.small_loss_10_pct", "small machine: service-unit loss up to 10 % of pairs",
         most(LOSS, SMALL, FEW_PAIRS, HOLD[SMALL]), 5.0),
        ("C38.hold_worse_10_pct", "cells from 10 % of pairs on where hold waits longer than yield",
         share_of_cells("mean_wait_s", MACHINES, (0.1, 0.2, 0.33), larger=True), 100.0),
        ("C33.hh_over_yy_33", "large machine: mean wait of HH over YY at 33 % of pairs",
         both_hold_over_both_yield, None),
    ),
}  # fmt: skip


def rows(plan: Plan, results: dict[str, Any]) -> list[Row]:
    """Return the rows of the contract, then all other rows of the paper."""
    sets = {study: gathered(plan, results, study) for study in (LOAD, PROPORTION)}
    sets[BOTH] = [first + second for first, second in zip(sets[LOAD], sets[PROPORTION], strict=True)]
    by_share = sets[PROPORTION]
    monotone = row(
        expected("C37.loss_monotone"),
        grows(by_share),
        joined("of means over seeds, both machines", plan.note()),
        n_seeds=len(by_share),
    )

    def measured(claims: list[Claim]) -> list[Row]:
        return [plan.measured(one, sets[one.of], plan.note()) for one in claims]

    others = _of_study(LOAD) + _hold_against_yield() + _of_study(PROPORTION) + _put_in()
    return [*measured(_contract()), monotone, *measured(others)]


def _contract() -> list[Claim]:
    worst = "of the worst of the four combinations, as the paper says it"
    eight = "both machines, two loads, two remote schemes: eight cells a seed; all jobs, with and without mates"
    large = "the large machine; the worse of HH and HY over the mean of YH and YY"
    waits = share_of_cells("mean_wait_s", MACHINES, (MEDIUM, HIGH), larger=True)
    syncs = share_of_cells("mean_sync_s", MACHINES, LOADS, larger=False)
    return [
        stated("C25.groups_together_pct", together, of=BOTH),
        *(
            stated(f"C27.extra_wait_{TAGS[load]}_min", most(EXTRA_WAIT, LARGE, (load,), COMBINATIONS), worst, LOAD)
            for load in LOADS
        ),
        stated("C30.hold_worse_than_yield_pct", waits, eight, LOAD),
        stated("C31.sync_hold_below_yield_pct", syncs, "twelve cells a seed", LOAD),
        stated("C32.loss_yield", yield_loss, "node-hours over all cases of a seed", BOTH),
        stated("C33.wait_hold_over_yield_33", hold_over_yield, large, PROPORTION),
    ]


def _of_study(study: str) -> list[Claim]:
    """Return the rows of figures 3 to 6 or 7 to 10, and of agree."""
    found = []
    for place, at in enumerate(VALUES[study]):
        tag = TAGS[at]
        where = f"small machine at {at:g}" if study == LOAD else f"{100 * at:g} % of jobs paired"
        for schemes in SCHEMES:
            for machine in MACHINES:
                for number, unit, claim, metric in CASES[study]:
                    name = f"{number}.{machine}_{schemes.lower()}_{tag}_{unit}"
                    words = f"{machine}, {schemes}: {claim}, {where}"
                    found.append(own(name, words, value(metric, machine, at, schemes), of=study))
        for name, claim, metric, machine, names, papers, note in LARGEST[study]:
            statistic = most(metric, machine, (at,), names)
            found.append(own(name.format(tag), f"{claim}, {where}", statistic, papers[place], note=note, of=study))
    return found + [own(name, words, statistic, paper, of=study) for name, words, statistic, paper in WHOLE[study]]


def _hold_against_yield() -> list[Claim]:
    """Return the cells of the load study, machine by machine."""
    found = []
    for machine in MACHINES:
        for name, words, key in (
            ("wait", "cells where hold waits longer than yield", "mean_wait_s"),
            ("others_wait", "the same of jobs without mates", "mean_wait_others_s"),
            ("slowdown", "the same of slowdown", "mean_slowdown"),
        ):
            statistic = share_of_cells(key, (machine,), (MEDIUM, HIGH), larger=True)
            found.append(own(f"C30.{machine}_{name}_pct", f"{machine}: {words}", statistic, of=LOAD))
        faster = share_of_cells("mean_sync_s", (machine,), LOADS, larger=False)
        words = f"{machine}: cells where hold synchronises faster"
        found.append(own(f"C31.{machine}_sync_pct", words, faster, of=LOAD))
    return found


def _put_in() -> list[Claim]:
    """Return rows that check the calibrated values."""
    wait, slowdown = value(WAIT, LARGE, MEDIUM, BASE), value(SLOWDOWN, LARGE, MEDIUM, BASE)
    used, fitted = value(UTILISATION, SMALL, 0.1, BASE), "fitted: shape of the jobs, then load"
    alone, small = "large machine by itself: mean", "small machine of the proportion study: utilisation"
    found = [
        own("C27.base_wait_min", f"{alone} wait", wait, 61.0, 46.0, 76.0, CALIBRATED, note=fitted, of=LOAD),
        own("C29.base_slowdown", f"{alone} slowdown", slowdown, 6.1, 4.0, 9.0, CALIBRATED, of=LOAD),
        own("C22.small_utilisation", small, used, 0.5, 0.45, 0.55, CALIBRATED, of=PROPORTION),
        own(
            "C53.base_sync", "synchronisation and loss without pairs", lost_without_pairs, 0.0, 0.0, 0.0, CHECK, of=LOAD
        ),
    ]
    for load in LOADS:
        with_mate = f"jobs of the large machine with a mate, small machine at {load:g}"
        name, low, high = f"C21.utilisation_{TAGS[load]}", load - 0.05, load + 0.05
        used = value(UTILISATION, SMALL, load, BASE)
        found += [
            own(f"C21.paired_{TAGS[load]}_pct", with_mate, paired(load), note="the paper: 5 to 10 %", of=LOAD),
            own(name, "small machine by itself: utilisation", used, load, low, high, CALIBRATED, of=LOAD),
        ]
    return found
