"""Variation of run times: by hand, against the first policy, and not where nothing can vary."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cohabit.app.simulate.comparison import as_document, judge
from cohabit.model.records import KILLED, RunTable
from cohabit.model.units import SECOND
from cohabit.report.html import render_report
from cohabit.report.metrics import summarise
from cohabit.report.variation import by_program, first_policy_norms

RunOf = Callable[..., RunTable]
KEYS = ("varying_runs", "run_variation", "longest_run_ratio")


def runs(run_of: RunOf, seconds: list[float], stated_s: float = 100.0, **more: Any) -> RunTable:
    """One job after the other, all of the same program, stated alike."""
    table = run_of([(0, 1000 * place, 1000 * place + one, 2) for place, one in enumerate(seconds)], **more)
    count = len(seconds)
    workload = replace(
        table.workload,
        program=np.zeros(count, np.int32),
        program_names=("laghos",),
        run_us=np.full(count, round(stated_s * SECOND)),
    )
    return replace(table, workload=workload)


def test_runs_of_one_program_by_hand(run_of: RunOf) -> None:
    seconds = [100.0, 100.0, 100.0, 100.0, 150.0]  # mean 110, deviation 20: the last is 2 above
    (row,) = by_program(runs(run_of, seconds))
    assert (row["program"], row["processes"], row["runs"], row["varying_runs"]) == ("laghos", 2, 5, 1)
    assert row["mean_run_s"] == pytest.approx(110)
    assert row["run_variation"] == pytest.approx(20 / 110)
    assert row["longest_run_ratio"] == pytest.approx(150 / 110)
    found = summarise(runs(run_of, seconds))
    assert found["varying_runs"] == 1
    assert found["longest_run_ratio"] == pytest.approx(150 / 110)


def test_norms_are_those_of_the_first_policy(run_of: RunOf) -> None:
    first = runs(run_of, [100.0, 101.0, 100.0, 101.0, 100.0, 150.0], policy="ce-easy")
    calm = runs(run_of, [100.0, 101.0, 100.0, 101.0, 100.0, 106.0], policy="rush")
    assert summarise(calm)["varying_runs"] == 1  # by its own small deviation
    norms = first_policy_norms([first, calm])
    assert [summarise(run, norms)["varying_runs"] for run in (first, calm)] == [1, 0]
    assert by_program(calm, norms)[0]["deviation_sigma"] < 0
    told = as_document([first, calm], judge([first, calm], 1), 1)
    assert [run["metrics"]["varying_runs"] for run in told["runs"]] == [1, 0]
    assert told["runs"][1]["programs"][0]["program"] == "laghos"
    page = render_report([first, calm], "two")
    assert "How run times vary" in page


def test_a_first_policy_that_never_varies_does_not_hide_the_variation_of_others(run_of: RunOf) -> None:
    still = runs(run_of, [100.0] * 6, policy="ce")
    shared = runs(run_of, [100.0, 130.0] * 3, policy="cs")
    norms = first_policy_norms([still, shared])
    assert [summarise(run, norms)["varying_runs"] for run in (still, shared)] == [0, 3]


def test_absent_where_nothing_can_vary_or_there_are_too_few_runs(run_of: RunOf) -> None:
    plain = runs(run_of, [100.0] * 6)
    few = runs(run_of, [100.0, 120.0, 100.0, 140.0])
    nameless = run_of([(0, place, place + 100 + place, 2) for place in range(6)])
    for table in (plain, few, nameless):
        assert [summarise(table)[key] for key in KEYS] == [None, None, None]
        assert by_program(table) == []
    norms = first_policy_norms([plain, replace(plain, policy="b")])
    assert [summarise(plain, norms)[key] for key in KEYS] == [None, None, None]


def test_problem_sizes_and_canaries_are_no_variation(run_of: RunOf) -> None:
    table = runs(run_of, [110.0, 210.0, 110.0, 210.0, 110.0, 210.0])
    stated = np.array([100, 200] * 3) * SECOND
    sized = replace(table, workload=replace(table.workload, run_us=stated), canary_us=10 * SECOND)
    assert summarise(sized)["varying_runs"] == 0
    assert summarise(sized)["longest_run_ratio"] == pytest.approx(1)


def test_killed_runs_do_not_count_and_live_runs_are_compared_in_seconds(run_of: RunOf) -> None:
    table = runs(run_of, [100.0, 100.0, 100.0, 100.0, 100.0, 500.0])
    status = table.status.copy()
    status[-1] = KILLED
    assert by_program(replace(table, status=status)) == []  # what is left is as stated
    taken = table.end_us - table.start_us
    live = replace(table, workload=replace(table.workload, run_us=taken, source="live"))
    assert by_program(live)[0]["longest_run_ratio"] == pytest.approx(500 / (1000 / 6))
