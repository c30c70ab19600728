"""The simulated world, one event at a time: runs what the core orders and tells it what happened.

It owns true run times and the machine's faults; the core learns of them only through events. Jobs have remaining work
and a rate, so that a later contention model can change how fast they run while they run. Instants are handled in the
contract's order: completions, other facts, submissions in trace order, then one step of the core.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from cohabit.core.core import SchedulerCore
from cohabit.model import event as fact
from cohabit.model.command import CancelJob, Command, StartJob, WakeAt
from cohabit.model.event import Event
from cohabit.model.job import Job

FOREVER = 2**62
# ranks: what comes first within one instant
COMPLETION, OTHER, SUBMISSION, WAKE = 0, 1, 2, 3


@dataclass(frozen=True)
class TracedJob:
    """A job of the trace: what its owner asked for and what only the world knows."""

    job: Job
    submit_us: int
    work_us: int  # run time at full speed


@dataclass
class Run:
    """One run of a job: work left, and how fast it is being done (1.0 = alone on its nodes)."""

    job_id: str
    attempt: int
    started_us: int
    limit_end_us: int
    remaining_us: float
    rate: float
    as_of_us: int
    ends_us: int = FOREVER
    killed: bool = False

    def end_at_rate(self, kill: bool) -> None:
        """When it ends if nothing changes: its work done, or its limit reached."""
        done = self.as_of_us + max(0, round(self.remaining_us / self.rate)) if self.rate > 0 else FOREVER
        self.killed = kill and done > self.limit_end_us
        self.ends_us = self.limit_end_us if self.killed else done


@dataclass
class Outcome:
    """What became of one job."""

    start_us: int | None = None
    end_us: int | None = None
    status: str = "waiting"
    reason: str = ""
    nodes: tuple[tuple[int, int], ...] = ()
    attempts: int = 0


@dataclass
class World:
    """Drives one core through one trace."""

    core: SchedulerCore
    kill: bool = True
    report_delay_us: Callable[[str], int] | None = None  # late reports: a finished job is told this much later
    observe: Callable[[int, list[Event], list[Command]], None] | None = None  # sees every step
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    faults: Iterator[tuple[int, Event]] | None = None  # endless, in order of time; heeded while work is left
    events: int = 0
    now_us: int = 0
    _next_fault: tuple[int, Event] | None = None
    _heap: list[tuple[int, int, int, Event | tuple[str, int]]] = field(default_factory=list)
    _counter: int = 0
    _runs: dict[str, Run] = field(default_factory=dict)
    _work: dict[str, int] = field(default_factory=dict)
    _wake_us: int = FOREVER

    def add(self, trace: Iterable[TracedJob], facts: Iterable[tuple[int, Event]] = ()) -> None:
        """Put the trace's submissions, in trace order, and other facts (faults, holds, ...) on the heap."""
        for traced in trace:
            self._work[traced.job.job_id] = traced.work_us
            self.outcomes[traced.job.job_id] = Outcome()
            self._push(traced.submit_us, SUBMISSION, fact.JobSubmitted(traced.job))
        for at_us, event in facts:
            self._push(at_us, OTHER, event)

    def run(self, progress: Callable[[int], None] | None = None) -> None:
        """Until nothing is left to happen."""
        while self.advance():
            if progress is not None and self.events % 256 == 0:
                progress(self.events)

    def advance(self) -> bool:
        """One instant; False if there is none left."""
        self._draw_fault()
        now = min(self._heap[0][0] if self._heap else FOREVER, self._wake_us)
        if now >= FOREVER:
            return False
        self.now_us = now
        events: list[Event] = []
        if self._wake_us <= now:
            self._wake_us = FOREVER
            events.append(fact.Woken())
            self.events += 1
        while self._heap and self._heap[0][0] == now:
            _, _, _, item = heapq.heappop(self._heap)
            if isinstance(item, tuple):
                item_event = self._completed(*item)
                if item_event is None:
                    continue
                item = item_event
            if self._next_fault is not None and item is self._next_fault[1]:
                self._next_fault = None
            events.append(item)
            self.events += 1
        if events:
            self._tell(now, events)
        return True

    def _draw_fault(self) -> None:
        """Keep the next fault on the heap as long as somebody runs, waits or is still to come."""
        if self.faults is None or self._next_fault is not None or not (self._heap or self.core.state.rows):
            return
        self._next_fault = next(self.faults)
        self._push(self._next_fault[0], OTHER, self._next_fault[1])

    def set_rate(self, job_id: str, rate: float) -> None:
        """A running job goes on at another speed from now."""
        run = self._runs[job_id]
        run.remaining_us = max(0.0, run.remaining_us - (self.now_us - run.as_of_us) * run.rate)
        run.as_of_us, run.rate = self.now_us, rate
        run.end_at_rate(self.kill)
        self._expect_end(run)

    # ---- one step ---------------------------------------------------------------------------------------------------

    def _tell(self, now: int, events: list[Event]) -> None:
        commands = self.core.step(now, events)
        if self.observe is not None:
            self.observe(now, events, commands)
        confirmations: list[Event] = []
        for command in commands:
            match command:
                case StartJob():
                    self._start(now, command)
                    confirmations.append(fact.JobStarted(command.job_id, command.attempt))
                case CancelJob():
                    self._cancel(now, command)
                case WakeAt(at_us):
                    self._wake_us = at_us
        if confirmations:
            self.core.step(now, confirmations)

    def _start(self, now: int, command: StartJob) -> None:
        run = Run(command.job_id, command.attempt, now, now + command.limit_us, self._work[command.job_id], 1.0, now)
        run.end_at_rate(self.kill)
        self._runs[command.job_id] = run
        outcome = self.outcomes.setdefault(command.job_id, Outcome())
        outcome.start_us, outcome.end_us, outcome.status = now, None, "running"
        outcome.nodes, outcome.attempts = command.nodes, command.attempt
        self._expect_end(run)

    def _expect_end(self, run: Run) -> None:
        if run.ends_us < FOREVER:
            self._push(run.ends_us, COMPLETION, (run.job_id, run.ends_us))

    def _completed(self, job_id: str, ends_us: int) -> Event | None:
        run = self._runs.get(job_id)
        if run is None or run.ends_us != ends_us:
            return None  # it was stopped, or its end moved
        del self._runs[job_id]
        outcome = self.outcomes[job_id]
        status = "killed" if run.killed else "done"
        outcome.end_us, outcome.status = ends_us, status
        outcome.reason = "reached its time limit" if run.killed else ""
        event = fact.JobFinished(job_id, run.attempt, status)
        delay = self.report_delay_us(job_id) if self.report_delay_us is not None else 0
        if delay > 0:
            self._push(ends_us + delay, COMPLETION, event)
            return None
        return event

    def _cancel(self, now: int, command: CancelJob) -> None:
        outcome = self.outcomes.setdefault(command.job_id, Outcome())
        if command.job_id in self._runs and self._runs[command.job_id].attempt != command.attempt:
            return  # not this run: a second submission of its name was refused
        run = self._runs.pop(command.job_id, None)
        if run is None:
            if outcome.status not in ("done", "killed", "failed"):
                outcome.status = "rejected" if command.reason.startswith("can never run") else "cancelled"
                outcome.reason = command.reason
            return
        outcome.end_us, outcome.reason = now, command.reason
        lost = command.reason.startswith("node ")
        outcome.status = "failed" if lost else "cancelled"
        if command.job_id in self.core.state.rows and not lost:
            self._push(now, COMPLETION, fact.JobFinished(command.job_id, run.attempt, "cancelled"))
        if command.job_id in self.core.state.rows and lost:
            outcome.start_us, outcome.end_us, outcome.status = None, None, "waiting"

    def _push(self, at_us: int, rank: int, item: Event | tuple[str, int]) -> None:
        self._counter += 1
        heapq.heappush(self._heap, (at_us, rank, self._counter, item))
