"""The gate `paying`: what it waits for, to whom it lends its nodes, how long at most, and what it learns of noise.

Four nodes; judgements are given, so that outcomes are reckoned by hand.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from cohabit.app.scenario.policies import build, resolve, without_effect
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.core.view import View
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError
from cohabit.model.event import JobFinished, Woken
from cohabit.model.units import SECOND
from cohabit.policy.gate.paying import ALL, LAG_US, LAST_LAG_US, PayingGate, goes_on_us
from cohabit.policy.gate.variability import SPELLS, Judgement, note_spell
from tests.cli.cli_calls import cohabit
from tests.core.shared_story import Story
from tests.support.builders import submitted

FOUR = Cluster((NodeGroup(4, 1),))


@dataclass
class Told:
    """Names that would vary, for as long as they are listed here, and how a start is expected to go."""

    noisy: set[str] = field(default_factory=set)
    chance: float = 1.0
    spread: float = 0.0

    def judge(self, row: int, nodes: Any, view: View) -> Judgement:
        noisy = view.job_id(row) in self.noisy
        return Judgement("variation" if noisy else "none", self.chance, 1.0, "", 100.0 * SECOND, self.spread)

    def calm(self, row: int, idle: Any, labels: Any, view: View) -> Any:
        return None


def story(told: Told, **options: Any) -> Story:
    policies = build(PolicyConfig(name="ce", order="fcfs", backfill="easy"))
    return Story(SchedulerCore(FOUR, replace(policies, gates=(PayingGate(told, **options),))))


def test_a_job_waits_for_calm_where_a_varying_run_costs_more_than_the_wait() -> None:
    told = Told({"a"})
    tell = story(told, price_us=61 * SECOND)
    assert tell.starts(0, submitted("a")) == {}
    assert tell.core.state.wake_us == 60 * SECOND
    told.noisy.clear()
    assert tell.starts(60, Woken()) == {}, "noise may only pause"
    told.noisy.add("a")
    assert tell.starts(120, Woken()) == {}, "so it did"
    told.noisy.clear()
    assert tell.starts(180, Woken()) == {}
    assert tell.why("a", 181).startswith("there are nodes for it, but noise seems to be over; it starts if")
    assert list(tell.starts(240, Woken())) == ["a"]
    assert tell.core.state.memory["paying"]["delayed"] == 2


@pytest.mark.parametrize(
    "told",
    [Told({"a"}), Told({"a"}, chance=0.5), Told({"a"}, spread=1.0)],
    ids=["the price is too low", "it may not vary", "noise does not hurt it for long enough"],
)
def test_a_job_starts_where_it_would_lose_less_than_idle_nodes(told: Told) -> None:
    price_s = 59 if told.chance == 1.0 and told.spread == 0.0 else 119
    assert list(story(told, price_us=price_s * SECOND).starts(0, submitted("a"))) == ["a"]


def test_a_job_that_waits_does_not_give_up_and_none_begins_to_wait_in_a_long_spell() -> None:
    tell = story(Told({"a", "b"}), price_us=100 * SECOND)
    assert tell.starts(0, submitted("a", nodes=2, limit_s=500)) == {}
    assert tell.starts(60, Woken()) == {}
    found = tell.starts(120, Woken(), submitted("b", nodes=1, limit_s=50))
    assert list(found) == ["b"], "noise goes on for three minutes, and a varying run costs less"


def test_at_the_bound_it_starts_into_noise() -> None:
    tell = story(Told({"a"}), bound_us=90 * SECOND, price_us=10_000 * SECOND)
    assert tell.starts(0, submitted("a")) == {}
    assert tell.starts(60, Woken()) == {}
    assert tell.core.state.wake_us == 90 * SECOND, "it is asked about no later than its bound"
    assert list(tell.starts(90, Woken())) == ["a"]
    assert tell.core.state.memory["paying"]["at_threshold"] == 1


def test_a_job_lends_its_nodes_until_its_bound_and_no_longer() -> None:
    tell = story(Told({"wide"}))
    tell.starts(0, submitted("r", nodes=1, limit_s=100))
    jobs = submitted("wide", nodes=3, limit_s=100), submitted("late", nodes=2, limit_s=700)
    assert tell.starts(1, *jobs, submitted("soon", nodes=3, limit_s=500)).keys() == {"soon"}


def test_lent_nodes_are_asked_back_when_nothing_takes_them_any_more() -> None:
    tell = story(Told({"wide"}))
    tell.starts(0, submitted("r", nodes=1, limit_s=1000))
    assert tell.starts(1, submitted("wide", nodes=3, limit_s=100), submitted("soon", nodes=3, limit_s=500)).keys() == {
        "soon"
    }
    assert tell.core.state.memory["paying"]["jobs"]["wide"]["lent_us"] == 601 * SECOND
    assert tell.starts(11, JobFinished("soon", 1)) == {}
    assert "lent_us" not in tell.core.state.memory["paying"]["jobs"]["wide"], "it has its old reservation again"
    assert tell.starts(12, submitted("one", nodes=1, limit_s=500)) == {}


def test_without_takers_it_keeps_its_reservation() -> None:
    tell = story(Told({"wide"}))
    tell.starts(0, submitted("r", nodes=1, limit_s=100))
    assert tell.starts(1, submitted("wide", nodes=3, limit_s=100)) == {}
    assert tell.starts(2, submitted("one", nodes=1, limit_s=500)) == {}, "it would take one of its nodes past 61 s"


def test_a_job_that_may_not_be_passed_over_is_not_asked_about() -> None:
    assert list(story(Told({"a"})).starts(0, submitted("a", skip_threshold=0))) == ["a"]


def test_noise_is_expected_to_go_on_as_spells_did() -> None:
    memory: dict[str, Any] = {}
    minute = 60 * SECOND
    note_spell(memory, ALL, True, 0)
    assert goes_on_us(memory, 0, minute) == minute, "one spell of a minute is assumed"
    note_spell(memory, ALL, True, 4 * minute)
    assert goes_on_us(memory, 4 * minute, minute) == 5 * minute, "what goes on counts so far"
    note_spell(memory, ALL, False, 8 * minute)
    note_spell(memory, ALL, True, 9 * minute)
    assert memory[SPELLS][ALL]["ended"] == 1
    assert goes_on_us(memory, 9 * minute, minute) == (minute + 8 * minute - LAG_US) / 2
    assert goes_on_us(memory, 9 * minute, minute, LAST_LAG_US) == (minute + 8 * minute - minute / 2) / 2


def test_keys_that_another_gate_has_are_said_to_have_no_effect(tmp_path: Path) -> None:
    paying = PolicyConfig(name="rush-paying", variability="model", skip_threshold=3)
    assert without_effect(paying, resolve(paying)) == ["policy.skip_threshold has no effect with gate 'paying'"]
    rush = PolicyConfig(name="rush", variability="model", longest_wait_s=3.0)
    assert without_effect(rush, resolve(rush)) == ["policy.longest_wait_s has no effect with gate 'variability'"]
    with pytest.raises(InputError, match="longest_wait_s is negative"):
        build(PolicyConfig(name="rush-paying", longest_wait_s=-1.0))
    (tmp_path / "jobs.csv").write_text("job_id,processes,submit_s,run_s,limit_s\n1,1,0,5,9\n")
    scenario = '[cluster]\nnodes = 2\ncores = 1\n[jobs]\nfile = "jobs.csv"\n[policy]\nname = "rush-paying"\n'
    (tmp_path / "scenario.toml").write_text(scenario + "variation_price_s = -2\n")
    answer = cohabit("simulate", tmp_path / "scenario.toml")
    assert answer.code == 2
    assert "variation_price_s" in answer.err
