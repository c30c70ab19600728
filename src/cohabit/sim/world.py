"""The simulated world, one event at a time: carries out the core's commands and reports events to it.

It owns true run times and the machine's faults; the core learns of them only through events. Jobs have remaining work
and a rate. Without a machine every job runs at its traced speed; with one (sim/machine/) rates follow from which jobs
share nodes, with weather (sim/weather/) also from the load of network and filesystem, and the two are multiplied. They
are set once per instant, after all commands. Instants are handled in the contract's order: completions,
other facts, submissions in trace order, then one step of the core.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from cohabit.core.core import SchedulerCore
from cohabit.model import event as fact
from cohabit.model.command import (
    CancelJob,
    Command,
    HoldJob,
    MoveJob,
    ReleaseJob,
    RenewJob,
    SetShares,
    StartJob,
    StopJob,
    TellPeer,
    WakeAt,
)
from cohabit.model.event import Event
from cohabit.model.units import FOREVER
from cohabit.sim.machine.machine import Machine
from cohabit.sim.machine.phases import Phases
from cohabit.sim.machine.profiler import Profiler
from cohabit.sim.monitor import Monitor
from cohabit.sim.runs import Outcome, Run, TracedJob
from cohabit.sim.terms import Terms, Told, WaitingRoom
from cohabit.sim.trouble import Trouble

if TYPE_CHECKING:
    from cohabit.sim.weather.weather import Weather

# ranks: the order of events within one instant
COMPLETION, OTHER, SUBMISSION = 0, 1, 2


def node_failures(
    rng: np.random.Generator, nodes: int, mtbf_us: float, repair_us: float, begin_us: int
) -> Iterator[tuple[int, Event]]:
    """Every node fails after an exponential time and comes back after an exponential repair, for ever."""
    due = [(begin_us + int(rng.exponential(mtbf_us)), node, True) for node in range(nodes)]
    heapq.heapify(due)
    while due:
        at_us, node, fails = heapq.heappop(due)
        yield at_us, fact.NodeDown(node) if fails else fact.NodeUp(node)
        pause = rng.exponential(repair_us if fails else mtbf_us)
        heapq.heappush(due, (at_us + max(1, int(pause)), node, not fails))


def late_reports(rng: np.random.Generator, mean_us: float) -> Callable[[str], int]:
    """Return how late the end of a job is reported, drawn for every job."""
    return lambda job_id: int(rng.exponential(mean_us))


@dataclass
class World:
    """Drives one core through one trace."""

    core: SchedulerCore
    kill: bool = True
    machine: Machine | None = None  # contention; None: jobs do not slow each other
    phases: Phases | None = None  # programs vary while they run; only with a machine
    profiler: Profiler | None = None  # exclusive runs are measured and reported; only with a machine
    monitor: Monitor | None = None  # the speed of jobs on shared nodes is measured and reported
    weather: Weather | None = None  # load of network and filesystem; None: never any
    move_us: int = 0  # work lost by a move
    report_delay_us: Callable[[str], int] | None = None  # late reports: the end of a job is reported this much later
    submit_delay_us: int = 0  # from a submission until the core hears of it,
    start_delay_us: int = 0  # and from its order until the job begins
    wake_delay_us: Callable[[], int] | None = None  # late wakes, as from a live clock; None: at the exact instant
    mail: Callable[[TellPeer], None] | None = None  # carries messages to other domains
    clock_offset_us: int = 0  # how far the core's clock is ahead of ours
    observe: Callable[[int, list[Event], list[Command]], None] | None = None  # sees every step
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    trouble: Trouble = field(default_factory=Trouble)
    faults: Iterator[tuple[int, Event]] | None = None  # unbounded, in order of time; applied while work is left
    events: int = 0
    starts: int = 0  # runs begun so far
    now_us: int = 0
    _next_fault: tuple[int, Event] | None = None
    _heap: list[tuple[int, int, int, Event | tuple[str, int]]] = field(default_factory=list)
    _counter: int = 0
    _runs: dict[str, Run] = field(default_factory=dict)
    _trace: dict[str, TracedJob] = field(default_factory=dict)
    _wake_us: int = FOREVER
    _terms: dict[str, Terms] = field(default_factory=dict)
    _room: WaitingRoom = field(default_factory=WaitingRoom)

    def add(self, trace: Iterable[TracedJob], facts: Iterable[tuple[int, Event]] = ()) -> None:
        """Put the trace's submissions, in trace order, and other facts (faults, holds, ...) on the heap."""
        for traced in trace:
            self._trace[traced.job.job_id] = traced
            self.outcomes[traced.job.job_id] = Outcome()
            self._push(traced.submit_us + self.submit_delay_us, SUBMISSION, fact.JobSubmitted(traced.job))
            if traced.terms is not None:
                self._terms[traced.job.job_id] = traced.terms
                if traced.terms.cancel_us:
                    self._push(traced.terms.cancel_us, OTHER, fact.JobCancelled(traced.job.job_id))
        for at_us, event in facts:
            self._push(at_us, OTHER, event)

    def suffer(self, trouble: Trouble) -> None:
        """Let this go wrong."""
        self.trouble = trouble
        self.add((), trouble.facts())

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Run until no event is left."""
        while self.advance():
            if progress is not None and self.events % 256 == 0:
                progress(self.events)

    def advance(self) -> bool:
        """Process one instant; return False if there is none left."""
        now = self.next_us
        if now >= FOREVER:
            return False
        self.now_us = now
        events: list[Event] = []
        if self.weather is not None:
            events += self.weather.pass_to(now)
            self.events += len(events)
        if self._wake_us <= now:
            self._wake_us = FOREVER
            events.append(fact.Woken())
            self.events += 1
        if self.monitor is not None:
            told = self.monitor.look(now, self._runs)
            events += told
            self.events += len(told)
        while self._heap and self._heap[0][0] == now:
            _, _, _, item = heapq.heappop(self._heap)
            if isinstance(item, tuple):
                events += self._looked_at(*item)
                continue
            if self._next_fault is not None and item is self._next_fault[1]:
                self._next_fault = None
            events.append(item)
            self.events += 1
        events = self._let_in(now, self._room.sift(now, events, self._terms)) if self._terms else events
        if events := self.trouble.told(now, events):
            self._tell(now, events)
        self._set_rates(now)
        return True

    @property
    def next_us(self) -> int:
        """Return the time of the next event."""
        self._draw_fault()
        looked_us = FOREVER
        if self.monitor is not None:
            looked_us = self.monitor.next_us(self.now_us, bool(self._runs and self._heap))
        return min(self._heap[0][0] if self._heap else FOREVER, self._wake_us, self._weather_us, looked_us)

    @property
    def jobs(self) -> Iterable[TracedJob]:
        """The jobs of the trace."""
        return self._trace.values()

    def traced(self, job_id: str) -> TracedJob:
        """Return a job of the trace by name."""
        return self._trace[job_id]

    @property
    def only_wakes(self) -> bool:
        """Return whether the next event is only a wake requested by the core."""
        return not self._heap or self._heap[0][0] > self._wake_us

    @property
    def busy(self) -> bool:
        """Return whether events other than wakes are pending: submissions, ends of runs, faults."""
        return bool(self._heap)

    def hear(self, event: Event) -> None:
        """Pass an event to the core at the present instant, unless its controller is dead."""
        if not self.trouble.is_dead(self.now_us):
            self._tell(self.now_us, [event])
        self._set_rates(self.now_us)

    @property
    def _weather_us(self) -> int:
        """Return when the weather changes next; FOREVER while no job runs and no counters are to be reported."""
        if self.weather is None or not (self._runs or (self.weather.telling and self._work_left)):
            return FOREVER
        return self.weather.next_us

    @property
    def _work_left(self) -> bool:
        return bool(self._heap) or self._wake_us < FOREVER

    def _set_rates(self, now: int) -> None:
        if self.machine is not None:
            for job_id, rate in self.machine.rates_changed(now).items():
                self._runs[job_id].machine_rate = rate
                self.set_rate(job_id, rate * self._runs[job_id].weather_rate)
        if self.weather is not None and self.weather.changed:
            for job_id, rate in self.weather.rates().items():
                self._runs[job_id].weather_rate = rate
                self.set_rate(job_id, rate * self._runs[job_id].machine_rate)

    def _draw_fault(self) -> None:
        """Keep the next fault on the heap while a job runs, waits or is still to be submitted."""
        if self.faults is None or self._next_fault is not None or not (self._heap or self.core.state.rows):
            return
        self._next_fault = next(self.faults)
        self._push(self._next_fault[0], OTHER, self._next_fault[1])

    def set_rate(self, job_id: str, rate: float) -> None:
        """Change the speed of a running job from now on."""
        run = self._runs[job_id]
        run.proceed(self.now_us)
        run.rate = rate
        run.foresee(self.kill)
        self._look_again(run)

    # ---- one step ---------------------------------------------------------------------------------------------------

    def _tell(self, now: int, events: list[Event]) -> None:
        commands = self.core.step(now + self.clock_offset_us, events)
        if self.observe is not None:
            self.observe(now, events, commands)
        self._carry_out(now, commands)
        if self._terms:
            self._let_in(now, self._room.watch(now, events, commands))

    def _let_in(self, now: int, told: Told) -> list[Event]:
        """Submit jobs of a log that waited for others or for their time; return the events for the core."""
        for at_us, job_id in told.later:
            self._push(at_us, SUBMISSION, fact.JobSubmitted(self._trace[job_id].job))
        for job_id, why in told.over:
            self.outcomes[job_id].status, self.outcomes[job_id].reason = "cancelled", why
        return told.events

    def _carry_out(self, now: int, commands: list[Command]) -> None:
        confirmations: list[Event] = []
        refusals: list[Event] = []
        for command in commands:
            match command:
                case StartJob():
                    if refusal := self.trouble.refuse(now, command.job_id, command.attempt):
                        refusals.append(refusal)
                        continue
                    self._start(now, command)
                    confirmations.append(fact.JobStarted(command.job_id, command.attempt))
                case MoveJob():
                    self._move(now, command)
                case CancelJob():
                    self._cancel(now, command)
                case WakeAt(at_us):
                    self._wake_us = at_us if at_us >= FOREVER else at_us - self.clock_offset_us + self._late_us()
                case _:
                    self._deal_with_mates(now, command)
        if self.machine is not None:
            for command in commands:
                if isinstance(command, SetShares):  # last: the jobs they name have started by now
                    self.machine.set_shares(command)
        for answers in (confirmations, refusals):
            if answers:
                self._tell(now, answers)

    def _late_us(self) -> int:
        return 0 if self.wake_delay_us is None else self.wake_delay_us()

    def _deal_with_mates(self, now: int, command: Command) -> None:
        """Carry out commands about jobs with mates in other domains."""
        match command:
            case HoldJob(job_id):
                self.outcomes[job_id].keep(now)
            case ReleaseJob(job_id):
                self.outcomes[job_id].let_go(now)
                self.outcomes[job_id].yields += 1
            case RenewJob(job_id, attempt, fuse_us):
                run = self._runs.get(job_id)
                if run is not None and run.order.attempt == attempt:
                    run.fuse_us = fuse_us if fuse_us >= FOREVER else fuse_us - self.clock_offset_us
                    run.foresee(self.kill)
                    self._look_again(run)
            case StopJob(job_id, attempt):
                run = self._runs.get(job_id)
                if run is not None and run.order.attempt == attempt:
                    self._remove(job_id)
                    self._push(now, COMPLETION, self._stopped(run))
            case TellPeer() if self.mail is not None:
                self.mail(command)

    def _stopped(self, run: Run) -> Event:
        """Record that a run was stopped through no fault of its owner: the job waits again."""
        outcome = self.outcomes[run.order.job_id]
        outcome.start_us, outcome.end_us, outcome.status = None, None, "waiting"
        return fact.JobFinished(run.order.job_id, run.order.attempt, "stopped")

    def _start(self, now: int, order: StartJob) -> None:
        traced = self._trace[order.job_id]
        work_us = float(traced.work_us)
        if self.machine is not None and self.profiler is not None:
            work_us *= self.profiler.work_factor(order.purpose)
        if self.weather is not None:
            work_us += self.weather.canary_us
            self.weather.start(order.job_id, traced.job.program, order.nodes)
        fuse_us = order.fuse_us if order.fuse_us >= FOREVER else order.fuse_us - self.clock_offset_us
        begins_us = now + self.start_delay_us
        run = Run(order, begins_us, work_us, work_us, as_of_us=begins_us, fuse_us=fuse_us)
        if self.weather is not None:
            run.early = self.weather.constants.law.early
        self._runs[order.job_id] = run
        self.starts += 1
        self.outcomes.setdefault(order.job_id, Outcome()).begin(begins_us, order)
        if self.machine is None:
            run.foresee(self.kill)
            self._look_again(run)
            return
        if self.phases is not None:
            run.track = self.phases.track(order.job_id)
        self.machine.start(order.job_id, traced.job.program, traced.job.processes, order, run.track.levels[0])

    def _move(self, now: int, command: MoveJob) -> None:
        """Move the job to other nodes; its cache is cold, so some work is lost."""
        run = self._runs.get(command.job_id)
        if run is None or run.order.attempt != command.attempt:
            return  # it has just ended
        run.proceed(now)
        run.remaining_us = min(run.work_us, run.remaining_us + self.move_us)
        run.order = msgspec.structs.replace(run.order, nodes=command.nodes)
        run.foresee(self.kill)
        self._look_again(run)
        self.outcomes[command.job_id].nodes = command.nodes
        if self.machine is not None:
            self.machine.move(command.job_id, command.nodes)

    # ---- running jobs on the heap -----------------------------------------------------------------------------------

    def _look_again(self, run: Run) -> None:
        """Put the run on the heap for its next event.

        An entry that is too early stays on the heap and is postponed when it comes up: rates change far more often
        than runs end.
        """
        if run.next_us < run.queued_us:
            run.queued_us = run.next_us
            self._push(run.next_us, COMPLETION, (run.order.job_id, run.next_us))

    def _looked_at(self, job_id: str, at_us: int) -> list[Event]:
        """Handle a run that came up on the heap: it ends, enters its next stage, or came up too early."""
        run = self._runs.get(job_id)
        if run is None or run.queued_us != at_us:
            return []  # it was stopped, or an earlier entry replaced this one
        run.queued_us = FOREVER
        if run.ends_us <= at_us:
            return self._completed(run)
        if run.stage_ends_us <= at_us:
            assert self.machine is not None
            self.events += 1
            run.stage += 1
            self.machine.set_phase(job_id, run.track.levels[run.stage])
            run.foresee(self.kill)
        if run.settles_us <= at_us:
            assert self.weather is not None
            run.early, run.settles_us = 0.0, FOREVER
            self.weather.settle(job_id)
        self._look_again(run)
        return []

    def _completed(self, run: Run) -> list[Event]:
        """Return the events of an end, now or later."""
        job_id, ends_us = run.order.job_id, run.ends_us
        self._remove(job_id)
        if run.burnt:
            return [self._stopped(run)]
        outcome = self.outcomes[job_id]
        failed = job_id in self._terms and self._terms[job_id].fails
        status = "killed" if run.killed else "failed" if failed else "done"
        outcome.end_us, outcome.status = ends_us, status
        outcome.reason = "reached its time limit" if run.killed else ""
        facts: list[Event] = [fact.JobFinished(job_id, run.order.attempt, status)]
        learned = None if run.killed else self._learned(run)
        if learned is not None:
            facts.append(learned)
        delay = self.report_delay_us(job_id) if self.report_delay_us is not None else 0
        if delay > 0:
            for event in facts:
                self._push(ends_us + delay, COMPLETION, event)
            return []
        self.events += len(facts)
        return facts

    def _learned(self, run: Run) -> Event | None:
        if self.machine is None or self.profiler is None:
            return None
        job, elapsed_us = self._trace[run.order.job_id].job, run.ends_us - run.started_us
        group = self.machine.group_of(run.order.nodes[0][0])
        return self.profiler.measure(job, run.order, elapsed_us, run.ends_us, group, run.track)

    def _remove(self, job_id: str) -> Run | None:
        run = self._runs.pop(job_id, None)
        if run is not None and self.machine is not None:
            self.machine.stop(job_id)
        if run is not None and self.weather is not None:
            self.weather.stop(job_id)
        return run

    def _cancel(self, now: int, command: CancelJob) -> None:
        outcome = self.outcomes.setdefault(command.job_id, Outcome())
        if command.job_id in self._runs and self._runs[command.job_id].order.attempt != command.attempt:
            return  # not this run: a second submission of its name was refused
        run = self._remove(command.job_id)
        if run is None:
            if outcome.status not in ("done", "killed", "failed"):
                outcome.status = "rejected" if command.reason.startswith("can never run") else "cancelled"
                outcome.reason = command.reason
            return
        outcome.end_us, outcome.reason = now, command.reason
        lost = command.reason.startswith("node ")
        outcome.status = "failed" if lost else "cancelled"
        if command.job_id in self.core.state.rows and not lost:
            self._push(now, COMPLETION, fact.JobFinished(command.job_id, run.order.attempt, "cancelled"))
        if command.job_id in self.core.state.rows and lost:
            outcome.start_us, outcome.end_us, outcome.status = None, None, "waiting"

    def _push(self, at_us: int, rank: int, item: Event | tuple[str, int]) -> None:
        self._counter += 1
        heapq.heappush(self._heap, (at_us, rank, self._counter, item))
