"""Coscheduling in small: every row of the contract, the same jobs for all schemes, and statistics by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from cohabit.report.reproduction import render_page
from cohabit.reproduce.coscheduling.lab import (
    LARGE,
    LUBLIN,
    MACHINES,
    SMALL,
    Cell,
    moved_by_coupling,
    run_cell,
    scenario_of,
    workloads,
)
from cohabit.reproduce.coscheduling.ours import pooled_sync, stuck
from cohabit.reproduce.coscheduling.paper import PAPER
from cohabit.reproduce.coscheduling.plan import BASE, COMBINATIONS, LOADS, PROPORTIONS, SCHEMES, Plan, Sizes
from cohabit.reproduce.coscheduling.studies import (
    EXTRA_WAIT,
    WAIT,
    cases,
    grows,
    hold_over_yield,
    least,
    most,
    share_of_cells,
    together,
    value,
    yield_loss,
)
from cohabit.reproduce.papers import PAPERS, Options, Reproduction, reproduce
from cohabit.reproduce.rows import contract
from cohabit.trace.synthetic import offered_load

TINY = Sizes(sets=1, jobs=40, deadlocks=1, deadlock_jobs=60, others=1, months=False)


def tiny(**more: Any) -> Options:
    return Options(quick=True, workers=1, sizes=TINY, shared="/nowhere", **more)


@pytest.fixture(scope="module")
def small() -> Reproduction:
    return reproduce("coscheduling", tiny(seed=3), draw=True)


def test_every_row_of_the_contract_is_there(small: Reproduction) -> None:
    found = {one.id: one for one in small.rows}
    wanted = [name for name in contract() if name.startswith(PAPERS["coscheduling"])]
    assert len(wanted) == 14
    assert set(wanted) <= set(found)
    assert all(found[name].measured is not None for name in wanted)
    assert found["C25.groups_together_pct"].measured == 100
    assert found["C26.deadlock_with_release"].measured == 0
    assert found["C32.loss_yield"].measured == 0
    assert found["C52.moved_s"].measured == 0
    assert found["C24.logs_together_pct"].measured is None
    assert "quick" in found["C27.extra_wait_050_min"].note
    assert json.dumps(small.document())


def test_the_page_has_the_papers_figures(small: Reproduction) -> None:
    assert len(small.pictures) == 16
    for figure in (3, 10):
        assert any(f"Fig. {figure}:" in one.caption for one in small.pictures)
    drawn = [(one.title, one.figure, one.caption) for one in small.pictures]
    page = render_page(small.document(), small.title, small.about, set(contract()), drawn)
    assert "Partitions of a Blue Gene are not modelled" in page


def test_all_schemes_see_the_same_jobs() -> None:
    plan = Plan(tiny())
    first = workloads(plan.load_cell(0, 0.5, "HH"))
    again = workloads(plan.load_cell(0, 0.5, "AA"))
    other = workloads(plan.load_cell(1, 0.5, "HH"))
    for name in MACHINES:
        assert first[name].submit_us.tolist() == again[name].submit_us.tolist()
    assert first[LARGE].submit_us.tolist() != other[LARGE].submit_us.tolist()


def test_both_machines_have_the_same_span_and_the_special_trace_as_many_jobs() -> None:
    by_load = workloads(Cell(1, 300, "HH", load=0.75))
    assert by_load[SMALL].submit_us[-1] == pytest.approx(by_load[LARGE].submit_us[-1], abs=1e6)
    jobs = by_load[SMALL]
    assert offered_load(jobs.submit_us, jobs.run_us, jobs.processes, 100) == pytest.approx(0.75, rel=0.01)
    special = workloads(Cell(1, 300, "HH", proportion=0.1))
    assert len(special[SMALL]) == len(special[LARGE]) == 300
    other = workloads(Cell(1, 200, "HH", load=0.5, source=LUBLIN))
    assert other[LARGE].processes.min() >= 512
    assert other[SMALL].submit_us.max() < other[LARGE].submit_us.max() + 1


def test_a_cell_is_what_it_says() -> None:
    scenario = scenario_of(Cell(5, 40, "HY", load=0.5, release=False, bounded_hold_s=60.0, small_backfill="first-fit"))
    large, small = scenario.domain
    assert (large.scheme, small.scheme) == ("hold", "yield")
    assert large.release_s == small.release_s == 0
    assert large.bounded_hold_s == 60
    assert (large.policy.backfill, small.policy.backfill) == ("easy", "first-fit")
    assert scenario.coupling.pairing == "vicinity"
    assert scenario_of(Cell(5, 40, "HY", proportion=0.2)).coupling.proportion == 0.2


def test_coupling_without_pairs_moves_nobody() -> None:
    assert moved_by_coupling(Cell(2, 60, "YY", load=0.5)) == 0


def test_base_has_no_groups() -> None:
    outcome = run_cell(Cell(2, 40, BASE, load=0.5))
    assert set(outcome) == set(MACHINES)
    assert outcome[LARGE]["held_node_hours"] == 0


# ---- statistics by hand -------------------------------------------------------------------------------------------


def machine(wait: float = 60.0, sync: float = 60.0, lost: float = 0.0) -> dict[str, Any]:
    return {
        "mean_wait_s": wait, "mean_sync_s": sync, "held_share": lost, "held_node_hours": 100 * lost, "mates_started": 2,
        "mean_wait_others_s": wait, "jobs_ran": 4,
    }  # fmt: skip


def made(values: tuple[float, ...], of: Any) -> dict[tuple[float, str], Any]:
    return {
        (value, name): {one: of(one, value, name) for one in MACHINES}
        | {"coupling": {"groups": 4, "groups_together": 3, "groups_not_started": 0, "deadlock": 0}}
        for value in values for name in (BASE, *SCHEMES)
    }  # fmt: skip


def holds(one: str, name: str) -> bool:
    return name in COMBINATIONS and name[MACHINES.index(one)] == "H"


def test_cells_where_hold_is_worse_or_faster() -> None:
    sets = [
        made(LOADS, lambda one, value, name: machine(100 if holds(one, name) else 90, 5 if holds(one, name) else 9))
    ]
    assert share_of_cells("mean_wait_s", MACHINES, (0.5, 0.75), larger=True)(sets) == 100
    assert share_of_cells("mean_sync_s", MACHINES, LOADS, larger=False)(sets) == 100
    same = [made(LOADS, lambda one, value, name: machine())]
    assert share_of_cells("mean_wait_s", MACHINES, LOADS, larger=True)(same) == 0
    one_side = [made(LOADS, lambda one, value, name: machine(100 if one == LARGE and name[0] == "H" else 90))]
    assert share_of_cells("mean_wait_s", MACHINES, LOADS, larger=True)(one_side) == 50


def test_differences_and_extremes() -> None:
    sets = [made(LOADS, lambda one, value, name: machine({"HH": 100, BASE: 40}.get(name, 70)))]
    assert value(WAIT, LARGE, 0.5, "HH")(sets) == 100 / 60
    assert value(EXTRA_WAIT, LARGE, 0.5, "HH")(sets) == 1
    assert most(EXTRA_WAIT, LARGE, (0.5,), COMBINATIONS)(sets) == 1
    assert least(WAIT, LARGE, LOADS, ("HH", "YY"))(sets) == 70 / 60


def test_loss_and_its_growth() -> None:
    rising = [made(PROPORTIONS, lambda one, value, name: machine(lost=value if holds(one, name) else 0.0))]
    assert yield_loss(rising) == 0
    assert grows([rising]) == 1
    falling = [made(PROPORTIONS, lambda one, value, name: machine(lost=1 - value if holds(one, name) else 0.0))]
    assert grows([falling]) == 0
    leaking = [made(PROPORTIONS, lambda one, value, name: machine(lost=0.01))]
    assert yield_loss(leaking) == pytest.approx(5 * 4 * 1.0)


def test_hold_over_yield_and_groups() -> None:
    waits = {"HH": 187, "HY": 120, "YH": 90, "YY": 110}
    sets = [made(PROPORTIONS, lambda one, value, name: machine(waits.get(name, 60)))]
    assert hold_over_yield(sets) == 1.87
    assert together(sets) == 75
    assert pooled_sync(sets[0][0.1, "HH"]) == 1
    assert not stuck(sets[0][0.1, "HH"])
    assert stuck({"coupling": {"deadlock": 2, "groups_not_started": 0}})


def test_the_calibration_has_a_digest() -> None:
    assert len(PAPER.calibration_hash(tiny())) == 32


def test_every_case_is_run_once() -> None:
    names = [task.name for task in PAPER.tasks(tiny())]
    assert len(set(names)) == len(names)
    cases = len((BASE, *SCHEMES))
    counts = {word: sum(name.startswith(f"{word} ") for name in names) for word in ("load", "proportion", "no release")}
    assert counts == {"load": cases * len(LOADS), "proportion": cases * len(PROPORTIONS), "no release": 1}
    others = [name for name in names if not name.startswith(("load ", "proportion ", "no release "))]
    assert {"bounded 0", "full hold 0", "identical", "first-fit HH 0", "lublin HH 0"} <= set(others)


def test_agree_runs_the_proportion_study_on_the_first_seeds_only() -> None:
    plan = Plan(replace(tiny(), sizes=replace(TINY, sets=3, others=2)))
    asked = [(number, study) for study in ("load", "proportion") for number in range(3)]
    agreed = {one for one in asked if any(name == "AA" for _, name in cases(plan, *one))}
    assert agreed == {*asked} - {(2, "proportion")}
    sets = [made(PROPORTIONS, lambda *_, wait=wait: machine(wait)) for wait in (60.0, 120.0)]
    sets[1] = {case: found for case, found in sets[1].items() if case[1] != "AA"}
    waits = {name: value(WAIT, LARGE, 0.1, name)(sets) for name in ("AA", "HH")}
    assert waits == {"AA": 1.0, "HH": 1.5}, "a set without the case is left out of its mean"
    assert value(WAIT, LARGE, 0.1, "AA")(sets[1:]) is None
