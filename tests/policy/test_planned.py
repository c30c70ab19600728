"""The planned form of the joint policy: budgets, what a plan rests on, when it is followed, and that all jobs run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.core.view import View
from cohabit.model.command import StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobFinished, WindowSet, Woken
from cohabit.model.plan import Ask
from cohabit.model.units import SECOND
from cohabit.policy.options import PlacementOptions
from cohabit.policy.placement.planned import Planned
from cohabit.policy.planning import plans
from cohabit.policy.planning.plans import find_plan, recalled, remembered
from cohabit.policy.planning.problem import Way, problem_of
from cohabit.policy.planning.record import error_of, note_ends, taken_in
from cohabit.policy.planning.tables import Problem
from tests.cli.cli_calls import cohabit
from tests.core.shared_story import Story
from tests.support.builders import Choice, policies, submitted
from tests.support.clusters import SHARED
from tests.support.programs import PROFILES
from tests.support.randomised import random_deeds
from tests.support.rehearsal import SHARED_KINDS, Deed, Rehearsal, retold

PLANS = PlacementOptions(planned=True, evaluations=60, learn=False)
JOINT = Choice("fcfs", "easy", None, "joint", partition="guarantee")
NAMES = ("stream", "cached", "compact", "single", "neutral", "stream", "half", "cached", "compact", "single")


def core_with_plans(options: PlacementOptions = PLANS, backfill: str = "easy") -> SchedulerCore:
    chosen = replace(policies(*JOINT._replace(backfill=backfill)), placer=Planned(options))
    return SchedulerCore(SHARED, chosen, profiles=PROFILES)


def a_queue(count: int = 10) -> list[Event]:
    """Jobs that come at once, more than the machine holds."""
    return [
        submitted(f"j{number}", program=NAMES[number % len(NAMES)], processes=(8, 4, 8, 16)[number % 4], limit_s=400.0)
        for number in range(count)
    ]


class Seen:
    """What a placement with plans was asked, and the problem it would solve."""

    def __init__(self) -> None:
        self.problem: Problem | None = None
        self.ways: list[Way] = []
        self.names: list[str] = []

    def __call__(self, view: View, dimensions: Any, asks: Mapping[int, Sequence[Ask]], *more: Any) -> Any:
        self.problem, self.ways = problem_of(view, dimensions, asks, *more)
        self.names = [view.job_id(row) for row in asks]
        return self.problem, self.ways


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    """The problem of planning a queue on an idle machine."""
    one = Seen()
    monkeypatch.setattr("cohabit.policy.placement.planned.problem_of", one)
    core_with_plans().step(0, a_queue())
    monkeypatch.undo()
    return one


def test_more_forecasts_never_give_a_worse_plan_than_the_greedy_seed(seen: Seen) -> None:
    assert seen.problem is not None
    few, many = (find_plan(seen.problem, None, count, 7) for count in (1, 400))
    assert few is not None
    assert many is not None
    assert many.value <= few.value + 1e-9
    assert sorted(many.plan.order.tolist()) == list(range(seen.problem.jobs))
    assert all(end > begin >= 0 for begin, end in zip(many.begin, many.end, strict=True))


def test_the_same_state_gives_the_same_plan_and_plain_data_gives_it_back(seen: Seen) -> None:
    assert seen.problem is not None
    one, two = (find_plan(seen.problem, None, 100, 2**70 + 3) for _ in range(2))
    assert one is not None
    assert two is not None
    assert one.value == two.value
    assert np.array_equal(one.plan.order, two.plan.order)
    data = remembered(one.plan, seen.names, seen.ways)
    back = recalled(data, seen.names, seen.ways, seen.problem)
    assert back is not None
    assert all(map(np.array_equal, back, one.plan))
    assert recalled(data, ["a stranger"], seen.ways, seen.problem) is None


def test_the_budget_counts_forecasts_and_shrinks_with_the_work(seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[int] = []

    def improve(*arguments: Any) -> float:
        given.append(arguments[6])
        return float(arguments[5])

    monkeypatch.setattr(plans, "improve", improve)
    assert seen.problem is not None
    find_plan(seen.problem, None, 50, 0)
    monkeypatch.setattr(plans, "MOST_WORK", 10 * len(seen.problem.weight) * len(seen.problem.kind))
    find_plan(seen.problem, None, 50, 0)
    assert given == [50, 10]


def memory_of(core: SchedulerCore) -> dict[str, Any]:
    found: dict[str, Any] = core.state.memory["planned"]
    return found


def test_a_plan_is_followed_only_where_it_beats_the_greedy_form_by_more_than_the_past_error() -> None:
    core = core_with_plans(PLANS._replace(evaluations=400))
    core.step(0, a_queue(14))
    value, greedy, error = memory_of(core)["forecasts"]
    assert memory_of(core)["followed"]
    assert value < greedy
    assert error == 0.0
    wrong = core_with_plans(PLANS._replace(evaluations=400))
    wrong.state.memory["planned"] = {"actual_s": 3e7, "forecast_s": 1e7}
    wrong.step(0, a_queue(14))
    value, greedy, error = memory_of(wrong)["forecasts"]
    assert value < greedy < value * (1 + error)
    assert not memory_of(wrong)["followed"]
    usual = SchedulerCore(SHARED, policies(*JOINT), profiles=PROFILES)
    assert started(wrong) == started(usual, *a_queue(14)), "then the greedy form decides"


def started(core: SchedulerCore, *events: Event) -> list[tuple[Any, ...]]:
    """What runs and how."""
    core.step(0, list(events))
    return sorted((core.state.spec(row).job_id, how.ranges, how.scale) for row, how in core.state.placed.items())


def test_the_past_error_is_how_much_longer_jobs_took_than_planned() -> None:
    core = core_with_plans()
    core.step(0, a_queue(2))
    view = core.view(0)
    memory = taken_in({}, view)
    assert set(memory["running"]) == {"j0", "j1"}
    note_ends(memory, ["j0"], [100.0], 0)
    note_ends(memory, ["j0"], [900.0], 0)  # the first forecast counts
    core.step(150 * SECOND, [JobFinished("j0", 1), JobFinished("j1", 1)])
    memory = taken_in(memory, core.view(150 * SECOND))
    assert memory["running"] == {} == memory["jobs"]
    assert memory["actual_s"] == pytest.approx(0.95 * 150 + 150)
    assert memory["forecast_s"] == pytest.approx(0.95 * 100 + 150), "a job without a plan counts as forecast right"
    assert error_of(memory, 0.0) == pytest.approx(47.5 / 245)
    assert error_of(memory, 1e9) < 1e-6
    assert error_of({"actual_s": 1.0, "forecast_s": 2.0}, 5.0) == 0.0, "shorter is no error"


def test_nothing_is_planned_anew_while_all_is_as_foreseen(monkeypatch: pytest.MonkeyPatch) -> None:
    core = core_with_plans()
    core.step(0, a_queue())
    core.state.wake_us = SECOND
    monkeypatch.setattr("cohabit.policy.placement.planned.find_plan", lambda *_: pytest.fail("planned again"))
    assert not [one for one in core.step(SECOND, [Woken()]) if isinstance(one, StartJob)]


def test_a_window_is_known_to_the_plan() -> None:
    """All nodes are closed from 100 s on: jobs that request 400 s wait for its end and start then."""
    core = core_with_plans()
    closing = WindowSet("w", 100 * SECOND, 500 * SECOND, ((0, SHARED.nodes),))
    commands = core.step(0, [closing, *a_queue(3)])
    assert not [one for one in commands if isinstance(one, StartJob)]
    assert [one for one in core.step(500 * SECOND, [Woken()]) if isinstance(one, StartJob)]


def test_why_says_when_a_job_is_planned_to_start() -> None:
    tell = Story(core_with_plans(PLANS._replace(evaluations=400)))
    tell(0, *a_queue(14))
    waiting = [tell.core.state.spec(int(row)).job_id for row in tell.core.view(0).queued()]
    assert memory_of(tell.core)["followed"]
    assert all("it is planned to start in" in tell.why(name) for name in waiting)


# ---- whole lives ----------------------------------------------------------------------------------------------------


def lived(seed: int, backfill: str) -> Rehearsal:
    """A busy life under plans; every step is checked by invariants and by the rehearsal."""
    rng, rehearsal = np.random.default_rng(seed), Rehearsal(SHARED, JOINT._replace(backfill=backfill))
    rehearsal.core = core_with_plans(PLANS._replace(learn=True), backfill)
    rehearsal.play([Deed("submit", int(salt)) for salt in rng.integers(0, 2**40, 12)])
    rehearsal.play(random_deeds(rng, 60, SHARED_KINDS))
    return rehearsal


@pytest.mark.parametrize(("seed", "backfill"), [(1, "easy"), (2, "easy"), (3, "3"), (4, "conservative")])
def test_all_jobs_run_and_the_same_facts_give_the_same_commands(seed: int, backfill: str) -> None:
    rehearsal = lived(seed, backfill)
    again = core_with_plans(PLANS._replace(learn=True), backfill)
    assert retold(again, rehearsal.log) == [commands for *_, commands in rehearsal.log]
    rehearsal.finish_everything()


def test_a_checkpoint_goes_on_with_the_same_commands() -> None:
    rehearsal = lived(5, "easy")
    half = len(rehearsal.log) // 2
    core = core_with_plans(PLANS._replace(learn=True))
    retold(core, rehearsal.log[:half])
    data = checkpoint.save(core)
    assert memory_of(core)
    copied = checkpoint.load(data, SHARED, core.policies)
    rest = [commands for *_, commands in rehearsal.log[half:]]
    assert retold(copied, rehearsal.log[half:]) == rest


# ---- as a user types it ---------------------------------------------------------------------------------------------


def test_refusals_are_one_sentence() -> None:
    from cohabit.app.scenario.policies import build, without_effect
    from cohabit.app.scenario.tables import PolicyConfig

    with pytest.raises(InputError, match="evaluations = 0 is not from 1 to 1,000,000"):
        build(PolicyConfig(name="cohabit", planned=True, evaluations=0))
    for backfill in ("none", "first-fit"):
        with pytest.raises(InputError, match="planned = true needs promises"):
            build(PolicyConfig(name="cohabit", planned=True, backfill=backfill))
    said = without_effect(PolicyConfig(name="sns", planned=True), {"placement": "spread"})
    assert said == ["policy.planned has no effect with placement 'spread'"]
    said = without_effect(PolicyConfig(name="cohabit", evaluations=9), {"placement": "joint"})
    assert said == ["policy.evaluations has no effect without planned = true"]


def test_simulated_as_typed(tmp_path: Path) -> None:
    """The shipped scenario of shared nodes, with fewer jobs and plans."""
    shipped = (Path(__file__).resolve().parents[2] / "scenarios" / "sharing.toml").read_text(encoding="utf-8")
    keys = 'name = "cohabit"\nplanned = true\nevaluations = 50'
    text = shipped.replace('name = "sns"\nalpha = 0.9', keys).replace("jobs = 20", "jobs = 10")
    scenario = tmp_path / "planned.toml"
    scenario.write_text(text, encoding="utf-8")
    done = cohabit("simulate", scenario)
    assert done.code == 0, done.err
    assert "10 jobs, 0 rejected" in done.out
    scenario.write_text(text.replace("evaluations = 50", "evaluations = 0"), encoding="utf-8")
    assert "policy.evaluations: evaluations = 0 is not from 1" in cohabit("simulate", scenario).sentence()
