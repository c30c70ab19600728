"""A finite number of reservations: as many blocked jobs are promised a start as the depth says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from cohabit.core.columns import FREE, HEAD
from cohabit.model.units import FOREVER, SECOND
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import World, rule

depth, profile = kernel("depth"), kernel("profile")


def lasting() -> World:
    """Eight nodes: 5 are free until 20, then one until 50, then 5."""
    world = World(8)
    profile.occupy(world.slots, world.gauges, 0, 100, 3)
    profile.occupy(world.slots, world.gauges, 20, 50, 4)
    depth.note_lasting(world.slots, world.gauges, 0)
    return world


def blocked(deep: int, **more: Any) -> World:
    """Ten nodes, 6 busy until 10; B (row 1) asks for 8 and C (row 2) for 9, for 10 each: they could start at 10, 20."""
    world = World(10, rule(deep, **more))
    world.run(6, 10)
    world.submit(8, 10, second=8.0)
    world.submit(9, 10, second=9.0)
    return world


# ---- what stays free ------------------------------------------------------------------------------------------------


def test_what_stays_free_from_now_on_only_falls() -> None:
    world = lasting()
    until, free = world.slots[profile.LASTING : profile.LASTING + 2, :3].tolist()
    assert list(zip(until, free, strict=True))[:2] == [(20, 5), (FOREVER, 1)]
    assert free[2] == 0


@pytest.mark.parametrize(
    ("nodes", "limit", "fits"), [(5, 20, True), (5, 21, False), (6, 1, False), (2, 21, False), (1, 10**9, True)]
)
def test_a_job_fits_now_if_its_nodes_stay_free_for_its_whole_limit(nodes: int, limit: int, fits: bool) -> None:
    world = lasting()
    assert depth.fits_now(0, nodes, limit, world.slots) == fits
    assert depth.disturbs_no_promise(0, nodes, limit, 8, world.slots) == fits


def test_until_when_so_many_nodes_stay_free() -> None:
    world = lasting()
    assert [depth.free_until(0, nodes, world.slots) for nodes in (0, 1, 2, 5, 6)] == [FOREVER, FOREVER, 20, 20, 0]


def test_a_request_of_no_time_needs_nodes_now_only() -> None:
    world = lasting()
    assert depth.disturbs_no_promise(0, 6, 0, 6, world.slots)
    assert not depth.disturbs_no_promise(0, 6, 0, 5, world.slots)
    assert not depth.disturbs_no_promise(0, 4, 10, 3, world.slots), "nodes that are not left help nobody"


def test_a_reservation_for_no_time_lasts_a_second() -> None:
    assert (depth.planned(0), depth.planned(7)) == (SECOND, 7)


def test_places_of_jobs_neither_too_wide_nor_too_long() -> None:
    world = lasting()
    world.gauges[FREE] = 4
    profile.occupy(world.slots, world.gauges, 30, 40, 1)
    depth.note_lasting(world.slots, world.gauges, 0)  # one node until 30, none after that
    rows = np.array([world.job(*asked) for asked in ((1, 10), (5, 10), (1, 30), (1, 31), (4, 1))])
    out = np.zeros(5, np.int64)
    count = depth.places_that_may_fit(0, 0, rows, world.jobs, world.machine, out)
    assert out[:count].tolist() == [0, 2, 4]
    count = depth.places_that_may_fit(0, 1, rows, world.jobs, world.machine, out)
    assert out[:count].tolist() == [2, 4]


def test_a_queue_of_jobs_that_are_all_too_wide_needs_no_plan() -> None:
    world = World(10)
    world.run(6, 100)
    world.submit(5, 1)
    assert depth.none_fits(world.queue.order, False, world.gauges)
    world.submit(4, 1)
    assert not depth.none_fits(world.queue.order, False, world.gauges)


# ---- starts and promises --------------------------------------------------------------------------------------------


def test_a_job_starts_now_or_is_promised_the_first_instant_with_enough_nodes() -> None:
    world = World(10)
    world.run(6, 10)
    profile.rebuild(0, world.jobs, world.machine)
    assert not depth.starts_or_is_promised(world.job(8, 10), 0, world.jobs, world.machine)
    assert world.free_at(0, 10, 20) == [4, 2, 10]
    assert depth.starts_or_is_promised(world.job(2, 20), 0, world.jobs, world.machine)
    assert world.free_at(0, 10, 20) == [2, 0, 10]
    assert depth.starts_or_is_promised(world.job(4, 0), 0, world.jobs, world.machine), "no time, enough nodes now"


def test_a_depth_of_two_protects_two_blocked_jobs() -> None:
    world = blocked(2)
    world.submit(2, 30)  # it would not delay B, but C
    assert world.starts(0) == []
    harmless = world.submit(2, 20)
    assert world.starts(0) == [harmless]


@pytest.mark.parametrize("deep", [2, 3])
def test_a_depth_of_n_makes_n_reservations(deep: int) -> None:
    """E asks for the whole machine behind C; F leaves C its nine nodes, but not E."""
    world = blocked(deep)
    world.submit(10, 10)
    last = world.submit(1, 100)
    assert world.starts(0) == ([last] if deep == 2 else [])
    assert world.gauges[HEAD] == deep


def test_jobs_start_in_order_and_each_takes_its_nodes() -> None:
    world = blocked(2)
    rows = [world.submit(3, 5), world.submit(2, 5), world.submit(1, 5)]
    assert world.starts(0) == [rows[0], rows[2]]
    assert world.queued == [1, 2, rows[1]]


@pytest.mark.parametrize("by_size", [False, True])
def test_jobs_found_by_size_are_those_found_in_order(by_size: bool) -> None:
    """Of four nodes the earlier job takes three, though the later one is narrower."""
    world = blocked(2, by_size=by_size)
    first, _, third = (world.submit(nodes, 5, second=nodes) for nodes in (3, 2, 1))
    world.submit(4, 10**6, second=4.0)
    assert world.starts(0) == [first, third]


@pytest.mark.parametrize("by_size", [False, True])
def test_a_job_that_started_in_order_is_not_started_again_with_the_rest(by_size: bool) -> None:
    world = blocked(2, by_size=by_size)
    first, last = world.submit(1, 5, score=-1.0, second=1.0), world.submit(2, 5, second=2.0)
    assert world.starts(0) == [first, last]
    assert world.free == 1


def test_the_rest_of_the_queue_goes_by_the_second_order() -> None:
    world = blocked(2, two_orders=True)
    world.submit(3, 5, second=5.0)
    first = world.submit(3, 5, second=4.0)
    assert world.starts(0) == [first]


# ---- without a release ----------------------------------------------------------------------------------------------


def test_promises_stand_until_a_node_is_released() -> None:
    world = blocked(2)
    refused = world.submit(2, 30)
    assert world.starts(0) == []
    world.gauges[HEAD] = 2
    arrival = world.submit(2, 19)
    assert world.starts(1) == [arrival]
    assert refused in world.queued


def test_an_arrival_that_goes_before_a_promised_job_is_promised_first() -> None:
    world = blocked(2)
    world.submit(2, 30)
    world.starts(0)
    urgent = world.submit(10, 5, score=-1.0)
    assert world.starts(1) == []
    assert world.free_at(9, 10, 14, 15) == [4, 0, 0, 2], "it takes all from 10 on, B follows at 15"
    assert world.gauges[HEAD] == 1, "B holds the second promise"
    assert urgent in world.queued
