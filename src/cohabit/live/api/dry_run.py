"""Predict where and when jobs start: a copy of the core, with or without a new job, runs on by requested times.

The copy is made between two batches, as a checkpoint is; what follows happens in another thread and is bounded in
time and in steps. A job that is promised a start gets the expected start of its promise, as `why` tells it. Other
answers hold if every job takes its requested time and no other job comes: mostly they are late.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from cohabit.core import checkpoint, columns
from cohabit.core.core import SchedulerCore
from cohabit.core.kernels.ladder import all_rows
from cohabit.core.protocols import PolicySet
from cohabit.core.short_reasons import ShortReasons
from cohabit.live.api.views import node_numbers
from cohabit.live.controller.clock import BootClock
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.refusals import Busy, CannotTake
from cohabit.live.controller.slots import Slots
from cohabit.live.controller.standing import advice
from cohabit.live.controller.telling import reason_of
from cohabit.model.cluster import Cluster
from cohabit.model.command import CancelJob, Command, StartJob, WakeAt
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobFinished, JobStarted, JobSubmitted, Woken
from cohabit.model.job import Job
from cohabit.model.units import FOREVER, SECOND

PATIENCE_S = 3.0
MOST_STEPS = 20_000
LONG_QUEUE = 2000  # jobs
COPY_S = 5
LONG_COPY_S = 60  # of a long queue, for the starts of all its jobs
MOST_AT_ONCE, OF_ONE_USER = 100, 3  # dry runs that wait for their turn
NOTHING_MORE = "as things stand it does not start by itself"
log = logging.getLogger(__name__)


class Foresight(NamedTuple):
    """The prediction of the copy."""

    start_us: int | None
    nodes: list[int]
    why: str


class ExpectedStart(NamedTuple):
    """The prediction for one job in the queue."""

    user: int
    start_us: int
    nodes: list[int]
    end_us: int  # by its requested time


class ExpectedStarts(NamedTuple):
    """When and where the jobs in the queue start."""

    at_us: int  # the instant of the copy
    starts: dict[str, ExpectedStart]  # by job; one that is missing does not start by itself
    why: str  # why there may be more; empty: these are all


class LookingAhead:
    """Dry runs of one controller, one at a time. `waiting` returns how many jobs wait: a copy of a long queue blocks
    the scheduler for as long as a checkpoint does, so one copy then serves all requests within a few seconds."""

    def __init__(
        self,
        controller: Controller,
        clock: BootClock,
        cluster: Cluster,
        policies: PolicySet,
        waiting: Callable[[], int],
    ) -> None:
        self._controller, self._clock, self._cluster, self._policies = controller, clock, cluster, policies
        self._waiting, self._one, self._copy = waiting, asyncio.Semaphore(1), (0, b"")
        self._slots = Slots(MOST_AT_ONCE, OF_ONE_USER)
        self._expected: ExpectedStarts | None = None

    def go_on_under(self, cluster: Cluster, policies: PolicySet) -> None:
        """Copy cores of other policies from now on."""
        self._cluster, self._policies, self._copy, self._expected = cluster, policies, (0, b""), None

    async def foresee(self, job: Job) -> tuple[Foresight, int]:
        """Return the prediction and the instant of the request; Busy: too many requests, or too many of this user."""
        if not self._slots.take(job.user):
            raise Busy
        try:
            return await self._foresee(job)
        finally:
            self._slots.leave(job.user)

    async def expected_starts(self, user: int) -> ExpectedStarts:
        """Return the starts of all waiting jobs, some seconds old, of a long queue a minute; Busy as for a dry run."""
        if not self._slots.take(user):
            raise Busy
        try:
            async with self._one:
                now_us, lasts_s = self._clock.now_us(), LONG_COPY_S if self._waiting() > LONG_QUEUE else COPY_S
                if self._expected is None or now_us - self._expected.at_us > lasts_s * SECOND:
                    saved = await self._controller.ask(checkpoint.save)
                    self._expected = await asyncio.to_thread(
                        expected_starts, saved, self._cluster, self._policies, now_us
                    )
                return self._expected
        finally:
            self._slots.leave(user)

    async def _foresee(self, job: Job) -> tuple[Foresight, int]:
        async with self._one:
            now_us, (copied_us, saved) = self._clock.now_us(), self._copy
            if not saved or now_us - copied_us > (COPY_S * SECOND if self._waiting() > LONG_QUEUE else 0):
                copied_us, saved = now_us, await self._controller.ask(checkpoint.save)
                self._copy = (copied_us, saved) if self._waiting() > LONG_QUEUE else (0, b"")
            try:
                found = await asyncio.to_thread(foresee, saved, self._cluster, self._policies, job, now_us)
            except InputError:
                raise
            except Exception as error:  # the same exception as for the job itself
                log.exception("a dry run failed")
                raise CannotTake("dry run", reason_of(error)) from error
        return found, now_us


def foresee(saved: bytes, cluster: Cluster, policies: PolicySet, job: Job, now_us: int) -> Foresight:
    """Submit the job to a copy and advance it until the job starts; an InputError says why it never could."""
    core = checkpoint.load(saved, cluster, policies)
    name = f"{job.job_id}_{job.array_first}" if job.array_count else job.job_id
    commands = core.step(now_us, [JobSubmitted(job)])
    refusal = next((one for one in commands if isinstance(one, CancelJob) and one.job_id == name), None)
    if refusal is not None:
        what = f"the job {refusal.reason}" if refusal.reason.startswith("can ") else refusal.reason
        raise InputError(what, "", advice(refusal.reason, job, cluster))
    row = core.state.rows.get(name)
    why = "" if row is None else ShortReasons(core.state, policies, now_us).of(row)
    if (start := _start_of(name, commands)) is not None:
        return Foresight(now_us, node_numbers(start.nodes), "it would start at once")
    if job.held:
        return Foresight(None, [], "it would wait until it is released")
    if job.mates is not None:
        return Foresight(None, [], "it starts together with its mates; when they are ready is not known here")
    if row in core.state.promises:
        promise = core.state.promises[row]  # what `why` will say of it
        return Foresight(max(promise.expected_us, now_us), node_numbers(promise.ranges), why)
    return _live_on(core, name, now_us, why, _wake(commands, core.state.wake_us))


def expected_starts(saved: bytes, cluster: Cluster, policies: PolicySet, now_us: int) -> ExpectedStarts:
    """Advance a copy until no job waits any more; a job with a promise gets the expected start of its promise.

    Jobs with mates are left out: when their mates are ready is not known here.
    """
    core, why = checkpoint.load(saved, cluster, policies), ""
    found = {}
    for row, promise in core.state.promises.items():
        job, start_us = core.state.spec(row), max(promise.expected_us, now_us)
        nodes, end_us = node_numbers(promise.ranges), start_us + int(core.state.jobs[columns.LIMIT, row])
        found[job.job_id] = ExpectedStart(job.user, start_us, nodes, end_us)
    state = core.state
    waits = (columns.QUEUED, columns.BLOCKED)
    waiting = sum(state.jobs[columns.STATE, row] in waits and row not in state.held for row in state.rows.values())
    coupled = set() if core.state.coupled is None else set(core.state.coupled.jobs)
    for at_us, commands, end in _living_on(core, now_us, core.state.wake_us):
        why = "" if end == NOTHING_MORE else end
        for one in (one for one in commands if isinstance(one, StartJob)):
            row = core.state.rows[one.job_id]
            user, end_us = core.state.spec(row).user, int(core.state.jobs[columns.EXPECTED, row])
            found.setdefault(one.job_id, ExpectedStart(user, at_us, node_numbers(one.nodes), end_us))
        if len(found) >= waiting:
            break
    starts = {name: start for name, start in found.items() if name not in coupled}
    return ExpectedStarts(now_us, starts, why)


def _live_on(core: SchedulerCore, name: str, now_us: int, why: str, wake_us: int) -> Foresight:
    """Advance the copy until the job starts."""
    for at_us, commands, end in _living_on(core, now_us, wake_us):
        if end:
            return Foresight(None, [], f"{why}; {end}")
        if (start := _start_of(name, commands)) is not None:
            return Foresight(at_us, node_numbers(start.nodes), why)
        if name not in core.state.rows:
            return Foresight(None, [], f"{why}; it would be cancelled, as a job it depends on does not end well")
    raise AssertionError("the last step says why it is the last")


def _living_on(core: SchedulerCore, now_us: int, wake_us: int) -> Iterator[tuple[int, list[Command], str]]:
    """Yield instants and commands, if every run ends at its requested time; at last, why there are no more."""
    until = time.monotonic() + PATIENCE_S
    for _ in range(MOST_STEPS):
        if time.monotonic() > until:
            yield now_us, [], f"a start was not found within {PATIENCE_S:g} s of looking ahead"
            return
        events, at_us = _next_facts(core, now_us, wake_us)
        if not events:
            yield now_us, [], NOTHING_MORE
            return
        if any(isinstance(one, Woken) for one in events):
            wake_us = FOREVER
        now_us = at_us
        commands = core.step(now_us, events)
        wake_us = _wake(commands, wake_us)
        yield now_us, commands, ""
        time.sleep(0)  # let the scheduler's thread run first
    yield now_us, [], f"a start was not found within {MOST_STEPS} steps of looking ahead"


def _next_facts(core: SchedulerCore, now_us: int, wake_us: int) -> tuple[list[Event], int]:
    """Return the ends that come first, all at one instant; or the wake-up the core asked for."""
    jobs = core.state.jobs
    events: list[Event] = []
    running = all_rows(core.state.running)
    at_us = min((int(jobs[columns.EXPECTED, row]) for row in running[:1]), default=FOREVER)
    at_us = max(at_us, now_us + 1) if at_us < FOREVER else FOREVER
    if wake_us < at_us:
        return [Woken()], max(wake_us, now_us + 1)
    for row in running:
        if jobs[columns.EXPECTED, row] > at_us:
            break
        if jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING):
            key = (core.state.spec(int(row)).job_id, int(jobs[columns.ATTEMPT, row]))
            events += [JobStarted(*key), JobFinished(*key)]
    return events, at_us


def _start_of(name: str, commands: list[Command]) -> StartJob | None:
    return next((one for one in commands if isinstance(one, StartJob) and one.job_id == name), None)


def _wake(commands: list[Command], before_us: int) -> int:
    return next((one.at_us for one in reversed(commands) if isinstance(one, WakeAt)), before_us)
