"""Sorting by digits and by merging is the order of numpy, however scores are spread."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.core.kernels import sorting

SPREADS = {
    "wide": lambda rng, count: -np.exp(rng.uniform(-40, 40, count)) * rng.choice([-1, 1], count),
    "narrow": lambda rng, count: 1e9 + rng.uniform(0, 1e-3, count),
    "few values": lambda rng, count: rng.integers(-3, 3, count).astype(float),
    "one value": lambda rng, count: np.full(count, -7.5),
    "two zeros": lambda rng, count: rng.choice([0.0, -0.0], count),
    "not finite": lambda rng, count: rng.choice([np.inf, -np.inf, 0.0, -0.0, 1e-310, -1e-310], count),
    "in order": lambda rng, count: np.sort(rng.normal(size=count)),
}


@pytest.mark.parametrize("spread", SPREADS)
@pytest.mark.parametrize("room", [1, sorting.ROOM])
@pytest.mark.parametrize("count", [0, 1, 2, 9, 100, sorting.MANY - 1, sorting.MANY, 700, 5000])
def test_sorted_by_score_and_submission(spread: str, count: int, room: int) -> None:
    rng = np.random.default_rng(count)
    rows, scores = rng.permutation(count + 5)[:count], SPREADS[spread](rng, count)
    order = np.lexsort((rows, scores))
    wanted_rows, wanted_scores = rows[order], scores[order]
    places = np.empty(max(count, room), np.int64)
    spare = np.empty(count + 1, np.int64), np.empty(count + 1)
    sorting.sort(count, rows, scores, spare, places, np.arange(count + 5))
    assert np.array_equal(rows, wanted_rows)
    assert np.array_equal(scores, wanted_scores)
