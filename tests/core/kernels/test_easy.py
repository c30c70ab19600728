"""EASY, first-fit and strict order. Unless said otherwise: 10 nodes, 6 of them busy until 100, and a head of 8.

So the shadow time is 100 and two nodes are extra.
"""

from __future__ import annotations

from typing import Any

import pytest

from cohabit.core.columns import AGE_LIMIT, EXTRA, FREE, HEAD, SHADOW
from cohabit.model.units import FOREVER
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import EASY, FIRST_FIT, STRICT, World, rule

easy = kernel("easy")


def blocked(depth: int = EASY, **more: Any) -> World:
    """The head is row 1."""
    world = World(10, rule(depth, **more))
    world.run(6, 100)
    world.submit(8, 60, second=8.0)
    return world


def shadow(need: int, free: int, *running: tuple[int, int]) -> tuple[int, int]:
    """Shadow time and extra nodes where jobs run on (nodes, until)."""
    world = World(free + sum(nodes for nodes, _ in running))
    for nodes, until in running:
        world.run(nodes, until)
    found = easy.shadow_of(need, world.jobs, world.machine.running, world.gauges[FREE])
    return int(found[0]), int(found[1])


# ---- the shadow time ------------------------------------------------------------------------------------------------


def test_the_shadow_is_the_requested_end_that_frees_enough_nodes() -> None:
    assert shadow(8, 4, (6, 100)) == (100, 2)


def test_ends_count_in_order_of_time() -> None:
    assert shadow(6, 2, (4, 100), (4, 50)) == (50, 0)


def test_all_that_end_at_the_shadow_count_for_the_extra_nodes() -> None:
    assert shadow(6, 2, (4, 100), (4, 100), (1, 101)) == (100, 4)


def test_a_head_that_can_never_start_has_no_shadow() -> None:
    assert shadow(20, 2, (4, 100)) == (FOREVER, 0)


def test_whole_rungs_of_running_jobs_are_counted_by_their_sums() -> None:
    world = World(300)
    for end in range(1, 251):
        world.run(1, end)
    assert easy.shadow_of(290, world.jobs, world.machine.running, 50) == (240, 0)


def test_first_fit_promises_the_head_nothing() -> None:
    world = blocked()
    easy.set_head(1, EASY, world.jobs, world.machine)
    assert world.gauges[[HEAD, SHADOW, EXTRA]].tolist() == [1, 100, 2]
    easy.set_head(1, FIRST_FIT, world.jobs, world.machine)
    assert world.gauges[[HEAD, SHADOW, EXTRA]].tolist() == [1, FOREVER, 0]


# ---- passing the head -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "limit", "may"),
    [(4, 98, True), (4, 99, False), (2, 1000, True), (3, 1000, False), (5, 1, False)],
    ids=["ends at the shadow", "ends after it", "on extra nodes", "on more than extra", "does not fit"],
)
def test_a_job_passes_the_head_if_it_ends_by_the_shadow_or_fits_the_extra_nodes(
    nodes: int, limit: int, may: bool
) -> None:
    world = blocked()
    easy.set_head(1, EASY, world.jobs, world.machine)
    row = world.job(nodes, limit)
    assert easy.may_backfill(row, 2, world.jobs, world.gauges) == may
    world.submit(nodes, limit, now=2)
    assert bool(world.starts(2)) == may, "the pass decides the same"


def test_a_job_that_outlasts_the_shadow_uses_up_extra_nodes() -> None:
    world = blocked()
    first, _, third = world.submit(1, 1000), world.submit(2, 1000), world.submit(1, 1000)
    assert world.starts(2) == [first, third]
    assert world.gauges[EXTRA] == 0


def test_a_job_that_ends_by_the_shadow_uses_up_no_extra_nodes() -> None:
    world = blocked()
    rows = [world.submit(2, 98), world.submit(2, 1000)]
    assert world.starts(2) == rows
    assert world.gauges[EXTRA] == 0


