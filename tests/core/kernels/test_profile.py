"""Free nodes over time: intervals take nodes, and a search finds the first instant with enough of them."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.core.columns import FREE
from cohabit.model.units import FOREVER
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import World

profile = kernel("profile")
NODES = 8


def taken(*intervals: tuple[int, int, int]) -> World:
    """Eight nodes, and (begin, end, nodes) of them taken."""
    world = World(NODES)
    for begin, end, nodes in intervals:
        profile.occupy(world.slots, world.gauges, begin, end, nodes)
    return world


def steps(world: World) -> list[tuple[int, int]]:
    """All points but the first, as (instant, free nodes from then on)."""
    times, idle = profile.points(world.slots, world.gauges)
    return [(int(time), int(free)) for time, free in zip(times[1:], idle[1:], strict=True)]


def earliest(world: World, now: int, nodes: int, duration: int) -> int:
    return int(profile.earliest(world.slots, world.gauges, now, nodes, duration)[0])


def test_at_first_all_nodes_are_free_for_ever() -> None:
    assert taken().free_at(-5, 0, 10**15) == [NODES] * 3


def test_an_interval_takes_nodes_from_its_begin_until_its_end() -> None:
    world = taken((10, 20, 3))
    assert world.free_at(9, 10, 19, 20) == [8, 5, 5, 8]


def test_intervals_that_overlap_add_up() -> None:
    assert steps(taken((10, 30, 3), (20, 40, 4))) == [(10, 5), (20, 1), (30, 4), (40, 8)]


def test_an_empty_interval_takes_nothing() -> None:
    assert steps(taken((10, 10, 3))) == []


def test_vacating_leaves_no_trace() -> None:
    world = taken((10, 30, 3), (20, 40, 4))
    profile.vacate(world.slots, world.gauges, 10, 30, 3)
    assert steps(world) == [(20, 4), (40, 8)]
    profile.vacate(world.slots, world.gauges, 20, 40, 4)
    assert steps(world) == []


def test_a_point_stays_as_long_as_an_interval_begins_or_ends_there() -> None:
    world = taken((10, 20, 3), (20, 30, 3))
    profile.vacate(world.slots, world.gauges, 10, 20, 3)
    assert steps(world) == [(20, 5), (30, 8)]


@pytest.mark.parametrize(
    ("nodes", "duration", "start"),
    [(5, 1000, 0), (6, 10, 0), (6, 11, 20), (8, 5, 0), (8, 11, 20), (9, 1, FOREVER)],
    ids=["beside it", "ends as it begins", "too long before it", "all before it", "all after it", "never"],
)
def test_the_first_instant_with_enough_nodes_throughout(nodes: int, duration: int, start: int) -> None:
    assert earliest(taken((10, 20, 3)), 0, nodes, duration) == start


def test_a_search_begins_now_and_not_at_a_point() -> None:
    world = taken((10, 20, 3))
    assert earliest(world, 12, 5, 100) == 12
    assert earliest(world, 12, 6, 1) == 20
    assert earliest(world, 25, 8, 1) == 25


def test_a_gap_between_two_intervals_must_be_long_enough() -> None:
    world = taken((0, 10, 8), (15, 20, 1))
    assert (earliest(world, 0, 8, 5), earliest(world, 0, 8, 6), earliest(world, 0, 7, 6)) == (10, 20, 10)


def test_a_reservation_takes_what_it_found() -> None:
    world = taken((0, 10, 6))
    assert profile.reserve(world.slots, world.gauges, 0, 4, 10) == 10
    assert profile.reserve(world.slots, world.gauges, 0, 5, 10) == 20
    assert profile.reserve(world.slots, world.gauges, 0, 2, 20) == 0
    assert steps(world) == [(0, 0), (10, 2), (20, 3), (30, 8)]


def test_a_reservation_that_can_never_be_takes_nothing() -> None:
    world = taken()
    assert profile.reserve(world.slots, world.gauges, 0, 9, 10) == FOREVER
    assert steps(world) == []


def test_an_early_end_gives_the_rest_of_an_interval_back() -> None:
    world = taken((0, 100, 4))
    profile.give_back(world.slots, world.gauges, 30, 100, 4)
    assert world.free_at(29, 30, 99, 100) == [4, 8, 8, 8]


def test_the_past_is_forgotten_and_the_future_is_not() -> None:
    world = taken(*((begin, begin + 5, 2) for begin in range(0, 200, 10)))
    count = len(steps(world))
    profile.forget_past(world.slots, world.gauges, 150)
    assert world.free_at(150, 154, 155, 160, 190, 195) == [6, 6, 8, 6, 6, 8]
    assert len(steps(world)) < count - 20


@pytest.mark.parametrize("begins", [range(0, 2000, 10), range(1990, -10, -10)], ids=["forward", "backward"])
def test_many_intervals_in_many_blocks(begins: range) -> None:
    """200 intervals have 400 points, and a block has 32: an interval over all of them changes each."""
    world = taken(*((begin, begin + 5, 2) for begin in begins))
    assert steps(world) == [(t, 6 if t % 10 == 0 else 8) for t in range(0, 2000, 5)]
    profile.occupy(world.slots, world.gauges, 3, 1993, 5)
    assert world.free_at(2, 3, 5, 10, 1000, 1005, 1992, 1993) == [6, 1, 3, 1, 1, 3, 1, 6]
    assert earliest(world, 3, 4, 1) == 1993
    assert earliest(world, 3, 3, 6) == 1993
    assert earliest(world, 4, 3, 5) == 5
    profile.vacate(world.slots, world.gauges, 3, 1993, 5)
    for begin in list(begins)[::2]:
        profile.vacate(world.slots, world.gauges, begin, begin + 5, 2)
    assert len(steps(world)) == 200
    assert all(free == (6 if time % 5 == 0 and time % 10 == 0 else 8) for time, free in steps(world))


def test_rebuilding_knows_the_running_jobs_by_their_expected_ends() -> None:
    world = World(NODES)
    for nodes, limit in ((1, 30), (2, 10), (3, 30)):
        world.run(nodes, limit)
    profile.rebuild(5, world.jobs, world.machine)
    assert world.free_at(5) == [2]
    assert steps(world) == [(10, 4), (30, 8)]


def test_rebuilding_fills_blocks_with_room_to_spare() -> None:
    world = World(100)
    for limit in range(1, 61):
        world.run(1, limit)
    profile.rebuild(0, world.jobs, world.machine)
    assert world.gauges[FREE] == 40
    assert steps(world) == [(limit, 40 + limit) for limit in range(1, 61)]
    assert earliest(world, 0, 77, 1000) == 37


def test_a_profile_holds_until_a_point_has_passed() -> None:
    world = World(NODES)
    world.run(3, 10)
    profile.rebuild(0, world.jobs, world.machine)
    assert profile.still_holds(9, world.slots, world.gauges)
    assert profile.points(world.slots, world.gauges)[0].tolist() == [9, 10], "it begins now"
    assert not profile.still_holds(10, world.slots, world.gauges)


def test_slots_have_room_for_every_job_and_node() -> None:
    assert profile.make(100, 50).shape[1] >= 2 * (100 + 50)
    assert profile.make(100, 50).dtype == np.int64
