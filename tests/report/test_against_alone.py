"""Slowdown against the time alone: by hand, and equal to the bounded slowdown where nothing is shared."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cohabit.model.records import DONE, KILLED, NodeRanges, RunTable, Slowdowns
from cohabit.model.units import SECOND
from cohabit.report.against_alone import known_of_all, slowed
from cohabit.report.figures import promise_figure
from cohabit.report.html import render_report
from cohabit.report.metrics import LIVE, summarise

RunOf = Callable[..., RunTable]
# submitted, started, ended, nodes: waits of 0, 100 and 50 s, runs of 100, 150 and 40 s
THREE = [(0, 0, 100, 2), (0, 100, 250, 2), (10, 60, 100, 1)]


def told(run_of: RunOf, alone_s: list[float], jobs: list[Any] = THREE, **more: Any) -> RunTable:
    """A run whose workload states these run times, with what else is to be different."""
    table = run_of(jobs)
    run_us = np.array([round(one * SECOND) for one in alone_s], np.int64)
    return replace(table, workload=replace(table.workload, run_us=run_us), **more)


def test_by_hand(run_of: RunOf) -> None:
    found = summarise(told(run_of, [100, 100, 80]))
    assert found["mean_slowdown_alone"] == pytest.approx((100 / 100 + 250 / 100 + 90 / 80) / 3)
    assert found["run_against_alone"] == pytest.approx((1.0 * 1.5 * 0.5) ** (1 / 3))
    assert (found["jobs_below_promise"], found["jobs_alone_known"]) == (1, 3)


def test_a_slowed_job_looks_better_by_the_old_slowdown_and_worse_by_the_new_one(run_of: RunOf) -> None:
    waits = [(0, 100, 200, 1)]
    slower = [(0, 100, 300, 1)]
    old, new = (
        [summarise(told(run_of, [100], jobs))[key] for jobs in (waits, slower)]
        for key in ("mean_bounded_slowdown", "mean_slowdown_alone")
    )
    assert old == pytest.approx([2.0, 1.5])
    assert new == pytest.approx([2.0, 3.0])


def test_where_run_times_are_as_stated_both_are_the_same(run_of: RunOf) -> None:
    run = told(run_of, [100, 150, 40])
    found = summarise(run)
    assert found["mean_slowdown_alone"] == pytest.approx(found["mean_bounded_slowdown"])
    assert found["user_max_slowdown_alone"] == pytest.approx(found["user_max_slowdown"])
    assert found["run_against_alone"] == 1
    assert not slowed(run)
    assert slowed(told(run_of, [100, 100, 40]))


def test_a_report_shows_interference_first_where_there_is_any(run_of: RunOf) -> None:
    cards = [
        render_report([told(run_of, alone)], "A run").split('<div class="cards">')[1].split("</section>")[0]
        for alone in ([100, 150, 40], [100, 100, 80])
    ]
    for label in ("Run time against alone", "Jobs below their promise"):
        shown = [f'<div class="label">{label}</div>' in one for one in cards]
        assert shown == [False, True]


def test_a_job_that_was_cut_counts_as_long_as_it_was(run_of: RunOf) -> None:
    status = np.array([DONE, KILLED, DONE], np.int8)
    assert summarise(told(run_of, [100, 900, 40], status=status))["run_against_alone"] == 1


def test_a_promise_is_the_job_s_own_else_the_site_s(run_of: RunOf) -> None:
    stated = [100.0, 120.0, 40.0]  # the second took 1.25 times as long
    count = "jobs_below_promise"
    assert summarise(told(run_of, stated))[count] == 1
    assert summarise(told(run_of, stated, settings={"policy": {"alpha": 0.7}}))[count] == 0
    run = told(run_of, stated, settings={"policy": {"alpha": 0.7}})
    own = replace(run.workload, extra={"alpha": np.array([np.nan, 0.8, np.nan])})
    assert summarise(replace(run, workload=own))[count] == 1


def test_live_it_is_known_only_where_a_slowdown_was_measured(run_of: RunOf) -> None:
    run = told(run_of, [100, 150, 40])
    live = replace(run, workload=replace(run.workload, source=LIVE, extra={}))
    found = summarise(live)
    assert found["mean_slowdown_alone"] is found["jobs_below_promise"] is None
    assert found["jobs_alone_known"] == 0
    assert "bounded slowdown, logarithmic" in render_report([live], "live")
    some = replace(live, slowdowns=Slowdowns(np.full(3, np.nan), np.array([np.nan, 1.5, np.nan])))
    found = summarise(some)
    assert found["mean_slowdown_alone"] == pytest.approx(2.5)
    assert (found["jobs_below_promise"], found["jobs_alone_known"]) == (1, 1)
    assert not known_of_all([some])


def test_a_shared_node_is_occupied_once(run_of: RunOf) -> None:
    jobs = [(0, 0, 100, 1), (0, 0, 100, 1)]
    run = told(run_of, [100, 100], jobs)
    on_one = NodeRanges(np.array([0, 1, 2]), np.zeros(2, np.int32), np.ones(2, np.int32))
    found = summarise(replace(run, node_ranges=on_one, shares=["{}", "{}"]))
    assert found["node_hours"] == pytest.approx(200 / 3600)
    assert found["node_hours_occupied"] == pytest.approx(100 / 3600)


def test_promises_are_drawn_job_by_job(run_of: RunOf) -> None:
    run = told(run_of, [100, 100, 80])
    figure = promise_figure({"sns": [run]})
    assert figure is not None
    kept = np.frombuffer(base64.b64decode(figure["data"][0]["y"]["bdata"]), "<f4")
    assert kept == pytest.approx([100, 100 / 1.5, 200])
    assert figure["data"][0]["customdata"][1].startswith("job ")
    assert [round(line["y0"], 1) for line in figure["layout"]["shapes"]] == [90.9]
    assert "Promises kept" in render_report([run], "shared")
    assert promise_figure({"ce": [told(run_of, [100, 150, 40])]}) is None
