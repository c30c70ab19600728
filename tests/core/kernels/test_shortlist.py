"""The first of the queue is found without scoring all of it, by bounds that hold for a window of time."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.model.units import FOREVER, SECOND
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import World, rule

shortlist = kernel("shortlist")
FAR = 1e12  # more than any score falls within a window
FALLING = rule(changing=True, falling=True, alone=True)


def queue_of(count: int) -> World:
    world = World(10, FALLING)
    for _ in range(count):
        world.submit(1, 10)
    return world


def first(world: World, now: int, scorer: object) -> int:
    """The first job of the queue."""
    shortlist.begin_pass(now, True, world.queue, scorer, world.work)
    best = shortlist.first_of_queue(now, -1, world.queue, scorer, world.work)
    return int(world.work.rows[shortlist.LOOKED, best])


def marks(world: World, **values: int) -> np.ndarray:
    for name, value in values.items():
        world.short.marks[getattr(shortlist, name)] = value
    found: np.ndarray = world.short.marks
    return found


def test_a_new_shortlist_has_no_bounds() -> None:
    made = shortlist.make(3, cheap_calls=False, of_usage=True)
    assert made.marks[[shortlist.UNBOUNDED, shortlist.CHEAP_CALLS, shortlist.OF_USAGE]].tolist() == [1, 0, 1]
    assert made.marks[[shortlist.UNTIL, shortlist.WINDOW]].tolist() == [FOREVER, 600 * SECOND]
    assert len(made.least) == 3


def test_the_jobs_of_a_short_queue_are_all_scored_at_once() -> None:
    world = queue_of(64)
    assert first(world, 5, world.scorer(lambda row, now: -float(row))) == 63
    assert world.asked == [list(range(64))]


def test_a_single_job_is_first_without_a_score() -> None:
    world = queue_of(1)
    assert first(world, 5, world.scorer()) == 0
    assert world.asked == []


def test_a_long_queue_is_bounded_once_and_then_scored_as_far_as_needed() -> None:
    """Scores fall alike: the bounds are in their order, and eight scores are enough to know the first."""
    world = queue_of(100)
    scorer = world.scorer(lambda row, now: -FAR * row - now)
    assert first(world, 5, scorer) == 99
    assert [len(one) for one in world.asked] == [100, 8]
    assert world.queued == list(range(99, -1, -1)), "in order of their bounds"
    assert first(world, 6, scorer) == 99
    assert [len(one) for one in world.asked] == [100, 8, 8]


def test_jobs_are_scored_until_the_best_is_below_all_bounds_that_follow() -> None:
    """The last forty fall fast, so their bounds come first, but now the first of the others is ahead of them."""
    world = queue_of(100)
    scorer = world.scorer(lambda row, now: -1.0 * now if row >= 60 else -100.0 - row)
    assert first(world, 5, scorer) == 59
    scored = [row for one in world.asked[1:] for row in one]
    assert set(range(60, 100)) | {59} <= set(scored)
    assert len(scored) < 100


def test_a_bound_is_the_score_at_the_end_of_the_window() -> None:
    world = queue_of(100)
    scorer = world.scorer(lambda row, now: -float(row) * now)
    first(world, 5, scorer)
    until = 5 + 600 * SECOND
    assert world.short.marks[shortlist.UNTIL] == until
    assert world.keys[shortlist.BOUND, 7] == -7.0 * until


def test_an_arrival_is_bounded_within_the_window() -> None:
    world = queue_of(100)
    scorer = world.scorer(lambda row, now: -float(row) * now)
    row = world.job(1, 10)
    shortlist.bound_arrival(row, 5, world.queue, scorer, world.work)
    assert world.keys[shortlist.BOUND, row] == -np.inf, "there are no bounds yet"
    first(world, 5, scorer)
    shortlist.bound_arrival(row, 6, world.queue, scorer, world.work)
    assert world.keys[shortlist.BOUND, row] == -100.0 * (5 + 600 * SECOND)
    shortlist.bound_arrival(row, 6 + 600 * SECOND, world.queue, scorer, world.work)
    assert world.keys[shortlist.BOUND, row] == -np.inf, "the window is over"


def test_bounds_are_renewed_when_the_window_is_over() -> None:
    world = queue_of(100)
    scorer = world.scorer(lambda row, now: -FAR * row - now)
    first(world, 0, scorer)
    first(world, 600 * SECOND, scorer)
    first(world, 600 * SECOND + 1, scorer)
    assert [len(one) for one in world.asked] == [100, 8, 8, 100, 8]


def test_a_queue_that_has_become_short_is_scored_as_a_whole() -> None:
    world = queue_of(100)
    scorer = world.scorer(lambda row, now: -FAR * row - now)
    first(world, 0, scorer)
    for row in range(16, 100):
        kernel("moves").dequeue(row, FALLING, world.queue)
    assert first(world, 1, scorer) == 15
    assert world.asked[-1] == list(range(16))
    assert world.short.marks[shortlist.UNBOUNDED] == 1


def test_usage_that_is_worth_less_makes_bounds_invalid() -> None:
    world = queue_of(100)
    scorer = world.scorer(lambda row, now: -FAR * row - now)
    marks(world, OF_USAGE=1)
    world.usage[1, -1] = 1.0
    first(world, 0, scorer)
    world.usage[1, -1] = 0.985
    first(world, 1, scorer)
    assert [len(one) for one in world.asked] == [100, 8, 8], "it may shrink to 0.98"
    world.usage[1, -1] = 0.975
    first(world, 2, scorer)
    assert [len(one) for one in world.asked] == [100, 8, 8, 100, 8]


def test_bounds_count_the_least_share_of_usage() -> None:
    world = queue_of(100)
    marks(world, OF_USAGE=1)
    world.usage[1, :2] = 2.0, 1.0
    seen = list[float]()
    scorer = world.scorer(lambda row, now: seen.append(float(world.usage[1, 0])) or -float(row))  # type: ignore[func-returns-value]
    first(world, 0, scorer)
    assert seen[0] == pytest.approx(2.0 * 0.98)
    assert seen[-1] == 2.0, "scores count the usage of now"
    assert world.usage[1, :2].tolist() == [2.0, 1.0]


def test_the_cost_of_loose_bounds_is_what_was_scored_beyond_eight_a_pass() -> None:
    world = World(10, FALLING)
    assert shortlist._cost_of_looseness(marks(world, WINDOW_ROWS=100, WINDOW_PASSES=5)) == 20


@pytest.mark.parametrize(
    ("bounded", "passes", "rows", "window"),
    [(10, 5, 100, 800), (21, 5, 100, 1250), (21, 3, 84, 2000)],
    ids=["loose bounds cost more", "bounding cost more", "few passes"],
)
def test_windows_grow_until_bounds_cost_as_much_as_scores(bounded: int, passes: int, rows: int, window: int) -> None:
    world = World(10, FALLING)
    found = marks(world, UNBOUNDED=0, WINDOW=1000, BOUNDED=bounded, WINDOW_PASSES=passes, WINDOW_ROWS=rows)
    shortlist._set_window(found)
    assert found[shortlist.WINDOW] == window
    assert found[[shortlist.WINDOW_PASSES, shortlist.WINDOW_ROWS]].tolist() == [0, 0]


def test_bounds_are_renewed_early_if_they_are_far_too_loose() -> None:
    world, args = World(10, FALLING), (5, World().usage, 100)
    found = marks(world, UNBOUNDED=0, UNTIL=10, BOUNDED=10, WINDOW_PASSES=0, WINDOW_ROWS=3 * 80)
    assert not shortlist._out_of_date(*args, found, world.short.bounds)
    found = marks(world, WINDOW_ROWS=3 * 81)
    assert shortlist._out_of_date(*args, found, world.short.bounds)


def test_the_best_is_the_smallest_score_then_the_earlier_and_jobs_that_left_do_not_count() -> None:
    rows, scores, seq = np.array([0, 1, 2, 3]), np.array([2.0, 1.0, 1.0, np.nan]), np.array([9, 8, 3, 0])
    assert shortlist.best_of(0, 4, -1, rows, scores, seq) == 2
    assert shortlist.best_of(0, 2, -1, rows, scores, seq) == 1
    assert shortlist.best_of(0, 1, 2, rows, scores, seq) == 2, "the best so far stays"
    assert shortlist.best_of(3, 4, -1, rows, scores, seq) == -1


def test_a_pass_is_counted_with_what_it_scored() -> None:
    found = marks(World(10, FALLING), WINDOW_PASSES=2, WINDOW_ROWS=10)
    shortlist.end_pass(7, found)
    assert found[[shortlist.WINDOW_PASSES, shortlist.WINDOW_ROWS]].tolist() == [3, 17]