def test_first_fit_lets_any_job_that_fits_pass() -> None:
    world = blocked(FIRST_FIT)
    row = world.submit(3, 1000)
    assert world.starts(2) == [row]


def test_strict_order_lets_no_job_pass() -> None:
    world = blocked(STRICT)
    world.submit(1, 1)
    assert world.starts(2) == []


def test_heads_start_as_long_as_they_fit_and_leave_the_queue() -> None:
    world = World(10)
    rows = [world.submit(nodes, 50) for nodes in (4, 5, 3, 1)]
    assert world.starts(0) == [rows[0], rows[1], rows[3]]
    assert (world.queued, world.free) == ([rows[2]], 0)


def test_jobs_pass_the_head_in_the_second_order() -> None:
    world = blocked(two_orders=True)
    world.submit(4, 50, second=5.0)
    short = world.submit(4, 20, second=2.0)
    assert world.starts(2) == [short]


def test_no_job_passes_a_head_past_the_age_limit() -> None:
    world = blocked()
    world.gauges[AGE_LIMIT] = 50
    first = world.submit(1, 10)
    assert world.starts(49) == [first]
    world.submit(1, 10)
    assert world.starts(50) == [], "also where only arrivals are looked at"
    world.released()
    assert world.starts(51) == []


# ---- without a release ----------------------------------------------------------------------------------------------


def test_without_a_release_only_arrivals_are_looked_at() -> None:
    world = blocked()
    refused = world.submit(3, 1000)
    assert world.starts(2) == []
    assert world.gauges[HEAD] == 1
    world.gauges[EXTRA] = 4  # now it would be let in, if it were looked at
    arrival = world.submit(1, 1000)
    assert world.starts(3) == [arrival]
    assert refused in world.queued


def test_arrivals_are_looked_at_in_order_of_score() -> None:
    world = blocked()
    world.submit(3, 1000)
    world.starts(2)
    world.submit(2, 1000, score=9.0)
    first = world.submit(2, 1000, score=8.0)
    assert world.starts(3) == [first]


def test_an_arrival_that_goes_before_the_head_is_the_new_head() -> None:
    world = blocked()
    world.submit(3, 1000)
    world.starts(2)
    head = world.submit(10, 10, score=-1.0)
    assert world.starts(3) == []
    assert world.gauges[[HEAD, EXTRA]].tolist() == [head, 0]


# ---- what is known before anything is planned -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "limit", "all_back"), [(3, 1000, True), (5, 1, True), (2, 1000, False), (4, 98, False), (4, 99, True)]
)
def test_the_first_job_keeps_all_back_unless_one_may_pass_it(nodes: int, limit: int, all_back: bool) -> None:
    world = blocked(2, by_size=True)
    world.submit(nodes, limit, second=nodes)
    assert easy.first_keeps_all_back(1, 2, world.queue, world.machine) == all_back


def test_a_first_job_that_fits_keeps_no_job_back() -> None:
    world = World(10, rule(2, by_size=True))
    row = world.submit(8, 60, second=8.0)
    assert not easy.first_keeps_all_back(row, 0, world.queue, world.machine)


def sure(world: World, promised: bool = True) -> int:
    return int(easy.sure_to_start(2, promised, world.queue, world.machine))


def test_the_only_job_that_fits_starts_if_it_ends_by_the_shadow_of_any_head() -> None:
    world = blocked()
    assert sure(world) == -1, "no job fits"
    row = world.submit(4, 98)
    assert sure(world) == row
    world.submit(1, 1)
    assert sure(world) == -1, "scores decide between two"


def test_the_only_job_that_fits_and_outlasts_the_shadow_depends_on_its_score() -> None:
    world = blocked()
    row = world.submit(4, 99)
    assert sure(world) == -1
    assert sure(world, promised=False) == row, "without a promise to the head it starts"


def test_a_single_job_that_fits_is_sure_to_start() -> None:
    world = World(10)
    row = world.submit(4, 99)
    assert sure(world) == row
