"""Features of a profile: what a meter wrote, what follows from it, and what nothing here can give."""

from __future__ import annotations

import pytest

from cohabit.model.features import feature, features, given_by, not_in_vocabulary
from cohabit.model.profile import ScaleProfile

RATES = {"instructions_mean": 2e9, "cache_misses_mean": 4e6, "task_clock_mean": 1.5}


def test_ratios_follow_from_rates_and_the_time_from_its_runs() -> None:
    found = features(ScaleProfile(1, 10.0, counters=RATES, samples=2, time_variance=0.25))
    assert found["misses_per_instruction_mean"] == pytest.approx(2e-3)
    assert found["cpu_usage_mean"] == 1.5
    assert (found["app_time_s"], found["solo_time_mean"], found["solo_time_std"]) == (10.0, 10.0, 0.5)
    assert "ipc_mean" not in found  # no cycles were counted


def test_what_was_written_is_not_calculated_again() -> None:
    one = ScaleProfile(1, 10.0, counters=RATES | {"cpu_usage_mean": 1.0})
    assert feature(one, "cpu_usage_mean") == 1.0
    assert feature(one, "misses_per_instruction_mean") == pytest.approx(2e-3)
    assert feature(one, "ipc_mean") is None
    assert feature(None, "cpu_usage_mean") is None
    assert features(None) == {}


def test_nothing_is_divided_by_zero() -> None:
    one = ScaleProfile(1, counters={"instructions_mean": 0.0, "cache_misses_mean": 0.0})
    assert feature(one, "misses_per_instruction_mean") is None
    assert "app_time_s" not in features(one)


def test_meters_lead_to_their_own_counters_and_to_ratios() -> None:
    found = given_by({"task_clock", "page_faults"})
    assert {"page_faults_max", "cpu_usage_std", "solo_time_std", "app_time_s"} <= found
    assert "ipc_mean" not in found


def test_names_that_no_meter_writes_are_known() -> None:
    columns = ["app_time_s", "solo_time_min", "solo_time_mean", "instructions_mean", "instructions", "joules_mean"]
    assert not_in_vocabulary(columns) == ["solo_time_min", "instructions", "joules_mean"]
