"""An order as a pass calls it: what it writes, and what becomes of an error in Python."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import numpy as np

from cohabit.core.columns import JOB_COLUMNS, columns_of
from cohabit.core.kernels import shortlist
from cohabit.core.protocols import Order
from cohabit.core.scorer import make_scorer
from tests.support.builders import policies

POINTER, NUMBER = ctypes.c_void_p, ctypes.c_int64
CALLED = ctypes.CFUNCTYPE(None, POINTER, NUMBER, POINTER, NUMBER, POINTER, NUMBER, NUMBER, POINTER, POINTER)


class Buffers:
    """What a pass works on: three rows wait, number 4, 5 and 6."""

    def __init__(self, first: Order, second: Order | None = None) -> None:
        self.jobs, self.usage = np.zeros((JOB_COLUMNS, 8), np.int64), np.zeros((2, 3))
        self.waiting, self.fresh, self.failures = np.array([4, 5, 6]), np.full((2, 3), -1.0), list[Exception]()
        columns = columns_of(self.jobs, self.usage)
        chosen = replace(policies(), order=first, backfill_order=second)
        self.scorer = make_scorer(
            chosen, columns, self.usage, self.waiting, self.fresh, shortlist.make(1), self.failures
        )

    def call(self, entry: Any, parameters: Any, place: int, count: int, now: int) -> list[float]:
        if isinstance(address := getattr(entry, "address", None), int):
            arrays = (self.jobs, self.usage, self.waiting, parameters, self.fresh[place])
            jobs, usage, rows, numbers, out = (one.ctypes.data for one in arrays)
            CALLED(address)(jobs, 8, usage, 2, rows, count, now, numbers, out)
        else:  # kernels as plain Python
            entry(None, 8, None, 2, None, count, now)
        return [float(score) for score in self.fresh[place]]

    def first(self, count: int, now: int) -> list[float]:
        return self.call(self.scorer.entry, self.scorer.parameters, 0, count, now)

    def second(self, count: int, now: int) -> list[float]:
        return self.call(self.scorer.second_entry, self.scorer.second_parameters, 1, count, now)


def test_an_order_in_python_scores_the_rows_that_wait() -> None:
    one = Buffers(Order(lambda _jobs, rows, now_us: 10.0 * rows + now_us))
    assert one.first(2, 3) == [43.0, 53.0, -1.0]


def test_each_order_has_its_own_scores() -> None:
    one = Buffers(Order(lambda _jobs, rows, _now: rows), Order(lambda _jobs, rows, _now: -rows))
    assert one.second(3, 0) == [-4.0, -5.0, -6.0]
    assert one.fresh[0].tolist() == [-1.0] * 3
    assert one.first(3, 0) == [4.0, 5.0, 6.0]


def test_an_error_in_python_is_noted_and_the_pass_goes_on_with_zeros() -> None:
    def broken(*_: Any) -> Any:
        raise ValueError("no score today")

    one = Buffers(Order(broken))
    assert one.first(2, 0) == [0.0, 0.0, -1.0]
    assert "no score today" in str(one.failures[0])


def test_an_order_that_does_not_change_is_never_called() -> None:
    asked = list[int]()
    still = Order(lambda _jobs, rows, _now: asked.append(1) or rows, changing=False)  # type: ignore[func-returns-value]
    assert Buffers(still).first(3, 0) == [-1.0] * 3
    assert asked == []
