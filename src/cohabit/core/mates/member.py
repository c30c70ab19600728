"""Take part in an attempt: reserve and vote, start at the decided instant, run only while the mates do.

A side that has voted keeps its nodes until its lease ends or it hears the decision. A side that runs has a fuse: it may
run for a fixed time after the last moment at which it knows that every mate was part of the attempt. The fuse is
counted from when this side asked, on its own clock, so neither delay nor another clock can lengthen it.
"""

from __future__ import annotations

from cohabit.core.mates.coordinator import answer_voter, tell_decision
from cohabit.core.mates.state import FailMate, GroupState, MateView, Renew, Reserve, StartMate, StopMate
from cohabit.core.mates.turn import Turn, enter, fuse_us, leave, note_news, taken_part, tell_status
from cohabit.model import peer
from cohabit.model.group import WHOLE_RUN
from cohabit.model.peer import COMMITTED, ENDED, FREE, GONE, IDLE, NEVER, READY, RESERVING, RUNNING, VOTED
from cohabit.model.units import FOREVER

_DONE = (FREE, ENDED, GONE)


def hear_prepare(turn: Turn, one: GroupState, asked: peer.Prepare) -> None:
    """Promise to the attempt and look for nodes; or vote no, with the reason."""
    record = one.record
    if reason := _cannot_mean_us(turn, one, asked):
        _say_no(turn, one, asked, reason)
        return
    if record.phase == VOTED and (record.attempt, record.coordinator) == (asked.attempt, asked.sender):
        _note_question(turn, one, asked)
        say_yes(turn, one)
        return
    if record.phase == RESERVING and (record.attempt, record.coordinator) == (asked.attempt, asked.sender):
        _note_question(turn, one, asked)
        return
    if asked.attempt <= record.attempt:
        _say_no(turn, one, asked, f"attempt {asked.attempt} is over, {record.attempt} is the latest")
        return
    if record.phase not in (IDLE, *_DONE) and record.coordinator == asked.sender:
        leave(turn, one, "its coordinator has begun another attempt", tell=record.phase in (COMMITTED, RUNNING))
    if record.phase != IDLE:
        _say_no(turn, one, asked, f"the job is {record.phase}")
        if record.phase in _DONE:  # the coordinator has missed it, and would ask for ever
            tell_status(turn, one, asked.sender, ask=False)
        return
    enter(turn, one, asked.attempt, asked.sender, asked.members, asked.lease_us)
    _note_question(turn, one, asked)
    turn.order(Reserve, one, until_us=record.lease_end_us, estimate=asked.wants_estimate)


def _cannot_mean_us(turn: Turn, one: GroupState, asked: peer.Prepare) -> str:
    """Return what is wrong with an attempt between sides that know the same group; empty if nothing."""
    if asked.terms != one.group.digest:
        return "the two sides do not mean the same group on the same terms"
    if not {asked.sender, turn.domain} <= set(asked.members) <= set(one.group.domains()):
        return "the attempt is not between members of the group"
    if asked.lease_us > one.group.terms.lease_us + max(one.group.offsets_us):
        return "the lease is longer than the terms allow"
    return ""


def _note_question(turn: Turn, one: GroupState, asked: peer.Prepare) -> None:
    one.heard_prepare_us, one.answers_us, one.answers_epoch = turn.now_us, asked.asked_us, asked.epoch


def _say_no(turn: Turn, one: GroupState, asked: peer.Prepare, reason: str) -> None:
    about = {"attempt": asked.attempt, "coordinator": asked.sender, "promised": one.record.attempt}
    turn.send(peer.Vote, one, asked.sender, **about, yes=False, reason=reason)


def say_yes(turn: Turn, one: GroupState) -> None:
    """Vote yes, with this clock's readings beside the coordinator's."""
    record = one.record
    about = {"attempt": record.attempt, "coordinator": record.coordinator, "promised": record.attempt}
    clock = {"heard_us": one.heard_prepare_us, "sent_us": turn.now_us, "lease_end_us": record.lease_end_us}
    answers = {"answers_us": one.answers_us, "answers_epoch": one.answers_epoch}
    turn.send(peer.Vote, one, record.coordinator, **about, **clock, **answers, yes=True)


def reserved_for_vote(turn: Turn, one: GroupState) -> None:
    """Vote yes: the nodes that the coordinator asked for are reserved."""
    one.record.phase = VOTED
    one.ask_us = turn.now_us + one.group.terms.ask_us
    say_yes(turn, one)


