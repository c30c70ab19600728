"""A wrapper around a back end that turns measurements of its runs into events for the core.

A run that had its nodes to itself and ended well gives its program's time (ProfileLearned), with what was counted. A
run started for its curves has its cache ways changed while it runs. Runs on shared nodes are measured periodically
against the counts of their program running alone (ProgressMeasured). A program whose runs depart from its profile is
reported, too (ProgramDrifted). All of these events name the user of the job: a run changes nothing for jobs of other
users, whatever program it claims to be. Commands and events of the back end pass through unchanged. A failed
measurement affects no job. Runs that an earlier controller started are not measured: the trial is made again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Coroutine
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from cohabit.agent.profiling.drift import DriftWatch
from cohabit.agent.profiling.episodes import Curves, Episode, find_curves, level_curves, tour_of
from cohabit.backend.protocol import DONE, RUNNING, Backend, BackendError, Launch, Run
from cohabit.core.core import SchedulerCore
from cohabit.live.controller.meters import Meter, Reading, Readings, counted_between, progress_of
from cohabit.model.cluster import NodeGroup, hardware_key
from cohabit.model.command import Command, MoveJob, SetShares, StartJob
from cohabit.model.event import Event, JobFinished, JobStarted, ProfileLearned, ProgramDrifted, ProgressMeasured
from cohabit.model.job import Job
from cohabit.model.profile import Profile, ScaleProfile, owner_of
from cohabit.model.units import SECOND

PERIOD_S = 10.0
# An exclusive run is read each twentieth of its age, between these two: its end is not announced.
READ_SHARE, SHORTEST_READ_S, LONGEST_READ_S = 0.05, 0.25, 5.0
LEAST_COUNTED_S = 0.2  # over less, counters are not compared with a profile
BRIEF_S = 0.05  # a run is measured when it is this old
REPORTED_WITHIN_S = 150.0  # a node's report of a run that has ended: the manager has 120 s to say that it is over
CURVE = "curve"  # the purpose of a run that is started for its curves
log = logging.getLogger(__name__)
T = TypeVar("T")
Key = tuple[str, int]  # job, attempt


class Ask(Protocol):
    """Read the core between two batches (Controller.ask)."""

    def __call__(self, question: Callable[[SchedulerCore], T]) -> Awaitable[T]: ...


class SteppingNodes(Protocol):
    """Daemons of nodes, which step the cache ways of a run and report its curves over their channel."""

    async def step_ways(self, order: StartJob, expected_s: float) -> bool:
        """Ask for it; False: the nodes of this run do not report."""
        ...


@dataclass(frozen=True)
class _Known:
    """The core's knowledge of a run."""

    job: Job
    node: NodeGroup
    profile: Profile | None  # for this number of processes on such nodes
    owner: str  # owner of the profile that its run writes

    def at_scale(self, scale: int) -> ScaleProfile | None:
        """Return what was measured at this scale before."""
        return None if self.profile is None else self.profile.at_scale(scale)


@dataclass
class _Watched:
    """A run that is measured."""

    order: StartJob
    begun_s: float | None = None
    known: _Known | None = None
    last: Reading | None = None
    first: Reading | None = None
    readings: Readings = field(default_factory=Readings)
    next_s: float = 0.0  # time of the next reading of an exclusive run
    episodes: list[Episode] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)  # that measure it
    met: bool = False  # another job was on one of its nodes
    awaited: bool = False  # its nodes count its curves, and will report them

    @property
    def key(self) -> Key:
        """The job and the attempt."""
        return self.order.job_id, self.order.attempt

    @property
    def nodes(self) -> set[int]:
        """The numbers of its nodes."""
        return {node for first, count in self.order.nodes for node in range(first, first + count)}

    @property
    def alone(self) -> bool:
        """True if it has had its nodes to itself since its start, as an exclusive job or by chance."""
        return self.order.exclusive or (not self.met and not self.order.ways)


