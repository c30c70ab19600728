"""A gate before the start: who waits, who may pass meanwhile, how often, and that everything goes on without data.

Four nodes; judgements are given, so that outcomes are reckoned by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

from cohabit.app.policies import build
from cohabit.app.scenario import PolicyConfig
from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.core.view import View
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.event import JobFinished, TelemetryReduced, Woken
from cohabit.model.telemetry import Window, encode
from cohabit.model.units import SECOND
from cohabit.policy.gate.variability import Judgement, VariabilityGate
from cohabit.testing.builders import submitted
from tests.core.shared_story import Story

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
