"""Rows are sorted by score, then by submission: a few by merging, many by the digits of their scores."""

from __future__ import annotations

import numpy as np
import pytest

from tests.core.kernels.plain import kernel

sorting = kernel("sorting")
MANY = sorting.MANY


def sorted_rows(scores: list[float], seq: list[int] | None = None, room: int = 1) -> tuple[list[int], list[float]]:
    """Rows 0, 1, 2 ... with these scores, sorted."""
    count = len(scores)
    rows, keys = np.arange(count), np.array(scores, float)
    spare = np.empty(count + 1, np.int64), np.empty(count + 1)
    order = np.arange(count) if seq is None else np.array(seq)
    sorting.sort(count, rows, keys, spare, np.empty(max(room, 1), np.int64), order)
    return rows.tolist(), keys.tolist()


def test_a_smaller_score_goes_before_and_of_equal_ones_the_earlier_submission() -> None:
    seq = np.array([5, 2])
    assert sorting.before(1.0, 0, 2.0, 1, seq)
    assert not sorting.before(2.0, 1, 1.0, 0, seq)
    assert sorting.before(1.0, 1, 1.0, 0, seq)
    assert not sorting.before(1.0, 0, 1.0, 1, seq)


def test_a_few_rows_are_sorted_by_score() -> None:
    assert sorted_rows([3.0, -1.0, 2.0]) == ([1, 2, 0], [-1.0, 2.0, 3.0])


def test_equal_scores_stay_in_order_of_submission() -> None:
    assert sorted_rows([1.0, 0.0, 1.0, 1.0], [9, 0, 3, 5])[0] == [1, 2, 3, 0]


def test_stretches_are_merged() -> None:
    """Twenty rows are three stretches; the last is merged with the first two."""
    scores = [float(7 * n % 20) for n in range(20)]
    rows, keys = sorted_rows(scores)
    assert keys == [float(n) for n in range(20)]
    assert rows == [3 * n % 20 for n in range(20)], "7 times 3 is 1 modulo 20"


def test_equal_scores_in_two_stretches_stay_in_order_of_submission() -> None:
    assert sorted_rows([1.0] * 20, list(range(19, -1, -1)))[0] == list(range(19, -1, -1))


@pytest.mark.parametrize("count", [MANY, MANY + 44])
def test_many_rows_are_sorted_by_digits(count: int) -> None:
    """From large to small, over many magnitudes and both signs."""
    scores = [float((-1) ** n * 2**n) if n < 60 else -1000.0 - n for n in range(count)]
    rows, keys = sorted_rows(scores, room=sorting.ROOM)
    assert keys == sorted(scores)
    assert rows[0] == 59, "minus two to the 59th"
    assert rows[-1] == 58


def test_scores_that_differ_only_in_their_second_half_are_sorted_all_the_same() -> None:
    scores = [1.0 + (MANY - n) * 2.0**-50 for n in range(MANY)]
    assert sorted_rows(scores, room=sorting.ROOM)[0] == list(range(MANY - 1, -1, -1))


def test_among_many_equal_scores_submission_decides_and_both_zeros_are_equal() -> None:
    scores = [0.0 if n % 2 else -0.0 for n in range(MANY)]
    assert sorted_rows(scores, room=sorting.ROOM)[0] == list(range(MANY))
    backwards = list(range(MANY - 1, -1, -1))
    assert sorted_rows(scores, backwards, room=sorting.ROOM)[0] == backwards


def test_infinite_scores_are_at_the_ends() -> None:
    scores = [5.0] * MANY
    scores[3], scores[7] = np.inf, -np.inf
    rows = sorted_rows(scores, room=sorting.ROOM)[0]
    assert (rows[0], rows[-1]) == (7, 3)


def test_without_room_to_count_digits_many_rows_are_merged() -> None:
    scores = [float(n * 7 % 1000) for n in range(1000)]
    rows, keys = sorted_rows(scores, room=1)
    assert keys == [float(n) for n in range(1000)]
    assert rows == [n * 143 % 1000 for n in range(1000)], "7 times 143 is 1 modulo 1000"
