"""Free nodes of every kind over time, by hand. Kind 0 has three small nodes, kind 1 two large ones."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.core.kinds import Kinds
from cohabit.core.timeline import Timeline, planned
from cohabit.model.cluster import Cluster, NodeGroup, Window
from cohabit.model.units import FOREVER, SECOND
from tests.support.clusters import MEMORY

BOTH, LARGE = np.array([True, True]), np.array([False, True])


def timeline(*taken: tuple[int, int, tuple[int, int]], now_us: int = 0) -> Timeline:
    """All nodes idle but for intervals (begin, end, nodes by kind)."""
    found = Timeline(now_us, np.array([3, 2]), Kinds(MEMORY))
    for begin_us, end_us, counts in taken:
        found.add(begin_us, end_us, -np.array(counts))
    return found


def earliest(one: Timeline, need: int, usable: np.ndarray, length_us: int, not_before_us: int = 0) -> object:
    start_us, counts = one.earliest(need, usable, length_us, not_before_us)
    return start_us, None if counts is None else counts.tolist()


def test_running_jobs_give_their_nodes_back_at_their_ends() -> None:
    ends, released = np.array([5, 10, 10]), np.array([[1, 0], [0, 1], [1, 0]])
    one = Timeline(0, np.array([1, 1]), Kinds(MEMORY), ends, released)
    assert [one.free_throughout(instant, 1).tolist() for instant in (0, 4, 5, 9, 10)] == [
        [1, 1], [1, 1], [2, 1], [2, 1], [3, 2],
    ]  # fmt: skip


def test_a_job_past_its_end_counts_as_ending_now() -> None:
    one = Timeline(20, np.array([1, 1]), Kinds(MEMORY), np.array([5, 30]), np.array([[1, 0], [1, 0]]))
    assert one.times == [20, 30]
    assert one.free_throughout(20, 5).tolist() == [2, 1]


def test_an_interval_counts_from_its_begin_until_its_end() -> None:
    one = timeline((10, 20, (2, 1)))
    assert [one.free_throughout(instant, 1).tolist() for instant in (9, 10, 19, 20)] == [[3, 2], [1, 1], [1, 1], [3, 2]]


def test_nodes_are_free_throughout_if_they_are_at_every_instant() -> None:
    one = timeline((10, 20, (2, 0)), (15, 30, (0, 2)))
    assert one.free_throughout(0, 10).tolist() == [3, 2]
    assert one.free_throughout(0, 11).tolist() == [1, 2]
    assert one.free_throughout(12, 10).tolist() == [1, 0]


def test_what_is_over_changes_nothing() -> None:
    assert timeline((0, 5, (3, 2)), now_us=5).free_throughout(5, 10).tolist() == [3, 2]
    assert timeline((0, 9, (3, 2)), now_us=5).free_throughout(5, 3).tolist() == [0, 0]


def test_a_request_of_no_time_needs_the_nodes_that_are_idle_now() -> None:
    one = timeline((0, 10, (3, 2)))
    one.idle = np.array([1, 0])
    assert one.free_throughout(0, 0).tolist() == [1, 0]
    assert one.free_throughout(3, 0).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("need", "usable", "length_us", "found"),
    [
        (4, BOTH, 10, (0, [3, 1])),
        (4, BOTH, 11, (20, [3, 1])),
        (3, BOTH, 100, (0, [1, 2])),
        (1, LARGE, 100, (0, [0, 1])),
        (3, LARGE, 1, (FOREVER, None)),
    ],
    ids=["before it", "after it", "beside it", "of its kind", "never"],
)
def test_the_earliest_start_with_enough_usable_nodes(
    need: int, usable: np.ndarray, length_us: int, found: object
) -> None:
    assert earliest(timeline((10, 20, (2, 0))), need, usable, length_us) == found


def test_a_start_may_be_asked_for_not_before_an_instant() -> None:
    one = timeline((10, 20, (3, 2)))
    assert earliest(one, 1, BOTH, 5, 3) == (3, [1, 0])
    assert earliest(one, 1, BOTH, 5, 12) == (20, [1, 0])


def test_a_window_closes_its_kind() -> None:
    kinds = Kinds(Cluster((NodeGroup(3),), windows=(Window(50, 80, 0, 2),)))
    one = Timeline(0, np.array([1, 2]) if kinds.windows_of[0] == () else np.array([2, 1]), kinds)
    closed = [bool(windows) for windows in kinds.windows_of]
    whole, shut = one.free_throughout(0, 50).tolist(), one.free_throughout(0, 51).tolist()
    assert sum(whole) == 3
    assert [free for free, one in zip(shut, closed, strict=True) if one] == [0]
    assert one.earliest(3, np.array([True, True]), 60)[0] == 80


def test_a_reservation_for_no_time_lasts_a_second() -> None:
    assert (planned(0), planned(7)) == (SECOND, 7)


def test_many_points_find_room() -> None:
    one = timeline(*((2 * n, 2 * n + 1, (1, 0)) for n in range(100)))
    assert [one.free_throughout(instant, 1)[0] for instant in (0, 1, 150, 198, 199)] == [2, 3, 2, 2, 3]
