"""What policies need and what a site has: the table, the refusal at the door, and what is given up by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.doctor.needs import DISPENSABLE, LEFT_OUT, MET, UNMET, checked, offers_here, refuse_unmet, rows_of
from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.machine import ProfilingConfig, TelemetryConfig
from cohabit.app.serve.serving import ServeConfig, policies_of
from cohabit.core.protocols import PolicySet
from cohabit.model.errors import InputError
from cohabit.model.features import TIME
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.policy.degradation import PredictedPairs
from cohabit.policy.needs import NAMES
from cohabit.policy.placement.pair import MISSES, Pair
from cohabit.policy.registry import BUNDLES
from cohabit.predict.features import Floats, Schema
from cohabit.predict.pooling import Judged


class Asked:
    """A model that was trained on these columns."""

    def __init__(self, *columns: str) -> None:
        self.schema = Schema((TIME, *columns), columns)

    def estimate(self, primary_rows: Floats, other_rows: Floats) -> Floats:
        return np.zeros(len(primary_rows))

    def judge_pairs(self, names: Sequence[str], primary_rows: Floats, other_rows: Floats) -> Judged:
        return Judged(*[np.zeros((len(primary_rows), len(other_rows)))] * 4)


def serving(place: Path, name: str, **keys: object) -> ServeConfig:
    policy = PolicyConfig(name=name, **keys)  # type: ignore[arg-type]
    return ServeConfig(place, policy=policy, oversubscribe=True, profiling=ProfilingConfig())


def with_model(*columns: str) -> PolicySet:
    policies = build(PolicyConfig(name="pair-greedy"))
    assert isinstance(policies.placer, Pair)
    policies.placer.needs = PredictedPairs(Asked(*columns), "trained").needs
    return policies


def states(config: ServeConfig, policies: PolicySet, profiles: list[Profile], *without: str) -> dict[str, str]:
    offers = offers_here(config, policies)._replace(profiles=profiles)
    return {row.need: row.state for row in rows_of(policies, offers, without)}


@pytest.mark.parametrize("name", sorted(set(BUNDLES) - {"rush", "rush-paying", "distributed-intensity"}))
def test_policies_that_work_here_are_not_refused(name: str, tmp_path: Path) -> None:
    assert checked(serving(tmp_path, name), (), "site.toml").without == ()


@pytest.mark.parametrize("name", ["rush", "rush-paying"])
def test_a_gate_without_model_and_telemetry_is_refused_with_both_remedies(name: str, tmp_path: Path) -> None:
    config = serving(tmp_path, name)
    with pytest.raises(InputError, match=rf"policy {name} needs what is missing here .*train one .*\[telemetry\].*--w"):
        checked(config, (), "site.toml")
    with pytest.raises(InputError, match="telemetry: nothing reports"):
        checked(config, ("model",), "site.toml")
    given_up = checked(replace(config, telemetry=TelemetryConfig()), ("model",), "site.toml")
    assert given_up.without == ("model",)
    assert given_up.policy_words == f"{name} without model"


def test_a_misspelt_need_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no need called 'profile'; did you mean 'profiles'"):
        checked(serving(tmp_path, "sns"), ("profile",), "site.toml")


def test_without_profiles_and_measurements_nothing_is_ever_shared(tmp_path: Path) -> None:
    config = replace(serving(tmp_path, "sns"), profiling=ProfilingConfig(measure=False))
    assert states(config, policies_of(config), [])["profiles"] == UNMET
    by_cores = replace(config, policy=PolicyConfig(name="cohabit", unknown="cores"))
    assert states(by_cores, policies_of(by_cores), [])["profiles"] == DISPENSABLE


def test_a_model_is_asked_for_names_that_meters_write(tmp_path: Path) -> None:
    config = serving(tmp_path, "pair-greedy")
    assert states(config, with_model("page_faults_mean", "cpu_usage_std"), [])["counters"] == MET
    old = with_model("solo_time_min")
    assert states(config, old, [])["counters"] == UNMET
    assert states(config, old, [], "counters")["counters"] == LEFT_OUT
    rows = rows_of(old, offers_here(config, old))
    with pytest.raises(InputError, match="no meter writes solo_time_min, so all jobs run alone"):
        refuse_unmet(rows, "pair-greedy", "site.toml")


def test_profiles_may_have_what_meters_here_do_not_write(tmp_path: Path) -> None:
    config, policies = serving(tmp_path, "distributed-intensity"), build(PolicyConfig(name="distributed-intensity"))
    offers = offers_here(config, policies)._replace(columns=())
    assert {row.need: row.state for row in rows_of(policies, offers)}["counters"] == UNMET
    rates = {"cache_misses_mean": 1e6, "instructions_mean": 1e9}
    known = [Profile("a", 1, (ScaleProfile(1, 1.0, counters=rates),))]
    assert states(config, policies, known)["counters"] == MET
    assert MISSES not in rates  # it follows from the two


def test_every_need_has_a_name(tmp_path: Path) -> None:
    for name in BUNDLES:
        policies = build(PolicyConfig(name=name))
        parts = (policies.placer, policies.partitioner, *policies.gates)
        assert {need.name for part in parts for need in getattr(part, "needs", ())} <= set(NAMES)
