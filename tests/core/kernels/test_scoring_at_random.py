"""Rows are sorted by score, ties by submission, in place."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.core.columns import JOB_COLUMNS, SEQ
from cohabit.core.kernels import scoring


@pytest.mark.parametrize("count", [0, 1, 2, 3, 10, 333])
@pytest.mark.parametrize("ties", [1, 4, 10**6])
def test_rows_come_in_order_of_score(count: int, ties: int) -> None:
    rng = np.random.default_rng(count + ties)
    jobs = np.zeros((JOB_COLUMNS, 400), np.int64)
    jobs[SEQ], key = rng.permutation(400), rng.integers(0, ties, 400).astype(float)
    key[rng.integers(0, 400, 9)] = np.inf
    rows = rng.permutation(400)[:count]
    expected = sorted(rows.tolist(), key=lambda row: (key[row], jobs[SEQ, row]))
    heap = rows.copy()
    scoring.make_heap(heap, key, jobs)
    assert heap[:1].tolist() == expected[:1]
    scoring.sort_rows(rows, key, jobs)
    assert rows.tolist() == expected
