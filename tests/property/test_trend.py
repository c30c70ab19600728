"""Orders shown to fall do fall, and a replay that relies on it starts every job when one that does not would."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cohabit.core.columns import CORES, JOB_COLUMNS, LIMIT, NODES, SUBMIT, USER, columns_of
from cohabit.core.protocols import Order
from cohabit.model.units import SECOND
from cohabit.policy.trend import never_rises
from cohabit.sim.fast import Replay, replay
from cohabit.testing.builders import policies


def waited_s(jobs: Any, rows: Any, now_us: int) -> Any:
    return (now_us - jobs.submit_us[rows]) / 1e6


def asked_s(jobs: Any, rows: Any) -> Any:
    return np.maximum(jobs.limit_us[rows], 1_000_000) / 1e6


FALLING: dict[str, Callable[..., Any]] = {
    "first come": lambda jobs, rows, now_us: -(now_us - jobs.submit_us[rows]),
    "credit": lambda jobs, rows, now_us: jobs.limit_us[rows] / 1e6 - 0.25 * waited_s(jobs, rows, now_us),
    "expansion": lambda jobs, rows, now_us: -(waited_s(jobs, rows, now_us) / asked_s(jobs, rows)),
    "cube": lambda jobs, rows, now_us: -((waited_s(jobs, rows, now_us) / asked_s(jobs, rows)) ** 3) * jobs.nodes[rows],
    "square": lambda jobs, rows, now_us: jobs.nodes[rows] - waited_s(jobs, rows, now_us) ** 2,
    "root": lambda jobs, rows, now_us: jobs.nodes[rows] / np.sqrt(1.0 + waited_s(jobs, rows, now_us)),
    "logarithm": lambda jobs, rows, now_us: -np.log1p(waited_s(jobs, rows, now_us)) * jobs.nodes[rows],
    "logarithm to ten": lambda jobs, rows, now_us: np.log10(asked_s(jobs, rows)) - np.log10(
        1 + waited_s(jobs, rows, now_us)),
    "logarithm of zero": lambda jobs, rows, now_us: -np.log(waited_s(jobs, rows, now_us)) * jobs.nodes[rows],
    "logarithm of a quotient": lambda jobs, rows, now_us: (
        np.sqrt(asked_s(jobs, rows)) - 3.0 * np.log2(waited_s(jobs, rows, now_us) / asked_s(jobs, rows))),
    "logarithm held up": lambda jobs, rows, now_us: -np.maximum(np.log10(waited_s(jobs, rows, now_us)), 0.0),
    "cube of a logarithm": lambda jobs, rows, now_us: -(np.log(waited_s(jobs, rows, now_us)) ** 3),
    "exponential": lambda jobs, rows, now_us: np.exp(-waited_s(jobs, rows, now_us) / 3600.0) * asked_s(jobs, rows),
    "exploding": lambda jobs, rows, now_us: -np.exp(waited_s(jobs, rows, now_us)) * jobs.nodes[rows],
    "tangent": lambda jobs, rows, now_us: asked_s(jobs, rows) * (1 - np.tanh(waited_s(jobs, rows, now_us) / 7200.0)),
    "third root": lambda jobs, rows, now_us: -np.cbrt(waited_s(jobs, rows, now_us)) * jobs.nodes[rows],
    "steps": lambda jobs, rows, now_us: asked_s(jobs, rows) / 3600.0 - 10 * (waited_s(jobs, rows, now_us) // 600),
    "bonus": lambda jobs, rows, now_us: asked_s(jobs, rows) - 1e6 * (waited_s(jobs, rows, now_us) > 3600),
    "late ones first": lambda jobs, rows, now_us: np.where(
        waited_s(jobs, rows, now_us) > 7200, -waited_s(jobs, rows, now_us), asked_s(jobs, rows)),
    "classes": lambda jobs, rows, now_us: (
        asked_s(jobs, rows) - np.digitize(waited_s(jobs, rows, now_us), [60, 600, 3600]) * 1e6),
    "by size": lambda jobs, rows, now_us: np.where(
        jobs.nodes[rows] > 8, -waited_s(jobs, rows, now_us), -2.0 * waited_s(jobs, rows, now_us)),
    "bounded": lambda jobs, rows, now_us: 1e3 - np.minimum(waited_s(jobs, rows, now_us), 3600.0),
    "power": lambda jobs, rows, now_us: -(waited_s(jobs, rows, now_us) ** 1.5),
    "quotient": lambda jobs, rows, now_us: 1.0 / (1.0 + waited_s(jobs, rows, now_us)) ** 2,
    "product": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) * (5.0 + waited_s(jobs, rows, now_us)),
    "time itself": lambda jobs, rows, now_us: jobs.nodes[rows] * 1.0 - now_us / 1e9,
}  # fmt: skip
UNKNOWN: dict[str, Callable[..., Any]] = {
    "rises": lambda jobs, rows, now_us: waited_s(jobs, rows, now_us),
    "rises as a quotient": lambda jobs, rows, now_us: -1.0 / (1.0 + waited_s(jobs, rows, now_us)),
    "up and down": lambda jobs, rows, now_us: (waited_s(jobs, rows, now_us) - 60.0) ** 2,
    "both ways": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) + np.sqrt(waited_s(jobs, rows, now_us)),
    "of either sign": lambda jobs, rows, now_us: waited_s(jobs, rows, now_us) * jobs.qos[rows],
    "by a limit that may be zero": lambda jobs, rows, now_us: -((now_us - jobs.submit_us[rows]) / jobs.limit_us[rows]),
    "whole numbers that overflow": lambda jobs, rows, now_us: -(now_us - jobs.submit_us[rows]) * jobs.limit_us[rows],
    "the queue": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) / np.mean(asked_s(jobs, rows)),
    "its length": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) * len(rows),
    "usage": lambda jobs, rows, now_us: -waited_s(jobs, rows, now_us) * jobs.usage[jobs.user[rows]],
    "a choice": lambda jobs, rows, now_us: np.where(
        waited_s(jobs, rows, now_us) > 60, jobs.nodes[rows] * 1.0, -waited_s(jobs, rows, now_us)),
    "a malus": lambda jobs, rows, now_us: asked_s(jobs, rows) + 1e6 * (waited_s(jobs, rows, now_us) > 3600),
    "a bonus that ends": lambda jobs, rows, now_us: asked_s(jobs, rows) - 1e6 * (waited_s(jobs, rows, now_us) < 3600),
    "an exact wait": lambda jobs, rows, now_us: asked_s(jobs, rows) - 1e6 * (waited_s(jobs, rows, now_us) == 3600),
    "a choice that overlaps": lambda jobs, rows, now_us: np.where(
        waited_s(jobs, rows, now_us) > 60, -waited_s(jobs, rows, now_us), -2.0 * waited_s(jobs, rows, now_us)),
    "a wave": lambda jobs, rows, now_us: -np.sin(waited_s(jobs, rows, now_us)),
    "endless times nothing": lambda jobs, rows, now_us: -np.log(waited_s(jobs, rows, now_us)) * (jobs.nodes[rows] - 1),
    "endless less endless": lambda jobs, rows, now_us: (
        np.log(asked_s(jobs, rows) - 1.0) - np.log(waited_s(jobs, rows, now_us))),
    "exploding times nothing": lambda jobs, rows, now_us: (
        -np.exp(waited_s(jobs, rows, now_us)) * (jobs.nodes[rows] - 1)),
    "steps of either sign": lambda jobs, rows, now_us: -(waited_s(jobs, rows, now_us) // jobs.qos[rows]),
    "a logarithm below zero": lambda jobs, rows, now_us: -np.log(waited_s(jobs, rows, now_us) - 1.0),
    "one over a logarithm": lambda jobs, rows, now_us: 1.0 / np.log(waited_s(jobs, rows, now_us)),
    "eligible later": lambda jobs, rows, now_us: -np.sqrt(now_us - jobs.eligible_us[rows]),
    "a question": lambda jobs, rows, now_us: (
        -waited_s(jobs, rows, now_us) if now_us > 10**12 else 1.0 * jobs.nodes[rows]),
}  # fmt: skip


@pytest.mark.parametrize("name", FALLING)
def test_shown_to_fall(name: str) -> None:
    assert never_rises(FALLING[name], ())


@pytest.mark.parametrize("name", UNKNOWN)
def test_not_shown_to_fall(name: str) -> None:
    assert not never_rises(UNKNOWN[name], ())


def test_the_value_of_an_option_counts() -> None:
    def order(jobs: Any, rows: Any, now_us: int, weight: float) -> Any:
        return -weight * waited_s(jobs, rows, now_us)

    assert never_rises(order, (2.0,))
    assert never_rises(order, (0.0,))
    assert not never_rises(order, (-2.0,))


@pytest.mark.parametrize("name", FALLING)
@pytest.mark.parametrize("seed", range(3))
def test_scores_never_rise(name: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    jobs, count = np.zeros((JOB_COLUMNS, 500), np.int64), 500
    jobs[NODES] = jobs[CORES] = rng.integers(1, 5000, count)
    jobs[LIMIT] = rng.integers(0, 10**11, count)
    jobs[SUBMIT], jobs[USER] = rng.integers(0, 10**9, count), 0
    jobs[SUBMIT, :50] = now = 10**9
    rows, last = np.arange(count), np.full(count, np.inf)
    for step in [0, *rng.integers(1, 10 ** rng.integers(1, 10), 200)]:  # from a microsecond to a quarter of an hour
        now += int(step)
        found = np.asarray(FALLING[name](columns_of(jobs, np.ones((2, 2))), rows, now), float)
        assert (found <= last).all()
        last = found


def overloaded(seed: int, scores: Callable[..., Any], falling: bool, backfill: str) -> Replay:
    rng = np.random.default_rng(seed)
    jobs = 1200
    submit = np.sort(rng.integers(0, 30_000, jobs)) * SECOND
    limit = rng.choice([0, 10, 60, 600, 3600], jobs) * SECOND
    size = rng.choice([1, 1, 2, 4, 8, 33, 64], jobs)
    run = np.minimum((limit * rng.random(jobs) * 1.3).astype(np.int64), limit)
    chosen = policies("wfp", backfill, None)
    chosen = replace(chosen, order=Order(scores, True, falling, (), name="own"))
    return replay(submit, run, limit, size, size, np.zeros(jobs, np.int64), 64, chosen)


@pytest.mark.parametrize("name", FALLING)
@pytest.mark.parametrize("backfill", ["none", "easy", "conservative"])
def test_relying_on_it_changes_nothing(name: str, backfill: str) -> None:
    seed = len(name) + len(backfill)
    short, full = (overloaded(seed, FALLING[name], falling, backfill) for falling in (True, False))
    assert np.array_equal(short.start_us, full.start_us)
    assert short.journal.hash() == full.journal.hash()
