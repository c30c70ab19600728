"""The processing of one input: the state, the time and the outcome, with the steps that several modules share.

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
    """The processing of one input."""

    def __init__(self, state: MatesState, now_us: int) -> None:
        self.state, self.now_us = state, now_us
        self.outcome = Outcome()

    @property
    def domain(self) -> str:
        """The name of this domain."""
        return self.state.domain

    def send(self, kind: type[peer.Message], one: GroupState, receiver: str, **fields: Any) -> None:
        """Send a message about this group."""
        self.send_about(kind, one.group.name, receiver, **fields)

    def send_about(self, kind: type[peer.Message], group: str, receiver: str, **fields: Any) -> None:
        """Send a message about a group that may be unknown here."""
        self.state.seq += 1
        head: dict[str, Any] = {"group": group, "sender": self.domain, "receiver": receiver, "version": peer.VERSION}
        if kind in (peer.Announce, peer.Status):
            head["standing"] = self.state.standing
        self.outcome.messages.append(kind(**head, epoch=self.state.epoch, seq=self.state.seq, **fields))

    def order(self, kind: type[Order], one: GroupState, **fields: Any) -> None:
        """Give an order about the local job and the present attempt."""
        job, attempt = one.group.job(self.domain), one.record.attempt
        self.outcome.orders.append(kind(one.group.name, job, attempt, **fields))

    def refuse(self, reason: str) -> None:
        """Record why a message is refused."""
        self.outcome.refused.append(reason)

    def others(self, one: GroupState) -> list[str]:
        """Return the other domains in the present attempt."""
        return [domain for domain in one.record.members if domain != self.domain]

    def mates(self, one: GroupState) -> list[str]:
        """Return the other domains of the group."""
        return list(one.views)


def shown_phase(one: GroupState) -> str:
    """Return the phase that the mates are told."""
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
    """Send the status of this side."""
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
    """Return when the present attempt lapses by itself."""
    terms, record = one.group.terms, one.record
    if record.phase in (RESERVING, VOTED):
        return record.lease_end_us
    if record.phase == COMMITTED:
        return record.start_at_us + terms.late_us + 1
    return record.fuse_us if record.phase == RUNNING else FOREVER


def enter(turn: Turn, one: GroupState, attempt: int, coordinator: str, members: tuple[str, ...], lease_us: int) -> None:
    """Promise to a new attempt and look for nodes. What was known of mates in earlier attempts is void."""
    one.record.phase, one.record.attempt, one.record.coordinator = RESERVING, attempt, coordinator
    one.record.members, one.record.lease_end_us = members, turn.now_us + lease_us
    one.record.start_at_us = one.record.fuse_us = NEVER
    one.record.starts_us = {}
    one.draft, one.nodes_unsure, one.news = None, False, False
    for view in one.views.values():
        view.bound_us = view.ran_us = NEVER
        view.over = view.phase in (ENDED, GONE)


def leave(turn: Turn, one: GroupState, reason: str, *, tell: bool = True, knows: str = "") -> None:
    """Give up the present attempt: release the nodes or stop the run, tell the mates (except the one that `knows`), and
    delay the next attempt."""
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
    """Delay the next attempt after a failure, unless there was news during this one: its reason may be gone."""
    one.try_us = turn.now_us + (0 if one.news else back_off_us(one, turn.domain))
    one.failures += 1


def note_news(turn: Turn, one: GroupState) -> None:
    """Clear the delay because a member has become ready, or is over: the reason for earlier failures may be gone. In an
    attempt, ask for the missing votes again at once, and remember the news for the next attempt."""
    one.try_us = min(one.try_us, turn.now_us)
    one.news = True
    if one.draft is not None:
        one.draft.send_us = turn.now_us


def back_off_us(one: GroupState, domain: str) -> int:
    """Return the delay: longer after every failure, and never the same for two groups or two domains, so that attempts
    cannot chase each other for ever."""
    wait_us = one.group.terms.retry_us << min(one.failures, MOST_DOUBLINGS)
    position = one.group.domains().index(domain)
    spread = crc32(f"{one.group.name}\0{position}\0{one.failures}".encode()) % 1024
    return wait_us + wait_us * spread // 2048


def fuse_us(turn: Turn, one: GroupState) -> int:
    """Return until when this side may run, by what it has heard from the mates in this attempt."""
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
