"""The textbook reference against hand-worked schedules, known theorems and its own second formulations."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.breadth import examples
from tests.reference.fast_easy import compiler, fast_easy_starts
from tests.reference.textbook import ORDERS, Job, Note, Result, is_runnable, parse_swf, simulate

BACKFILLS = ["none", "easy", 0, 1, 2, 3, 10**9, "conservative"]


def jobs_of(*rows: tuple[int, int, int, int]) -> list[Job]:
    """(submit, run, limit, size) in file order."""
    return [Job(k, *row) for k, row in enumerate(rows, 1)]


def starts(jobs: list[Job], nodes: int, **options: object) -> list[int | None]:
    return [r.start for r in simulate(jobs, nodes, **options)]  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------------- hand-worked

CONTRACT = jobs_of((0, 100, 100, 6), (1, 60, 60, 8), (2, 1000, 1000, 2))


def test_example_of_the_contract() -> None:
    assert simulate(CONTRACT, 10) == [Result(0, 100, "done"), Result(100, 160, "done"), Result(2, 1002, "done")]


def test_without_backfill_nobody_overtakes() -> None:
    assert starts(CONTRACT, 10, backfill="none") == [0, 100, 100]


def test_file_order_is_kept_in_the_result_and_equal_submits_keep_file_order() -> None:
    jobs = [Job(7, 5, 10, 10, 4), Job(9, 0, 3, 3, 4), Job(2, 0, 3, 3, 4)]
    assert starts(jobs, 4) == [6, 0, 3]


@pytest.mark.parametrize("backfill", BACKFILLS)
def test_rejected_jobs_never_run_and_hold_nothing(backfill: str | int) -> None:
    jobs = jobs_of((0, -1, 10, 4), (0, 10, 10, 0), (0, 10, 10, -1), (0, 10, 10, 5), (0, 10, 10, 4))
    results = simulate(jobs, 4, backfill=backfill)
    assert [r.status for r in results] == ["rejected"] * 4 + ["done"]
    assert results[-1].start == 0
    assert results[0] == Result(None, None, "rejected")


def test_run_equal_to_the_limit_is_done_and_longer_is_killed() -> None:
    jobs = jobs_of((0, 10, 10, 4), (0, 11, 10, 4))
    assert simulate(jobs, 4) == [Result(0, 10, "done"), Result(10, 20, "killed")]
    assert simulate(jobs, 4, kill=False) == [Result(0, 10, "done"), Result(10, 21, "done")]


def test_chain_of_jobs_without_run_time_all_start_in_one_instant() -> None:
    jobs = jobs_of((3, 0, 9, 4), (3, 0, 9, 4), (3, 0, 9, 4), (3, 5, 9, 4))
    for backfill in BACKFILLS:
        assert starts(jobs, 4, backfill=backfill) == [3, 3, 3, 3]


def test_depth_two_protects_the_second_in_the_queue() -> None:
    # B and C wait; D would fit behind B's reservation but delay C.
    jobs = jobs_of((0, 10, 10, 6), (1, 10, 10, 10), (1, 10, 10, 10), (2, 8, 8, 4), (2, 30, 30, 4))
    assert starts(jobs, 10, backfill="easy") == [0, 10, 20, 2, 30]
    jobs = jobs_of((0, 10, 10, 6), (1, 10, 10, 8), (1, 10, 10, 9), (2, 30, 30, 2))
    assert starts(jobs, 10, backfill="easy") == [0, 10, 32, 2]
    assert starts(jobs, 10, backfill=2) == [0, 10, 20, 30]
    assert starts(jobs, 10, backfill="conservative") == [0, 10, 20, 30]


def test_conservative_early_starts_by_hand() -> None:
    # A asks 20 and ends at 4. Promises: B 20, C (small, long) 30. After A's end B starts at 4; when it ends, C at 14.
    jobs = jobs_of((0, 4, 20, 6), (1, 10, 10, 8), (1, 40, 40, 4))
    log: list[Note] = []
    assert starts(jobs, 10, backfill="conservative", log=log) == [0, 4, 14]
    assert [(n.now, n.index, n.when) for n in log] == [(0, 0, 0), (1, 1, 20), (1, 2, 30)]


def test_dynamic_order_is_scored_at_the_instant_of_the_pass() -> None:
    # Under WFP a short request ages faster: at 100 B scores (99/50)^3 x 4 = 31, C (50/10)^3 x 4 = 500.
    jobs = jobs_of((0, 100, 100, 4), (1, 50, 50, 4), (50, 10, 10, 4))
    assert starts(jobs, 4, order="fcfs") == [0, 100, 150]
    assert starts(jobs, 4, order="wfp") == [0, 110, 100]
    assert starts(jobs, 4, order=lambda job, now: -job.job_id) == [0, 110, 100]


def test_orders_by_hand() -> None:
    job = Job(1, 1000, 7, 100, 4)
    score = {name: function(job, 1200, 1) for name, function in ORDERS.items()}
    assert score == pytest.approx(
        {
            "fcfs": 1000,
            "sjf": 100,
            "ljf": -100,
            "saf": 400,
            "wfp": -32,  # (200 / 100)^3 x 4
            "unicef": -1,  # 200 / (2 x 100)
            "f1": 2 * 4 + 870 * 3,
            "f2": 10 * 4 + 25_600 * 3,
            "f3": 100 * 4 + 6_860_000 * 3,
            "f4": 100 * 2 + 530_000 * 3,
        }
    )
    micro = Job(1, 1000 * 10**6, 7 * 10**6, 100 * 10**6, 4)
    for name in ("wfp", "unicef", "f1", "f2", "f3", "f4"):
        assert ORDERS[name](micro, 1200 * 10**6, 10**6) == pytest.approx(score[name])


def test_orders_are_finite_at_the_edges() -> None:
    for function in ORDERS.values():
        for job in (Job(1, 0, 0, 0, 1), Job(1, -5, 0, 0, 1), Job(1, 0, 0, 1, 2)):
            assert math.isfinite(function(job, 0, 1))
    assert ORDERS["unicef"](Job(1, 0, 5, 10, 1), 20, 1) == -2  # log2(1) counts as 1


def test_swf() -> None:
    text = """; Version: 2
