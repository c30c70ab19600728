"""summarise() against numbers worked out by hand, and properties that hold for any run."""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model.records import CANCELLED, DONE, FAILED, KILLED, REJECTED, STATUS_NAMES, WAITING, NodeRanges, RunTable
from cohabit.report.metrics import bounded_slowdown, jain_fairness, node_seconds, slowdown, summarise

RunOf = Callable[..., RunTable]

# cli.md's example on 10 nodes: A(0 s, 6 nodes, 100 s), B(1 s, 8, 60 s), C(2 s, 2, 1000 s); B starts at 100, C at 2
THREE = [(0, 0, 100, 6), (1, 100, 160, 8), (2, 2, 1002, 2)]


def test_every_number_of_the_contract_on_three_jobs(run_of: RunOf) -> None:
    found = summarise(run_of(THREE, machine=10))
    assert found["mean_wait_s"] == pytest.approx(33)
    assert found["median_wait_s"] == 0
    assert found["p95_wait_s"] == pytest.approx(89.1)  # linear between 0 and 99 at position 1.9
    assert found["max_wait_s"] == 99
    assert found["mean_run_s"] == pytest.approx(1160 / 3)
    assert found["mean_turnaround_s"] == pytest.approx((100 + 159 + 1000) / 3)
    assert found["mean_slowdown"] == pytest.approx((1 + 159 / 60 + 1) / 3)
    assert found["mean_bounded_slowdown"] == pytest.approx((1 + 159 / 60 + 1) / 3)
    assert found["utilisation"] == pytest.approx((600 + 480 + 2000) / (10 * 1002))
    assert found["makespan_s"] == 1002
    assert found["throughput_per_s"] == pytest.approx(3 / 1259)
    assert found["jobs_per_hour"] == pytest.approx(3 * 3600 / 1002)
    assert found["node_hours"] == found["core_hours"] == pytest.approx(3080 / 3600)
    assert found["mean_queue_length"] == pytest.approx(99 / 1002)
    assert found["max_queue_length"] == 1
    assert (found["jobs_total"], found["jobs_ran"], found["jobs_done"], found["users"]) == (3, 3, 3, 1)


def test_times_are_relative_so_the_clock_of_the_trace_does_not_matter(run_of: RunOf) -> None:
    later = [(submit + 1e9, start + 1e9, end + 1e9, nodes) for submit, start, end, nodes in THREE]
    assert summarise(run_of(later)) == pytest.approx(summarise(run_of(THREE)))


def test_a_job_of_no_length_has_a_bounded_slowdown_and_no_slowdown(run_of: RunOf) -> None:
    found = summarise(run_of([(0, 0, 20, 1), (0, 30, 30, 1)]))
    assert found["mean_slowdown"] == 1
    assert found["mean_bounded_slowdown"] == pytest.approx((1 + 30 / 10) / 2)


def test_the_bound_is_ten_seconds() -> None:
    waits, runs = np.array([0.0, 5.0, 20.0, 20.0]), np.array([1.0, 5.0, 5.0, 20.0])
    assert bounded_slowdown(waits, runs).tolist() == [1, 1, 2.5, 2]
    assert slowdown(waits, runs).tolist() == [1, 2, 5, 2]


def test_only_jobs_that_ran_count_and_waiting_ones_lengthen_the_queue(run_of: RunOf) -> None:
    jobs = [(10, 10, 20, 1), (0, None, None, 50), (12, None, None, 1), (11, 15, 18, 1), (13, 14, 16, 1)]
    jobs.append((9, None, None, 1))
    status = np.array([DONE, REJECTED, WAITING, KILLED, FAILED, CANCELLED], np.int8)
    found = summarise(run_of(jobs, status=status))
    assert found["makespan_s"] == 10  # the rejected job of second 0 and the cancelled one do not begin the run
    assert found["mean_wait_s"] == pytest.approx((0 + 4 + 1) / 3)
    assert found["mean_queue_length"] == pytest.approx((4 + 1 + 8) / 10)
    assert found["max_queue_length"] == 3
    counts = {key: found[key] for key in ("jobs_total", "jobs_ran", *(f"jobs_{name}" for name in STATUS_NAMES))}
    assert counts == {
        "jobs_total": 6, "jobs_ran": 3, "jobs_waiting": 1, "jobs_done": 1, "jobs_killed": 1, "jobs_failed": 1,
        "jobs_cancelled": 1, "jobs_rejected": 1,
    }  # fmt: skip


