"""The link between scheduling pass and protocol: a job with mates elsewhere that has found nodes does not just start.

It keeps the nodes while its mates are asked (docs/coscheduling.md). If they are ready, the protocol starts all of them
at one instant; if not, the domain's scheme says whether it holds the nodes, yields its turn until something happens
here, or agrees on a later start. No decision about other jobs is made here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cohabit.core.columns import BLOCKED, HEAD, HOLDING, NODES, QUEUED, RELEASED, RUNNING, STARTING, STATE
from cohabit.core.leaving import leave_nodes
from cohabit.core.mates import agreeing, protocol, schemes
from cohabit.core.mates.local import CoupledState, MateJob
from cohabit.core.mates.state import (
    Ended,
    Expects,
    FailMate,
    Heard,
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
from cohabit.model.job import Job
from cohabit.model.peer import ENDED, GONE, IDLE, NEVER, READY, Message
from cohabit.model.scheme import AGREE, HOLD, Scheme
from cohabit.model.units import FOREVER, SECOND

if TYPE_CHECKING:
    from cohabit.core.apply import Applier
    from cohabit.core.protocols import Coupling
    from cohabit.core.protocols import Order as QueueOrder

MOST_REFUSALS_KEPT = 20


class Desk:
    """One domain's jobs with mates."""

    def __init__(self, state: State, applier: Applier, coupling: Coupling, order: QueueOrder) -> None:
        self.state, self.applier, self.order = state, applier, order
        if state.coupled is None:
            coupling.scheme.check()
            state.coupled = CoupledState(
                coupling.scheme, coupling.rank, MatesState(coupling.domain, peers=coupling.peers)
            )
        self.start: Callable[[int, int, int], None] = _nobody_starts  # set by the core

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

    def what_is_wrong(self, job: Job) -> str:
        """Return why a job cannot have the mates it names; empty if it can."""
        domain, group = self.about.protocol.domain, job.mates
        if group is None:
            return ""
        if domain not in group.domains():
            return f"its group {group.name} has no member in domain {domain}"
        if group.job(domain) != job.job_id:
            return f"its group {group.name} names job {group.job(domain)} in domain {domain}"
        unknown = [other for other in group.domains() if other not in (domain, *self.about.protocol.peers)]
        if unknown and self.about.protocol.peers:
            return f"its group {group.name} names the unknown domain {unknown[0]}"
        if group.name in self.about.protocol.groups:
            return f"group {group.name} is already here"
        return ""

    def heard(self, now_us: int, message: Message) -> None:
        """Handle a message from another domain."""
        self.tell(now_us, Heard(message))

    def recovered(self, now_us: int, same_clock: bool) -> None:
        """Handle a restart of the controller."""
        self.tell(now_us, Recovered(same_clock))

    def switch(self, now_us: int, scheme: Scheme) -> None:
        """Use another scheme from now on; release holds that it would not make."""
        scheme.check()
        self.about.scheme = scheme
        for name, job in list(self.about.jobs.items()):
            row = self.state.rows.get(name, -1)
            if row < 0 or self.state.jobs[STATE, row] not in (HOLDING, QUEUED, BLOCKED):
                continue
            if self.state.jobs[STATE, row] == HOLDING and not job.attempt:
                self._give_back(now_us, row, "the scheme was changed")
                self.tell(now_us, Ready(job.group, False))
            if self.state.jobs[STATE, row] == BLOCKED:
                self._back_to_queue(now_us, name)

    def finished(self, now_us: int, job_id: str, requeued: bool) -> None:
        """Handle the end of a run, final or to be repeated."""
        job = self.about.jobs.get(job_id)
        if job is not None:
            self.tell(now_us, Ended(job.group, job.run, burnt=requeued))
            if not requeued:
                self._forget_ended(now_us)

    def withdrawn(self, now_us: int, job_id: str) -> None:
        """Handle a job that will never run."""
        job = self.about.jobs.pop(job_id, None)
        self.about.aside.pop(job_id, None)
        if job is not None and self._phase(job) not in (ENDED, GONE):
            self.tell(now_us, Withdrawn(job.group))

    def start_refused(self, now_us: int, job_id: str, reason: str) -> None:
        """Handle a start that the back end refused."""
        job = self.about.jobs.get(job_id)
        if job is not None:
            self.tell(now_us, StartFailed(job.group, job.run, reason))

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
        for name in list(about.aside):
            job = about.jobs[name]
            over = job.yielded_us != NEVER and job.agreed_us == NEVER
            if over and ((local and job.yielded_us < now_us) or self._retry_us(job) <= now_us):
                self._back_to_queue(now_us, name)
                due = True
        for name, job in about.agreed:
            row = self.state.rows[name]
            room = local and self.state.jobs[NODES, row] <= self.state.idle_count
            if room or _agreed_due_us(job) <= now_us:
                self._want(name, 0)
        return due or released

    def refresh_holds(self, now_us: int) -> None:
        """Set the expected ends of kept nodes for backfilling, as if their jobs began now."""
        for row in self._holding():
            self.state.expect_end(row, now_us)

    def chosen(self, now_us: int, row: int) -> None:
        """Keep the nodes that a pass has found for a job with mates, and ask the mates."""
        self._keep(now_us, row)
        job_id = self.state.spec(row).job_id
        wants_estimate = self.about.scheme.scheme == AGREE or self.about.scheme.bounded_hold_us > 0
        self.tell(now_us, Ready(self.about.jobs[job_id].group, True, wants_estimate))
        if self._is_asking(job_id):
            self.about.asking, self.about.asking_us = job_id, now_us

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
            estimate_us = self._plan_for(now_us, name, now_us) if waits else NEVER
            if attempt:
                self.tell(now_us, Reserved(job.group, attempt, False, "it finds no nodes now", estimate_us))
            elif estimate_us > 0:
                self.tell(now_us, Expects(job.group, estimate_us))

    def after(self, now_us: int) -> int:
        """Return when the core must be called again without a new event."""
        about = self.about
        due = [self.about.protocol.due_us, about.pass_wake_us, self._next_release_us(now_us)]
        due += [self._retry_us(about.jobs[name]) for name in about.aside]
        due += [_agreed_due_us(job) for _, job in about.agreed]
        return now_us if about.asking else max(min(due), now_us + 1)

    # ---- what the protocol orders -----------------------------------------------------------------------------------

    def tell(self, now_us: int, *told: Input) -> None:
        """Process inputs and the orders that follow from them."""
        waiting, about = list(told), self.about
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
        holding = self.state.jobs[STATE, row] == HOLDING
        match order:
            case Reserve():
                return self._reserve(now_us, order, job, row)
            case NotNow() if holding and not job.attempt:
                return self._not_together(now_us, row)
            case Release() if holding and job.attempt <= order.attempt:
                job.attempt = 0
                return self._not_together(now_us, row)
            case MatesExpect(at_us=at_us):
                job.mates_expect_us = at_us
                if not holding and self.about.scheme.scheme == AGREE:
                    return self._expects(now_us, name, max(at_us, now_us))
            case StartMate():
                if not holding:
                    return [StartFailed(order.group, order.attempt, "its nodes are gone")]
                job.run, job.attempt, job.agreed_us, job.yielded_us = order.attempt, 0, NEVER, NEVER
                self.about.aside.pop(name, None)
                self.start(now_us, row, order.fuse_us)
            case Renew():
                attempt = self.state.attempts.get(name, 0)
                self.applier.commands.append(RenewJob(name, attempt, order.fuse_us))
            case StopMate():
                self._stop(now_us, row, order.reason)
            case FailMate():
                if holding:
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
        plans = where == QUEUED and (order.estimate or self.about.scheme.scheme == AGREE)
        estimate_us = self._plan_for(now_us, order.job, now_us) if plans else NEVER
        return [Reserved(order.group, order.attempt, False, "it is not its turn", estimate_us)]

    def _want(self, name: str, attempt: int) -> None:
        known = dict(self.about.wanted)
        self.about.wanted = list((known | {name: max(attempt, known.get(name, 0))}).items())

    def _not_together(self, now_us: int, row: int) -> list[Input]:
        """Hold, yield, or yield with a reservation, because the mates cannot start now."""
        name, about = self.state.spec(row).job_id, self.about
        job, scheme, nodes = about.jobs[name], about.scheme, self.state.jobs[NODES]
        held = sum(int(nodes[other]) for other in self._holding() if other != row)
        choice = schemes.when_not_together(
            scheme, job_nodes=int(nodes[row]), held_nodes=held, all_nodes=len(self.state.node_state),
            yields=job.yields, mates_in_us=NEVER if job.mates_expect_us == NEVER else job.mates_expect_us - now_us,
        )  # fmt: skip
        if choice == HOLD:
            job.first_hold_us = now_us if job.first_hold_us == NEVER else job.first_hold_us
            return []
        self._give_back(now_us, row, "its mates are not ready")
        job.yields += 1
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
        self.applier.enter_queue(now_us, self.state.rows[name])

    def _holding(self) -> list[int]:
        rows = [self.state.rows.get(name, -1) for name in self.about.aside]
        return [row for row in rows if row >= 0 and self.state.jobs[STATE, row] == HOLDING]

    def _release_holds(self, now_us: int) -> bool:
        """Release holds that are old enough, once per period; their jobs go behind all others for one pass."""
        about, scheme = self.about, self.about.scheme
        if about.released_us == now_us or now_us != schemes.next_release_us(scheme, about.rank, 0, now_us - 1):
            return False
        about.released_us = now_us
        since = {name: about.jobs[name].first_hold_us for name in about.aside if self._holds_freely(name)}
        for name in schemes.released(scheme, since, now_us):
            self._give_back(now_us, self.state.rows[name], "held nodes are released every so often")
            self.tell(now_us, Ready(about.jobs[name].group, False))
            about.last.append(name)
        for name in self._wanted_elsewhere() if about.last else ():
            self._want(name, 0)
        return bool(about.last)

    def _wanted_elsewhere(self) -> list[str]:
        """Return waiting jobs whose mates hold nodes in other domains, in the same order everywhere.

        They are the first to get what a release has freed. The paper's release does not know them, and two domains can
        then release and hold again in step for ever.
        """
        found = []
        for name, job in self.about.jobs.items():
            row, known = self.state.rows.get(name, -1), self.about.protocol.groups.get(job.group)
            if row < 0 or known is None or row in self.state.held:
                continue
            waits = self.state.jobs[STATE, row] in (QUEUED, BLOCKED)
            if waits and READY in (view.phase for view in known.views.values()):
                found.append((job.group, name))
        return [name for _, name in sorted(found)]

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
        if at_least == NEVER and not any(map(self._holds_freely, self.about.aside)):
            return FOREVER
        found = schemes.next_release_us(self.about.scheme, self.about.rank, 0, now_us)
        return FOREVER if found is None else found

    # ---- a common later start ---------------------------------------------------------------------------------------

    def _plan_for(self, now_us: int, name: str, not_before_us: int) -> int:
        """Return how long until the job could start; if the scheme is to agree, reserve nodes for it then."""
        row, job = self.state.rows[name], self.about.jobs[name]
        if self.about.scheme.scheme != AGREE and self.state.jobs[STATE, row] != QUEUED:
            return NEVER
        start_us, kinds = agreeing.earliest_start(self.state, self.order, now_us, row, not_before_us)
        if start_us == FOREVER:
            return NEVER
        if self.about.scheme.scheme == AGREE:
            if self.state.jobs[STATE, row] == QUEUED:
                self.applier.leave_queue(row)
            job.agreed_us, job.agreed_kinds, job.yielded_us = start_us, kinds, now_us
            self.about.aside[name] = True
        return start_us - now_us

    def _expects(self, now_us: int, name: str, at_us: int) -> list[Input]:
        """Reserve nodes from the instant at which the mates could start; tell them if it takes longer here."""
        row, job = self.state.rows[name], self.about.jobs[name]
        if self.state.jobs[STATE, row] not in (QUEUED, BLOCKED) or job.agreed_us >= at_us:
            return []  # each exchange moves the start later, so the exchanges end
        own_us = self._plan_for(now_us, name, at_us)
        return [Expects(job.group, own_us)] if own_us != NEVER and now_us + own_us > at_us else []

    # ---- small questions --------------------------------------------------------------------------------------------

    def _phase(self, job: MateJob) -> str:
        known = self.about.protocol.groups.get(job.group)
        return IDLE if known is None else known.record.phase

    def _is_asking(self, name: str) -> bool:
        job = self.about.jobs.get(name)
        row = self.state.rows.get(name, -1)
        if job is None or row < 0 or self.state.jobs[STATE, row] != HOLDING:
            return False
        known = self.about.protocol.groups[job.group]
        return known.asking_since_us != NEVER or bool(job.attempt)

    def _retry_us(self, job: MateJob) -> int:
        """Return when to try again, because a message from the mates may have been lost."""
        if job.yielded_us == NEVER or job.agreed_us != NEVER:
            return FOREVER
        return job.yielded_us + self.about.protocol.groups[job.group].group.terms.ask_us

    def _forget_ended(self, now_us: int) -> None:
        """Drop groups whose members have all ended: they need no more messages."""
        about = self.about
        for name, one in list(about.protocol.groups.items()):
            if one.record.phase in (ENDED, GONE) and all(v.phase in (ENDED, GONE) for v in one.views.values()):
                protocol.forget(about.protocol, name)
        known = about.protocol.groups
        about.jobs = {name: job for name, job in about.jobs.items() if job.group in known}


def _agreed_due_us(job: MateJob) -> int:
    """Return when its reservation is due: at its time, or a second after the last try that failed."""
    return job.agreed_us if job.yielded_us < job.agreed_us else job.yielded_us + SECOND


def _nobody_starts(now_us: int, row: int, fuse_us: int) -> None:
    raise AssertionError("the core has not said how to start a job")
