"""One side of the protocol between coupled domains: inputs in, orders and messages out.

A start is a two-phase commit under leases: docs/coscheduling.md says what is guaranteed and why. This state machine has
no clock and no store; it is given the time of its own domain's clock, which never goes back, and it says what must be
saved before anything else is done. Loss, delay, repetition and reordering of messages change when, never whether.
"""

from __future__ import annotations

import msgspec

from cohabit.core.mates import coordinator, member
from cohabit.core.mates.state import (
    Ended,
    Expects,
    GroupState,
    Heard,
    Inform,
    Input,
    Joined,
    MatesExpect,
    MatesState,
    NotNow,
    Outcome,
    Ready,
    Record,
    Recovered,
    Reserved,
    Seen,
    StartFailed,
    Tick,
    Withdrawn,
    fresh_views,
)
from cohabit.core.mates.turn import Turn, back_off, bound_until, leave, note_news, tell_status
from cohabit.model import peer
from cohabit.model.group import Group
from cohabit.model.peer import COMMITTED, ENDED, FREE, GONE, IDLE, NEVER, READY, RESERVING, RUNNING, UNSUBMITTED, VOTED
from cohabit.model.units import FOREVER

WINDOW = 256  # how far below the highest number seen a message is still accepted
_BOUND = (RESERVING, VOTED, COMMITTED, RUNNING)
_encoder = msgspec.msgpack.Encoder(order="deterministic")


def step(state: MatesState, now_us: int, told: Input) -> Outcome:
    """Process one input. It changes the state; the outcome lists what follows, in the order it must be done."""
    turn = Turn(state, now_us)
    before = {name: _encoder.encode(state.groups[name].record) for name in _about(state, told)}
    moved = _deal_with(turn, told)
    for name in moved:
        one = state.groups[name]
        _advance(turn, one)
        _conclude(turn, one)
        _note_due(state, one, _due(turn, one))
    outcome = turn.outcome
    outcome.save = [name for name in moved if _encoder.encode(state.groups[name].record) != before.get(name)]
    outcome.wake_us = state.due_us
    return outcome


def _note_due(state: MatesState, one: GroupState, due_us: int) -> None:
    """Update the earliest due instant of all groups without looking at all of them."""
    before_us, one.due_us = one.due_us, due_us
    if due_us <= state.due_us:
        state.due_us = due_us
    elif before_us == state.due_us:
        state.due_us = min(other.due_us for other in state.groups.values())


def forget(state: MatesState, group: str) -> None:
    """Drop a group whose run is long over. Mates that ask again are told that there is no such job."""
    if state.groups[group].record.phase in (ENDED, GONE):
        _note_due(state, state.groups[group], FOREVER)
        del state.groups[group]


def _about(state: MatesState, told: Input) -> list[str]:
    """Return the known groups that an input can change."""
    match told:
        case Tick() | Recovered():
            return list(state.groups)
        case Joined(group):
            name = group.name
        case Heard(message):
            name = message.group
        case _:
            name = told.group
    return [name] if name in state.groups else []


def _deal_with(turn: Turn, told: Input) -> list[str]:
    """Apply an input; return the groups it may have changed."""
    groups = turn.state.groups
    match told:
        case Tick():
            return [name for name, one in groups.items() if one.due_us <= turn.now_us]
        case Recovered(same_clock):
            turn.state.epoch += 1
            turn.outcome.save_epoch = True
            for one in groups.values():
                member.bring_back(turn, one, same_clock)
            return list(groups)
        case Joined(group):
            _join(turn, group)
            return [group.name]
        case Heard(message):
            return _hear(turn, message)
    one = groups[told.group]
    match told:
        case Ready(_, ready, wants_estimate):
            one.wants_estimate = wants_estimate
            _set_ready(turn, one, ready)
        case Reserved():
            _reserved(turn, one, told)
        case Expects(_, estimate_us):
            for domain in turn.mates(one):
                tell_status(turn, one, domain, ask=False, estimate_us=estimate_us)
        case Inform():
            for domain in turn.mates(one):
                tell_status(turn, one, domain, ask=False)
        case StartFailed(_, attempt, reason):
            if one.record.phase in (RUNNING, FREE) and one.record.attempt == attempt:
                one.record.phase = RUNNING
                leave(turn, one, f"it could not be started: {reason}")
        case Ended(_, attempt, burnt):
            _ended(turn, one, attempt, burnt)
        case Withdrawn():
            _withdraw(turn, one)
    return [told.group]


