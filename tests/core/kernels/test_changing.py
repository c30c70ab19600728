"""Orders whose scores change with time. Unless said otherwise: 10 nodes, 6 of them busy until 100, a head of 8."""

from __future__ import annotations

from typing import Any

import pytest

from cohabit.core.columns import EXTRA, HEAD
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import EASY, FIRST_FIT, STRICT, World, rule

changing = kernel("changing")


def blocked(depth: int = EASY, **more: Any) -> World:
    """The head is row 1; the smaller the row, the earlier."""
    world = World(10, rule(depth, changing=True, **more))
    world.run(6, 100)
    world.submit(8, 60)
    return world


def test_the_scores_of_this_instant_decide_who_is_first() -> None:
    world = World(10, rule(changing=True))
    rows = [world.submit(6, 10), world.submit(6, 10)]
    scorer = world.scorer(lambda row, now: float(row) if now < 5 else -float(row))
    assert world.starts(6, scorer) == [rows[1]]
    other = World(10, rule(changing=True))
    rows = [other.submit(6, 10), other.submit(6, 10)]
    assert other.starts(4, other.scorer(lambda row, now: float(row) if now < 5 else -float(row))) == [rows[0]]


def test_jobs_start_in_order_of_score_until_one_does_not_fit() -> None:
    world = World(10, rule(STRICT, changing=True))
    rows = [world.submit(nodes, 10, score) for nodes, score in ((3, 2.0), (9, 4.0), (4, 1.0), (1, 5.0))]
    assert world.starts(0) == [rows[2], rows[0]]
    assert sorted(world.queued) == [rows[1], rows[3]]


@pytest.mark.parametrize("depth", [EASY, STRICT, 2])
def test_a_head_that_needs_all_idle_nodes_starts(depth: int) -> None:
    world = World(10, rule(depth, changing=True))
    world.submit(10, 10, score=2.0)
    first = world.submit(10, 10, score=1.0)
    assert world.starts(0) == [first]


@pytest.mark.parametrize(
    ("nodes", "limit", "may"),
    [(4, 98, True), (4, 99, False), (2, 1000, True), (3, 1000, False), (5, 1, False)],
    ids=["ends at the shadow", "ends after it", "on extra nodes", "on more than extra", "does not fit"],
)
@pytest.mark.parametrize("falling", [False, True])
def test_easy_protects_the_head(nodes: int, limit: int, may: bool, falling: bool) -> None:
    world = blocked(falling=falling)
    row = world.submit(nodes, limit)
    blind = world.submit(4, 1000)  # so that scores are needed
    assert world.starts(2) == ([row] if may else [])
    assert blind in world.queued


def test_extra_nodes_go_to_the_smaller_score() -> None:
    world = blocked()
    rows = [world.submit(2, 1000, score) for score in (7.0, 6.0)]
    assert world.starts(2) == [rows[1]]


def test_first_fit_lets_any_job_pass_the_head() -> None:
    world = blocked(FIRST_FIT)
    rows = [world.submit(nodes, 1000, score) for nodes, score in ((3, 7.0), (2, 6.0), (2, 8.0))]
    assert world.starts(2) == [rows[1], rows[2]]


def test_jobs_that_may_pass_the_head_go_by_the_second_order() -> None:
    world = blocked(two_orders=True)
    world.submit(3, 50, score=2.0, second=9.0)
    first = world.submit(3, 50, score=3.0, second=1.0)
    assert world.starts(2) == [first]


def test_the_head_comes_from_the_first_order() -> None:
    world = blocked(two_orders=True)
    world.keys[1, 1] = 5.0
    other = world.submit(9, 10, score=3.0, second=-9.0)
    small = world.submit(2, 1000, score=4.0)
    assert world.starts(2) == [small], "two nodes are extra beside the head of 8, one beside a head of 9"
    assert other in world.queued


def test_a_depth_of_two_protects_two() -> None:
    """B could start at 10 and C at 20; D would delay only C."""
    for depth, starts in ((EASY, [3]), (2, [])):
        world = World(10, rule(depth, changing=True))
        world.run(6, 10)
        for asked in ((8, 10), (9, 10), (2, 30)):
            world.submit(*asked)
        assert world.starts(0) == starts


@pytest.mark.parametrize("falling", [False, True])
def test_a_depth_of_two_promises_in_order_of_score(falling: bool) -> None:
    """The widest job has the smallest score: it is promised 10 and leaves nothing to a job of 20."""
    world = World(10, rule(2, changing=True, falling=falling))
    world.run(6, 10)
    world.submit(5, 10, score=5.0)
    world.submit(8, 10, score=4.0)
    world.submit(10, 10, score=3.0)
    long = world.submit(2, 20, score=6.0)
    short = world.submit(2, 10, score=7.0)
    assert world.starts(0) == [short]
    assert long in world.queued


