"""A job moves into and out of the queue, onto and off its nodes."""

from __future__ import annotations

import pytest

from cohabit.core.columns import (
    AGE_LIMIT,
    AGE_RUNS,
    ARRIVAL,
    ENDS,
    EXPECTED,
    QUEUED,
    RELEASED,
    RUN_US,
    RUNNING,
    RUNS,
    START,
    STARTED,
    STATE,
    VOID,
)
from cohabit.model.units import FOREVER
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import CONSERVATIVE, EASY, World, rule

moves, ladder = kernel("moves"), kernel("ladder")


@pytest.mark.parametrize(
    ("chosen", "second"),
    [
        (rule(), False),
        (rule(two_orders=True), True),
        (rule(changing=True, two_orders=True), False),
        (rule(2, by_size=True), True),
        (rule(CONSERVATIVE, by_size=True), False),
    ],
    ids=["one order", "two orders", "scores that change", "by size", "conservative by size"],
)
def test_the_second_ladder_is_for_a_second_order_or_sizes(chosen: object, second: bool) -> None:
    assert moves.uses_second(chosen) == second
    world = World(rule=chosen)
    row = world.submit(1, 10)
    assert ladder.all_rows(world.queue.second).tolist() == ([row] if second else [])
    moves.dequeue(row, chosen, world.queue)
    assert ladder.all_rows(world.queue.second).tolist() == world.queued == []


def test_the_queue_is_in_order_of_score() -> None:
    world = World()
    rows = [world.submit(1, 10, score) for score in (3.0, 1.0, 2.0)]
    assert world.queued == [rows[1], rows[2], rows[0]]
    assert world.jobs[STATE, rows].tolist() == [QUEUED] * 3


def test_a_queue_whose_scores_change_is_in_order_of_bounds() -> None:
    world = World(rule=rule(changing=True))
    world.keys[ARRIVAL, :3] = 0.0, -5.0, 0.0
    assert [world.submit(1, 10, score) for score in (3.0, 4.0, 2.0)] == [0, 1, 2]
    assert world.queued == [1, 0, 2]


def test_the_second_ladder_is_in_the_second_order() -> None:
    world = World(rule=rule(two_orders=True))
    rows = [world.submit(1, 10, score=score, second=-score) for score in (1.0, 2.0, 3.0)]
    assert ladder.all_rows(world.queue.second).tolist() == rows[::-1]


def test_a_job_begins_now_and_is_expected_at_its_requested_end() -> None:
    world = World()
    row = world.job(4, 100)
    moves.begin(row, 7, world.queue, world.machine, world.work.started)
    assert world.jobs[[STATE, START, EXPECTED], row].tolist() == [RUNNING, 7, 107]
    assert world.keys[ENDS, row] == 107
    assert (world.running, world.free, world.ranges(row)) == ([row], 6, [(0, 4)])
    assert (world.gauges[STARTED], world.work.started[0]) == (1, row)


def test_started_jobs_are_listed_in_order() -> None:
    world = World()
    rows = [world.job(2, limit) for limit in (30, 10)]
    for row in rows:
        moves.begin(row, 0, world.queue, world.machine, world.work.started)
    assert world.work.started[:2].tolist() == rows
    assert world.running == rows[::-1], "the running jobs are in order of their ends"


def test_an_end_frees_the_nodes_and_calls_for_a_look_at_the_queue() -> None:
    world = World()
    row = world.run(4, 100)
    moves.finish(row, 50, EASY, world.queue, world.machine)
    assert (world.running, world.free, world.gauges[RELEASED]) == ([], 10, 1)


def test_conservative_gets_the_rest_of_an_early_end_back() -> None:
    world = World(rule=rule(CONSERVATIVE))
    row = world.run(4, 100)
    assert world.free_at(0, 99, 100) == [6, 6, 10]
    world.finish(row, 40)
    assert world.free_at(0, 39, 40, 99) == [6, 6, 10, 10]
    assert world.gauges[VOID] == 0


@pytest.mark.parametrize(("now", "void"), [(100, 0), (101, 1)])
def test_an_end_after_the_request_voids_the_promises(now: int, void: int) -> None:
    world = World(rule=rule(CONSERVATIVE))
    row = world.run(4, 100)
    world.finish(row, now)
    assert world.gauges[VOID] == void


def test_a_fixed_age_limit_comes_before_one_in_runs() -> None:
    world = World()
    assert moves.age_limit(world.gauges) == FOREVER
    world.gauges[[AGE_RUNS, RUN_US, RUNS]] = 2500, 300, 3
    assert moves.age_limit(world.gauges) == 250, "two and a half mean runs of 100"
    world.gauges[AGE_LIMIT] = 70
    assert moves.age_limit(world.gauges) == 70


def test_an_age_limit_in_runs_needs_a_finished_run() -> None:
    world = World()
    world.gauges[AGE_RUNS] = 2500
    assert moves.age_limit(world.gauges) == FOREVER
