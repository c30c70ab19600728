"""Lead an attempt: reserve here, ask every mate to reserve, and decide once all have voted yes.

The first of the participating domains, in the order of the group, leads. The decision is in the record, and so
durable, before any other domain hears of it. A coordinator that crashed before deciding has decided nothing: the
attempt counts as aborted.
"""

from __future__ import annotations

from cohabit.core.mates.state import Ballot, Draft, FailMate, GroupState, Reserve
from cohabit.core.mates.turn import Turn, enter, leave, tell_status
from cohabit.model import peer
from cohabit.model.group import START_ALONE, WAIT
from cohabit.model.peer import COMMITTED, ENDED, FREE, GONE, IDLE, READY, RUNNING, UNSUBMITTED, VOTED
from cohabit.model.units import FOREVER


def required(turn: Turn, one: GroupState) -> tuple[str, ...]:
    """Return the domains that must start together now: this side and every mate that still can and is not given up."""
    return tuple(domain for domain in one.group.domains() if domain == turn.domain or not _out_of_it(turn, one, domain))


def leads(turn: Turn, one: GroupState) -> bool:
    """Return whether this side coordinates: the first domain of the group that takes part does."""
    return required(turn, one)[0] == turn.domain


def _out_of_it(turn: Turn, one: GroupState, domain: str) -> bool:
    """Whether a mate has had its run, will never have one, runs without this side, or is given up as dead."""
    given_up = one.group.terms.when_dead == START_ALONE and silent(turn, one, domain)
    return given_up or one.views[domain].phase in (ENDED, GONE, FREE)


def silent(turn: Turn, one: GroupState, domain: str) -> bool:
    """Whether a mate this side waits for has not been heard from, or not been submitted, for too long."""
    if not one.ready:
        return False
    return turn.now_us >= silent_from(one, domain)


def silent_from(one: GroupState, domain: str) -> int:
    """Return from when a mate counts as dead, if it is not heard until then."""
    view, terms = one.views[domain], one.group.terms
    absent = one.ready_since_us + terms.absent_after_us if view.phase == UNSUBMITTED else FOREVER
    return min(absent, max(view.heard_us, one.ready_since_us) + terms.dead_after_us)


def given_up_from(one: GroupState, domain: str) -> int:
    """Return from when a job fails because its mate is dead; infinity if it then starts alone."""
    terms = one.group.terms
    if terms.when_dead == START_ALONE or one.views[domain].phase in (ENDED, GONE, FREE):
        return FOREVER
    return silent_from(one, domain) + (terms.give_up_us if terms.when_dead == WAIT else 0)


def wait_or_begin(turn: Turn, one: GroupState) -> None:
    """Between attempts: ask the mates for their status, give up dead ones, begin an attempt if this side leads it."""
    dead = [domain for domain in turn.mates(one) if one.ready and turn.now_us >= given_up_from(one, domain)]
    if dead:
        fail(turn, one, f"nothing was heard of its mate in domain {dead[0]}")
        return
    members = required(turn, one)
    if members[0] == turn.domain and turn.now_us >= one.try_us and _wanted(turn, one, members):
        offset_us = one.group.offset_us(turn.domain) - _first_offset_us(one, members)
        number = max(one.record.attempt, *(view.attempt for view in one.views.values())) + 1
        enter(turn, one, number, turn.domain, members, one.group.terms.lease_us + offset_us)
        one.ask_us = turn.now_us + one.group.terms.ask_us
        wanted = any(one.views[domain].wants_estimate for domain in turn.others(one))
        turn.order(Reserve, one, until_us=one.record.lease_end_us, estimate=wanted)
    elif one.ready and turn.now_us >= one.ask_us:
        one.ask_us = turn.now_us + one.group.terms.ask_us
        for domain in turn.mates(one):
            tell_status(turn, one, domain, ask=True)


def all_known(turn: Turn, one: GroupState) -> bool:
    """Return whether no answer is missing: all mates have answered, or this side leads and knows where they stand, so
    that it has just tried."""
    leading = leads(turn, one)
    there = [one.views[domain] for domain in required(turn, one) if domain != turn.domain]
    return all(view.answered or (leading and view.phase != UNSUBMITTED) for view in there)


def _wanted(turn: Turn, one: GroupState, members: tuple[str, ...]) -> bool:
    """Whether at least one member is ready, and all mates are idle or ready."""
    phases = [one.views[domain].phase for domain in members if domain != turn.domain]
    return (one.ready or READY in phases) and all(phase in (IDLE, READY) for phase in phases)


def waits_until(turn: Turn, one: GroupState) -> int:
    """Return when wait_or_begin must be called again without a new event."""
    due = [one.ask_us] if one.ready else []
    for domain in turn.mates(one) if one.ready else ():
        due += [silent_from(one, domain), given_up_from(one, domain)]
    members = required(turn, one)
    if members[0] == turn.domain and _wanted(turn, one, members):
        due.append(one.try_us)
    return min((instant for instant in due if instant > turn.now_us), default=FOREVER)


