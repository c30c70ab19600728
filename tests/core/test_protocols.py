"""What a set of policies is, as a whole."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cohabit.core.columns import JOB_COLUMNS, columns_of
from cohabit.core.protocols import Order, PolicySet
from cohabit.model.errors import InputError
from tests.support.builders import policies

COLUMNS, ROWS = columns_of(np.zeros((JOB_COLUMNS, 3), np.int64), np.zeros((2, 2))), np.arange(3)


def order(answer: Any = None, **more: Any) -> Order:
    return Order(lambda _jobs, rows, _now_us, *_: np.zeros(len(rows)) if answer is None else answer, **more)


def together(first: Order, second: Order | None = None) -> PolicySet:
    return replace(policies(), order=first, backfill_order=second)


def test_a_score_that_is_no_number_counts_as_last() -> None:
    assert order(np.array([1.0, np.nan, -1.0])).scores(COLUMNS, ROWS, 0).tolist() == [1.0, np.inf, -1.0]
    assert order(np.array([1, 2, 3])).scores(COLUMNS, ROWS, 0).dtype.kind == "i"


@pytest.mark.parametrize("answer", [np.zeros(2), np.zeros((3, 1)), np.array(["a", "b", "c"])])
def test_an_order_gives_one_number_per_row(answer: Any) -> None:
    with pytest.raises(InputError, match="for 3 jobs"):
        order(answer).scores(COLUMNS, ROWS, 0)


def test_an_order_that_fails_is_named() -> None:
    def broken(*_: Any) -> Any:
        raise ZeroDivisionError("by zero")

    with pytest.raises(InputError, match="the order failed: by zero"):
        Order(broken, name="mine.py").scores(COLUMNS, ROWS, 0)


def test_parameters_are_passed_to_the_function() -> None:
    found = Order(lambda _jobs, rows, now_us, a, b: rows * a + now_us * b, parameters=(2.0, 3.0))
    assert found.scores(COLUMNS, ROWS, 10).tolist() == [30.0, 32.0, 34.0]


def test_scores_change_if_those_of_either_order_do() -> None:
    still, moving = order(changing=False), order(changing=True)
    assert [together(*one).changing for one in ((still,), (moving,), (still, moving), (still, still))] == [
        False, True, True, False,
    ]  # fmt: skip


def test_rows_can_be_scored_alone_if_both_orders_allow_it() -> None:
    """An order that never changes is not asked in a pass."""
    falling, other, still = order(falling=True), order(), order(changing=False)
    assert together(falling).alone
    assert not together(other).alone
    assert not together(falling, other).alone
    assert together(falling, falling).alone
    assert together(falling, still).alone


def test_bounds_need_a_first_order_that_changes_and_only_falls() -> None:
    falling, other = order(falling=True), order()
    assert together(falling).falling
    assert not together(other).falling
    assert not together(order(changing=False, falling=True)).falling
    assert not together(falling, other).falling


def test_an_age_limit_in_runs_is_kept_in_thousandths() -> None:
    assert replace(policies(), age_limit_runs=2.5).age_limit_thousandths == 2500