def not_reserved_for_vote(turn: Turn, one: GroupState, reason: str, estimate_us: int) -> None:
    """Vote no: there are no nodes for the attempt."""
    about = {"attempt": one.record.attempt, "coordinator": one.record.coordinator, "promised": one.record.attempt}
    coordinator, one.record.phase = one.record.coordinator, IDLE
    turn.send(peer.Vote, one, coordinator, **about, yes=False, reason=reason, estimate_us=estimate_us)


def hear_commit(turn: Turn, one: GroupState, decided: peer.Commit) -> None:
    """Take the decided start; if it is too late, or the attempt is no longer ours, say that this side has left."""
    record = one.record
    ours = (record.attempt, record.coordinator) == (decided.attempt, decided.sender)
    if ours and record.phase in (COMMITTED, RUNNING, *_DONE):
        return
    if not ours or record.phase != VOTED:
        reason = "the reservation is over"
        turn.send(peer.Abort, one, decided.sender, attempt=decided.attempt, coordinator=decided.sender, reason=reason)
        return
    latest_us = decided.start_at_us + one.group.terms.late_us
    if latest_us > record.lease_end_us or turn.now_us > latest_us:
        leave(turn, one, "the decision came too late")
        return
    record.phase, record.start_at_us = COMMITTED, decided.start_at_us


def hear_abort(turn: Turn, one: GroupState, gone: peer.Abort) -> None:
    """Leave the attempt, because a member has left it."""
    record = one.record
    same = (record.attempt, record.coordinator) == (gone.attempt, gone.coordinator)
    view = one.views[gone.sender]
    if view.phase not in _DONE and view.attempt <= gone.attempt:
        view.phase, view.attempt, view.coordinator = IDLE, gone.attempt, gone.coordinator
        one.answered = True
    if same and gone.sender in record.members:
        _member_out(turn, one, gone.sender, gone.reason)


def _member_out(turn: Turn, one: GroupState, domain: str, reason: str) -> None:
    """Leave an attempt that has lost a member, if this side is still bound to its mates."""
    if one.record.phase in (RESERVING, VOTED, COMMITTED, RUNNING):
        leave(turn, one, f"{domain} is out of the attempt: {reason}")


def hear_status(turn: Turn, one: GroupState, said: peer.Status) -> None:
    """Record the status of a mate, act on it, and answer if it asked."""
    view, record = one.views[said.sender], one.record
    if said.phase in (READY, *_DONE) and view.phase != said.phase:
        note_news(turn, one)
    view.wants_estimate = said.wants_estimate
    if view.phase not in _DONE and said.attempt >= view.attempt:
        view.phase, view.attempt, view.coordinator = said.phase, said.attempt, said.coordinator
    if said.phase in (RESERVING, VOTED) and said.coordinator == turn.domain:
        answer_voter(turn, one, said.sender, said.attempt)
    same = (said.attempt, said.coordinator) == (record.attempt, record.coordinator)
    if said.sender in record.members and record.phase in (VOTED, COMMITTED, RUNNING):
        if said.phase in (ENDED, GONE) or (same and taken_part(said.phase)):
            _confirm(turn, one, view, said)
        elif _says_left(one, said):
            _member_out(turn, one, said.sender, "it has left")
    if said.asked_us != NEVER:
        one.answer = said  # at the end of the step: an attempt that begins with it is part of the answer
    answers = said.answers_epoch == turn.state.epoch and said.answers_us >= one.asking_since_us != NEVER
    if answers and said.phase not in (RESERVING, VOTED, COMMITTED):
        view.answered = True


def _says_left(one: GroupState, said: peer.Status) -> bool:
    """Whether a mate is not, or no longer, in our attempt. While votes are open, only the coordinator can end it."""
    record = one.record
    if record.phase == VOTED and said.sender != record.coordinator:
        return False
    idle = said.phase in (IDLE, READY) and said.coordinator == record.coordinator
    return said.attempt > record.attempt or (idle and said.attempt == record.attempt)


def _confirm(turn: Turn, one: GroupState, view: MateView, said: peer.Status) -> None:
    """Record that a mate is part of our attempt; if it answers our question, this was so after we asked."""
    if said.phase in (ENDED, GONE):
        view.over = True
    elif said.answers_us != NEVER and said.answers_epoch == turn.state.epoch and said.answers_us <= turn.now_us:
        view.bound_us = max(view.bound_us, said.answers_us)
        if said.phase in (RUNNING, FREE):
            view.ran_us = max(view.ran_us, said.answers_us)
    if one.record.phase == RUNNING:
        _renew(turn, one)


