"""One input being dealt with: the state, the time, and what is to come of it. Also the moves every part needs.

It must never decide anything that depends on another domain's clock.
"""

from __future__ import annotations

from typing import Any
from zlib import crc32

from cohabit.core.mates.state import GroupState, MatesState, Order, Outcome, Release, StopMate
from cohabit.model import peer
from cohabit.model.group import START_ALONE
from cohabit.model.peer import COMMITTED, ENDED, FREE, GONE, IDLE, NEVER, READY, RESERVING, RUNNING, VOTED
from cohabit.model.units import FOREVER

MOST_DOUBLINGS = 4


class Turn:
    """What one input does."""

    def __init__(self, state: MatesState, now_us: int) -> None:
        self.state, self.now_us = state, now_us
        self.outcome = Outcome()

    @property
    def domain(self) -> str:
        """This side."""
        return self.state.domain

    def send(self, kind: type[peer.Message], one: GroupState, receiver: str, **fields: Any) -> None:
        """A message about this group."""
        self.send_about(kind, one.group.name, receiver, **fields)

    def send_about(self, kind: type[peer.Message], group: str, receiver: str, **fields: Any) -> None:
        """A message about a group that need not be known here."""
        self.state.seq += 1
        head: dict[str, Any] = {"group": group, "sender": self.domain, "receiver": receiver}
        self.outcome.messages.append(kind(**head, epoch=self.state.epoch, seq=self.state.seq, **fields))

    def order(self, kind: type[Order], one: GroupState, **fields: Any) -> None:
        """An order about the local job and the present attempt."""
        job, attempt = one.group.job(self.domain), one.record.attempt
        self.outcome.orders.append(kind(one.group.name, job, attempt, **fields))

    def refuse(self, reason: str) -> None:
        """Say why a message is not listened to."""
        self.outcome.refused.append(reason)

    def others(self, one: GroupState) -> list[str]:
        """The other domains in the present attempt."""
        return [domain for domain in one.record.members if domain != self.domain]

    def mates(self, one: GroupState) -> list[str]:
        """The other domains of the group."""
        return list(one.views)


def shown_phase(one: GroupState) -> str:
    """What the mates are told."""
    return READY if one.record.phase == IDLE and one.ready else one.record.phase


def tell_status(
    turn: Turn,
    one: GroupState,
    receiver: str,
    *,
    ask: bool,
    answers: peer.Status | None = None,
    estimate_us: int = NEVER,
) -> None:
    """Say where this side stands."""
    about: dict[str, Any] = {"attempt": one.record.attempt, "coordinator": one.record.coordinator}
    about |= {"estimate_us": estimate_us, "wants_estimate": one.wants_estimate}
    if ask:
        about["asked_us"] = turn.now_us
    if answers is not None:
        about |= {"answers_us": answers.asked_us, "answers_epoch": answers.epoch}
    phase = shown_phase(one)
    one.told_ready = phase == READY
    turn.send(peer.Status, one, receiver, phase=phase, **about)


def bound_until(one: GroupState) -> int:
    """When the present attempt lapses by itself."""
    terms, record = one.group.terms, one.record
    if record.phase in (RESERVING, VOTED):
        return record.lease_end_us
    if record.phase == COMMITTED:
        return record.start_at_us + terms.late_us + 1
    return record.fuse_us if record.phase == RUNNING else FOREVER


def enter(turn: Turn, one: GroupState, attempt: int, coordinator: str, members: tuple[str, ...], lease_us: int) -> None:
    """Promise to a new attempt and look for nodes. Whatever was known of mates in earlier attempts is void."""
    one.record.phase, one.record.attempt, one.record.coordinator = RESERVING, attempt, coordinator
    one.record.members, one.record.lease_end_us = members, turn.now_us + lease_us
    one.record.start_at_us = one.record.fuse_us = NEVER
    one.record.starts_us = {}
    one.draft, one.nodes_unsure = None, False
    for view in one.views.values():
        view.bound_us = view.ran_us = NEVER
        view.over = view.phase in (ENDED, GONE)


def leave(turn: Turn, one: GroupState, reason: str, *, tell: bool = True, knows: str = "") -> None:
    """Give up the present attempt: nodes or the run go back, the mates are told (but the one who `knows`), and the next
    attempt waits a while."""
    if one.record.phase == RUNNING:
        turn.order(StopMate, one, reason=reason)
    else:
        turn.order(Release, one)
    if tell:
        for domain in (other for other in turn.others(one) if other != knows):
            about = {"attempt": one.record.attempt, "coordinator": one.record.coordinator}
            turn.send(peer.Abort, one, domain, **about, reason=reason)
    one.record.phase, one.draft, one.answered = IDLE, None, True
    one.record.starts_us = {}
    one.ready_since_us = turn.now_us
    back_off(turn, one)


def back_off(turn: Turn, one: GroupState) -> None:
    """After a failed attempt: not again for a while."""
    one.failed_us, one.try_us = turn.now_us, turn.now_us + back_off_us(one, turn.domain)
    one.failures += 1


def note_news(one: GroupState) -> None:
    """Somebody has become ready: what made earlier attempts fail may be over, so there is no wait; but never twice in
    an instant."""
    one.try_us = min(one.try_us, one.failed_us + 1)


def back_off_us(one: GroupState, domain: str) -> int:
    """Longer after every failure, and never the same for two groups or two domains: attempts cannot chase each other
    for ever."""
    wait_us = one.group.terms.retry_us << min(one.failures, MOST_DOUBLINGS)
    spread = crc32(f"{one.group.name}\0{domain}\0{one.failures}".encode()) % 1024
    return wait_us + wait_us * spread // 2048


def fuse_us(turn: Turn, one: GroupState) -> int:
    """Until when this side may run, by what it has heard from the mates in this attempt."""
    if one.group.terms.when_dead == START_ALONE:
        return FOREVER
    heard = [one.views[domain] for domain in turn.others(one)]
    return min(
        (max(one.record.start_at_us, view.bound_us) + one.group.terms.lease_us for view in heard if not view.over),
        default=FOREVER,
    )


def taken_part(phase: str) -> bool:
    """Whether a mate in this phase is bound to, or has run in, its attempt."""
    return phase in (COMMITTED, RUNNING, FREE, ENDED)