class MeasuringBackend:
    """A back end that measures its runs. `bind` gives it the core to ask, before `open`."""

    def __init__(
        self,
        inner: Backend,
        meter: Meter,
        period_s: float = PERIOD_S,
        drift: DriftWatch | None = None,
        clock: Callable[[], float] = time.monotonic,
        episode_s: float = 0.0,
        sees_all: bool = True,
    ) -> None:
        self.inner, self.meter, self.period_s = inner, meter, period_s
        self.drift, self._clock, self._episode_s = drift or DriftWatch(), clock, episode_s
        self._sees_all = sees_all  # False: jobs may be on the nodes that did not come through this back end
        self.learns = True  # False: runs that start now are not measured, as the policy uses no profiles
        self.nodes: SteppingNodes | None = None  # daemons that measure curves where the runs are
        self._ask: Ask | None = None
        self._runs: dict[Key, _Watched] = {}
        self._facts: asyncio.Queue[Event] = asyncio.Queue()
        self._tasks: set[asyncio.Task[None]] = set()
        self._listening: asyncio.Task[None] | None = None
        self._said: set[str] = set()
        self._strangers: set[Key] = set()  # runs of an earlier controller: their neighbours are not known

    def bind(self, ask: Ask) -> None:
        """Set the function that reads the core."""
        self._ask = ask

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # methods of this back end only (output, bound, notices)

    # ---- a back end -------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the back end and start the measuring tasks."""
        await self.inner.open()
        self._do(self._read_exclusive())
        if self.period_s > 0:
            self._do(self._measure_progress())

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        """Pass a command on; starts and moves are remembered."""
        if isinstance(command, StartJob) and self.learns:
            self._add(_Watched(command))
        try:
            await self.inner.execute(command, launch)
        except BaseException:
            if isinstance(command, StartJob):
                self._runs.pop((command.job_id, command.attempt), None)
            raise
        if isinstance(command, MoveJob) and (run := self._runs.get((command.job_id, command.attempt))) is not None:
            run.last, run.met = None, True  # its progress on the new nodes is measured from the next reading on

    def _add(self, run: _Watched) -> None:
        nodes = run.nodes
        for other in self._runs.values():
            if not nodes.isdisjoint(other.nodes):
                run.met = other.met = True
        run.met = run.met or bool(self._strangers) or not self._sees_all
        self._runs[run.key] = run

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of the back end and of the measurements; a manager is heard once its runs were observed."""
        if self._listening is None:
            self._listening = self._do(self._listen())
        while True:
            yield await self._facts.get()

    async def observe(self) -> list[Run]:
        """Return the runs of the back end."""
        found = await self.inner.observe()
        self._strangers = {(one.job_id, one.attempt) for one in found if one.stands == RUNNING} - set(self._runs)
        return found

    async def settled(self, job_id: str, attempt: int) -> None:
        """Pass this on to the back end."""
        await self.inner.settled(job_id, attempt)

    async def close(self) -> None:
        """Stop measuring, then close the back end."""
        await _cancel(self._tasks)
        for key in self._runs:
            self.meter.end(*key)
        self._runs.clear()
        await self.inner.close()

    # ---- runs -------------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            try:
                async for event in self.inner.events():
                    for fact in await self._told(event):
                        self._facts.put_nowait(fact)
            except Exception:
                log.exception("the back end does not report")
                await asyncio.sleep(1.0)

    async def _told(self, event: Event) -> list[Event]:
        """Return the event, with what was learned from it first: the core must know that before it decides again."""
        learned: list[Event] = []
        try:
            if isinstance(event, JobStarted):
                self._begun((event.job_id, event.attempt))
            elif isinstance(event, JobFinished):
                learned = await self._ended((event.job_id, event.attempt), event.status)
        except Exception:  # an error in a measurement must not lose the event itself
            log.exception("a run of job %s was not measured", getattr(event, "job_id", ""))
        return [*learned, event]

    def _begun(self, key: Key) -> None:
        run = self._runs.get(key)
        if run is not None and run.begun_s is None and self._ask is not None:
            run.begun_s = self._clock()
            run.tasks.append(self._do(self._begin(run, self._ask)))

    async def _begin(self, run: _Watched, ask: Ask) -> None:
        """Begin to measure a run; of a run shorter than BRIEF_S only the time is measured."""
        await asyncio.sleep(BRIEF_S)
        run.known = await ask(lambda core: _known(core, run.order))
        if run.known is None or not run.known.job.program:
            return
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self.meter.begin, *run.key)
        run.first = run.last = await self._read(run.key)
        run.readings.add(run.first)
        if run.order.purpose == CURVE and run.order.exclusive and self.nodes is not None:
            timed = run.known.at_scale(run.order.scale)
            run.awaited = await self.nodes.step_ways(run.order, 0.0 if timed is None else timed.time_s)
        elif run.order.purpose == CURVE and run.order.exclusive and "instructions" in run.first.amounts:
            run.tasks.append(self._do(self._step_ways(run, run.known)))

    async def _ended(self, key: Key, status: str) -> list[Event]:
        self._strangers.discard(key)
        run = self._runs.pop(key, None)
        if run is None:
            return []
        await _cancel(run.tasks)
        took_s = self.meter.lasted_s(*key)
        if took_s is None and run.begun_s is not None:
            took_s = self._clock() - run.begun_s
        self.meter.end(*key)
        if status == DONE and run.known is None and run.begun_s is not None and self._ask is not None:
            run.known = await self._ask(lambda core: _known(core, run.order))
        if status != DONE or run.known is None or not run.known.job.program or took_s is None or took_s <= 0:
            return []
        return self._lessons(run, run.known, took_s)

    def _lessons(self, run: _Watched, known: _Known, took_s: float) -> list[Event]:
        """Return what a run that ended well says about its program."""
        job, order = known.job, run.order

        if order.purpose == CURVE:
            if run.awaited and self._ask is not None:
                self._do(self._await_report(run, known, self._ask))
                return []
            curves = self._curves(run, known)
            return [] if curves is None else [_learned(known, curves)]
        before = known.at_scale(order.scale)
        same = known.profile is not None and known.profile.processes == job.processes
        expected_s = before.time_s if before is not None and same else 0.0
        counted_s, rates = counted_between(run.first, run.last).seconds, run.readings.columns()
        reason = self.drift.note(job.program, job.processes, order.scale, expected_s, took_s, run.alone, known.owner)
        usual = before.counters if before is not None and same and run.alone else {}
        usual = usual if counted_s >= LEAST_COUNTED_S else {}
        if not reason:
            reason = self.drift.note_counters(job.program, job.processes, order.scale, usual, rates, known.owner)
        facts: list[Event] = []
        if reason:
            log.log(logging.WARNING if order.exclusive else logging.INFO, "%s: it is profiled again", reason)
            facts.append(ProgramDrifted(job.program, reason, known.owner))
        fits = reason or not (self.drift.departs(expected_s, took_s) or self.drift.shifted(usual, rates))
        if run.alone and fits and (order.exclusive or reason or not expected_s):  # alone by chance: one time is enough
            facts.append(_learned(known, ScaleProfile(order.scale, took_s, counters=rates, measured_at_us=_now_us())))
        return facts

    # ---- curves -----------------------------------------------------------------------------------------------------

    def _divides(self, node: NodeGroup) -> bool:
        return bool(node.ways) and self.inner.capabilities.shares

    async def _step_ways(self, run: _Watched, known: _Known) -> None:
        """Change the number of ways every few seconds, cyclically, and count after each change has settled."""
        if not self._divides(known.node):
            return
        timed = known.at_scale(run.order.scale)
        tour = tour_of(known.node.ways, known.node.min_ways, 0.0 if timed is None else timed.time_s)
        length_s = self._episode_s or tour.episode_s
        settle_s = tour.settle_s * length_s / tour.episode_s
        job_id = run.order.job_id
        while True:
            for ways in tour.ways:
                try:
                    await self.inner.execute(SetShares(run.order.nodes, ((job_id, 0, ways),)))
                except (BackendError, OSError) as error:
                    self._warn_once(f"the cache cannot be stepped for {job_id}: {error}")
                    return
                await asyncio.sleep(settle_s)
                before = await self._read(run.key)
                await asyncio.sleep(length_s - settle_s)
                seconds, amounts = counted_between(before, await self._read(run.key))
                if amounts and seconds > 0:
                    run.episodes.append(Episode(ways, seconds, amounts))

    def _curves(self, run: _Watched, known: _Known) -> ScaleProfile | None:
        """Return the curves of a run; where the cache cannot be divided, they are the same for any number of ways."""
        seconds, amounts = counted_between(run.first, run.last)
        found = find_curves(run.episodes, amounts, seconds, known.node.ways, self._divides(known.node))
        if found.lacks:
            self._warn_once(f"curves of {known.job.program}: {found.lacks}")
        return None if found.curves is None else at_scale(run.order.scale, found.curves)

    async def _await_report(self, run: _Watched, known: _Known, ask: Ask) -> None:
        """Take the curves as level if the nodes have not reported them in time: the program is not tried for ever."""
        await asyncio.sleep(REPORTED_WITHIN_S)
        job, scale = known.job, run.order.scale

        def reported(core: SchedulerCore) -> bool:
            profile = core.view(0).profile(job.program, job.processes, known.owner)
            measured = None if profile is None else profile.at_scale(scale)
            return measured is not None and measured.ipc is not None

        if not await ask(reported):
            log.warning("no node reported the curves of %s, job %s: they are taken as level", job.program, job.job_id)
            self._facts.put_nowait(_learned(known, at_scale(scale, level_curves({}, 0.0, known.node.ways))))

    # ---- progress ---------------------------------------------------------------------------------------------------

    async def _read_exclusive(self) -> None:
        """Read exclusive runs often, so that the last reading is near their end."""
        while True:
            await asyncio.sleep(SHORTEST_READ_S)
            for key, run in list(self._runs.items()):
                now_s = self._clock()
                if run.order.exclusive and run.first is not None and now_s >= run.next_s:
                    age_s = now_s - run.first.at_s
                    run.next_s = now_s + min(max(READ_SHARE * age_s, SHORTEST_READ_S), LONGEST_READ_S)
                    found = await self._read(key)
                    run.readings.add(found)
                    if found.amounts:
                        run.last = found

    async def _measure_progress(self) -> None:
        while True:
            await asyncio.sleep(self.period_s)
            try:
                for fact in await self.look():
                    self._facts.put_nowait(fact)
            except Exception:
                log.exception("progress was not measured")

    async def look(self) -> list[Event]:
        """Return the progress of every run on shared nodes since the last call."""
        if self._ask is None:
            return []
        facts: list[Event] = []
        shared = {key: run for key, run in self._runs.items() if run.last is not None and not run.order.exclusive}
        known = await self._ask(lambda core: {key: _known(core, run.order) for key, run in shared.items()})
        for key, run in shared.items():
            now = await self._read(key)
            before, run.last = run.last, now
            run.readings.add(now)
            run.known = known[key] or run.known
            counted = counted_between(before, now)
            progress = None if run.known is None else progress_of(counted, run.known.profile)
            if progress is not None and key in self._runs:
                facts.append(ProgressMeasured(*key, progress, round(counted.seconds * SECOND)))
        return facts

    async def _read(self, key: Key) -> Reading:
        """Read the meter; in a thread, because reading a process tree takes milliseconds."""

        def read() -> Reading:
            began_s = self._clock()
            try:
                found = self.meter.sample(*key)
            except OSError:
                found = {}
            return Reading(0.5 * (began_s + self._clock()), found)

        return await asyncio.to_thread(read)

    def _warn_once(self, sentence: str) -> None:
        if sentence not in self._said:
            self._said.add(sentence)
            log.warning("%s", sentence)

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return task

    def _over(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a run was not measured", exc_info=error)


def at_scale(scale: int, curves: Curves) -> ScaleProfile:
    """Return curves as the measurement of a run without a time: stepping has changed that."""
    return ScaleProfile(
        scale,
        ipc=curves.ipc,
        bandwidth_gbs=curves.bandwidth_gbs,
        miss_rate=curves.miss_rate,
        measured_at_us=_now_us(),
    )


def _learned(known: _Known, measured: ScaleProfile) -> ProfileLearned:
    job = known.job
    return ProfileLearned(job.program, job.processes, measured, hardware_key(known.node), known.owner)


def stored_facts(profiles: list[Profile]) -> list[ProfileLearned]:
    """Return the stored profiles as events for a new core."""
    return [
        ProfileLearned(one.program, one.processes, measured, one.hardware, one.owner)
        for one in profiles
        for measured in one.scales
    ]


async def _cancel(tasks: Collection[asyncio.Task[None]]) -> None:
    tasks = list(tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _known(core: SchedulerCore, order: StartJob) -> _Known | None:
    state = core.state
    row = state.rows.get(order.job_id)
    if row is None:
        return None
    job, node = state.spec(row), state.kinds.groups[int(state.kinds.of_node[order.nodes[0][0]])]
    owner = job.profile_owner or owner_of(job.user)  # a job of an older journal has only a user
    return _Known(job, node, core.view(0).profile(job.program, job.processes, owner), owner)


def _now_us() -> int:
    return time.time_ns() // 1000
