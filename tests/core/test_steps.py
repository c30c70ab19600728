"""Facts in, orders out: one small story per rule of the core, on the compiled and on the readable path."""

from __future__ import annotations

import pytest

from cohabit.core import invariants
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import CancelJob, Command, StartJob, WakeAt
from cohabit.model.event import (
    Event,
    JobCancelled,
    JobChanged,
    JobFinished,
    JobHeld,
    JobReleased,
    JobStarted,
    NodeDown,
    NodeDrained,
    NodeUp,
    StartRefused,
    Woken,
)
from cohabit.model.units import SECOND
from tests.support.builders import scheduler, submitted

LIMIT = 100 * SECOND


@pytest.fixture(params=[False, True], ids=["compiled", "readable"])
def readable(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


class Checked:
    """A core whose invariants are checked after every step; times in seconds."""

    def __init__(self, core: SchedulerCore) -> None:
        self.core = core

    def __call__(self, now_s: float, *events: Event) -> list[Command]:
        commands = self.core.step(round(now_s * SECOND), list(events))
        invariants.check(self.core.state)
        return commands

    def starts(self, now_s: float, *events: Event) -> list[str]:
        return [command.job_id for command in self(now_s, *events) if isinstance(command, StartJob)]


def started(name: str, *nodes: tuple[int, int], attempt: int = 1, limit_us: int = LIMIT) -> StartJob:
    return StartJob(name, attempt, nodes, limit_us)


# ---- starting ------------------------------------------------------------------------------------------------------


def test_a_job_starts_on_the_lowest_idle_nodes(readable: bool) -> None:
    step = Checked(scheduler(4, readable=readable))
    assert step(0, submitted("a", nodes=1)) == [started("a", (0, 1))]
    assert step(1, submitted("b", nodes=2)) == [started("b", (1, 2))]
    assert step(2, JobFinished("a", 1)) == []
    assert step(3, submitted("c", nodes=2)) == [started("c", (0, 1), (3, 1))]


def test_a_confirmed_start_calls_for_no_pass(readable: bool) -> None:
    step = Checked(scheduler(2, readable=readable))
    assert step(0, submitted("a", nodes=2), submitted("b", nodes=1)) == [started("a", (0, 2))]
    assert step(0, JobStarted("a", 1)) == []
    assert step(0, JobStarted("a", 7), JobStarted("nobody", 1)) == []


def test_nothing_to_tell_gives_nothing_to_do(readable: bool) -> None:
    step = Checked(scheduler(2, readable=readable))
    assert step(0) == []
    assert step(1, Woken()) == []


def test_a_job_that_can_never_run_is_refused_at_once(readable: bool) -> None:
    step = Checked(scheduler(4, readable=readable))
    (told,) = step(0, submitted("big", nodes=5))
    assert isinstance(told, CancelJob)
    assert told.reason.startswith("can never run: needs 5 nodes")
    assert step.core.state.finished == {"big": "rejected"}


def test_a_name_that_is_here_already_is_refused(readable: bool) -> None:
    step = Checked(scheduler(4, readable=readable))
    step(0, submitted("a"))
    (told,) = step(1, submitted("a", nodes=3))
    assert told == CancelJob("a", 0, "a job of this name is already here")
    assert step.starts(2, JobFinished("a", 1)) == []


# ---- refusals ------------------------------------------------------------------------------------------------------


def test_a_refusal_backs_off_and_does_not_loop(readable: bool) -> None:
    step = Checked(scheduler(2, readable=readable))
    assert step(0, submitted("a")) == [started("a", (0, 1))]
    assert step(1, StartRefused("a", 1, "no", 5 * SECOND)) == [WakeAt(6 * SECOND)]
    assert step.starts(2, submitted("b", nodes=2)) == ["b"]  # others are not held up
    assert step.starts(3, JobFinished("b", 1)) == []
    assert "refused" in why_waiting(step.core.state, step.core.policies, "a", 3 * SECOND)
    assert step(6, Woken()) == [started("a", (0, 1), attempt=2)]


def test_a_back_off_that_is_over_is_forgotten() -> None:
    """Only while a job backs off the readable form must decide."""
    step = Checked(scheduler(1))
    step(0, submitted("a"))
    step(1, StartRefused("a", 1, "no", 5 * SECOND), submitted("b"))
    assert not step.core.compiled
    step(7, Woken())
    assert step.core.state.refused_until == {}
    assert step.core.compiled


def test_a_refusal_without_back_off_still_makes_progress(readable: bool) -> None:
    """Zero means at least one microsecond: the same instant cannot come back for ever."""
    step = Checked(scheduler(1, readable=readable))
    step(0, submitted("a"))
    for attempt in range(1, 5):
        now_s = 1e-6 * attempt
        assert step.starts(now_s, StartRefused("a", attempt, "no", 0)) == [], "started again in the same instant"
        assert step.starts(now_s + 1e-6, Woken()) == ["a"]


def test_a_backfilled_job_is_tried_again_when_its_back_off_ends(readable: bool) -> None:
    """The head still waits, nothing was released: the pass must look at the whole queue all the same."""
    step = Checked(scheduler(4, readable=readable))
    assert step.starts(0, submitted("a", nodes=2)) == ["a"]
    assert step.starts(1, submitted("head", nodes=4), submitted("small", limit_s=10)) == ["small"]
    step(2, StartRefused("small", 1, "no", 5 * SECOND))
    assert step.starts(7, Woken()) == ["small"]


def test_old_answers_mean_nothing(readable: bool) -> None:
    step = Checked(scheduler(2, readable=readable))
    step(0, submitted("a", nodes=2))
    assert step(1, StartRefused("a", 1)) == [WakeAt(61 * SECOND)]
    assert step.starts(61, Woken()) == ["a"]
    for stale in (StartRefused("a", 1), JobFinished("a", 1), JobFinished("a", 1, "lost"), JobStarted("a", 1)):
        assert step(62, stale) == []
    assert step(63, JobStarted("a", 2), StartRefused("a", 2)) == [], "a confirmed start cannot be refused"
    step(64, JobFinished("a", 2, "failed"))
    assert step(65, JobFinished("a", 2, "done")) == []
    assert step.core.state.finished == {"a": "failed"}


def test_a_refused_array_member_lets_the_next_one_start(readable: bool) -> None:
    """Its place in a bounded array goes to another member, and that is a reason for a pass."""
    step = Checked(scheduler(4, readable=readable))
    assert step.starts(0, submitted("a", array_count=3, array_at_most=1)) == ["a_0"]
    assert step.starts(1, StartRefused("a_0", 1, "no", 50 * SECOND)) == ["a_1"]


# ---- nodes ---------------------------------------------------------------------------------------------------------


def test_jobs_of_a_lost_node_are_started_again(readable: bool) -> None:
    step = Checked(scheduler(3, readable=readable))
    step(0, submitted("a", nodes=2), JobStarted("a", 1))
    assert step(5, NodeDown(1)) == [CancelJob("a", 1, "node 1 was lost"), started("a", (0, 1), (2, 1), attempt=2)]
    assert step(6, JobFinished("a", 1, "lost")) == []  # the world says so too, later
    assert step.starts(7, submitted("b", nodes=1)) == []
    assert step(8, NodeUp(1)) == [started("b", (1, 1))]
    step(9, JobFinished("a", 2))
    assert step.core.state.finished == {"a": "done"}


@pytest.mark.parametrize("cause", ["policy", "job"])
def test_jobs_of_a_lost_node_fail_where_so_decided(cause: str, readable: bool) -> None:
    on_loss = "fail" if cause == "policy" else "requeue"
    step = Checked(scheduler(Cluster((NodeGroup(3),), on_node_loss=on_loss), readable=readable))
    step(0, submitted("a", nodes=2, requeue=cause == "policy"), submitted("b", after=("a",)))
    told = step(5, NodeDown(0))
    assert told == [CancelJob("a", 1, "node 0 was lost"), CancelJob("b", 0, "job a it depends on did not finish well")]
    assert step.core.state.finished == {"a": "failed", "b": "cancelled"}


def test_a_drained_node_keeps_its_job_and_takes_no_other(readable: bool) -> None:
    step = Checked(scheduler(2, readable=readable))
    step(0, submitted("a", nodes=1), JobStarted("a", 1))
    assert step(1, NodeDrained(0)) == []
    assert step(2, submitted("b", nodes=2)) == []
    assert step(3, JobFinished("a", 1)) == []
    assert step(4, submitted("c", nodes=1, limit_s=10)) == [started("c", (1, 1), limit_us=10 * SECOND)]
    assert step(5, NodeUp(0), JobFinished("c", 1)) == [started("b", (0, 2))]


def test_node_facts_told_twice_or_about_nobody(readable: bool) -> None:
    step = Checked(scheduler(2, readable=readable))
    step(0, NodeDown(1), NodeDown(1), NodeDrained(7), NodeUp(-1), NodeUp(0))
    assert step.starts(1, submitted("a", nodes=2)) == []
    assert step.starts(2, NodeUp(1), NodeUp(1)) == ["a"]


def test_a_node_that_comes_up_under_a_job_is_not_idle(readable: bool) -> None:
    step = Checked(scheduler(2, readable=readable))
    step(0, submitted("a", nodes=2))
    step(1, NodeDrained(0))
    assert step.starts(2, NodeUp(0), submitted("b")) == []


# ---- holds, changes, cancelling -------------------------------------------------------------------------------------


def test_a_held_job_waits_until_released(readable: bool) -> None:
    step = Checked(scheduler(2, readable=readable))
    assert step(0, submitted("a", held=True)) == []
    assert "held" in why_waiting(step.core.state, step.core.policies, "a", 0)
    assert step(1, JobHeld("a")) == []
    assert step(2, JobReleased("a")) == [started("a", (0, 1))]
    assert step(3, JobReleased("a"), JobHeld("a"), JobHeld("nobody"), JobReleased("nobody")) == []


def test_holding_the_head_lets_the_next_go(readable: bool) -> None:
    step = Checked(scheduler(2, backfill="none", readable=readable))
    step(0, submitted("a"))
    assert step.starts(1, submitted("wide", nodes=2), submitted("b")) == []
    assert step.starts(2, JobHeld("wide")) == ["b"]
    assert step.starts(3, JobReleased("wide"), JobFinished("a", 1)) == []
    assert step.starts(4, JobFinished("b", 1)) == ["wide"]


def test_ties_between_released_and_new_jobs_go_by_submission(readable: bool) -> None:
    """Two equal requests become ready in one instant and one node is free: the one submitted first takes it."""
    step = Checked(scheduler(4, "sjf", readable=readable))
    step(0, submitted("long", nodes=3, limit_s=50))
    step(0, submitted("head", nodes=4, limit_s=5), submitted("next", nodes=4, limit_s=6))
    step(0, submitted("early", limit_s=40, held=True))
    assert step.starts(1, submitted("late", limit_s=40), JobReleased("early")) == ["early"]


def test_a_changed_request_changes_the_decision(readable: bool) -> None:
    step = Checked(scheduler(4, readable=readable))
    step(0, submitted("a", nodes=2))
    assert step.starts(1, submitted("head", nodes=4), submitted("long", nodes=2, limit_s=500)) == []
    assert step(2, JobChanged("long", limit_us=50 * SECOND)) == [started("long", (2, 2), limit_us=50 * SECOND)]
    assert step(3, JobChanged("long", limit_us=1), JobChanged("nobody", qos=3)) == []


def test_cancelling_what_waits_and_what_runs(readable: bool) -> None:
    step = Checked(scheduler(2, readable=readable))
    step(0, submitted("a", nodes=2), submitted("b", nodes=2))
    assert step(1, JobCancelled("b")) == [CancelJob("b", 0, "cancelled")]
    assert step(2, JobCancelled("a")) == [CancelJob("a", 1, "cancelled")]
    assert step.starts(3, submitted("c")) == [], "the nodes are its until the world has stopped it"
    assert step.starts(4, JobFinished("a", 1, "cancelled")) == ["c"]
    assert step(5, JobCancelled("a"), JobCancelled("nobody")) == []
    assert step.core.state.finished == {"b": "cancelled", "a": "cancelled"}


# ---- dependencies and arrays ----------------------------------------------------------------------------------------


def test_a_chain_runs_one_after_the_other(readable: bool) -> None:
    step = Checked(scheduler(8, readable=readable))
    assert step.starts(0, submitted("a"), submitted("b", after=("a",)), submitted("c", after=("a", "b"))) == ["a"]
    assert why_waiting(step.core.state, step.core.policies, "c", 0) == "waits for the end of job a, b"
    assert step.starts(1, JobFinished("a", 1)) == ["b"]
    assert step.starts(2, JobFinished("b", 1)) == ["c"]
    assert step.starts(3, submitted("d", after=("a",))) == ["d"], "what has finished is remembered"


def test_a_failure_cancels_what_depends_on_it(readable: bool) -> None:
    step = Checked(scheduler(8, readable=readable))
    step(0, submitted("a"), submitted("b", after=("a",)), submitted("any", after=("a",), after_any=True))
    reason = "job a it depends on did not finish well"
    assert step(1, JobFinished("a", 1, "failed")) == [CancelJob("b", 0, reason), started("any", (0, 1))]
    assert step(2, submitted("later", after=("a",)))[0] == CancelJob("later", 0, reason)


def test_a_failure_cancels_a_diamond_once(readable: bool) -> None:
    """d waits for a and for b, which waits for a: it is cancelled with b and must not be looked for again."""
    step = Checked(scheduler(8, readable=readable))
    step(0, submitted("a"), submitted("b", after=("a",)), submitted("c", after=("a",)))
    step(0, submitted("d", after=("a", "b", "c")))
    told = step(1, JobFinished("a", 1, "failed"))
    assert sorted(command.job_id for command in told if isinstance(command, CancelJob)) == ["b", "c", "d"]
    assert step.core.state.finished == {"a": "failed", "b": "cancelled", "c": "cancelled", "d": "cancelled"}


def test_a_job_after_one_that_can_never_run_may_start_at_once(readable: bool) -> None:
    """It was here first and takes any outcome: the refusal itself calls for the pass."""
    step = Checked(scheduler(2, readable=readable))
    assert step.starts(0, submitted("b", after=("a",), after_any=True)) == []
    assert step.starts(1, submitted("a", nodes=3)) == ["b"]


def test_a_bounded_array_runs_so_many_at_once(readable: bool) -> None:
    step = Checked(scheduler(8, readable=readable))
    assert step.starts(0, submitted("a", array_first=5, array_count=5, array_at_most=2)) == ["a_5", "a_6"]
    assert step.starts(1, JobFinished("a_6", 1)) == ["a_7"]
    assert step.starts(2, JobFinished("a_5", 1), JobFinished("a_7", 1)) == ["a_8", "a_9"]
    assert step.starts(3, submitted("b", array_count=3)) == ["b_0", "b_1", "b_2"]


@pytest.mark.parametrize("leave", [JobCancelled, JobHeld])
def test_a_bounded_array_goes_on_when_a_waiting_member_leaves(leave: type, readable: bool) -> None:
    step = Checked(scheduler(2, readable=readable))
    step(0, submitted("x", nodes=2))
    assert step.starts(1, submitted("a", array_count=3, array_at_most=1)) == []
    step(2, leave("a_0"))
    assert step.starts(3, JobFinished("x", 1)) == ["a_1"]


def test_an_array_told_twice_keeps_its_bound(readable: bool) -> None:
    step = Checked(scheduler(8, readable=readable))
    array = submitted("a", array_count=4, array_at_most=1)
    assert step.starts(0, array) == ["a_0"]
    told = step(1, array)
    assert told == [CancelJob(f"a_{number}", 0, "a job of this name is already here") for number in range(4)]
    assert step.starts(2, JobFinished("a_0", 1)) == ["a_1"]
    assert step.starts(3, JobFinished("a_1", 1)) == ["a_2"]


# ---- conservative ---------------------------------------------------------------------------------------------------


def test_conservative_wakes_at_its_promise_unless_it_starts_before(readable: bool) -> None:
    """D is promised 4, when C and E should have ended; they end at 3."""
    step = Checked(scheduler(4, backfill="conservative", readable=readable))
    step(0, submitted("a", 2, 3), submitted("b", 2, 6), submitted("c", 1, 1))
    assert step(1, submitted("d", 2, 2), submitted("e", 1, 1)) == []
    assert step(2, JobFinished("a", 1)) == [
        started("c", (0, 1), limit_us=SECOND), started("e", (1, 1), limit_us=SECOND), WakeAt(4 * SECOND)
    ]  # fmt: skip
    assert step.starts(3, JobFinished("c", 1), JobFinished("e", 1)) == ["d"]


def test_lost_nodes_void_promises_but_nobody_is_forgotten(readable: bool) -> None:
    step = Checked(scheduler(4, backfill="conservative", readable=readable))
    assert step.starts(0, submitted("a", 2, 10), submitted("b", 4, 10), submitted("c", 2, 10)) == ["a", "c"]
    assert step.starts(1, NodeDown(3)) == [], "c is lost and b has no promise any more: four nodes there are not"
    assert step.starts(2, JobFinished("a", 1)) == ["c"]
    assert step.starts(3, NodeUp(3), submitted("d", 2, 20)) == [], "b is promised the end of c"
    assert step.starts(4, JobFinished("c", 2)) == ["b"]


def test_a_promise_given_up_in_a_hold_is_forgotten(readable: bool) -> None:
    """Promised by the readable form (a node is drained), held, and released when the compiled form decides again."""
    step = Checked(scheduler(3, backfill="conservative", readable=readable))
    step(0, submitted("a", nodes=3, limit_s=50))
    step(1, NodeDrained(2))
    assert step(2, submitted("b", limit_s=10)) == [WakeAt(50 * SECOND)]
    step(3, JobHeld("b"))
    step(4, JobFinished("a", 1))
    step(5, NodeUp(2))
    assert step.starts(6, JobReleased("b")) == ["b"]
