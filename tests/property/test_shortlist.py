"""An order taken for falling and the same order scored in full in every pass give one schedule, on long queues."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cohabit.model.units import SECOND
from cohabit.sim import trace_driver
from cohabit.sim.trace_driver import Replay, replay
from tests.breadth import WIDE
from tests.support.builders import policies

SEEDS = range(4) if WIDE else (0, 3)


def long_queue(
    seed: int, falling: bool, order: str, backfill: str, backfill_order: str | None, compiled: bool = True
) -> Replay:
    """More work than the machine can do: hundreds wait, many alike; some seeds stop counting the age after a while."""
    rng = np.random.default_rng(seed)
    jobs, nodes, unit = 1500, 64, SECOND if seed % 2 else 1
    submit = np.sort(rng.integers(0, 40_000, jobs)) * unit
    limit = np.maximum(rng.choice([10, 60, 600, 3600], jobs) * unit, 1)
    run = (limit * rng.random(jobs) * (1.3 if seed % 3 else 1.0)).astype(np.int64)
    if seed == 2:
        limit[::7] = 0  # they asked for no time at all
        run[::14] = 5 * unit
    size = rng.choice([1, 1, 2, 4, 8, 33, 64], jobs)
    user = rng.integers(-1, 6, jobs) * 10**8
    chosen = policies(order, backfill, backfill_order)
    rule = replace(chosen.order, falling=falling, entry=chosen.order.entry if compiled else None)
    if order == "multifactor" and seed >= 2:
        max_age_h = 5000 * unit / 3.6e9
        rule = replace(rule, parameters=(*rule.parameters[:4], max_age_h, *rule.parameters[5:]))
    chosen = replace(chosen, order=rule)
    duration = np.minimum(run, limit) if seed % 3 == 0 else run
    return replay(submit, duration, limit, size, size, user, nodes, chosen)


@pytest.mark.parametrize("order", ["wfp", "unicef", "multifactor"])
@pytest.mark.parametrize("backfill", ["none", "easy", "first-fit", "2", "7"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_short_list_changes_nothing(order: str, backfill: str, seed: int) -> None:
    second = "sjf" if seed == 3 and backfill != "none" else None
    short, full = (long_queue(seed, falling, order, backfill, second) for falling in (True, False))
    assert np.array_equal(short.start_us, full.start_us)
    assert short.journal.hash() == full.journal.hash()
    assert short.ranges is not None
    assert full.ranges is not None
    assert np.array_equal(short.ranges, full.ranges)


@pytest.mark.wide
@pytest.mark.parametrize("order", ["wfp", "unicef", "multifactor"])
@pytest.mark.parametrize("backfill", ["none", "easy", "first-fit", "2", "7"])
@pytest.mark.parametrize("seed", range(3))
def test_the_short_list_serves_orders_that_stay_in_python(order: str, backfill: str, seed: int) -> None:
    """Then a call costs more than scoring a few more, so everybody who may pass the head is scored at once."""
    second = "unicef" if seed == 2 and backfill != "none" else None
    short = long_queue(seed, True, order, backfill, second, compiled=False)
    full = long_queue(seed, False, order, backfill, second)
    assert np.array_equal(short.start_us, full.start_us)
    assert short.journal.hash() == full.journal.hash()


@pytest.mark.wide
@pytest.mark.parametrize("order", ["wfp", "unicef", "multifactor"])
@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("seed", range(4))
def test_conservative_scores_only_those_concerned(order: str, compiled: bool, seed: int) -> None:
    some = long_queue(seed, True, order, "conservative", None, compiled)
    full = long_queue(seed, False, order, "conservative", None)
    assert np.array_equal(some.start_us, full.start_us)
    assert np.array_equal(some.promised_us, full.promised_us)
    assert some.journal.hash() == full.journal.hash()


@pytest.mark.wide
@pytest.mark.parametrize("order", ["fcfs", "sjf", "ljf", "saf", "wfp"])
@pytest.mark.parametrize("backfill", ["2", "7", "conservative"])
@pytest.mark.parametrize("seed", range(4))
def test_finding_by_size_changes_nothing(order: str, backfill: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who may start is looked for among those of the same size, or all along the queue."""
    by_size, set_keys = long_queue(seed, order == "wfp", order, backfill, None), trace_driver._set_keys
    monkeypatch.setattr(trace_driver, "_set_keys", lambda *what: set_keys(*what) and False)
    in_order = long_queue(seed, order == "wfp", order, backfill, None)
    assert np.array_equal(by_size.start_us, in_order.start_us)
    assert by_size.journal.hash() == in_order.journal.hash()


@pytest.mark.wide
@pytest.mark.parametrize("order", ["wfp", "multifactor"])
@pytest.mark.parametrize("backfill", ["easy", "3", "first-fit"])
def test_sizes_that_are_not_exact_change_nothing(order: str, backfill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of those who are as wide, the shorter ones may then stand behind longer ones."""
    exact = long_queue(1, True, order, backfill, None)
    monkeypatch.setattr(trace_driver, "_by_size", lambda nodes, limits: (nodes.astype(np.float64), False))
    rough = long_queue(1, True, order, backfill, None)
    assert rough.journal.hash() == exact.journal.hash()


@pytest.mark.wide
def test_sizes_that_do_not_fit_a_number_are_not_taken_for_exact() -> None:
    nodes, limits = np.array([1, 2, 2, 2**20]), np.array([2**40 + 1, 2**40, 2**40 + 1, 3])
    sizes, exact = trace_driver._by_size(nodes, limits)
    assert not exact
    assert (np.diff(sizes) >= 0).all()
    sizes, exact = trace_driver._by_size(nodes[:3], limits[:3])
    assert exact
    assert (np.diff(sizes) > 0).all()
    assert trace_driver._by_size(nodes, limits * SECOND)[1] is False
    assert trace_driver._by_size(nodes, np.array([3, 1, 2, 3]) * SECOND)[1] is True
