"""The side that leads an attempt, by hand: how it counts votes and which start it decides on."""

from __future__ import annotations

from typing import Any

from cohabit.core.mates import coordinator
from cohabit.core.mates.state import Ballot, Draft, GroupState, MatesState, Record, Release, fresh_views
from cohabit.core.mates.turn import Turn
from cohabit.model import peer
from cohabit.model.group import Group, Member, Terms
from cohabit.model.peer import COMMITTED, GONE, IDLE, VOTED

TERMS = Terms()
NOW_US, LEASE_END_US = 1_000_000, 1_000_000 + TERMS.lease_us


def leading(offsets_us: tuple[int, ...] = (0, 0, 0), **ballots: Ballot) -> tuple[GroupState, Turn]:
    """Domain a has its nodes and asks b and c for their votes."""
    group = Group("g", tuple(Member(name, name) for name in "abc"), TERMS, offsets_us)
    record = Record(VOTED, 1, "a", ("a", "b", "c"), LEASE_END_US)
    one = GroupState(group, record, fresh_views(group, "a"), draft=Draft(dict(ballots)))
    return one, Turn(MatesState("a"), NOW_US)


def ballot(ahead_us: int = 0, lease_end_us: int = 10 * LEASE_END_US) -> Ballot:
    """A yes of a domain whose clock is ahead by so much."""
    return Ballot(NOW_US, NOW_US + ahead_us, 10, lease_end_us)


def vote(sender: str, yes: bool, **more: Any) -> peer.Vote:
    about: dict[str, Any] = {"group": "g", "sender": sender, "receiver": "a", "epoch": 1, "seq": 1, "attempt": 1}
    clock = {"answers_us": NOW_US - 10, "answers_epoch": 1, "heard_us": 5, "sent_us": 15, "lease_end_us": LEASE_END_US}
    return peer.Vote(**(about | {"coordinator": "a", "yes": yes} | clock | more))


def told(turn: Turn) -> list[tuple[type, str]]:
    return [(type(one), one.receiver) for one in turn.outcome.messages]


def test_one_no_ends_the_attempt_and_the_others_are_told() -> None:
    one, turn = leading(b=ballot())
    coordinator.hear_vote(turn, one, vote("c", yes=False, reason="busy"))
    assert (one.record.phase, one.draft) == (IDLE, None)
    assert [type(order) for order in turn.outcome.orders] == [Release]
    assert told(turn) == [(peer.Abort, "b")], "c knows"


def test_a_no_does_not_bring_a_mate_back_that_is_gone() -> None:
    one, turn = leading()
    one.views["b"].phase = GONE
    coordinator.hear_vote(turn, one, vote("b", yes=False, reason="the job is gone"))
    coordinator.hear_vote(turn, one, vote("c", yes=False, reason="busy"))
    assert one.views["b"].phase == GONE


def test_the_last_yes_decides_and_not_the_first() -> None:
    one, turn = leading()
    coordinator.hear_vote(turn, one, vote("b", yes=True))
    assert (one.record.phase, told(turn)) == (VOTED, [])
    coordinator.hear_vote(turn, one, vote("c", yes=True))
    assert one.record.phase == COMMITTED
    assert told(turn) == [(peer.Commit, "b"), (peer.Commit, "c")]


def test_everybody_starts_at_one_instant_each_on_its_own_clock() -> None:
    one, turn = leading(b=ballot(ahead_us=700), c=ballot(ahead_us=-300))
    coordinator.decide(turn, one)
    start_us = NOW_US + TERMS.lead_us
    assert one.record.start_at_us == start_us
    assert one.record.starts_us == {"b": start_us + 700, "c": start_us - 300}


def test_offsets_are_kept_from_the_first_to_start() -> None:
    one, turn = leading((5000, 2000, 9000), b=ballot(), c=ballot())
    coordinator.decide(turn, one)
    start_us = NOW_US + TERMS.lead_us
    assert (one.record.start_at_us, one.record.starts_us) == (start_us + 3000, {"b": start_us, "c": start_us + 7000})


def test_no_start_is_decided_beyond_the_lease_of_a_member() -> None:
    latest_us = NOW_US + TERMS.lead_us + TERMS.late_us
    one, turn = leading(b=ballot(), c=ballot(lease_end_us=latest_us))
    coordinator.decide(turn, one)
    assert one.record.phase == COMMITTED
    one, turn = leading(b=ballot(), c=ballot(lease_end_us=latest_us - 1))
    coordinator.decide(turn, one)
    assert (one.record.phase, told(turn)) == (IDLE, [(peer.Abort, "b"), (peer.Abort, "c")])
