"""The link between scheduling pass and protocol: a job with mates elsewhere that has found nodes does not just start.

It keeps the nodes while its mates are asked (docs/coscheduling.md). If they are ready, the protocol starts all of them
at one instant; if not, the domain's scheme says whether it holds the nodes, yields its turn until something happens
here, or agrees on a later start. No decision about other jobs is made here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cohabit.core import windows
from cohabit.core.columns import BLOCKED, HEAD, HOLDING, NODES, QUEUED, RELEASED, RUNNING, STARTING, STATE
from cohabit.core.leaving import leave_nodes
from cohabit.core.mates import agreeing, protocol, schemes, standing
from cohabit.core.mates.local import CoupledState, MateJob
from cohabit.core.mates.state import (
    Ended,
    Expects,
    FailMate,
    Heard,
    Inform,
    Input,
    Joined,
    MatesExpect,
    MatesState,
    NotNow,
    Order,
    Ready,
    Recovered,
    Release,
    Renew,
    Reserve,
    Reserved,
    StartFailed,
    StartMate,
    StopMate,
    Tick,
    Withdrawn,
)
from cohabit.core.state import State
from cohabit.model.command import HoldJob, ReleaseJob, RenewJob, StopJob, TellPeer
from cohabit.model.event import SchemeChanged
from cohabit.model.job import Job
from cohabit.model.peer import ENDED, FREE, GONE, NEVER, Message
from cohabit.model.peer import RUNNING as RUNNING_TOGETHER
from cohabit.model.scheme import AGREE, HOLD, IGNORE, RELEASE
from cohabit.model.units import FOREVER, SECOND

if TYPE_CHECKING:
    from cohabit.core.apply import Applier
    from cohabit.core.protocols import Coupling

MOST_REFUSALS_KEPT = 20
SERVE_AGAIN_AFTER_US = 60 * SECOND  # the served group may not start for other reasons: do not release in vain for ever


class Desk:
    """One domain's jobs with mates."""

    def __init__(self, state: State, applier: Applier, coupling: Coupling) -> None:
        self.state, self.applier = state, applier
        if state.coupled is None:
            coupling.scheme.check()
            protocol_state = MatesState(coupling.domain, peers=coupling.peers)
            state.coupled = CoupledState(coupling.scheme, coupling.rank, protocol_state, file_scheme=coupling.scheme)
        self.start: Callable[[int, int, int], None] = _not_set  # set by the core

    @property
    def about(self) -> CoupledState:
        """The state of this domain's jobs with mates."""
        assert self.state.coupled is not None
        return self.state.coupled

    # ---- events -----------------------------------------------------------------------------------------------------

    def submitted(self, now_us: int, job: Job) -> None:
        """Register a new job with mates."""
        assert job.mates is not None
        self.about.jobs[job.job_id] = MateJob(job.mates.name)
        self.tell(now_us, Joined(job.mates))

    def heard(self, now_us: int, message: Message) -> None:
        """Handle a message from another domain."""
        self.about.forget_refusal(message.group)
        self.tell(now_us, Heard(message))
        self._look_for_deadlock()

    def recovered(self, now_us: int, same_clock: bool) -> None:
        """Handle a restart of the controller."""
        self.tell(now_us, Recovered(same_clock))

    def switch(self, now_us: int, changed: SchemeChanged) -> None:
        """Use another scheme from now on, for all jobs or for one; release holds that it would not make."""
        scheme, only = changed.scheme, changed.job_id
        scheme.check()
        if changed.from_file:
            self.about.file_scheme = scheme
        if only and only not in self.about.jobs:
            return
        if only:
            self.about.jobs[only].scheme = scheme
        else:
            self.about.scheme = scheme
        for name, job in list(self.about.jobs.items()):
            row = self.state.rows.get(name, -1)
            if only not in ("", name) or row < 0 or self.state.jobs[STATE, row] not in (HOLDING, QUEUED, BLOCKED):
                continue
            if self.state.jobs[STATE, row] == HOLDING and not job.attempt:
                self._give_back(now_us, row, "the scheme was changed")
                self.tell(now_us, Ready(job.group, False))
            if self.state.jobs[STATE, row] == BLOCKED:
                self._back_to_queue(now_us, name)

    def started(self, now_us: int, job_id: str) -> None:
        """Take a job out of its group that has started without its mates, because coscheduling is off for it."""
        job = self.about.jobs.get(job_id)
        if job is not None and self.about.phase_of(job) not in (RUNNING_TOGETHER, FREE, ENDED, GONE):
            self.tell(now_us, Withdrawn(job.group))

    def finished(self, now_us: int, job_id: str, requeued: bool) -> None:
        """Handle the end of a run, final or to be repeated."""
        job = self.about.jobs.get(job_id)
        if job is not None:
            self.tell(now_us, Ended(job.group, job.run, burnt=requeued), Ready(job.group, False))
            if not requeued:
                self._forget_ended(now_us)

    def withdrawn(self, now_us: int, job_id: str) -> None:
        """Handle a job that will never run."""
        job = self.about.jobs.pop(job_id, None)
        self.about.aside.pop(job_id, None)
        if job is not None and self.about.phase_of(job) not in (ENDED, GONE):
            self.tell(now_us, Withdrawn(job.group))

    def start_refused(self, now_us: int, job_id: str, reason: str) -> None:
        """Handle a start that the back end refused."""
        job = self.about.jobs.get(job_id)
        if job is not None:
            self.tell(now_us, StartFailed(job.group, job.run, reason), Ready(job.group, False))

    def lost_nodes(self, now_us: int, row: int, reason: str) -> None:
        """Put a job back into the queue: its kept nodes are lost, or its owner does not want it to start like this."""
        job = self.about.jobs[self.state.spec(row).job_id]
        attempt, job.attempt = job.attempt, 0
        self._give_back(now_us, row, reason)
        self._back_to_queue(now_us, self.state.spec(row).job_id)
        self.tell(now_us, Ready(job.group, False))
        if attempt:
            self.tell(now_us, Reserved(job.group, attempt, False, reason))

    # ---- around a pass ----------------------------------------------------------------------------------------------

    def before(self, now_us: int, local: bool, woken: bool) -> bool:
        """Put jobs that wait for a local event back into the queue; True if a pass is due for it."""
        about, due = self.about, False
        if about.asking and (now_us > about.asking_us or woken or not self._is_asking(about.asking)):
            about.asking, due = "", True
        if self.about.protocol.due_us <= now_us:
            self.tell(now_us, Tick())
        released = self._release_holds(now_us)
        about.repeats = {} if local else about.repeats
        for name in list(about.aside):
            job = about.jobs[name]
            over = job.yielded_us != NEVER and job.agreed_us == NEVER
            if over and ((local and job.yielded_us < now_us) or about.retry_us(job) <= now_us):
                about.repeats |= {} if local else {name: True}
                self._back_to_queue(now_us, name)
                due = True
        for name, job in about.agreed:
            if job.agreed_due_us <= now_us:
                self._want(name, 0)
            elif local and self.state.jobs[NODES, self.state.rows[name]] <= self.state.idle_count:
                about.early = list(dict.fromkeys([*about.early, name]))
        return due or released

    def refresh_holds(self, now_us: int) -> None:
        """Set the expected ends of kept nodes for backfilling, as if their jobs began now."""
        for row in standing.holding(self.state, self.about):
            self.state.expect_end(row, now_us)

    def chosen(self, now_us: int, row: int) -> None:
        """Keep the nodes that a pass has found for a job with mates, and ask the mates unless that is in vain."""
        if self.yields_unasked(now_us, row):
            return
        self._keep(now_us, row)
        about, job_id = self.about, self.state.spec(row).job_id
        self.tell(now_us, Ready(about.jobs[job_id].group, True, about.scheme_of(job_id).wants_estimates))
        if self._is_asking(job_id):
            about.asking, about.asking_us = job_id, now_us

    def yields_unasked(self, now_us: int, row: int) -> bool:
        """Yield the nodes of a job whose mates have just said no, if its scheme does so; return whether it did."""
        about, job_id = self.about, self.state.spec(row).job_id
        known = about.refusal_is_known(about.jobs[job_id], now_us, about.scheme_of(job_id).wants_estimates)
        if not known or standing.hold_or_yield(self.state, about, now_us, row) == HOLD:
            return False
        self._keep(now_us, row)
        self._not_together(now_us, row)
        return True

    def reserved(self, now_us: int, name: str, attempt: int, done: bool) -> None:
        """Take the answer to a request for nodes for this job, for an attempt or to begin one (0)."""
        job, row = self.about.jobs[name], self.state.rows[name]
        if done and not attempt:
            self.chosen(now_us, row)
        elif done:
            self._keep(now_us, row)
            job.attempt = attempt
            self.tell(now_us, Reserved(job.group, attempt, True))
        else:
            waits = self.state.jobs[STATE, row] == BLOCKED
            not_before_us = now_us if self.state.ledger is None else job.agreed_us  # on shared nodes it stays
            estimate_us = self._plan_for(now_us, name, not_before_us) if waits else NEVER
            if attempt:
                self.tell(now_us, Reserved(job.group, attempt, False, "it finds no nodes now", estimate_us))
            elif estimate_us > 0:
                self.tell(now_us, Expects(job.group, estimate_us))

    def after(self, now_us: int) -> int:
        """Return when the core must be called again without a new event."""
        about = self.about
        self._tell_standing(now_us)
        due = [self.about.protocol.due_us, about.pass_wake_us, self._next_release_us(now_us)]
        due += [about.retry_us(about.jobs[name]) for name in about.aside]
        due += [job.agreed_due_us for _, job in about.agreed]
        return now_us if about.asking else max(min(due), now_us + 1)

    # ---- what the protocol orders -----------------------------------------------------------------------------------

    def tell(self, now_us: int, *told: Input) -> None:
        """Process inputs and the orders that follow from them."""
        waiting, about = list(told), self.about
        if about.scheme.on_deadlock != IGNORE:
            about.protocol.standing = standing.own_standing(self.state, about)
        while waiting:
            outcome = protocol.step(about.protocol, now_us, waiting.pop(0))
            for order in outcome.orders:
                waiting += self._obey(now_us, order)
            self.applier.commands += [TellPeer(message.receiver, message) for message in outcome.messages]
            about.refused = [*about.refused, *outcome.refused][-MOST_REFUSALS_KEPT:]

    def _obey(self, now_us: int, order: Order) -> list[Input]:
        name, row = order.job, self.state.rows.get(order.job, -1)
        job = self.about.jobs.get(name)
        if row < 0 or job is None:
            return [Reserved(order.group, order.attempt, False, "no such job")] if isinstance(order, Reserve) else []
        holds = self.state.jobs[STATE, row] == HOLDING
        match order:
            case Reserve():
                return self._reserve(now_us, order, job, row)
            case NotNow() if holds and not job.attempt:
                job.refused_us = now_us
                return self._not_together(now_us, row)
            case Release() if holds and job.attempt <= order.attempt:
                job.attempt, job.refused_us = 0, now_us
                return self._not_together(now_us, row)
            case MatesExpect(at_us=at_us):
                job.mates_expect_us = at_us
                if not holds and self.about.scheme_of(name).scheme == AGREE:
                    return self._expects(now_us, name, max(at_us, now_us))
            case StartMate():
                if not holds or windows.closing(self.state, row, now_us):
                    return [StartFailed(order.group, order.attempt, "its nodes are gone, or are about to close")]
                job.run, job.attempt, job.agreed_us, job.yielded_us = order.attempt, 0, NEVER, NEVER
                self.about.aside.pop(name, None)
                self.start(now_us, row, order.fuse_us)
            case Renew():
                attempt = self.state.attempts.get(name, 0)
                self.applier.commands.append(RenewJob(name, attempt, order.fuse_us))
            case StopMate():
                self._stop(now_us, row, order.reason)
            case FailMate():
                if holds:
                    self._give_back(now_us, row, order.reason)
                self.applier.cancel(now_us, name, order.reason)
        return []

    def _reserve(self, now_us: int, order: Reserve, job: MateJob, row: int) -> list[Input]:
        where = self.state.jobs[STATE, row]
        if where == HOLDING:
            job.attempt = order.attempt
            return [Reserved(order.group, order.attempt, True)]
        if where == BLOCKED and (job.yielded_us != NEVER or job.agreed_us != NEVER):
            self._want(order.job, order.attempt)  # it was its turn a moment ago, or it has a reservation
            return []
        plans = where == QUEUED and (order.estimate or self.about.scheme_of(order.job).scheme == AGREE)
        estimate_us = self._plan_for(now_us, order.job, now_us) if plans else NEVER
        return [Reserved(order.group, order.attempt, False, "it is not its turn", estimate_us)]

    def _want(self, name: str, attempt: int) -> None:
        known = dict(self.about.wanted)
        self.about.wanted = list((known | {name: max(attempt, known.get(name, 0))}).items())

    def _not_together(self, now_us: int, row: int) -> list[Input]:
        """Hold, yield, or yield with a reservation, because the mates cannot start now."""
        name, about = self.state.spec(row).job_id, self.about
        job, scheme = about.jobs[name], about.scheme_of(name)
        if standing.hold_or_yield(self.state, about, now_us, row) == HOLD:
            job.first_hold_us = now_us if job.first_hold_us == NEVER else job.first_hold_us
            self._look_for_deadlock()
            return []
        self._give_back(now_us, row, "its mates are not ready")
        job.yields += name not in about.repeats
        told: list[Input] = [Ready(job.group, False)]
        if scheme.scheme == AGREE and job.mates_expect_us != NEVER:
            told += self._expects(now_us, name, max(job.mates_expect_us, now_us))
        return told

    def _stop(self, now_us: int, row: int, reason: str) -> None:
        """Stop the job in this attempt; it waits in the queue."""
        job_id, where = self.state.spec(row).job_id, self.state.jobs[STATE, row]
        if where == HOLDING:
            self._give_back(now_us, row, reason)
            self._back_to_queue(now_us, job_id)
        elif where in (STARTING, RUNNING):
            self.applier.commands.append(StopJob(job_id, self.state.attempts.get(job_id, 0), reason))

    # ---- nodes kept and given back ----------------------------------------------------------------------------------

    def _keep(self, now_us: int, row: int) -> None:
        job_id, state = self.state.spec(row).job_id, self.state
        job = self.about.jobs[job_id]
        job.first_chosen_us = now_us if job.first_chosen_us == NEVER else job.first_chosen_us
        job.yielded_us = job.agreed_us = NEVER
        state.jobs[STATE, row] = HOLDING
        self.about.aside[job_id] = True
        until_us = self._next_release_us(now_us, at_least=now_us)
        self.applier.commands.append(HoldJob(job_id, state.ranges_of(row), until_us))

    def _give_back(self, now_us: int, row: int, reason: str) -> None:
        """Free the nodes kept for the job; it stays out of the queue for now."""
        job_id = self.state.spec(row).job_id
        leave_nodes(self.state, now_us, row)
        self.state.jobs[STATE, row] = BLOCKED
        self.about.jobs[job_id].yielded_us = now_us
        self.state.gauges[HEAD], self.state.gauges[RELEASED] = -1, 1
        self.applier.commands.append(ReleaseJob(job_id, reason))

    def _back_to_queue(self, now_us: int, name: str) -> None:
        job = self.about.jobs[name]
        job.yielded_us = job.agreed_us = NEVER
        self.about.aside.pop(name, None)
        self.state.withdraw_promise(self.state.rows[name])
        self.applier.enter_queue(now_us, self.state.rows[name])

    def _release_holds(self, now_us: int) -> bool:
        """Release holds that are old enough, once per period, and those that end a deadlock. Their jobs go behind all
        others for one pass."""
        about, scheme = self.about, self.about.scheme
        since = {name: about.jobs[name].first_hold_us for name in about.aside if self._holds_freely(name)}
        released, early = [], []
        if about.served and (about.served_us == NEVER or now_us - about.served_us >= SERVE_AGAIN_AFTER_US):
            early = standing.holds_in_the_way(self.state, about.served, list(since))
            about.served_us = now_us if early else about.served_us
        if schemes.next_release_us(scheme, about.rank, about.released_us) <= now_us:  # a live clock is never exact
            about.released_us = now_us
            released = schemes.released(scheme, since, now_us)
        for name in dict.fromkeys([*released, *early]):
            reason = (
                "nodes held for mates are released at intervals" if name in released else f"deadlock: {about.deadlock}"
            )
            self._give_back(now_us, self.state.rows[name], reason)
            self.tell(now_us, Ready(about.jobs[name].group, False))
            about.last.append(name)
        wanted = standing.wanted_elsewhere(self.state, about) if about.last else []
        for name in sorted(wanted, key=lambda one: about.jobs[one].group != about.served):
            self._want(name, 0)
        about.served = ""
        return bool(about.last)

    def _look_for_deadlock(self) -> None:
        about = self.about
        if about.scheme.on_deadlock != IGNORE and (about.protocol.standings or about.deadlock):
            standing.look_for_deadlock(self.state, about)
            about.served = min(about.deadlocked, default="") if about.scheme.on_deadlock == RELEASE else ""

    def _tell_standing(self, now_us: int) -> None:
        """Tell the mates of a new standing in which one group holds nodes and another waits, as in every deadlock."""
        about = self.about
        own = None if about.scheme.on_deadlock == IGNORE else standing.own_standing(self.state, about)
        if own is not None and own != about.told and len({one.holds for one in own.groups}) == 2:
            about.told = own
            groups = [one.group for one in own.groups if one.group in about.protocol.groups]
            self.tell(now_us, *(Inform(group) for group in groups))

    def let_last_in(self, now_us: int) -> bool:
        """Enqueue the jobs whose holds were released, after the pass for all other jobs; True if there are any."""
        last, self.about.last = self.about.last, []
        for name in last:
            if name in self.state.rows and self.about.jobs[name].yielded_us != NEVER:
                self._back_to_queue(now_us, name)
        return bool(last)

    def _holds_freely(self, name: str) -> bool:
        row, job = self.state.rows.get(name, -1), self.about.jobs[name]
        return row >= 0 and self.state.jobs[STATE, row] == HOLDING and not job.attempt and job.first_hold_us != NEVER

    def _next_release_us(self, now_us: int, at_least: int = NEVER) -> int:
        if at_least == NEVER and not standing.holding(self.state, self.about):
            return FOREVER
        return schemes.next_release_us(self.about.scheme, self.about.rank, now_us)

    # ---- a common later start ---------------------------------------------------------------------------------------

    def _plan_for(self, now_us: int, name: str, not_before_us: int) -> int:
        """Return how long until the job could start; if the scheme is to agree, reserve nodes for it then."""
        row, job = self.state.rows[name], self.about.jobs[name]
        agrees = self.about.scheme_of(name).scheme == AGREE
        if not agrees and self.state.jobs[STATE, row] != QUEUED:
            return NEVER
        found = agreeing.earliest(self.state, self.applier.policies, now_us, row, max(not_before_us, now_us))
        if found is not None and agrees:
            if self.state.jobs[STATE, row] == QUEUED:
                self.applier.leave_queue(row)
            if found.promise is not None:
                self.state.promise(found.promise)
            job.agreed_us, job.agreed_kinds, job.yielded_us = found.start_us, found.kinds, now_us
            self.about.aside[name] = True
        return NEVER if found is None else found.start_us - now_us

    def _expects(self, now_us: int, name: str, at_us: int) -> list[Input]:
        """Reserve nodes from the instant at which the mates could start; tell them if it takes longer here."""
        row, job = self.state.rows[name], self.about.jobs[name]
        if self.state.jobs[STATE, row] not in (QUEUED, BLOCKED) or job.agreed_us >= at_us:
            return []  # each exchange moves the start later, so the exchanges end
        own_us = self._plan_for(now_us, name, at_us)
        return [Expects(job.group, own_us)] if own_us != NEVER and now_us + own_us > at_us else []

    # ---- small questions --------------------------------------------------------------------------------------------

    def _is_asking(self, name: str) -> bool:
        job, row = self.about.jobs.get(name), self.state.rows.get(name, -1)
        if job is None or row < 0 or self.state.jobs[STATE, row] != HOLDING:
            return False
        return bool(job.attempt) or self.about.protocol.groups[job.group].asking_since_us != NEVER

    def _forget_ended(self, now_us: int) -> None:
        """Drop groups whose members have all ended: they need no more messages."""
        about = self.about
        for name, one in list(about.protocol.groups.items()):
            if one.record.phase in (ENDED, GONE) and all(v.phase in (ENDED, GONE) for v in one.views.values()):
                protocol.forget(about.protocol, name)
        known = about.protocol.groups
        about.jobs = {name: job for name, job in about.jobs.items() if job.group in known}


def _not_set(now_us: int, row: int, fuse_us: int) -> None:
    raise AssertionError("the core has not said how to start a job")
