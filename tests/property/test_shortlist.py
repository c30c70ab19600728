"""An order taken for falling and the same order scored in full in every pass give one schedule, on long queues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cohabit.model.units import SECOND
from cohabit.sim.fast import Replay, replay
from cohabit.testing.builders import policies


def long_queue(seed: int, falling: bool, order: str, backfill: str, backfill_order: str | None) -> Replay:
    """More work than the machine can do: hundreds wait, many of them alike."""
    rng = np.random.default_rng(seed)
    jobs, nodes, unit = 1500, 64, SECOND if seed % 2 else 1
    submit = np.sort(rng.integers(0, 40_000, jobs)) * unit
    limit = np.maximum(rng.choice([10, 60, 600, 3600], jobs) * unit, 1)
    run = (limit * rng.random(jobs) * (1.3 if seed % 3 else 1.0)).astype(np.int64)
    size = rng.choice([1, 1, 2, 4, 8, 33, 64], jobs)
    user = rng.integers(-1, 6, jobs) * 10**8
    chosen = policies(order, backfill, backfill_order)
    if not falling:
        chosen = replace(chosen, order=replace(chosen.order, falling=False))
    duration = np.minimum(run, limit) if seed % 3 == 0 else run
    return replay(submit, duration, limit, size, size, user, nodes, chosen)


@pytest.mark.parametrize("order", ["wfp", "unicef", "multifactor"])
@pytest.mark.parametrize("backfill", ["none", "easy", "first-fit"])
@pytest.mark.parametrize("seed", range(4))
def test_the_short_list_changes_nothing(order: str, backfill: str, seed: int) -> None:
    second = "sjf" if seed == 3 and backfill != "none" else None
    short, full = (long_queue(seed, falling, order, backfill, second) for falling in (True, False))
    assert np.array_equal(short.start_us, full.start_us)
    assert short.journal.hash() == full.journal.hash()
    assert short.ranges is not None
    assert full.ranges is not None
    assert np.array_equal(short.ranges, full.ranges)
