"""A gate before the start: who waits, who may pass meanwhile, how often, and that everything goes on without data.

Four nodes; judgements are given, so that outcomes are reckoned by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.core.view import View
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.event import JobCancelled, JobFinished, TelemetryReduced, Woken
from cohabit.model.profile import ScaleProfile
from cohabit.model.telemetry import Window, encode
from cohabit.model.units import SECOND
from cohabit.policy.gate.variability import (
    Judgement,
    ModelJudge,
    VariabilityGate,
    expected_wait_us,
    note_spell,
    shown_by,
)
from cohabit.predict.variability import VariabilityModel
from cohabit.predict.variability_calibration import identity
from cohabit.predict.variability_data import TYPE_COLUMNS, Norms
from cohabit.predict.variability_flat import FlatTrees
from tests.core.shared_story import Story
from tests.support.builders import submitted

FOUR = Cluster((NodeGroup(4, 1),))


@dataclass
class Told:
    """Names that would vary, for as long as they are listed here."""

    noisy: set[str] = field(default_factory=set)
    busy_nodes: set[int] = field(default_factory=set)
    unknown: str = ""
    slowdown: float = 2.0
    asked: list[str] = field(default_factory=list)

    def judge(self, row: int, nodes: Any, view: View) -> Judgement:
        self.asked.append(view.job_id(row))
        noisy = view.job_id(row) in self.noisy or self.busy_nodes & set(nodes.tolist())
        return Judgement("variation" if noisy else "none", 0.9, self.slowdown, self.unknown)

    def calm(self, row: int, idle: Any, labels: Any, view: View) -> Any:
        return idle & ~np.isin(np.arange(len(idle)), sorted(self.busy_nodes))


def window_at(end_s: int) -> TelemetryReduced:
    table = np.ones((4, 1), np.float32)
    return TelemetryReduced(encode(Window(end_s * SECOND, ("load.one",), table, table, table)))


def story(told: Told, backfill: str = "easy", **options: Any) -> Story:
    policies = build(PolicyConfig(name="ce", order="fcfs", backfill=backfill))
    return Story(SchedulerCore(FOUR, replace(policies, gates=(VariabilityGate(told, **options),))))


def test_a_noisy_job_waits_and_starts_when_it_is_calm() -> None:
    told = Told({"a"})
    tell = story(told)
    assert tell.starts(0, submitted("a", nodes=2)) == {}
    assert list(tell.starts(1, submitted("b", nodes=2))) == ["b"], "the others may pass"
    told.noisy.clear()
    assert list(tell.starts(2, submitted("c", nodes=1, limit_s=1))) == ["c"], "an arrival is no reason to ask again"
    assert list(tell.starts(5, JobFinished("b", 1))) == ["a"]


def test_it_is_asked_again_at_the_latest_when_the_gate_said() -> None:
    told = Told({"a"})
    tell = story(told)
    tell.starts(0, submitted("a"))
    assert tell.core.state.wake_us == 60 * SECOND
    told.noisy.clear()
    assert list(tell.starts(60, Woken())) == ["a"]


@pytest.mark.parametrize("threshold", [1, 3])
def test_at_the_threshold_it_starts_whatever_the_model_says(threshold: int) -> None:
    tell = story(Told({"a"}), skip_threshold=threshold)
    tell.starts(0, submitted("a"))
    for number in range(1, threshold):
        assert tell.starts(60 * number, Woken()) == {}
    assert list(tell.starts(60 * threshold, Woken())) == ["a"]
    assert tell.core.state.memory["variability"]["at_threshold"] == 1


def test_threshold_zero_never_asks_and_a_job_may_have_its_own() -> None:
    told = Told({"a", "b"})
    tell = story(told, skip_threshold=0)
    assert list(tell.starts(0, submitted("a"), submitted("b", skip_threshold=1))) == ["a"]
    assert told.asked == ["b"]


def test_the_first_who_waits_keeps_a_reservation_for_its_next_chance() -> None:
    told = Told({"wide"})
    tell = story(told)
    tell.starts(0, submitted("r", limit_s=100))
    assert tell.starts(1, submitted("wide", nodes=3, limit_s=100)) == {}
    # The next chance is at 61 s, before r ends: whoever runs past it must leave three nodes.
    assert tell.starts(2, submitted("long", nodes=1, limit_s=500)) == {}
    assert list(tell.starts(3, submitted("short", nodes=3, limit_s=58))) == ["short"]


def test_backfilled_jobs_are_asked_about_too() -> None:
    tell = story(Told({"small"}))
    tell.starts(0, submitted("r", nodes=3, limit_s=100))
    assert tell.starts(1, submitted("head", nodes=4), submitted("small", nodes=1, limit_s=10)) == {}
    assert tell.core.state.memory["variability"]["jobs"]["small"]["skips"] == 1


def test_without_data_nothing_is_gated_and_the_reason_is_kept() -> None:
    tell = story(Told({"a"}, unknown="the telemetry is stale"))
    assert list(tell.starts(0, submitted("a"))) == ["a"]
    memory = tell.core.state.memory["variability"]
    assert memory["without_data"] == 1
    assert memory["why_without_data"] == "the telemetry is stale"


def test_cost_aware_waits_only_where_the_loss_is_larger_than_the_wait() -> None:
    told = Told({"short", "long"}, slowdown=1.2)
    tell = story(told, cost_aware=True)
    assert list(tell.starts(0, submitted("short", limit_s=100), submitted("long", limit_s=1000))) == ["short"]


def test_cost_aware_learns_how_long_noise_lasts() -> None:
    """A job of 1,000 s that would take 1,200 waits at first; after a spell of 600 s it no longer does."""
    told = Told({"long"}, slowdown=1.2)
    tell = story(told, cost_aware=True, skip_threshold=100)
    assert tell.starts(0, window_at(0), submitted("long", limit_s=1000)) == {}
    for second in range(60, 600, 60):
        assert tell.starts(second, window_at(second)) == {}
    told.noisy.clear()
    assert list(tell.starts(600, window_at(600))) == ["long"]
    told.noisy = {"next"}
    started = tell.starts(660, window_at(660), submitted("next", limit_s=1000))
    assert list(started) == ["next"], "330 s are to be expected, 200 s would be lost"


def test_spells_nobody_asked_about_do_not_count() -> None:
    memory: dict[str, Any] = {}
    assert expected_wait_us(memory, "io", 60 * SECOND) == 60 * SECOND
    note_spell(memory, "io", True, 0)
    note_spell(memory, "io", False, 3600 * SECOND)
    assert expected_wait_us(memory, "io", 60 * SECOND) == 60 * SECOND, "an hour nobody asked is no spell"
    note_spell(memory, "io", True, 3660 * SECOND)
    note_spell(memory, "io", True, 3720 * SECOND)
    note_spell(memory, "io", False, 3900 * SECOND)
    assert expected_wait_us(memory, "io", 60 * SECOND) == 150 * SECOND
    assert expected_wait_us(memory, "network", 60 * SECOND) == 60 * SECOND, "each type of work has its own"


@pytest.mark.parametrize(
    ("one", "kind"),
    [
        (ScaleProfile(1, counters={"io_read_bytes_mean": 30e6, "io_write_bytes_mean": 20e6}, communication=0.5), "io"),
        (ScaleProfile(1, counters={"io_read_bytes_mean": 30e6}, communication=0.3), "network"),
        (ScaleProfile(1, communication=0.3), "network"),
        (ScaleProfile(1, counters={"io_read_bytes_mean": 30e6}, communication=0.1), "compute"),
        (ScaleProfile(1, counters={"instructions_mean": 1.0}), "compute"),
        (ScaleProfile(1, communication=0.1), ""),
        (ScaleProfile(1, time_s=5.0), ""),
    ],
)
def test_a_profile_shows_the_type_of_work(one: ScaleProfile, kind: str) -> None:
    assert shown_by(one, processes=4) == kind


class HighestAbove:
    """A model that says variation where the highest of the counters exceeds a bound."""

    def __init__(self, bound: float) -> None:
        trees = FlatTrees(
            np.array([0, 2]), np.array([0, -1, -1], np.int32), np.array([bound, 0.0, 0.0]),
            np.array([1, -1, -1], np.int32), np.array([2, -1, -1], np.int32),
            np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]]), np.array([0], np.int32), 1.0, False,
        )  # fmt: skip
        self.model = VariabilityModel(
            "forest", ("load.one.max", *TYPE_COLUMNS), np.array([0]), trees, identity(), Norms({"p": 7.0}, {"p": 1.0}),
            np.array([1.0, 1.2, 1.5]),
        )  # fmt: skip


def test_nodes_are_judged_in_groups_of_the_jobs_size() -> None:
    """Six nodes, the first is noisy: of three pairs one is, and a job of six has no choice."""
    judge = ModelJudge(HighestAbove(5.0).model)
    policies = build(PolicyConfig(name="ce", order="fcfs", backfill="easy"))
    gates = (VariabilityGate(judge, choose_nodes=True),)
    tell = Story(SchedulerCore(Cluster((NodeGroup(6, 1),)), replace(policies, gates=gates)))
    table = np.ones((6, 1), np.float32)
    table[0] = 9.0
    told = TelemetryReduced(encode(Window(0, ("load.one",), table, table, table)))
    assert tell.starts(0, told, submitted("b", nodes=2, workload_type="io"))["b"].nodes == ((2, 2),)
    assert tell.starts(0, JobFinished("b", 1), submitted("a", nodes=6, workload_type="io")) == {}
    assert tell.core.state.memory["variability"]["jobs"]["a"]["skips"] == 1


def test_calmer_nodes_are_chosen_before_anybody_is_delayed() -> None:
    told = Told(busy_nodes={0, 1})
    assert story(told).starts(0, submitted("a", nodes=2)) == {}
    assert story(told, choose_nodes=True).starts(0, submitted("a", nodes=2))["a"].nodes == ((2, 2),)
    assert story(told, choose_nodes=True).starts(0, submitted("a", nodes=3)) == {}, "too few are calm"


def test_newer_telemetry_is_a_reason_to_ask_again() -> None:
    told = Told({"a"})
    tell = story(told)
    tell.starts(0, submitted("a"))
    told.noisy.clear()
    assert list(tell.starts(10, window_at(10))) == ["a"]


def test_conservative_promises_a_delayed_job_its_next_chance() -> None:
    told = Told({"a"})
    tell = story(told, backfill="conservative")
    tell.starts(0, submitted("a", nodes=3, limit_s=100))
    assert tell.starts(1, submitted("b", nodes=2, limit_s=100)) == {}, "a is promised 60 s"
    told.noisy.clear()
    assert list(tell.starts(60, Woken())) == ["a"]


def test_why_says_how_often_it_was_passed_over() -> None:
    tell = story(Told({"a"}))
    tell.starts(0, submitted("a"))
    reason = why_waiting(tell.core.state, tell.core.policies, "a", 1 * SECOND)
    assert "would probably vary now (variation, p = 0.90); passed over 1 of at most 10 times" in reason


def test_why_names_the_counters_that_tell_against_a_start() -> None:
    gates = (VariabilityGate(ModelJudge(HighestAbove(5.0).model)),)
    policies = build(PolicyConfig(name="ce", order="fcfs", backfill="easy"))
    tell = Story(SchedulerCore(FOUR, replace(policies, gates=gates)))
    table = np.full((4, 1), 9.0, np.float32)
    told = TelemetryReduced(encode(Window(0, ("load.one",), table, table, table)))
    assert tell.starts(0, told, submitted("a", nodes=2, workload_type="io")) == {}
    reason = why_waiting(tell.core.state, tell.core.policies, "a", 1 * SECOND)
    assert "passed over 1 of at most 10 times; mostly as load.one.max is 9; asked again" in reason


def test_a_gate_forgets_jobs_that_have_left() -> None:
    tell = story(Told({"a", "b"}))
    tell(0, submitted("a", nodes=2))
    assert list(tell.core.state.memory[VariabilityGate.name]["jobs"]) == ["a"]
    tell(1, JobCancelled("a"), submitted("b", nodes=2))
    assert list(tell.core.state.memory[VariabilityGate.name]["jobs"]) == ["b"]


def test_a_checkpoint_keeps_skips_and_telemetry() -> None:
    tell = story(Told({"a"}), skip_threshold=2)
    tell.starts(0, window_at(0), submitted("a"))
    core = checkpoint.load(checkpoint.save(tell.core), FOUR, tell.core.policies)
    assert core.state.window is not None
    assert core.state.window.digest == tell.core.state.window.digest  # type: ignore[union-attr]
    again = Story(core)
    assert again.starts(60, Woken()) == {}
    assert again.core.state.memory["variability"]["jobs"]["a"]["skips"] == 1, "the same counters count once"
    assert again.starts(120, window_at(120)) == {}
    assert list(again.starts(180, window_at(180))) == ["a"]
