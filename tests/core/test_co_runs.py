"""Placements learn from the runs that happen: what a run beside another showed moves what is expected next time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core import checkpoint
from cohabit.core.co_runs import noted
from cohabit.core.core import SchedulerCore
from cohabit.core.view import CO_RUNS
from cohabit.model.cluster import Cluster, NodeGroup, hardware_key
from cohabit.model.event import CoRunsStored, JobFinished, ProfileStored
from cohabit.model.profile import KnownCoRun, Profile, ScaleProfile, Tenant
from cohabit.policy.degradation import PredictedPairs
from cohabit.policy.neighbours import of_program, seen_by
from cohabit.policy.options import PlacementOptions
from cohabit.policy.placement.pair import Pair, Together
from cohabit.predict.degradation import DegradationModel
from cohabit.predict.features import Scaling, Schema
from cohabit.predict.flat import FlatFactor, FlatNetwork, Sides
from cohabit.predict.pooling import Effect, Pooled, Spreads
from tests.core.shared_story import Story
from tests.support.builders import submitted

NODE = NodeGroup(1, 8, ways=10, min_ways=2, closids=4, bandwidth_gbs=((8, 40.0),))
KNOWN = tuple(Profile(name, 8, (ScaleProfile(1, 100.0, counters={"x_mean": 1.0}),)) for name in "abcd")
PROMISED = 10.0  # percent, by the counters, of every pair


NO_SCALING = Scaling(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0))


def model() -> DegradationModel:
    """Counters say the same of all."""
    flat = FlatNetwork(Sides(NO_SCALING, NO_SCALING), (np.zeros((0, 1)),), (np.array([PROMISED]),), 1.0)
    pooled = Pooled(100.0, 500.0, Spreads(0.09, 0.04, 0.002), 1.3, {})
    return DegradationModel("elastic-net", Schema(("x_mean",), ("x_mean",)), flat, pooled=pooled)


def started(known: tuple[Profile, ...] = KNOWN, **more: Any) -> Story:
    placer = Pair(PlacementOptions(pairing="greedy", degradations=PredictedPairs(model(), "m"), threshold_pct=100.0))
    cluster = Cluster((replace(NODE, count=1),), "shared", oversubscribe=True)
    policies = replace(build(PolicyConfig(name="pair-greedy")), **{"placer": placer} | more)
    return Story(SchedulerCore(cluster, policies, profiles=known))


def together(tell: Story, at: int, first: str, second: str, seconds: int, **asked: Any) -> None:
    """Two jobs of these programs start together; the first ends after so many seconds, the other right after."""
    names = [f"{program}{at}" for program in (first, second)]
    begun = tell.starts(at, *(submitted(name, program=name[0], processes=8, **asked) for name in names))
    assert sorted(begun) == sorted(names)
    tell.starts(at + seconds, JobFinished(names[0], 1))
    tell.starts(at + seconds + 1, JobFinished(names[1], 1))


def expected(tell: Story, first: str, second: str) -> float:
    placer = tell.core.policies.placer
    assert isinstance(placer, Pair)
    profiles = {one.program: one for one in KNOWN}
    tenants = [Tenant(name, 8, 1, 0, 0.0, 1.0, profiles[name]) for name in (first, second)]
    return float(placer.degradations.between(tenants, NODE, tell.core.view(0).co_runs)[0, 1])


def test_a_run_slowed_more_than_promised_is_remembered_and_expected() -> None:
    tell = started()
    before = expected(tell, "a", "b")
    together(tell, 0, "a", "b", 180)
    memory = tell.core.state.memory[CO_RUNS]
    percent, promised, count = memory["runs"]["a"]["b"]
    assert (percent, promised, count) == (pytest.approx(80.0), pytest.approx(PROMISED), 1)
    assert memory["runs"]["b"]["a"][0] == pytest.approx(100 * (1 / ((100 / 181 - 1 / 181) / (180 / 181)) - 1))
    assert memory["met"] == {}
    after = expected(tell, "a", "b")
    assert before < after < 90.0
    assert expected(tell, "a", "c") > expected(tell, "d", "c"), "a is sensitive, whatever is beside it"
    assert expected(tell, "d", "b") > expected(tell, "d", "c"), "and b presses"
    together(tell, 1000, "a", "b", 180)
    assert expected(tell, "a", "b") == pytest.approx(after), "the mean of two equal runs is one co-run of the pair"


def test_pairs_that_turned_out_bad_are_not_made_again() -> None:
    tell = started()
    together(tell, 0, "a", "b", 320)
    names = ("a5", "b5", "c5", "d5")
    begun = tell.starts(5000, *(submitted(name, program=name[0], processes=8) for name in names))
    assert sorted(begun) not in (["a5", "b5"],)


def test_what_was_learned_is_in_a_checkpoint() -> None:
    tell = started()
    together(tell, 0, "a", "b", 180)
    core = tell.core
    again = checkpoint.load(checkpoint.save(core), core.state.cluster, core.policies)
    assert again.state.memory[CO_RUNS] == core.state.memory[CO_RUNS]


def test_runs_that_say_nothing_teach_nothing() -> None:
    brief = tuple(Profile(name, 8, (ScaleProfile(1, 2.0, counters={"x_mean": 1.0}),)) for name in "abcd")
    tell = started(brief)
    together(tell, 0, "a", "b", 3)
    assert tell.core.state.memory.get(CO_RUNS, {}).get("runs", {}) == {}, "too short"
    tell = started()
    together(tell, 0, "a", "b", 180, profile_owner="4711")
    assert tell.core.state.memory[CO_RUNS]["runs"] == {}, "the profiles are not this user's: others go by them"
    tell = started()
    names = ("a0", "b0")
    tell.starts(0, *(submitted(name, program=name[0], processes=8) for name in names))
    tell.starts(180, JobFinished("a0", 1, "failed"))
    assert tell.core.state.memory[CO_RUNS]["runs"] == {}


def test_a_user_s_own_program_is_learned_as_such() -> None:
    tell = started(tuple(msgspec.structs.replace(one, owner="4711") for one in KNOWN))
    together(tell, 0, "a", "b", 180, profile_owner="4711")
    assert tell.core.state.memory[CO_RUNS]["runs"].keys() == {"a@4711", "b@4711"}


def test_a_user_s_own_program_begins_with_what_the_model_knows_of_it() -> None:
    """Before any co-run, too: else it looks unknown, is never paired, and no co-run ever comes."""
    plain = model()
    assert plain.pooled is not None
    known = replace(plain.pooled, effects={"a": Effect(0.5, 0.001, 0.1, 0.001, 9, 9)})
    pairs = PredictedPairs(replace(plain, pooled=known), "m")

    def answers(owner: str) -> Any:
        tenants = [Tenant(one.program, 8, 1, 0, 0.0, 1.0, msgspec.structs.replace(one, owner=owner)) for one in KNOWN]
        return pairs.between(tenants, NODE)

    np.testing.assert_array_equal(answers("4711"), answers(""))
    assert answers("4711")[0, 1] != answers("4711")[2, 1]
    sides, flat, nothing = Sides(NO_SCALING, NO_SCALING), np.ones((2, 1)), np.zeros((1, 1))
    factor = FlatFactor(sides, nothing, nothing, ("a", "b"), flat, 7.0 * flat)
    names = ("a", "a@4711", "a@4711"), ("b", "b@4711", "c@4711")
    assert factor.known(*names, np.zeros(3)).tolist() == [7.0, 7.0, 0.0]


def test_a_policy_without_a_model_notes_co_runs_for_the_store() -> None:
    plain = Together(PlacementOptions(pairing="consecutive"))
    tell = started(placer=plain, notes_co_runs=True)
    together(tell, 0, "a", "b", 180)
    found = noted(tell.core.state)
    assert [(one.number, one.program, one.beside) for one in found.news] == [(0, "a", ("b",)), (1, "b", ("a",))]
    assert found.news[0].percent == pytest.approx(80.0)
    assert found.news[0].hardware == hardware_key(NODE)
    assert found.upto == 2
    tell = started(placer=plain)
    together(tell, 0, "a", "b", 180)
    assert CO_RUNS not in tell.core.state.memory, "no store, no model: nothing is kept"


def test_what_others_saw_is_expected_and_own_news_stay() -> None:
    tell = started(notes_co_runs=True)
    together(tell, 0, "c", "d", 150)
    before = expected(tell, "a", "b")
    tell.starts(2000, CoRunsStored((KnownCoRun("a", ("b",), 120.0, 3), KnownCoRun("x", ("a",), 5.0, 1)), upto=1))
    runs = tell.core.state.memory[CO_RUNS]["runs"]
    assert runs["a"]["b"] == [120.0, pytest.approx(PROMISED), 3]
    assert runs["x"]["a"] == [5.0, None, 1], "nothing is known of x: its counters cannot promise anything"
    assert "c" not in runs, "the store knew of it, as number 0, and others forgot it"
    assert runs["d"]["c"][2] == 1, "number 1 is not in the store yet"
    assert expected(tell, "a", "b") > before
    tell.starts(2001, ProfileStored(Profile("x", 8, (ScaleProfile(1, 100.0, counters={"x_mean": 1.0}),))))
    together(tell, 3000, "c", "d", 120)
    assert tell.core.state.memory[CO_RUNS]["runs"]["x"]["a"][1] == pytest.approx(PROMISED), "now they do"


def test_what_is_known_of_a_program_as_prior_and_as_its_own() -> None:
    tell = started()
    for at in range(3):
        together(tell, 5000 * at, "a", "bcd"[at], 180)
    placer = tell.core.policies.placer
    assert isinstance(placer, Pair)
    assert isinstance(placer.degradations, PredictedPairs)
    pairs, seen = placer.degradations, dict(tell.core.view(0).co_runs)
    found = of_program(pairs, KNOWN, seen, "a")
    assert found is not None
    prior, own = found["prior"]["sensitivity"], found["own"]["sensitivity"]
    assert prior["percent"] == pytest.approx(PROMISED)
    assert own["percent"] > 40.0
    assert own["high"] - own["low"] < prior["high"] - prior["low"], "three pairs were seen"
    assert (found["pairs_slowed"], found["pairs_beside"], found["beside"]) == (3, 3, 3)
    stored = seen_by(pairs, KNOWN, [KnownCoRun("a", (name,), seen["runs"]["a"][name][0], 1) for name in "bcd"])
    again = of_program(pairs, KNOWN, stored, "a")
    assert again is not None
    assert again["own"]["sensitivity"]["percent"] > 40.0
    assert of_program(pairs, KNOWN, seen, "x") is None