def _join(turn: Turn, group: Group) -> None:
    if group.name in turn.state.groups:
        return
    one = GroupState(group, Record(), fresh_views(group, turn.domain), ask_us=turn.now_us)
    turn.state.groups[group.name] = one
    for domain in turn.mates(one):
        turn.send(peer.Announce, one, domain, job=group.job(turn.domain))


def _set_ready(turn: Turn, one: GroupState, ready: bool) -> None:
    if ready and not one.ready:
        one.ask_us = one.asking_since_us = turn.now_us
        one.ready_since_us = turn.now_us if one.ready_since_us == NEVER else one.ready_since_us
        one.answered = False
        for view in one.views.values():
            view.answered = False
        note_news(turn, one)
    if one.ready and not ready:
        one.asking_since_us = NEVER
        if one.record.phase == IDLE and one.told_ready:
            one.ready = False
            for domain in turn.mates(one):
                tell_status(turn, one, domain, ask=False)
    one.ready = ready


def _conclude(turn: Turn, one: GroupState) -> None:
    """Answer a pending question; tell a scheduler that waits for an answer that its job does not start together now."""
    if one.answer is not None and one.record.phase == RESERVING and one.record.coordinator == turn.domain:
        one.answer = None  # the attempt, or its end, is the answer
    if one.answer is not None:
        tell_status(turn, one, one.answer.sender, ask=False, answers=one.answer)
        one.answer = None
    if one.asking_since_us == NEVER or one.record.phase == RESERVING or one.record.phase in (VOTED, COMMITTED):
        return
    if one.record.phase != IDLE or not one.ready:
        one.asking_since_us = NEVER
        return
    if one.answered or coordinator.all_known(turn, one) or turn.now_us >= _patience_ends_us(one):
        one.asking_since_us = NEVER
        turn.order(NotNow, one)


def _patience_ends_us(one: GroupState) -> int:
    """Return until when this side waits for answers; infinity if it does not ask."""
    return FOREVER if one.asking_since_us == NEVER else one.asking_since_us + one.group.terms.patience_us


def _reserved(turn: Turn, one: GroupState, told: Reserved) -> None:
    """Take the local scheduler's answer. An answer for an attempt already left needs nothing: Release was ordered."""
    record, done, reason = one.record, told.done, told.reason
    if told.attempt != record.attempt:
        return
    one.nodes_unsure = one.nodes_unsure and not done
    if record.phase in (VOTED, COMMITTED) and not done:
        leave(turn, one, f"its nodes are gone: {reason}")
    elif record.phase != RESERVING:
        return
    elif record.coordinator != turn.domain:
        if done:
            member.reserved_for_vote(turn, one)
        else:
            member.not_reserved_for_vote(turn, one, reason, told.estimate_us)
    elif done:
        coordinator.reserved_here(turn, one)
    else:
        record.phase = IDLE
        back_off(turn, one)
        for domain in turn.others(one):  # a mate that is ready waits for an answer
            if one.views[domain].phase == READY:
                about = {"attempt": record.attempt, "coordinator": turn.domain, "estimate_us": told.estimate_us}
                turn.send(peer.Abort, one, domain, **about, reason=reason)


def _ended(turn: Turn, one: GroupState, attempt: int, burnt: bool) -> None:
    """End a run. A run that ended by itself counts, even if this side had given up its attempt meanwhile."""
    record = one.record
    if burnt and record.attempt == attempt and record.phase in (RUNNING, FREE):
        record.phase = RUNNING
        leave(turn, one, "its mates were not heard within the lease")
    if burnt or attempt > record.attempt or record.phase in (ENDED, GONE):
        return
    if record.attempt != attempt and record.phase in _BOUND:
        leave(turn, one, "its job has had its run")
    record.phase, one.ready = ENDED, False
    for domain in turn.mates(one):
        tell_status(turn, one, domain, ask=False)


def _withdraw(turn: Turn, one: GroupState) -> None:
    if one.record.phase in _BOUND:
        leave(turn, one, "its job was withdrawn")
    one.record.phase, one.ready = GONE, False
    for domain in turn.mates(one):
        turn.send(peer.Announce, one, domain, job=one.group.job(turn.domain), withdrawn=True)


