"""Scores are asked of an order; the smallest goes first, of equal ones the earlier submission."""

from __future__ import annotations

import numpy as np

from cohabit.core.columns import SEQ
from tests.core.kernels.plain import kernel
from tests.core.kernels.world import World

scoring = kernel("scoring")


def test_a_smaller_score_goes_first_and_of_equal_ones_the_earlier_submission() -> None:
    world, key = World(), np.array([1.0, 2.0, 1.0])
    world.jobs[SEQ, :3] = 5, 0, 9
    assert scoring.goes_before(0, 1, key, world.jobs)
    assert not scoring.goes_before(1, 2, key, world.jobs)
    assert scoring.goes_before(0, 2, key, world.jobs)
    assert not scoring.goes_before(2, 0, key, world.jobs)
    assert not scoring.goes_before(0, 0, key, world.jobs)


def test_a_score_that_is_no_number_counts_as_last() -> None:
    world = World()
    world.work.waiting[:3] = 0, 1, 2
    scorer = world.scorer(lambda row, now: (np.nan, now, -np.inf)[row])
    scoring.score_rows(world.work.waiting[:3], 7, world.jobs, scorer, world.work.fresh[0])
    assert world.work.fresh[0, :3].tolist() == [np.inf, 7.0, -np.inf]


def test_the_second_order_writes_its_own_scores() -> None:
    world = World()
    world.work.waiting[:2] = 4, 5
    scorer = world.scorer(lambda row, now: row, lambda row, now: 10 * row + now)
    scoring.score_rows_second(world.work.waiting[:2], 1, world.jobs, scorer, world.work.fresh[1])
    assert world.work.fresh[:, :2].tolist() == [[0.0, 0.0], [41.0, 51.0]]


def test_all_queued_rows_are_scored_in_one_call() -> None:
    world = World()
    for score in (3.0, 1.0, 2.0):
        world.submit(1, 10, score)
    count = scoring.score_queue(0, world.queue, world.scorer(), world.work.waiting, world.work.fresh[0])
    assert (count, world.asked) == (3, [[1, 2, 0]])
    assert world.work.fresh[0, :3].tolist() == [1.0, 2.0, 3.0]


def test_a_single_job_needs_no_score() -> None:
    world = World()
    world.submit(1, 10)
    assert scoring.score_queue(0, world.queue, world.scorer(), world.work.waiting, world.work.fresh[0]) == 1
    assert world.asked == []


def test_copied_rows_stand_at_the_beginning() -> None:
    out = np.full(5, 9)
    assert scoring.copy_rows(np.array([3, 1]), out) == 2
    assert out.tolist() == [3, 1, 9, 9, 9]


def test_rows_are_sorted_by_score_then_by_submission() -> None:
    world, key = World(), np.array([2.0, 1.0, 2.0, 0.0, 1.0, np.inf])
    world.jobs[SEQ, :6] = 0, 9, 1, 3, 4, 5
    rows = np.array([5, 4, 3, 2, 1, 0])
    scoring.sort_rows(rows, key, world.jobs)
    assert rows.tolist() == [3, 4, 1, 0, 2, 5]


def test_the_first_to_go_is_on_top_of_a_heap_and_the_next_one_follows() -> None:
    world, key = World(), np.array([5.0, 3.0, 4.0, 1.0, 2.0, 6.0, 0.5])
    rows, found = np.arange(7), []
    scoring.make_heap(rows, key, world.jobs)
    for left in range(7, 0, -1):
        found.append(int(rows[0]))
        rows[0] = rows[left - 1]
        scoring.sink(rows, 0, left - 1, key, world.jobs)
    assert found == [6, 3, 4, 1, 2, 0, 5]