def _renew(turn: Turn, one: GroupState) -> None:
    """Extend the fuse as far as the answers allow, unless it has burnt."""
    fuse = FOREVER if _watched_enough(turn, one) else fuse_us(turn, one)
    if turn.now_us < one.record.fuse_us < fuse:
        one.record.fuse_us = fuse
        if fuse == FOREVER:
            one.record.phase = FREE
        turn.order(Renew, one, fuse_us=fuse)


def _watched_enough(turn: Turn, one: GroupState) -> bool:
    """Whether every mate is known to have run with us for as long as the terms ask."""
    terms, own = one.group.terms, one.group.offset_us(turn.domain)
    if terms.watch_us == WHOLE_RUN:
        return False
    last = max(one.group.offset_us(domain) for domain in one.record.members)
    edge = one.record.start_at_us + last - own + terms.watch_us
    views = [one.views[domain] for domain in turn.others(one)]
    return all(view.over or view.ran_us >= edge for view in views)


def go_on(turn: Turn, one: GroupState) -> None:
    """Do what is due in an attempt: start, stop, ask."""
    record, terms, now = one.record, one.group.terms, turn.now_us
    if record.phase in (RESERVING, VOTED) and now >= record.lease_end_us:
        leave(turn, one, "the lease is over")
    elif record.phase == COMMITTED and now > record.start_at_us + terms.late_us:
        leave(turn, one, "its instant has passed")
    elif record.phase == COMMITTED and now >= record.start_at_us and not one.nodes_unsure:
        _start(turn, one)
    elif record.phase == RUNNING and now >= record.fuse_us:
        leave(turn, one, "its mates were not heard within the lease")
    if record.phase in (VOTED, COMMITTED, RUNNING) and one.draft is None and now >= one.ask_us:
        _ask(turn, one)


def _start(turn: Turn, one: GroupState) -> None:
    record = one.record
    record.fuse_us = fuse_us(turn, one)
    record.phase = FREE if record.fuse_us == FOREVER else RUNNING  # free: it may run alone, or it has no mates left
    turn.order(StartMate, one, fuse_us=record.fuse_us)
    one.failures = 0
    for domain in turn.others(one):
        turn.send(peer.Started, one, domain, attempt=record.attempt, coordinator=record.coordinator)
    one.ask_us = turn.now_us


def _ask(turn: Turn, one: GroupState) -> None:
    """Ask the mates for their status: before the start for the decision, afterwards whether they still run."""
    one.ask_us = turn.now_us + one.group.terms.ask_us
    for domain in turn.others(one):
        if one.record.phase == COMMITTED and domain in one.record.starts_us:
            tell_decision(turn, one, domain)
        tell_status(turn, one, domain, ask=True)


def hear_started(turn: Turn, one: GroupState, begun: peer.Started) -> None:
    """Ask a mate that has started for its status at once, since only an answer extends the fuse."""
    same = (begun.attempt, begun.coordinator) == (one.record.attempt, one.record.coordinator)
    if same and one.record.phase == RUNNING and begun.sender in one.record.members:
        tell_status(turn, one, begun.sender, ask=True)
    elif not same or one.record.phase == IDLE:
        tell_status(turn, one, begun.sender, ask=False)  # tell it that we are not in its attempt


def bring_back(turn: Turn, one: GroupState, same_clock: bool) -> None:
    """After a crash, repeat orders that may have been lost, and leave what cannot be kept. A start is not repeated: its
    nodes may belong to another job by now, so a run the executor does not know of counts as not started."""
    record = one.record
    if record.phase in (RESERVING, VOTED, COMMITTED, RUNNING) and not same_clock:
        leave(turn, one, "the clock of its leases is lost")
    elif record.phase == RESERVING or (record.phase == VOTED and record.coordinator == turn.domain):
        leave(turn, one, "its controller was restarted")
    elif record.phase in (VOTED, COMMITTED):
        one.nodes_unsure = True
        turn.order(Reserve, one, until_us=record.lease_end_us)
    elif record.phase in (RUNNING, FREE) and turn.now_us < record.fuse_us:
        turn.order(Renew, one, fuse_us=record.fuse_us)  # the executor reports whether it ever began and still runs
    elif record.phase in (IDLE, GONE) and record.attempt:
        turn.order(StopMate, one, reason="its controller was restarted")
    if record.phase == GONE:
        turn.order(FailMate, one, reason="it was withdrawn, or its mate was dead, before its controller was restarted")
    one.ask_us = one.ready_since_us = turn.now_us