; MaxNodes: 16
; MaxProcs: 32
1 0 -1 10 4 -1 -1 8 20 -1 1 1 1 -1 -1 -1 -1 -1
2 5 -1 10 4 -1 -1 -1 -1 -1 1 1 1 -1 -1 -1 -1 -1
3 6 -1 -1 4 -1 -1 4 9 -1 1 1 1 -1 -1 -1 -1 -1
"""
    assert parse_swf(text) == ([Job(1, 0, 10, 20, 8), Job(2, 5, 10, 10, 4), Job(3, 6, -1, 9, 4)], 16)


# --------------------------------------------------------------------------------------------------------- properties


def job_lists(*, exact: bool = False, positive: bool = False) -> st.SearchStrategy[list[Job]]:
    """Small crowded traces with many ties; half the jobs ask for just what they run."""
    low = 1 if positive else 0
    run = st.one_of(st.integers(low, 6), st.integers(low, 25))
    row = st.tuples(st.one_of(st.integers(0, 6), st.integers(0, 40)), run, run, st.integers(1, 8), st.booleans())
    return st.lists(row, max_size=14).map(
        lambda rows: [
            Job(k, submit, run, run if exact or same else limit, size)
            for k, (submit, run, limit, size, same) in enumerate(rows, 1)
        ]
    )


orders = st.sampled_from(sorted(ORDERS))
small = settings(max_examples=examples(300), deadline=None)


@small
@given(job_lists(), orders, st.none() | orders, st.booleans())
def test_easy_by_shadow_and_extra_is_the_profile_with_one_reservation(
    jobs: list[Job], order: str, r2: str | None, kill: bool
) -> None:
    easy = simulate(jobs, 8, order=order, backfill="easy", backfill_order=r2, kill=kill)
    assert easy == simulate(jobs, 8, order=order, backfill=1, backfill_order=r2, kill=kill)


@small
@given(job_lists(), orders, st.booleans())
def test_depth_zero_is_none_and_the_backfill_order_does_not_matter_there(
    jobs: list[Job], order: str, kill: bool
) -> None:
    none = simulate(jobs, 8, order=order, backfill="none", kill=kill)
    assert none == simulate(jobs, 8, order=order, backfill=0, kill=kill)
    assert none == simulate(jobs, 8, order=order, backfill=0, backfill_order="sjf", kill=kill)


@small
@given(job_lists(), orders, st.none() | orders, st.sampled_from(BACKFILLS), st.booleans())
def test_every_job_runs_once_within_its_rules_and_nodes_are_never_overbooked(
    jobs: list[Job], order: str, r2: str | None, backfill: str | int, kill: bool
) -> None:
    nodes = 6  # so that some jobs are too large
    results = simulate(jobs, nodes, order=order, backfill=backfill, backfill_order=r2, kill=kill)
    assert len(results) == len(jobs)
    taken: list[tuple[int, int, int]] = []
    for job, result in zip(jobs, results, strict=True):
        if not is_runnable(job, nodes):
            assert result == Result(None, None, "rejected")
            continue
        assert result.start is not None
        assert result.end is not None
        assert result.start >= job.submit
        assert result.end - result.start == (min(job.run, job.limit) if kill else job.run)
        assert (result.status == "killed") == (kill and job.run > job.limit)
        taken.append((result.start, result.end, job.size))
    for t, _, _ in taken:
        assert sum(size for a, b, size in taken if a <= t < b) <= nodes


@small
@given(job_lists(), orders, st.sampled_from(["none", "easy", 1, 2, 5, 10**9]), st.booleans())
def test_a_waiting_job_never_sees_an_idle_machine(jobs: list[Job], order: str, backfill: str | int, kill: bool) -> None:
    results = simulate(jobs, 8, order=order, backfill=backfill, kill=kill)
    busy = [(r.start, r.end) for r in results if r.start is not None and r.end is not None]
    for job, result in zip(jobs, results, strict=True):
        assert result.start is not None
        # Nodes are released only at ends, so it is enough to look at the submit and at the ends before the start.
        for t in [job.submit] + [b for _, b in busy if job.submit <= b]:
            if t < result.start:
                assert any(a <= t < b for a, b in busy)


@small
@given(job_lists(), st.booleans())
def test_fcfs_without_backfill_starts_in_trace_order(jobs: list[Job], kill: bool) -> None:
    results = simulate(jobs, 8, backfill="none", kill=kill)
    by_trace = [results[i].start for i in sorted(range(len(jobs)), key=lambda i: jobs[i].submit)]
    assert by_trace == sorted(by_trace)  # type: ignore[type-var]


@small
@given(job_lists(), st.none() | orders)
def test_easy_never_delays_the_head_past_its_first_shadow(jobs: list[Job], r2: str | None) -> None:
    log: list[Note] = []
    results = simulate(jobs, 8, backfill="easy", backfill_order=r2, log=log)
    latest: dict[int, int] = {}
    for note in log:
        assert note.when <= latest.get(note.index, note.when), "the shadow only moves to the left"
        latest[note.index] = note.when
    for index, shadow in latest.items():
        start = results[index].start
        assert start is not None
        assert start <= shadow


@small
@given(job_lists(), orders, st.booleans())
def test_conservative_never_starts_a_job_later_than_its_first_reservation(
    jobs: list[Job], order: str, look_always: bool
) -> None:
    log: list[Note] = []
    results = simulate(jobs, 8, order=order, backfill="conservative", look_always=look_always, log=log)
    latest: dict[int, int] = {}
    for note in log:
        assert note.when <= latest.get(note.index, note.when), "a reservation only moves to the left"
        latest[note.index] = note.when
    for index, result in enumerate(results):
        assert result.start is not None
        assert result.start <= latest[index]


@small
@given(job_lists(exact=True, positive=True))
def test_with_exact_requests_conservative_is_unlimited_depth_and_delays_nobody(jobs: list[Job]) -> None:
    # Without early ends nobody can start before his promise, and planning afresh gives the same plan again.
    log: list[Note] = []
    conservative = simulate(jobs, 8, backfill="conservative", log=log)
    assert conservative == simulate(jobs, 8, backfill=10**9)
    first = {note.index: note.when for note in reversed(log)}
    assert all(conservative[i].start == when for i, when in first.items())
    strict = simulate(jobs, 8, backfill="none")
    assert all(c.start <= s.start for c, s in zip(conservative, strict, strict=True))  # type: ignore[operator]


@small
@given(job_lists(), st.sampled_from(["fcfs", "sjf", "saf", "ljf"]), st.sampled_from(BACKFILLS), st.booleans())
def test_the_unit_of_time_does_not_matter(jobs: list[Job], order: str, backfill: str | int, kill: bool) -> None:
    micro = [Job(j.job_id, j.submit * 1000, j.run * 1000, j.limit * 1000, j.size) for j in jobs]
    plain = starts(jobs, 8, order=order, backfill=backfill, kill=kill)
    scaled = starts(micro, 8, order=order, backfill=backfill, kill=kill, tick=1000)
    assert scaled == [None if t is None else t * 1000 for t in plain]


@small
@given(job_lists(), st.sampled_from(BACKFILLS))
def test_a_machine_with_room_for_all_starts_everyone_at_once(jobs: list[Job], backfill: str | int) -> None:
    assert starts(jobs, 8 * 14, backfill=backfill) == [job.submit for job in jobs]


# ------------------------------------------------------------------------------------------------------ the C version

needs_cc = pytest.mark.skipif(compiler() is None, reason="needs a C compiler: install gcc or clang")


@needs_cc
@settings(max_examples=examples(150), deadline=None)
@given(job_lists(), st.booleans())
def test_the_c_version_agrees(jobs: list[Job], kill: bool) -> None:
    assert fast_easy_starts(jobs, 6, kill=kill) == starts(jobs, 6, kill=kill)


@needs_cc
@pytest.mark.parametrize("kill", [True, False])
def test_the_c_version_agrees_on_a_longer_trace(kill: bool) -> None:
    import random

    random.seed(20_240_607)
    jobs = []
    submit = 0
    for k in range(600):
        submit += random.choice([0, 0, 1, 5, 30])
        limit = random.choice([10, 60, 60, 300, random.randint(1, 400)])
        run = random.choice([0, limit, limit, random.randint(0, limit), limit + random.randint(1, 50)])
        jobs.append(Job(k, submit, run, limit, random.choice([1, 2, 4, 8, 16, random.randint(1, 32)])))
    assert fast_easy_starts(jobs, 32, kill=kill) == starts(jobs, 32, kill=kill)