def test_the_only_job_that_fits_starts_without_a_score() -> None:
    world = blocked()
    row = world.submit(4, 98)
    assert world.starts(2) == [row]
    assert world.asked == []


def test_a_machine_without_idle_nodes_asks_for_no_scores() -> None:
    world = World(10, rule(changing=True))
    world.run(10, 100)
    world.submit(1, 10)
    world.submit(1, 10)
    assert world.starts(2) == []
    assert world.asked == []


def test_without_a_release_only_arrivals_pass_a_head_that_stays() -> None:
    world = blocked(falling=True)
    refused, other = world.submit(3, 1000), world.submit(3, 1000)
    world.released()
    assert world.starts(2) == []
    assert world.gauges[HEAD] == 1
    world.gauges[EXTRA] = 4  # now both would be let in, if they were looked at
    arrival = world.submit(1, 1000)
    assert world.starts(3) == [arrival]
    assert {refused, other} <= set(world.queued)


def test_the_head_of_an_order_that_may_rise_is_found_anew() -> None:
    world = blocked()
    world.submit(3, 1000)
    assert world.starts(2) == []
    assert world.gauges[HEAD] == -1


@pytest.mark.parametrize("depth", [EASY, FIRST_FIT, 2])
def test_many_jobs_pass_the_head_in_order_of_score(depth: int) -> None:
    """More than are found one by one: of 40 jobs of one node the 30 with the smallest scores start."""
    world = World(40, rule(depth, changing=True))
    world.run(10, 100)
    world.submit(35, 10, score=-2.0)
    world.submit(36, 10, score=-1.0)
    rows = [world.submit(1, 50, score=float(n * 7 % 40)) for n in range(40)]
    assert world.starts(0) == sorted(rows, key=lambda row: world.keys[0, row])[:30]


@pytest.mark.parametrize("depth", [EASY, FIRST_FIT, STRICT, 2])
@pytest.mark.parametrize("by_size", [False, True])
def test_a_long_queue_in_order_of_bounds_starts_who_is_first(depth: int, by_size: bool) -> None:
    """A hundred jobs and an order that falls: bounded once, then only a few are scored."""
    world = World(10, rule(depth, changing=True, falling=True, by_size=by_size and depth != STRICT, alone=True))
    a = world.run(10, 100)
    rows = [world.submit(1 + n % 3, 50, second=(1 + n % 3) * 1000 + 50) for n in range(100)]
    scorer = world.scorer(lambda row, now: -1e12 * (row * 37 % 100) - now)
    world.released()
    assert world.starts(10, scorer) == []
    world.finish(a, 20)
    started, free = list[int](), 10
    for row in sorted(rows, key=lambda row: -(row * 37 % 100)):
        if 1 + (row - 1) % 3 <= free:
            started, free = [*started, row], free - 1 - (row - 1) % 3
        elif depth == STRICT:
            break
    assert world.starts(20, scorer) == started
    assert len(world.asked[0]) == 100, "bounded"
    assert sum(map(len, world.asked[1:])) < 100, "not all are scored"


@pytest.mark.parametrize("by_size", [False, True])
def test_in_a_long_queue_only_jobs_that_delay_no_head_pass_it(by_size: bool) -> None:
    """Of a hundred jobs behind the head one fits the two extra nodes, and one ends by the shadow time."""
    world = World(10, rule(changing=True, falling=True, by_size=by_size, alone=True))
    world.run(6, 100)
    world.submit(8, 60, second=8060)
    for _ in range(98):
        world.submit(3, 1000, second=4000)
    short, narrow = world.submit(2, 98, second=2098), world.submit(2, 1000, second=3000)
    world.released()
    assert world.starts(2, world.scorer(lambda row, now: -1e12 * (200 - row) - now)) == [short, narrow]


@pytest.mark.parametrize("by_size", [False, True])
def test_promises_of_a_depth_of_two_stand_until_a_release(by_size: bool) -> None:
    world = World(10, rule(2, changing=True, falling=True, by_size=by_size, alone=True))
    world.run(6, 10)
    rows = [world.submit(nodes, limit, second=nodes) for nodes, limit in ((8, 10), (9, 10), (2, 30), (1, 5))]
    world.released()
    assert world.starts(0) == [rows[3]]
    assert world.gauges[HEAD] == rows[1], "the last one that is promised a start"
    world.asked.clear()
    arrival = world.submit(2, 19, second=2.0)
    assert world.starts(1) == [arrival]
    assert rows[2] in world.queued
