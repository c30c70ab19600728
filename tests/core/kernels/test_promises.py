"""Promised starts by time: the earliest first, and entries of jobs that have left do not count."""

from __future__ import annotations

from cohabit.core.columns import BLOCKED, PROMISES, QUEUED, RESERVED, STATE
from cohabit.model.units import FOREVER, SECOND
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import World

promises = kernel("promises")


def promised(*instants: int) -> World:
    """Row n is promised the n-th instant."""
    world = World()
    for instant in instants:
        row = world.job(1, 10)
        world.jobs[[STATE, RESERVED], row] = QUEUED, instant
        promises.note_promise(world.slots, world.gauges, instant, row)
    return world


def first(world: World) -> int:
    return int(promises.first(world.jobs, world.slots, world.gauges))


def due(world: World, now: int, *known: int) -> list[int]:
    rows = world.work.arrivals
    rows[: len(known)] = known
    count = promises.take_due(now, world.jobs, world.slots, world.gauges, rows, len(known))
    return [int(row) for row in rows[:count]]


def test_the_earliest_promise_is_first() -> None:
    assert first(promised(30, 10, 20)) == 10
    assert first(promised()) == FOREVER


def test_due_promises_come_in_order_of_time() -> None:
    world = promised(50, 30, 70, 10, 60, 20, 40)
    assert due(world, 50) == [3, 5, 1, 6, 0]
    assert first(world) == 60


def test_a_job_that_is_looked_at_anyway_is_not_taken_twice() -> None:
    assert due(promised(10, 20), 20, 1) == [1, 0]


def test_a_promise_due_now_is_due() -> None:
    assert due(promised(10), 9) == []
    assert due(promised(10), 10) == [0]


def test_a_job_that_has_left_has_no_promise() -> None:
    world = promised(10, 20)
    world.jobs[STATE, 0] = BLOCKED
    assert first(world) == 20


def test_only_the_latest_promise_of_a_job_counts() -> None:
    world = promised(10, 20)
    world.jobs[RESERVED, 0] = 30
    promises.note_promise(world.slots, world.gauges, 30, 0)
    assert due(world, 25) == [1]
    assert first(world) == 30


def test_making_room_drops_the_entries_of_jobs_that_have_left() -> None:
    world = promised(10, 20, 30, 40)
    world.jobs[STATE, [0, 2]] = BLOCKED
    promises.make_room(5, world.jobs, world.slots, world.gauges)
    assert world.gauges[PROMISES] == 4, "there is room"
    promises.make_room(4, world.jobs, world.slots, world.gauges)
    assert world.gauges[PROMISES] == 2
    assert due(world, 100) == [1, 3]


def test_jobs_that_did_not_start_are_noted_again() -> None:
    world = promised(10, 20, FOREVER)
    rows = world.work.arrivals
    count = promises.take_due(FOREVER - 1, world.jobs, world.slots, world.gauges, rows, 0)
    assert count == 2
    world.jobs[STATE, 0] = BLOCKED  # it has started
    rows[2] = 2  # without a promise that will ever come
    world.gauges[PROMISES] = 0
    promises.note_again(rows[:3], world.jobs, world.slots, world.gauges)
    assert (world.gauges[PROMISES], first(world)) == (1, 20)


def test_the_next_wake_is_the_next_promise() -> None:
    world = promised(30, 10)
    assert promises.next_wake(5, world.jobs, world.slots, world.gauges) == 10


def test_a_promise_that_is_due_and_blocked_is_tried_again_in_a_second() -> None:
    world = promised(10)
    assert promises.next_wake(10, world.jobs, world.slots, world.gauges) == 10 + SECOND