def test_a_job_that_starts_when_it_arrives_never_queues(run_of: RunOf) -> None:
    found = summarise(run_of([(0, 0, 10, 1), (10, 10, 20, 1)], machine=1))
    assert found["max_queue_length"] == found["mean_queue_length"] == 0


@pytest.mark.parametrize("jobs", [[], [(0, None, None, 3), (1, None, None, 3)]])
def test_a_run_of_nothing_has_nulls_and_counts_but_no_nan(run_of: RunOf, jobs: list[tuple[object, ...]]) -> None:
    found = summarise(run_of(jobs))
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    assert found["jobs_total"] == len(jobs)
    assert found["mean_wait_s"] is found["utilisation"] is found["max_queue_length"] is found["makespan_s"] is None
    assert found["node_hours"] == 0


def test_users_are_judged_by_their_own_mean(run_of: RunOf) -> None:
    jobs = [(0, 0, 100, 1), (0, 100, 200, 1), (0, 300, 400, 1), (0, 0, 100, 1)]
    user = np.array([0, 0, 2, -1], np.int32)
    found = summarise(run_of(jobs, user=user))
    assert found["user_mean_slowdown"] == pytest.approx((1.5 + 4) / 2)
    assert found["user_max_slowdown"] == 4
    assert found["user_fairness"] == pytest.approx(5.5**2 / (2 * (1.5**2 + 4**2)))
    assert found["users"] == 2
    nobody = summarise(run_of(jobs, user=np.full(4, -1, np.int32)))
    assert nobody["user_fairness"] is nobody["user_mean_slowdown"] is None


def test_jain_fairness_at_its_ends() -> None:
    assert jain_fairness(np.array([3.0, 3.0, 3.0])) == pytest.approx(1)
    assert jain_fairness(np.array([0.0, 0.0, 5.0, 0.0])) == pytest.approx(0.25)
    assert jain_fairness(np.empty(0)) is None


def test_node_seconds_count_a_shared_node_once(run_of: RunOf) -> None:
    ranges = NodeRanges(np.array([0, 1, 2, 4]), np.array([0, 1, 0, 3], np.int32), np.array([2, 1, 1, 1], np.int32))
    run = run_of([(0, 0, 10, 2), (0, 5, 20, 1), (0, 30, 40, 2)], node_ranges=ranges)
    assert node_seconds(run) == 10 + 20 + 10 + 10  # node 0 twice, node 1 for 20 s by two jobs, node 3
    assert node_seconds(run_of([(0, 0, 10, 2), (0, None, None, 1)])) == 20


seconds = st.integers(0, 10_000)


@given(st.lists(st.tuples(seconds, seconds, seconds, st.integers(1, 4)), min_size=1, max_size=30))
def test_bounds_that_hold_for_any_run(run_of: RunOf, drawn: list[tuple[int, int, int, int]]) -> None:
    """One lane after another, so that the machine of 4 nodes is never oversubscribed."""
    jobs, free_at = [], 0
    for submit, idle, length, nodes in drawn:
        start = max(submit, free_at) + idle % 7
        free_at = start + length
        jobs.append((submit, start, free_at, nodes))
    found = {name: value for name, value in summarise(run_of(jobs, machine=4)).items() if value is not None}
    assert found["mean_bounded_slowdown"] >= 1
    assert found.get("mean_slowdown", 1) >= 1
    assert 0 <= found.get("utilisation", 0) <= 1 + 1e-12
    assert found["median_wait_s"] <= found["p95_wait_s"] <= found["p99_wait_s"] <= found["max_wait_s"]
    assert found["mean_turnaround_s"] == pytest.approx(found["mean_wait_s"] + found["mean_run_s"])
    assert 0 < found["user_fairness"] <= 1 + 1e-12
    assert found["user_max_slowdown"] >= found["user_mean_slowdown"] - 1e-9
    assert found.get("mean_queue_length", 0) <= found.get("max_queue_length", 0)
    assert all(np.isfinite(value) for value in found.values())


def test_node_seconds_equal_nodes_times_run_time_where_nothing_is_shared(small_run: RunTable) -> None:
    assert node_seconds(small_run) / 3600 == pytest.approx(summarise(small_run)["node_hours"])


@pytest.mark.slow
@pytest.mark.timing
def test_a_million_jobs_are_summarised_in_a_moment(wide: Callable[..., RunTable]) -> None:
    """Measured 0.2 s. The best of up to five: what a busy neighbour adds is not ours."""
    run, took = wide(1_000_000), list[float]()
    while len(took) < 5 and min(took, default=1.5) >= 1.5:
        begin = time.perf_counter()
        summarise(run)
        took.append(time.perf_counter() - begin)
    assert min(took) < 1.5, took
