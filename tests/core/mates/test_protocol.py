"""One side at a time: what it answers, what it refuses and why, what it orders."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pytest

from cohabit.core.mates.protocol import forget, step
from cohabit.core.mates.state import (
    Ended,
    FailMate,
    Heard,
    Input,
    Joined,
    MatesState,
    Order,
    Outcome,
    Ready,
    Recovered,
    Release,
    Renew,
    Reserve,
    Reserved,
    StartMate,
    StopMate,
    Tick,
    Withdrawn,
    reloaded,
    stored,
)
from cohabit.model.group import FAIL, START_ALONE, WAIT, Group, Member, Terms, Window, make_group
from cohabit.model.peer import Abort, Commit, Message, Prepare, Started, Status, Vote
from cohabit.model.units import FOREVER, SECOND

TERMS = Terms(when_dead=WAIT)


class Town:
    """Domains on one perfect network and one clock; every Reserve is granted."""

    def __init__(self, group: Group) -> None:
        self.group, self.now_us = group, 0
        self.states = {name: MatesState(name) for name in group.domains()}
        self.orders: list[tuple[int, str, Order]] = []
        self.heard: list[Message] = []
        for name in group.domains():
            self.tell(name, Joined(group))

    def tell(self, name: str, *told: Input) -> None:
        """Inputs to one side, and all that follows everywhere."""
        waiting = [(name, one) for one in told]
        while waiting:
            name, one = waiting.pop(0)
            outcome = step(self.states[name], self.now_us, one)
            for order in outcome.orders:
                self.orders.append((self.now_us, name, order))
                if isinstance(order, Reserve):
                    waiting.append((name, Reserved(order.group, order.attempt, True)))
            self.heard += outcome.messages
            waiting += [(one.receiver, Heard(one)) for one in outcome.messages if one.receiver in self.states]

    def wait(self, us: int) -> None:
        """Let time pass, with every tick that is asked for."""
        end_us = self.now_us + us
        while self.now_us < end_us:
            due = min(step(state, self.now_us, Heard(_noise(name))).wake_us for name, state in self.states.items())
            self.now_us = min(max(due, self.now_us + 1), end_us)
            for name in list(self.states):
                self.tell(name, Tick())

    def given(self, kind: type[Order]) -> list[tuple[int, str]]:
        """When and where such an order was given."""
        return [(when, name) for when, name, order in self.orders if isinstance(order, kind)]


def _noise(receiver: str) -> Message:
    """Something every side refuses: it only asks for the next wake."""
    return Status(group="none", sender="nobody", receiver=receiver, epoch=1, seq=1, phase="idle")


def pair(terms: Terms = TERMS, windows: tuple[Window, ...] = ()) -> Group:
    return make_group("g", [Member("a", "1"), Member("b", "2")], terms, windows)


def one_side(terms: Terms = TERMS) -> MatesState:
    """Side b of a pair, its job submitted."""
    state = MatesState("b")
    step(state, 0, Joined(pair(terms)))
    return state


def prepare(state: MatesState, attempt: int = 1, seq: int = 1, epoch: int = 1, **other: object) -> Prepare:
    about: dict[str, object] = {"members": ("a", "b"), "lease_us": TERMS.lease_us, "asked_us": 5}
    terms = state.groups["g"].group.digest if state.groups else 0
    head = {"group": "g", "sender": "a", "receiver": "b", "epoch": epoch, "seq": seq}
    return msgspec.convert(head | about | {"attempt": attempt, "terms": terms} | other, Prepare)


def kinds(outcome: Outcome) -> list[type]:
    return [type(message) for message in outcome.messages]


def voted(state: MatesState, now_us: int = 100) -> None:
    step(state, now_us, Heard(prepare(state)))
    outcome = step(state, now_us, Reserved("g", 1, True))
    assert [vote.yes for vote in outcome.messages if isinstance(vote, Vote)] == [True]
    assert outcome.save == ["g"], "a vote must be durable before it is sent"


# ---- together --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["a", "b"])
def test_whoever_is_ready_first_both_start_at_the_same_instant(first: str) -> None:
    town = Town(pair())
    town.tell(first, Ready("g", True))
    town.wait(10 * SECOND)
    assert sorted(town.given(StartMate)) == [(TERMS.lead_us, "a"), (TERMS.lead_us, "b")]


def test_five_domains_start_together() -> None:
    group = make_group("g", [Member(name, name) for name in "edcba"], TERMS)
    town = Town(group)
    town.tell("d", Ready("g", True))
    town.wait(10 * SECOND)
    assert sorted(town.given(StartMate)) == [(TERMS.lead_us, name) for name in "abcde"]


def test_a_start_offset_is_kept() -> None:
    town = Town(pair(windows=(Window("b", "a", 30 * SECOND, 60 * SECOND),)))
    town.tell("a", Ready("g", True))
    town.wait(60 * SECOND)
    assert town.given(StartMate) == [(TERMS.lead_us, "b"), (TERMS.lead_us + 30 * SECOND, "a")]
    assert not town.given(StopMate)


def test_mates_that_hear_of_each_other_run_for_hours() -> None:
    town = Town(pair())
    town.tell("a", Ready("g", True))
    town.wait(3600 * SECOND)
    assert not town.given(StopMate)
    town.tell("a", Ended("g", 1))
    town.wait(3600 * SECOND)
    assert not town.given(StopMate), "a mate that has ended is not a missing mate"


def test_a_watch_ends_with_proof_that_both_ran() -> None:
    town = Town(pair(msgspec.structs.replace(TERMS, watch_us=600 * SECOND)))
    town.tell("a", Ready("g", True))
    town.wait(3600 * SECOND)
    freed = [when for when, _, order in town.orders if isinstance(order, Renew) and order.fuse_us == FOREVER]
    assert len(freed) == 2
    assert min(freed) >= TERMS.lead_us + 600 * SECOND


def test_a_side_whose_mate_vanishes_stops_and_requeues_by_the_lease() -> None:
    town = Town(pair())
    town.tell("a", Ready("g", True))
    town.wait(100 * SECOND)
    del town.states["b"]
    gone_us = town.now_us
    town.wait(200 * SECOND)
    [(when, name)] = town.given(StopMate)
    assert name == "a"
    assert when <= gone_us + TERMS.lease_us


# ---- dead peers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("when_dead", "kind"), [(START_ALONE, StartMate), (FAIL, FailMate), (WAIT, None)])
def test_what_a_dead_peer_means(when_dead: str, kind: type[Order] | None) -> None:
    terms = msgspec.structs.replace(TERMS, when_dead=when_dead)
    town = Town(pair(terms))
    del town.states["a"]
    town.tell("b", Ready("g", True))
    town.wait(terms.dead_after_us - SECOND)
    assert not town.given(StartMate)
    assert not town.given(FailMate)
    town.wait(2 * SECOND)
    done = [type(order) for _, _, order in town.orders if isinstance(order, StartMate | FailMate)]
    assert done == ([kind] if kind else [])


def test_a_mate_that_will_never_run_is_not_waited_for() -> None:
    town = Town(pair())
    town.tell("a", Withdrawn("g"))
    town.tell("b", Ready("g", True))
    town.wait(SECOND)
    ((started_us, domain),) = town.given(StartMate)
    assert domain == "b"
    assert started_us in (0, 1), "at once"


# ---- refusals --------------------------------------------------------------------------------------------------------


def test_the_same_message_counts_once() -> None:
    state = one_side()
    first = prepare(state)
    assert step(state, 1, Heard(first)).orders
    again = step(state, 2, Heard(first))
    assert again.refused == ["message 1 of a was heard before"]
    assert not again.orders
    assert not again.messages


def test_messages_may_overtake_each_other() -> None:
    state = one_side()
    for seq in (5, 3, 4, 1):
        ask = Status(group="g", sender="a", receiver="b", epoch=1, seq=seq, phase="idle", asked_us=7)
        assert kinds(step(state, 1, Heard(ask))) == [Status]
    assert step(state, 1, Heard(ask)).refused


def test_a_number_far_ahead_costs_nothing_and_shuts_out_what_is_far_behind() -> None:
    state = one_side()
    step(state, 1, Heard(prepare(state, seq=2)))
    step(state, 1, Heard(prepare(state, seq=2**47)))
    assert int.from_bytes(state.seen["a"].below, "little") == 1
    assert step(state, 1, Heard(prepare(state, seq=3))).refused
    assert not step(state, 1, Heard(prepare(state, seq=2**47 - 1))).refused


def test_what_was_sent_before_the_senders_last_start_is_stale() -> None:
    state = one_side()
    step(state, 1, Heard(Status(group="g", sender="a", receiver="b", epoch=3, seq=1, phase="idle")))
    outcome = step(state, 2, Heard(prepare(state, seq=9, epoch=2)))
    assert "started again" in outcome.refused[0]
    assert not outcome.orders


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        ({"receiver": "c"}, "a message for c came to b"),
        ({"sender": "mars"}, "mars is not a member of group"),
        ({"sender": "b"}, "writes to itself"),
        ({"group": "other"}, "group other is not known here"),
        ({"lease_us": 0}, "a lease must last"),
        ({"members": ("a", "a")}, "different members"),
        ({"epoch": 0}, "out of range"),
    ],
)
def test_messages_that_are_not_listened_to(changed: dict[str, object], reason: str) -> None:
    state = one_side()
    outcome = step(state, 1, Heard(msgspec.structs.replace(prepare(state), **changed)))
    assert reason in outcome.refused[0]
    assert not outcome.orders
    assert not outcome.save


def test_an_old_attempt_is_fenced_off() -> None:
    state = one_side()
    step(state, 1, Heard(prepare(state, attempt=7, seq=1)))
    outcome = step(state, 2, Heard(prepare(state, attempt=6, seq=2)))
    [vote] = outcome.messages
    assert isinstance(vote, Vote)
    assert not vote.yes
    assert vote.promised == 7
    assert "attempt 6 is over" in vote.reason


def test_sides_that_mean_different_terms_do_not_start() -> None:
    state = one_side()
    [vote] = step(state, 1, Heard(prepare(state, terms=1))).messages
    assert isinstance(vote, Vote)
    assert not vote.yes
    assert "same terms" in vote.reason


def test_a_decision_nobody_voted_for_is_answered_with_abort() -> None:
    state = one_side()
    outcome = step(
        state, 1, Heard(Commit(group="g", sender="a", receiver="b", epoch=1, seq=1, attempt=4, start_at_us=9))
    )
    assert kinds(outcome) == [Abort]
    assert not outcome.orders


# ---- leases and crashes ----------------------------------------------------------------------------------------------


def test_a_reservation_ends_with_its_lease() -> None:
    state = one_side()
    voted(state)
    assert not _orders(step(state, 99 + TERMS.lease_us, Tick()), Release)
    assert _orders(step(state, 100 + TERMS.lease_us, Tick()), Release)


def test_a_late_decision_starts_nothing() -> None:
    state = one_side()
    voted(state)
    late = Commit(group="g", sender="a", receiver="b", epoch=1, seq=2, attempt=1, start_at_us=SECOND)
    outcome = step(state, SECOND + TERMS.late_us + 1, Heard(late))
    assert kinds(outcome) == [Abort]
    assert _orders(outcome, Release)
    assert not _orders(outcome, StartMate)


def test_a_vote_survives_a_crash() -> None:
    state = one_side()
    voted(state)
    back = reloaded(msgspec.msgpack.decode(msgspec.msgpack.encode(stored(state)), type=type(stored(state))))
    outcome = step(back, 200, Recovered())
    assert back.epoch == 2
    assert outcome.save_epoch
    assert _orders(outcome, Reserve)
    decided = Commit(group="g", sender="a", receiver="b", epoch=1, seq=2, attempt=1, start_at_us=SECOND)
    step(back, 300, Heard(decided))
    assert not _orders(step(back, SECOND, Tick()), StartMate), "whether its nodes are still there is not known yet"
    assert _orders(step(back, SECOND, Reserved("g", 1, True)), StartMate)


def test_without_its_clock_no_lease_can_be_trusted() -> None:
    state = one_side()
    voted(state)
    outcome = step(reloaded(stored(state)), 200, Recovered(same_clock=False))
    assert _orders(outcome, Release)
    assert kinds(outcome) == [Abort]


def test_an_unsolicited_word_does_not_lengthen_the_run() -> None:
    state = one_side()
    voted(state)
    step(state, 200, Heard(Commit(group="g", sender="a", receiver="b", epoch=1, seq=2, attempt=1, start_at_us=SECOND)))
    step(state, SECOND, Tick())
    fuse_us = state.groups["g"].record.fuse_us
    about = {"group": "g", "sender": "a", "receiver": "b", "epoch": 1, "attempt": 1, "coordinator": "a"}
    step(state, 2 * SECOND, Heard(msgspec.convert(about | {"seq": 3}, Started)))
    step(state, 2 * SECOND, Heard(msgspec.convert(about | {"seq": 4, "phase": "running"}, Status)))
    assert state.groups["g"].record.fuse_us == fuse_us == SECOND + TERMS.lease_us
    answer = about | {"seq": 5, "phase": "running", "answers_us": 3 * SECOND, "answers_epoch": 1}
    assert _orders(step(state, 50 * SECOND, Heard(msgspec.convert(answer, Status))), Renew)
    assert state.groups["g"].record.fuse_us == 3 * SECOND + TERMS.lease_us


def test_a_group_is_forgotten_only_when_it_is_over() -> None:
    state = one_side()
    forget(state, "g")
    assert "g" in state.groups
    step(state, 1, Withdrawn("g"))
    forget(state, "g")
    assert not state.groups


def _orders(outcome: Outcome, kind: type[Order]) -> Iterable[Order]:
    return [order for order in outcome.orders if isinstance(order, kind)]
