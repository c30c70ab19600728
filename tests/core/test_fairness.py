"""A bound on how much worse one user fares than all: starved without it, bounded with it."""

from __future__ import annotations

import pytest

from cohabit.app.scenario import policies as policy_names
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core import invariants
from cohabit.core.checkpoint import load, save
from cohabit.core.core import SchedulerCore
from cohabit.core.fairness import MEMORY
from cohabit.model.command import StartJob
from cohabit.model.event import Event, JobFinished
from cohabit.model.units import SECOND
from tests.support.builders import submitted
from tests.support.clusters import SHARED

RUN_S, LONG_S, UNTIL_S = 40, 100, 2000


def core_with(fairness: float, order: str = "sjf") -> SchedulerCore:
    """Shortest first: a job that is longer than those that keep coming never has its turn."""
    config = PolicyConfig(name="cohabit", order=order, fairness=fairness)
    return SchedulerCore(SHARED, policy_names.build(config))


def starved(core: SchedulerCore, long_user: int = 1, resumed: bool = False) -> tuple[float, float]:
    """Every 10 s comes a job of 40 s of user 2, which keeps four nodes busy and a few jobs waiting; user 1 has one job
    of 100 s. Return when that starts, and the mean slowdown of all other jobs until then."""
    ends: list[tuple[int, str]] = []
    came: dict[str, int] = {}
    slowdowns: list[float] = []
    for now_s in range(0, UNTIL_S, 10):
        over = [name for at_s, name in ends if at_s <= now_s]
        ends = [one for one in ends if one[1] not in over]
        events: list[Event] = [JobFinished(name, 1) for name in over]
        slowdowns += [(now_s - came[name]) / RUN_S for name in over]
        for name in [f"short{now_s}-{number}" for number in range(7 if now_s == 0 else 1)]:
            came[name] = now_s
            events.append(submitted(name, processes=8, exclusive=True, limit_s=RUN_S, user=2))
        if now_s == 20:
            events.append(submitted("long", processes=8, exclusive=True, limit_s=LONG_S, user=long_user))
        begun = [one.job_id for one in core.step(now_s * SECOND, events) if isinstance(one, StartJob)]
        invariants.check(core.state, now_s * SECOND)
        if "long" in begun:
            return now_s, sum(slowdowns) / len(slowdowns)
        ends += [(now_s + RUN_S, name) for name in begun]
        if resumed:
            core = load(save(core), SHARED, core.policies)
    return UNTIL_S, sum(slowdowns) / len(slowdowns)


def test_without_the_key_the_user_is_starved_and_nothing_is_remembered() -> None:
    core = core_with(0.0)
    assert starved(core)[0] == UNTIL_S
    assert MEMORY not in core.state.memory


@pytest.mark.parametrize("fairness", [1.5, 2.0, 3.0])
def test_with_it_the_slowdown_is_bounded(fairness: float) -> None:
    core = core_with(fairness)
    began_s, mean = starved(core)
    own = (began_s - 20 + LONG_S) / LONG_S
    assert 0.8 * fairness * mean < own < 1.2 * fairness * mean
    assert starved(core_with(fairness), resumed=True)[0] == began_s, "a checkpoint changes nothing"


def test_jobs_of_one_user_stay_in_order() -> None:
    assert starved(core_with(1.5), long_user=2)[0] == UNTIL_S
    assert starved(core_with(1.5), long_user=-1)[0] == UNTIL_S, "an unknown user has no mean"


def test_a_user_with_more_than_an_equal_part_waits_for_its_own_jobs() -> None:
    """User 1 has three of four nodes and a short job that waits for long; the one of user 2 goes first."""
    core = core_with(1.2, "fcfs")
    core.step(0, [submitted(f"own{at}", processes=8, exclusive=True, limit_s=1000.0, user=1) for at in range(3)])
    core.step(1, [submitted("other", processes=8, exclusive=True, limit_s=900.0, user=2)])
    core.step(2, [submitted("first", processes=8, exclusive=True, limit_s=20.0, user=1)])
    waits = [submitted("second", processes=8, exclusive=True, limit_s=20.0, user=2)]
    core.step(3, [*waits, submitted("third", processes=8, exclusive=True, limit_s=900.0, user=3)])
    view = core.view(800 * SECOND)
    assert [view.job_id(row) for row in view.queue(core.policies.order).tolist()] == ["second", "first", "third"]
    core.step(801 * SECOND, [JobFinished("own0", 1)])
    assert core.state.memory[MEMORY]["slowdown"][0] == 1.0
