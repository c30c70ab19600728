"""What a program's own runs teach of how long it takes, and what a gate makes of it."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core import checkpoint, own_runs
from cohabit.core.core import SchedulerCore
from cohabit.core.own_runs import MEMORY, OwnRuns
from cohabit.core.protocols import Gate
from cohabit.core.view import View
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.event import JobFinished
from cohabit.policy.gate.variability import ModelJudge, VariabilityGate
from cohabit.predict.variability_data import Norms
from tests.core.shared_story import Story
from tests.core.test_gating import Told
from tests.support.builders import job, sharing_scheduler, submitted
from tests.support.clusters import SHARED

FOUR = Cluster((NodeGroup(4, 1),))
GATES = (VariabilityGate(Told()),)
RUNS_S = (10.0, 14.0, 30.0)


def story(gates: tuple[Gate, ...] = GATES) -> Story:
    policies = build(PolicyConfig(name="ce", order="fcfs", backfill="easy"))
    return Story(SchedulerCore(FOUR, replace(policies, gates=gates)))


def ran(tell: Story, *run_s: float, status: str = "done", **asked: Any) -> Story:
    """One run after the other, of a program p unless told otherwise."""
    begin_s = tell.core.state.memory.get("so far", 0.0)
    for number, each in enumerate(run_s):
        name = f"{begin_s:g}-{number}"
        assert tell.starts(begin_s, submitted(name, **({"program": "p"} | asked)))
        begin_s += each
        tell(begin_s, JobFinished(name, 1, status))
    tell.core.state.memory["so far"] = begin_s
    return tell


def known(tell: Story, **asked: Any) -> OwnRuns:
    return own_runs.own_runs(View(tell.core.state, 0), job("x", **({"program": "p"} | asked)))


def test_mean_and_variance_are_those_of_the_runs_that_ended_well() -> None:
    tell = ran(story(), *RUNS_S)
    ran(tell, 99.0, status="failed")
    expected = OwnRuns(3, float(np.mean(RUNS_S)), pytest.approx(np.var(RUNS_S)))
    assert known(tell) == expected
    again = checkpoint.load(checkpoint.save(tell.core), FOUR, tell.core.policies)
    assert known(Story(again)) == expected


def test_other_programs_owners_and_sizes_have_their_own() -> None:
    tell = ran(story(), *RUNS_S)
    ran(tell, 50.0, profile_owner="7")
    ran(tell, 60.0, nodes=2)
    ran(tell, 70.0, program="")
    assert known(tell).runs == 3
    assert known(tell, profile_owner="7") == OwnRuns(1, 50.0, 0.0)
    assert known(tell, nodes=2) == OwnRuns(1, 60.0, 0.0)
    assert known(tell, program="q") == OwnRuns()
    assert len(tell.core.state.memory[MEMORY]) == 3, "a job without a program teaches nothing"


def test_without_a_gate_nothing_is_noted() -> None:
    assert MEMORY not in ran(story(()), *RUNS_S).core.state.memory


def test_runs_at_another_scale_say_nothing() -> None:
    tell = Story(SchedulerCore(SHARED, replace(sharing_scheduler().policies, gates=GATES)))
    assert tell.starts(0, submitted("a", program="p"), submitted("b", program="q"))
    row = tell.core.state.rows["b"]
    tell.core.state.placed[row] = replace(tell.core.state.placed[row], purpose="trial")
    tell(5, JobFinished("a", 1), JobFinished("b", 1))
    assert list(tell.core.state.memory[MEMORY]) == ["p@ 1x1"]


def test_old_runs_count_less_once_there_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_runs, "REMEMBERED", 4)
    tell = ran(story(), *[10.0] * 20, *[20.0] * 20)
    assert known(tell).runs == 4
    assert known(tell).mean_s == pytest.approx(20.0, abs=0.1)


def test_there_is_room_for_so_many_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_runs, "MOST_PROGRAMS", 1)
    tell = ran(story(), 10.0)
    ran(tell, 10.0, program="q")
    ran(tell, 30.0)
    assert (known(tell).runs, known(tell, program="q").runs) == (2, 0)


def judged(norms: Norms) -> ModelJudge:
    return ModelJudge(SimpleNamespace(norms=norms, kept=()))  # type: ignore[arg-type]


def test_a_judge_knows_a_program_by_its_model_and_by_own_runs() -> None:
    tell, norms = story(), Norms({"p": 10.0}, {"p": 2.0})

    def norm(program: str) -> tuple[float, float]:
        return judged(norms)._norm(job("x", program=program), View(tell.core.state, 0))

    assert norm("p") == (10.0, pytest.approx(0.2))
    assert norm("new") == (0.0, 0.0)
    ran(tell, 30.0, 30.0, program="new")
    assert norm("new") == (0.0, 0.0), "two runs are too few"
    ran(tell, 60.0, program="new")
    assert norm("new") == (40.0, pytest.approx(np.std([30.0, 30.0, 60.0]) / 40.0))
    ran(tell, *[40.0] * 20)
    mean_s, spread = norm("p")
    assert mean_s == pytest.approx(25.0), "what the model knows counts as twenty runs"
    assert spread == pytest.approx(np.std([8.0, 12.0] * 10 + [40.0] * 20) / 25.0)
