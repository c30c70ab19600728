"""Confidence intervals and the table of policies."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.model.records import RunTable
from cohabit.report.intervals import bootstrap_interval, by_policy, compare, compare_runs, ratio_interval


def rng(seed: int = 7) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=12), st.integers(0, 100))
def test_the_interval_holds_the_mean_and_stays_within_the_values(values: list[float], seed: int) -> None:
    found = bootstrap_interval(values, rng(seed))
    assert found.mean is not None
    assert found.low is not None
    assert found.high is not None
    slack = 1e-9 * (1 + max(abs(value) for value in values))
    assert min(values) - slack <= found.low <= found.high <= max(values) + slack
    assert found.repeats == len(values)


def test_the_same_seed_gives_the_same_interval() -> None:
    assert bootstrap_interval([1, 5, 9, 2], rng()) == bootstrap_interval([1, 5, 9, 2], rng())


def test_it_covers_the_true_mean_about_as_often_as_it_says() -> None:
    draw = rng(3)
    hits = 0
    for _ in range(200):
        found = bootstrap_interval(draw.normal(10, 2, 40).tolist(), draw)
        hits += found.low <= 10 <= found.high  # type: ignore[operator]
    assert 176 <= hits <= 200


def test_one_repeat_promises_nothing_and_none_gives_none() -> None:
    assert (one := bootstrap_interval([4.0], rng())).mean == 4
    assert one.low is one.high is None
    assert bootstrap_interval([None], rng()).mean is None
    assert bootstrap_interval([None, 2.0, 4.0], rng()).repeats == 2


def test_ratios_are_paired_so_a_constant_factor_has_no_spread() -> None:
    base = [1.0, 10.0, 100.0]
    found = ratio_interval([value / 2 for value in base], base, rng())
    assert found.mean == found.low == found.high == 0.5


def test_ratios_without_a_base_are_unknown() -> None:
    assert ratio_interval([1.0, 2.0], [0.0, 0.0], rng()).mean is None
    assert ratio_interval([1.0, None], [1.0, 1.0], rng()).mean is None
    assert ratio_interval([3.0], [2.0], rng()).mean == 1.5
    assert ratio_interval([3.0, 3.0], [2.0, 2.0, 2.0], rng()).low == 1.5


def test_the_table_measures_against_the_first_policy() -> None:
    table = compare({"a": [{"x": 4.0}, {"x": 6.0}], "b": [{"x": 2.0}, {"x": 3.0}]}, rng(), ["x", "y"])
    assert table.policies == ("a", "b")
    assert table.cells["a", "x"].ratio.mean == 1
    assert table.cells["b", "x"].ratio.mean == 0.5
    assert table.cells["b", "y"].value.mean is None
    rows = table.rows()
    assert len(rows) == 4
    assert rows[2] == {
        "policy": "b", "metric": "x", "repeats": 2, "mean": 2.5, "low": 2.0, "high": 3.0, "ratio": 0.5,
        "ratio_low": 0.5, "ratio_high": 0.5,
    }  # fmt: skip


def test_runs_of_one_name_are_repeats(policy_runs: list[RunTable]) -> None:
    assert {policy: len(runs) for policy, runs in by_policy(policy_runs).items()} == {
        "fcfs": 5, "first fit": 5, "sjf": 5,
    }  # fmt: skip
    table = compare_runs(policy_runs, rng())
    assert table.cells["sjf", "mean_wait_s"].ratio.high == pytest.approx(0.3, abs=0.2)