def _hear(turn: Turn, message: peer.Message) -> list[str]:
    """Check a message and pass it on; only the checks may depend on whether it could be forged."""
    if problem := peer.what_is_wrong(message) or _not_for_us(turn, message) or _replayed(turn, message):
        turn.refuse(problem)
        return []
    if isinstance(message, peer.Announce | peer.Status):
        turn.state.standings.pop(message.sender, None)
        if message.standing is not None:
            turn.state.standings[message.sender] = message.standing
    one = turn.state.groups.get(message.group)
    if one is None:
        turn.refuse(f"group {message.group} is not known here")
        if isinstance(message, peer.Status) and message.asked_us != NEVER:
            answer = {"answers_us": message.asked_us, "answers_epoch": message.epoch}
            turn.send_about(peer.Status, message.group, message.sender, phase=UNSUBMITTED, **answer)
        return []
    if message.sender not in one.views:
        turn.refuse(f"domain {message.sender} is not a member of group {message.group}")
        return []
    view = one.views[message.sender]
    view.heard_us = turn.now_us
    _note_estimate(turn, one, message)
    match message:
        case peer.Announce():
            _hear_announcement(turn, one, message)
        case peer.Status():
            member.hear_status(turn, one, message)
        case peer.Prepare():
            member.hear_prepare(turn, one, message)
        case peer.Vote():
            coordinator.hear_vote(turn, one, message)
        case peer.Commit():
            member.hear_commit(turn, one, message)
        case peer.Abort():
            member.hear_abort(turn, one, message)
        case peer.Started():
            member.hear_started(turn, one, message)
    return [message.group]


def _hear_announcement(turn: Turn, one: GroupState, said: peer.Announce) -> None:
    view = one.views[said.sender]
    if said.job != one.group.job(said.sender):
        turn.refuse(
            f"domain {said.sender} has job {said.job} in group {one.group.name}, not {one.group.job(said.sender)}"
        )
        return
    if said.withdrawn:
        view.phase = GONE
        view.over = True
        note_news(turn, one)
    elif view.phase == UNSUBMITTED:
        view.phase = IDLE
        tell_status(turn, one, said.sender, ask=False)


def _note_estimate(turn: Turn, one: GroupState, message: peer.Message) -> None:
    """Record a mate's estimate; once all are known, the scheduler can plan for the latest."""
    estimate_us = getattr(message, "estimate_us", NEVER)
    if estimate_us == NEVER:
        return
    one.views[message.sender].expects_us = turn.now_us + estimate_us
    expected = [view.expects_us for view in one.views.values() if view.phase not in (ENDED, GONE, FREE)]
    if expected and NEVER not in expected:
        turn.order(MatesExpect, one, at_us=max(expected))


def _not_for_us(turn: Turn, message: peer.Message) -> str:
    if message.receiver != turn.domain:
        return f"a message for {message.receiver} came to {turn.domain}"
    about = turn.state.groups.get(message.group)
    known = not turn.state.peers or message.sender in turn.state.peers
    if known or (about is not None and message.sender in about.views):
        return ""
    return f"domain {message.sender} is no peer of {turn.domain}"


def _replayed(turn: Turn, message: peer.Message) -> str:
    """Return why a message is refused: each counts once, and none from before its sender's last start."""
    seen = turn.state.seen.setdefault(message.sender, Seen())
    if message.epoch < seen.epoch:
        return f"{message.sender} has started again since this was sent (epoch {message.epoch}, now {seen.epoch})"
    if message.epoch > seen.epoch:
        seen.epoch, seen.highest, seen.below = message.epoch, 0, b""
    behind, below = seen.highest - message.seq, int.from_bytes(seen.below, "little")
    if behind >= WINDOW or (behind >= 0 and below >> behind & 1):
        return f"message {message.seq} of {message.sender} was heard before"
    if behind < 0:
        below = (below << -behind if -behind < WINDOW else 0) | 1  # a number far ahead must not cost memory
        seen.highest = message.seq
    else:
        below |= 1 << behind
    seen.below = (below & ((1 << WINDOW) - 1)).to_bytes(WINDOW // 8, "little")
    return ""


def _advance(turn: Turn, one: GroupState) -> None:
    """Do what is due; a lapsed attempt may be followed by the next at once."""
    if one.record.phase in _BOUND:
        member.go_on(turn, one)
    if one.draft is not None and turn.now_us >= one.draft.send_us:
        coordinator.ask_votes(turn, one)
    if one.record.phase == IDLE:
        coordinator.wait_or_begin(turn, one)


def _due(turn: Turn, one: GroupState) -> int:
    """Return when the group needs a Tick."""
    if one.record.phase == IDLE:
        return min(coordinator.waits_until(turn, one), _patience_ends_us(one))
    if one.record.phase not in _BOUND:
        return FOREVER
    due = [bound_until(one), FOREVER if one.record.phase == RESERVING else one.ask_us]
    if one.record.phase == COMMITTED and not one.nodes_unsure:
        due.append(one.record.start_at_us)
    if one.draft is not None:
        due = [one.record.lease_end_us, one.draft.send_us]
    return min(due)
