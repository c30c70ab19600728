"""A job past its request is expected to end in one second."""

from __future__ import annotations

from cohabit.core.columns import ENDS, EXPECTED, RELEASED, STARTED, VOID
from cohabit.model.units import SECOND
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import World

overrunning = kernel("overrunning")


def extended(world: World, now: int) -> list[int]:
    """Expected ends of the running jobs, sorted as they stand."""
    world.gauges[[RELEASED, VOID]] = 0
    overrunning.extend_overrunning(now, world.jobs, world.keys, world.machine.running, world.gauges)
    return [int(world.jobs[EXPECTED, row]) for row in world.running]


def test_a_job_past_its_request_is_expected_to_end_in_one_second() -> None:
    world = World()
    late, other = world.run(2, 10), world.run(2, 5 * SECOND)
    now = 3 * SECOND
    assert extended(world, now) == [now + SECOND, 5 * SECOND]
    assert world.keys[ENDS, late] == now + SECOND
    assert world.running == [late, other]


def test_a_job_that_ends_by_its_request_just_now_is_past_it() -> None:
    world = World()
    world.run(2, 10)
    assert extended(world, 9) == [10]
    assert extended(world, 10) == [10 + SECOND]


def test_all_late_jobs_are_extended_and_the_order_by_end_is_kept() -> None:
    world = World()
    rows = [world.run(1, limit) for limit in (30, 10, SECOND + 15, 20)]
    assert extended(world, 20) == [30, SECOND + 15, SECOND + 20, SECOND + 20]
    assert world.running == [rows[0], rows[2], rows[1], rows[3]]


def test_an_overrun_voids_promises_and_has_the_queue_looked_at_again() -> None:
    world = World()
    world.run(2, 10)
    extended(world, 9)
    assert world.gauges[[VOID, RELEASED]].tolist() == [0, 0]
    extended(world, 20)
    assert world.gauges[[VOID, RELEASED]].tolist() == [1, 1]
    extended(world, 20)
    assert world.gauges[[VOID, RELEASED]].tolist() == [1, 0], "a second pass of the same instant changes no end"


def test_a_pass_begins_with_no_job_started() -> None:
    world = World()
    world.run(2, 10)
    world.gauges[STARTED] = 3
    overrunning.open_pass(50, world.queue, world.machine)
    assert world.gauges[STARTED] == 0
    assert world.jobs[EXPECTED, 0] == 50 + SECOND
