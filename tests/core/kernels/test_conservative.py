"""Conservative backfilling: every job is promised a start, which never moves later."""

from __future__ import annotations

import math
from typing import Any

import pytest

from cohabit.core.columns import PROMISED, RESERVED, VOID, WAKE
from cohabit.model.units import FOREVER, SECOND
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import CONSERVATIVE, World, rule

conservative, moves = kernel("conservative"), kernel("moves")


def machine(nodes: int = 10, **more: Any) -> World:
    return World(nodes, rule(CONSERVATIVE, **more))


def promises(world: World, *rows: int) -> list[int]:
    return [int(world.jobs[RESERVED, row]) for row in rows]


def test_every_blocked_job_is_promised_its_earliest_start() -> None:
    world = machine()
    a, b, c, d = (world.submit(*asked) for asked in ((6, 10), (8, 10), (9, 10), (1, 5)))
    assert world.starts(0) == [a, d]
    assert promises(world, b, c) == [10, 20]
    assert world.gauges[WAKE] == 10


def test_no_job_starts_that_would_delay_any_promise() -> None:
    """D would not delay the first of the queue, but the one behind it."""
    world = machine()
    world.submit(6, 10)
    world.submit(8, 10)
    world.submit(9, 10)
    d = world.submit(2, 30)
    world.starts(0)
    assert d in world.queued
    assert promises(world, d) == [30]


def test_a_promise_is_kept_when_jobs_end_early() -> None:
    """C is ahead of D in the queue and D was promised 10: at 10 C may not take D's nodes."""
    world = machine(3)
    a, b, c, d = (world.submit(*asked) for asked in ((1, 10), (1, 30), (3, 20), (2, 20)))
    assert world.starts(0) == [a, b]
    assert promises(world, c, d) == [30, 10]
    world.finish(a, 10)
    world.finish(b, 10)
    assert world.starts(10) == [d]
    assert promises(world, c) == [30]


def test_a_job_starts_before_its_promise_if_that_breaks_no_other() -> None:
    world = machine()
    a, h = world.submit(6, 100), world.submit(8, 60)
    assert world.starts(0) == [a]
    world.finish(a, 30)
    assert world.starts(30) == [h]
    assert world.free_at(30, 89, 90) == [2, 2, 10], "its promise from 100 on is given up"


def test_without_a_release_no_job_starts_before_its_promise() -> None:
    world = machine()
    a, h = world.submit(6, 100), world.submit(8, 60)
    assert world.starts(0) == [a]
    assert world.starts(99) == []
    world.finish(a, 100)
    assert world.starts(100) == [h]


def test_of_two_that_could_start_early_the_first_in_order_does() -> None:
    world = machine()
    a = world.submit(10, 100)
    world.submit(6, 50, score=9.0)
    first = world.submit(6, 50, score=8.0)
    assert world.starts(0) == [a]
    world.finish(a, 10)
    assert world.starts(10) == [first]


@pytest.mark.parametrize("alone", [False, True])
def test_scores_that_change_decide_who_starts_early(alone: bool) -> None:
    """Promised in order of submission; when the nodes are free the later one has the smaller score."""
    world = machine(changing=True, alone=alone)
    a, b, c = world.submit(10, 100), world.submit(6, 50), world.submit(6, 50)
    scorer = world.scorer(lambda row, now: float(row) if now < 10 else -float(row))
    assert world.starts(0, scorer) == [a]
    assert promises(world, b, c) == [100, 150]
    world.finish(a, 10)
    assert world.starts(10, scorer) == [c]


@pytest.mark.parametrize("by_size", [False, True])
def test_a_start_before_a_promise_may_let_others_start_too(by_size: bool) -> None:
    world = machine(by_size=by_size, by_score=not by_size)
    a = world.submit(10, 100)
    rows = [world.submit(nodes, 50) for nodes in (5, 5, 5)]
    assert world.starts(0) == [a]
    assert promises(world, *rows) == [100, 100, 150]
    world.finish(a, 10)
    assert world.starts(10) == rows[:2]
    assert promises(world, rows[2]) == [150], "a promise moves only to now"


def test_the_first_promise_is_remembered() -> None:
    world = machine()
    a, h = world.submit(6, 100), world.submit(8, 60)
    world.starts(0)
    world.finish(a, 30)
    world.starts(30)
    assert world.jobs[PROMISED, [a, h]].tolist() == [0, 100]


def test_a_job_that_leaves_gives_its_promised_nodes_back() -> None:
    world = machine()
    world.submit(6, 100)
    h = world.submit(8, 60)
    world.starts(0)
    assert world.free_at(100, 159) == [2, 2]
    conservative.cancel_reservation(h, world.jobs, world.machine)
    assert world.free_at(100, 159) == [10, 10]
    assert promises(world, h) == [-1]


def test_a_job_that_can_never_start_is_promised_nothing() -> None:
    world = machine()
    h = world.submit(11, 60)
    assert world.starts(0) == []
    assert promises(world, h) == [FOREVER]
    conservative.cancel_reservation(h, world.jobs, world.machine)
    assert world.free_at(0, 10**9) == [10, 10]


def test_void_promises_are_made_anew_in_order() -> None:
    """The running job is late: it is expected to end in a second, and all promises are planned from there."""
    world = machine()
    a, b, c = world.submit(6, 100), world.submit(8, 60), world.submit(8, 60)
    assert world.starts(0) == [a]
    assert promises(world, b, c) == [100, 160]
    assert world.starts(100) == []
    assert promises(world, b, c) == [100 + SECOND, 160 + SECOND]
    assert world.gauges[VOID] == 0
    assert world.jobs[PROMISED, b] == 100, "what was promised first"


def test_a_request_of_no_time_is_promised_a_second_and_holds_nothing_once_started() -> None:
    world = machine()
    a, zero = world.submit(10, 100), world.submit(10, 0)
    assert world.starts(0) == [a]
    assert promises(world, zero) == [100]
    assert world.free_at(100, 99 + SECOND, 100 + SECOND) == [0, 0, 10]
    world.finish(a, 100)
    assert world.starts(100) == [zero]
    assert world.free_at(100) == [10]


def test_whether_a_job_could_start_early() -> None:
    """From its promise on it has the promised nodes: only the time until then must be free."""
    world = machine()
    world.run(6, 100)
    h = world.submit(8, 60)
    world.starts(0)
    assert promises(world, h) == [100]
    world.slots[kernel("profile").LASTING + 1, 0] = conservative.STALE
    assert not conservative.could_start_early(h, 0, 10, world.jobs, world.machine)
    kernel("profile").give_back(world.slots, world.gauges, 50, 100, 6)
    world.slots[kernel("profile").LASTING + 1, 0] = conservative.STALE
    assert conservative.could_start_early(h, 50, 10, world.jobs, world.machine)
    assert not conservative.could_start_early(h, 50, 7, world.jobs, world.machine), "too few are left"
    assert not conservative.could_start_early(h, 100, 10, world.jobs, world.machine), "it is due"


@pytest.mark.parametrize(
    ("score", "whole"), [(1.7, 1), (-1.2, -2), (3.0, 3), (math.inf, FOREVER), (-math.inf, -FOREVER)]
)
def test_scores_are_rounded_down_for_the_summary_of_a_rung(score: float, whole: int) -> None:
    assert conservative.rounded_down(score) == whole