def fail(turn: Turn, one: GroupState, reason: str) -> None:
    """Fail the job, which will never run, and tell the mates."""
    turn.order(FailMate, one, reason=reason)
    one.record.phase, one.ready = GONE, False
    for domain in turn.mates(one):
        turn.send(peer.Announce, one, domain, job=one.group.job(turn.domain), withdrawn=True)


def reserved_here(turn: Turn, one: GroupState) -> None:
    """Note that the nodes of this side are reserved: ask the others, or start at once if there are none."""
    one.record.phase, one.draft = VOTED, Draft()
    if turn.others(one):
        ask_votes(turn, one)
    else:
        decide(turn, one)


def ask_votes(turn: Turn, one: GroupState) -> None:
    """Ask every member whose yes is missing, or came too slowly to compare clocks."""
    assert one.draft is not None
    terms, record = one.group.terms, one.record
    one.draft.send_us = turn.now_us + terms.ask_us
    first = _first_offset_us(one, record.members)
    for domain in turn.others(one):
        if domain not in one.draft.ballots:
            lease_us = terms.lease_us + one.group.offset_us(domain) - first
            about = {"attempt": record.attempt, "members": record.members, "terms": one.group.digest}
            asked = {"asked_us": turn.now_us, "wants_estimate": one.wants_estimate}
            turn.send(peer.Prepare, one, domain, **about, **asked, lease_us=lease_us)


def hear_vote(turn: Turn, one: GroupState, vote: peer.Vote) -> None:
    """Count a vote; decide with the last yes, give up with the first no."""
    record, draft = one.record, one.draft
    if draft is None or (vote.attempt, vote.coordinator) != (record.attempt, record.coordinator):
        if vote.coordinator == turn.domain and vote.yes and not _decided(turn, one, vote.attempt):
            say_aborted(turn, one, vote.sender, vote.attempt)
        return
    if vote.sender not in record.members:
        turn.refuse(f"{vote.sender} was not asked for a vote")
        return
    if not vote.yes:
        view = one.views[vote.sender]
        view.attempt = max(view.attempt, vote.promised)
        view.phase = view.phase if view.phase in (ENDED, GONE, FREE) else IDLE
        leave(turn, one, f"{vote.sender} cannot: {vote.reason}", knows=vote.sender)
        return
    if vote.answers_epoch != turn.state.epoch or not 0 <= vote.answers_us <= turn.now_us:
        turn.refuse("a vote answers a question never asked")
        return
    here, there = (vote.answers_us + turn.now_us) // 2, (vote.heard_us + vote.sent_us) // 2
    round_trip_us = (turn.now_us - vote.answers_us) - (vote.sent_us - vote.heard_us)
    if round_trip_us <= one.group.terms.round_trip_us or one.group.terms.common_clock:
        draft.ballots[vote.sender] = Ballot(here, there, round_trip_us, vote.lease_end_us)
    if len(draft.ballots) == len(turn.others(one)):
        decide(turn, one)


def decide(turn: Turn, one: GroupState) -> None:
    """Fix the start, since all have voted yes, unless a lease would be over by then."""
    assert one.draft is not None
    terms, record = one.group.terms, one.record
    first = _first_offset_us(one, record.members)
    start_us = turn.now_us + (terms.lead_us if turn.others(one) else 0)
    own_us = start_us + one.group.offset_us(turn.domain) - first
    starts: dict[str, int] = {}
    fits = own_us + terms.late_us <= record.lease_end_us
    for domain, ballot in one.draft.ballots.items():
        theirs = 0 if terms.common_clock else ballot.there_us - ballot.here_us
        starts[domain] = start_us + one.group.offset_us(domain) - first + theirs
        fits = fits and starts[domain] + terms.late_us <= ballot.lease_end_us
    if not fits:
        leave(turn, one, "the votes came too late for the lease")
        return
    one.draft = None
    record.phase, record.start_at_us, record.starts_us = COMMITTED, own_us, starts
    for domain in starts:
        tell_decision(turn, one, domain)


def tell_decision(turn: Turn, one: GroupState, domain: str) -> None:
    """Repeat the decision to a member."""
    turn.send(peer.Commit, one, domain, attempt=one.record.attempt, start_at_us=one.record.starts_us[domain])


def answer_voter(turn: Turn, one: GroupState, voter: str, attempt: int) -> None:
    """Answer a member that asks after its vote: the attempt is decided, still open, or, if unknown here, over."""
    if _decided(turn, one, attempt) and voter in one.record.starts_us:
        tell_decision(turn, one, voter)
    elif one.draft is None or one.record.attempt != attempt:
        say_aborted(turn, one, voter, attempt)


def _decided(turn: Turn, one: GroupState, attempt: int) -> bool:
    record = one.record
    decided = record.phase in (COMMITTED, RUNNING, FREE)
    return decided and record.attempt == attempt and record.coordinator == turn.domain


def say_aborted(turn: Turn, one: GroupState, receiver: str, attempt: int) -> None:
    """Tell a domain that this attempt is aborted."""
    reason = "its coordinator does not go on with it"
    turn.send(peer.Abort, one, receiver, attempt=attempt, coordinator=turn.domain, reason=reason)


def _first_offset_us(one: GroupState, members: tuple[str, ...]) -> int:
    return min(one.group.offset_us(domain) for domain in members)
