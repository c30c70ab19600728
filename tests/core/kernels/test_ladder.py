"""A ladder is sorted by key, then by submission, and knows the smallest job of each rung."""

from __future__ import annotations

import numpy as np

from cohabit.core.columns import JOB_COLUMNS, LIMIT, NODES, SEQ
from tests.core.kernels.plain import kernel

ladder = kernel("ladder")
RUNG = ladder.RUNG


class Rows:
    """A ladder of rows with a key each; nodes and limit are 1 unless set."""

    def __init__(self, count: int = 600) -> None:
        self.jobs, self.key = np.ones((JOB_COLUMNS, count), np.int64), np.arange(count, dtype=float)
        self.jobs[SEQ], self.ladder = np.arange(count), ladder.make(count)

    def insert(self, *rows: int) -> None:
        for row in rows:
            ladder.insert(self.ladder, self.jobs, self.key, row)

    def remove(self, *rows: int) -> None:
        for row in rows:
            ladder.remove(self.ladder, self.jobs, self.key, row)

    @property
    def order(self) -> list[int]:
        found: list[int] = ladder.all_rows(self.ladder).tolist()
        return found

    @property
    def sizes(self) -> list[int]:
        """Rows on each rung."""
        return [int(self.ladder.info[ladder.SIZE, rung]) for rung in self.rungs]

    @property
    def rungs(self) -> list[int]:
        return [int(rung) for rung in self.ladder.info[ladder.ORDER, : self.ladder.meta[ladder.RUNGS]]]

    def summary(self, what: int, place: int = 0) -> int:
        return int(self.ladder.info[what, self.rungs[place]])


def test_rows_are_in_order_of_their_keys() -> None:
    rows = Rows()
    rows.key[:4] = 2.0, -1.0, 5.0, 0.5
    rows.insert(0, 1, 2, 3)
    assert rows.order == [1, 3, 0, 2]


def test_equal_keys_are_in_order_of_submission() -> None:
    rows = Rows()
    rows.key[:] = 7.0
    rows.jobs[SEQ, :4] = 30, 10, 20, 0
    rows.insert(0, 1, 2, 3)
    assert rows.order == [3, 1, 2, 0]


def test_a_removed_row_is_gone_and_counted_off() -> None:
    rows = Rows()
    rows.insert(*range(5))
    rows.remove(2, 4)
    assert rows.order == [0, 1, 3]
    assert rows.ladder.meta[ladder.ROWS] == 3
    rows.remove(0, 1, 3)
    assert (rows.order, rows.sizes) == ([], [])


def test_a_rung_knows_its_smallest_job_and_the_sum_of_its_nodes() -> None:
    rows = Rows()
    rows.jobs[[NODES, LIMIT], 0], rows.jobs[[NODES, LIMIT], 1], rows.jobs[[NODES, LIMIT], 2] = (4, 50), (2, 70), (3, 60)
    rows.insert(0, 1, 2)
    assert [rows.summary(what) for what in (ladder.MIN_NODES, ladder.MIN_LIMIT, ladder.SUM_NODES)] == [2, 50, 9]
    rows.remove(1)
    assert [rows.summary(what) for what in (ladder.MIN_NODES, ladder.MIN_LIMIT, ladder.SUM_NODES)] == [3, 50, 7]
    rows.remove(0)
    assert [rows.summary(what) for what in (ladder.MIN_NODES, ladder.MIN_LIMIT, ladder.SUM_NODES)] == [3, 60, 3]


def test_a_full_rung_is_halved() -> None:
    rows = Rows()
    rows.insert(*range(0, 2 * RUNG, 2))
    assert rows.sizes == [RUNG]
    rows.insert(1)
    assert rows.sizes == [RUNG // 2 + 1, RUNG // 2]
    assert rows.order == [0, 1, *range(2, 2 * RUNG, 2)]


def test_appending_in_order_leaves_full_rungs() -> None:
    rows = Rows()
    rows.insert(*range(2 * RUNG + 5))
    assert rows.sizes == [RUNG, RUNG, 5]
    assert rows.order == list(range(2 * RUNG + 5))


def test_rungs_that_are_nearly_empty_are_joined() -> None:
    rows = Rows()
    rows.insert(*range(2 * RUNG))
    rows.remove(*range(RUNG, RUNG + 3 * RUNG // 4))  # a quarter is left on the second
    assert rows.sizes == [RUNG, RUNG // 4]
    rows.remove(*range(3 * RUNG // 4))
    assert rows.sizes == [RUNG // 2]
    assert rows.order == [*range(3 * RUNG // 4, RUNG), *range(RUNG + 3 * RUNG // 4, 2 * RUNG)]
    assert rows.summary(ladder.SUM_NODES) == RUNG // 2


def test_a_new_row_is_found_between_rungs_of_equal_keys() -> None:
    rows = Rows()
    rows.key[:] = 0.0
    rows.insert(*range(2 * RUNG))
    rows.remove(RUNG)
    rows.insert(RUNG)
    assert rows.order == list(range(2 * RUNG))


def test_a_rung_keeps_the_earliest_promise_and_the_least_score() -> None:
    rows = Rows()
    rows.insert(0, 1)
    for row, soonest, score in ((0, 30, 5), (1, 40, 3), (0, 50, 9)):
        ladder.lower(rows.ladder, rows.jobs, rows.key, row, soonest, score)
    assert (rows.summary(ladder.SOONEST), rows.summary(ladder.LEAST_SCORE)) == (30, 3)


def test_a_rung_by_size_knows_whether_all_are_as_wide_and_who_is_short_enough() -> None:
    rows = Rows()
    rows.jobs[LIMIT, :5] = 10, 20, 20, 30, 5
    rows.jobs[NODES, :5] = 2, 2, 2, 2, 3
    rows.insert(0, 1, 2, 3)
    rung = rows.rungs[0]
    assert ladder.all_as_wide(rung, rows.ladder, rows.jobs)
    assert [ladder.not_longer(rung, limit, rows.ladder, rows.jobs) for limit in (9, 10, 20, 29, 30)] == [0, 1, 3, 3, 4]
    rows.insert(4)
    assert not ladder.all_as_wide(rung, rows.ladder, rows.jobs)


def test_rebuilding_leaves_room_on_every_rung_and_knows_nothing_of_promises() -> None:
    rows = Rows()
    rows.insert(*range(10))
    ladder.rebuild(rows.ladder, rows.jobs, rows.key, np.arange(100, 300))
    assert rows.order == list(range(100, 300))
    assert rows.sizes == [96, 96, 8]
    assert rows.summary(ladder.SUM_NODES, 2) == 8
    assert rows.summary(ladder.SOONEST) < -(2**60), "any promise may be there"
    rows.insert(99, 300)
    assert rows.order == list(range(99, 301))
