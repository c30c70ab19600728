"""A member of an attempt, by hand: it starts only within the lease of its nodes, and runs only until its fuse burns."""

from __future__ import annotations

from typing import Any

import pytest

from cohabit.core.mates import member
from cohabit.core.mates.state import GroupState, MatesState, Record, Release, StopMate, fresh_views
from cohabit.core.mates.turn import Turn
from cohabit.model import peer
from cohabit.model.group import Member, Terms, make_group
from cohabit.model.peer import COMMITTED, GONE, IDLE, RUNNING, VOTED
from cohabit.model.units import FOREVER

GROUP = make_group("g", [Member("a", "1"), Member("b", "2")], Terms())
LATE_US, LEASE_END_US = GROUP.terms.late_us, 10 * GROUP.terms.late_us


def decided(start_at_us: int, now_us: int, phase: str = VOTED) -> tuple[GroupState, Turn]:
    """The side of b after a decision of a."""
    record = Record(phase, 1, "a", ("a", "b"), LEASE_END_US)
    one, turn = GroupState(GROUP, record, fresh_views(GROUP, "b")), Turn(MatesState("b"), now_us)
    about = {"group": "g", "sender": "a", "receiver": "b", "epoch": 1, "seq": 1}
    member.hear_commit(turn, one, peer.Commit(**about, attempt=1, start_at_us=start_at_us))  # type: ignore[arg-type]
    return one, turn


def test_a_decision_in_time_is_taken() -> None:
    one, turn = decided(LEASE_END_US - LATE_US, 1)
    assert (one.record.phase, one.record.start_at_us) == (COMMITTED, LEASE_END_US - LATE_US)
    assert turn.outcome.messages == turn.outcome.orders == []


@pytest.mark.parametrize(
    ("start_at_us", "now_us"),
    [(LEASE_END_US - LATE_US + 1, 1), (LATE_US, 2 * LATE_US + 1)],
    ids=["its lease would be over", "the instant has passed"],
)
def test_a_decision_that_comes_too_late_is_left(start_at_us: int, now_us: int) -> None:
    one, turn = decided(start_at_us, now_us)
    assert one.record.phase == IDLE
    assert [type(order) for order in turn.outcome.orders] == [Release]
    (told,) = turn.outcome.messages
    assert isinstance(told, peer.Abort)
    assert (told.receiver, told.reason) == ("a", "the decision came too late")


def test_a_decision_that_this_side_has_not_voted_for_is_answered_with_abort() -> None:
    one, turn = decided(LATE_US, 1, IDLE)
    assert one.record.phase == IDLE
    assert [(type(told), told.receiver) for told in turn.outcome.messages] == [(peer.Abort, "a")]


def test_a_side_that_is_done_tells_the_coordinator_that_has_missed_it() -> None:
    """Otherwise it was asked for its vote for ever: with a faster clock a third side began each attempt before the
    coordinator had asked for news."""
    one, turn = GroupState(GROUP, Record(GONE), fresh_views(GROUP, "b")), Turn(MatesState("b"), 1)
    about: dict[str, Any] = {"group": "g", "sender": "a", "receiver": "b", "epoch": 1, "seq": 1, "attempt": 1}
    about |= {"members": ("a", "b"), "terms": GROUP.digest, "asked_us": 1, "lease_us": GROUP.terms.lease_us}
    member.hear_prepare(turn, one, peer.Prepare(**about))
    vote, status = turn.outcome.messages
    assert isinstance(vote, peer.Vote)
    assert not vote.yes
    assert isinstance(status, peer.Status)
    assert (status.receiver, status.phase) == ("a", GONE)


@pytest.mark.parametrize(("now_us", "phase", "orders"), [(499, RUNNING, []), (500, IDLE, [StopMate])])
def test_a_run_is_stopped_when_its_fuse_has_burnt(now_us: int, phase: str, orders: list[type]) -> None:
    record = Record(RUNNING, 1, "a", ("a", "b"), fuse_us=500)
    one, turn = GroupState(GROUP, record, fresh_views(GROUP, "b"), ask_us=FOREVER), Turn(MatesState("b"), now_us)
    member.go_on(turn, one)
    assert one.record.phase == phase
    assert [type(order) for order in turn.outcome.orders] == orders
