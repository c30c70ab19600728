"""The ladder is a sorted list: whatever is put in and taken out, in order and with right summaries."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohabit.core.columns import SEQ
from cohabit.core.kernels import ladder
from cohabit.core.kernels.ladder import (
    LAST_KEY,
    LEAST_SCORE,
    MIN_LIMIT,
    MIN_NODES,
    ORDER,
    ROWS,
    RUNG,
    RUNGS,
    SIZE,
    SOONEST,
    SUM_NODES,
)
from tests.breadth import examples


class Twin:
    """A ladder beside a plain set of rows."""

    def __init__(self, capacity: int, seed: int, ties: int) -> None:
        rng = np.random.default_rng(seed)
        self.jobs = rng.integers(0, 50, (SEQ + 1, capacity))
        self.key, self.jobs[SEQ] = rng.integers(0, ties, capacity).astype(float), rng.permutation(capacity)
        self.promised, self.score = rng.integers(0, 1000, (2, capacity))
        self.rungs, self.rows = ladder.make(capacity), set[int]()

    def toggle(self, row: int) -> None:
        change = ladder.remove if row in self.rows else ladder.insert
        change(self.rungs, self.jobs, self.key, row)
        self.rows ^= {row}
        if row in self.rows:
            ladder.lower(self.rungs, self.jobs, self.key, row, self.promised[row], self.score[row])

    def check(self) -> None:
        items, info, meta = self.rungs
        out = np.empty(len(self.rows), np.int64)
        assert ladder.rows_in_order(self.rungs, out) == len(self.rows) == meta[ROWS]
        assert out.tolist() == sorted(self.rows, key=lambda row: (self.key[row], self.jobs[SEQ, row]))
        assert sorted(info[ORDER].tolist()) == list(range(info.shape[1])), "a rung was lost"
        for place in range(meta[RUNGS]):
            rung = info[ORDER, place]
            rows = items[rung, : info[SIZE, rung]]
            nodes, limits = self.jobs[:2, rows]
            assert info[LAST_KEY, place : place + 1].view(np.float64)[0] == self.key[rows[-1]]
            assert info[SOONEST, rung] <= self.promised[rows].min()
            assert info[LEAST_SCORE, rung] <= self.score[rows].min()
            assert 0 < len(nodes) <= RUNG
            assert info[MIN_NODES, rung] == nodes.min()
            assert info[MIN_LIMIT, rung] == limits.min()
            assert info[SUM_NODES, rung] == nodes.sum()


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.large_base_example])
@given(st.integers(0, 2**32), st.sampled_from([1, 3, 10**6]), st.lists(st.integers(0, 19), max_size=60))
def test_small_ladders(seed: int, ties: int, rows: list[int]) -> None:
    twin = Twin(20, seed, ties)
    for row in rows:
        twin.toggle(row)
        twin.check()


@pytest.mark.parametrize("ties", [1, 40, 10**9])
@pytest.mark.parametrize("seed", range(2))
def test_ladders_of_many_rungs(seed: int, ties: int) -> None:
    """Fill, empty from one end, from the other, at random, and fill again: rungs split, merge and close."""
    capacity = 3000
    twin, rng = Twin(capacity, seed, ties), np.random.default_rng(seed)
    ranked = sorted(range(capacity), key=lambda row: (twin.key[row], twin.jobs[SEQ, row]))
    for batch in (
        rng.permutation(capacity), ranked[:900], ranked[::-1][:900], rng.permutation(ranked[900:-900])[:1100],
        rng.permutation(capacity)[:500], ranked,
    ):  # fmt: skip
        for number, row in enumerate(batch):
            twin.toggle(int(row))
            if number % 97 == 0:
                twin.check()
        twin.check()


def test_appending_in_order_leaves_full_rungs() -> None:
    twin = Twin(1280, 0, 1)
    twin.jobs[SEQ] = np.arange(1280)
    for row in range(1280):
        twin.toggle(row)
    twin.check()
    assert twin.rungs.meta[RUNGS] == 1280 // RUNG


def test_thinning_out_never_runs_out_of_rungs() -> None:
    """The worst for a ladder: fill it, then leave rungs as empty as the merging rule allows, and fill again."""
    twin = Twin(8192, 3, 10**9)
    for row in range(8192):
        twin.toggle(row)
    rng = np.random.default_rng(4)
    for share in (0.9, 0.5, 0.95, 0.2):
        for row in sorted(twin.rows):
            if rng.random() < share:
                twin.toggle(row)
        twin.check()
        for row in rng.permutation(8192)[:6000]:
            twin.toggle(int(row))
        twin.check()


@pytest.mark.parametrize("count", [0, 1, 95, 96, 97, 1500])
def test_a_ladder_rebuilt_by_other_keys_goes_on(count: int) -> None:
    twin, rng = Twin(2000, count, 40), np.random.default_rng(count)
    for row in rng.permutation(2000)[:count]:
        twin.toggle(row)
    twin.key = rng.integers(0, 40, 2000).astype(float)
    ranked = sorted(twin.rows, key=lambda row: (twin.key[row], twin.jobs[SEQ, row]))
    ladder.rebuild(twin.rungs, twin.jobs, twin.key, np.array(ranked, np.int64))
    twin.check()
    for row in rng.permutation(2000)[:700]:
        twin.toggle(row)
    twin.check()
