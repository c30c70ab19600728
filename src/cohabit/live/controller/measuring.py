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
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from cohabit.agent.profiling.drift import DriftWatch
from cohabit.agent.profiling.episodes import Curves, Episode, curves_of, flat, tour_of
from cohabit.backend.protocol import DONE, RUNNING, Backend, BackendError, Launch, Run
from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import NodeGroup
from cohabit.model.command import Command, MoveJob, SetShares, StartJob
from cohabit.model.event import Event, JobFinished, JobStarted, ProfileLearned, ProgramDrifted, ProgressMeasured
from cohabit.model.hardware import hardware_key
from cohabit.model.job import Job
from cohabit.model.profile import Profile, ScaleProfile, owner_of
from cohabit.model.units import SECOND

PERIOD_S = 10.0
OFTEN_S, SELDOM_S, SHARE = (
    0.25,
    5.0,
    0.05,
)  # an exclusive run is read each twentieth of its age: its end is not announced
BRIEF_S = 0.05  # a run is measured when it is this old
TIME, CURVE = "time", "curve"
MEANS = ("instructions", "cycles", "cache_references", "cache_misses", "memory_total_bytes", "task_clock")
log = logging.getLogger(__name__)
T = TypeVar("T")
Amounts = Mapping[str, float]


class Ask(Protocol):
    """Read the core between two batches (Controller.ask)."""

    def __call__(self, question: Callable[[SchedulerCore], T]) -> Awaitable[T]: ...


class Meter(Protocol):
    """Read what runs of the back end have used; live/controller/local_meter.py does so on this machine."""

    def begin(self, job_id: str, attempt: int) -> None:
        """Attach the counters to a run that has begun; may fail with OSError."""
        ...

    def sample(self, job_id: str, attempt: int) -> Amounts:
        """Return the amounts so far, by the names of model/counters.py; empty if nothing can be read."""
        ...

    def lasted_s(self, job_id: str, attempt: int) -> float | None:
        """Return how long a finished run took, if that is recorded."""
        ...

    def end(self, job_id: str, attempt: int) -> None:
        """Release the counters of a run."""
        ...


@dataclass(frozen=True)
class _Known:
    """What the core knows of a run."""

    job: Job
    node: NodeGroup
    profile: Profile | None  # for this number of processes on such nodes
    owner: str  # owner of the profile that its run writes


@dataclass
class _Watched:
    """A run that is measured."""

    order: StartJob
    begun_s: float | None = None
    known: _Known | None = None
    last: tuple[float, Amounts] | None = None  # at the last reading
    first: tuple[float, Amounts] | None = None
    next_s: float = 0.0  # time of the next reading of an exclusive run
    episodes: list[Episode] = field(default_factory=list)
    beginning: asyncio.Task[None] | None = None
    stepping: asyncio.Task[None] | None = None
    met: bool = False  # another job was on one of its nodes

    @property
    def alone(self) -> bool:
        """Whether it has had its nodes to itself since its start, as an exclusive job or by chance."""
        return self.order.exclusive or (not self.met and not self.order.ways)


class MeasuringBackend:
    """A back end that measures its runs. `bind` gives it the core to ask, before `open`."""

    def __init__(
        self, inner: Backend, meter: Meter, period_s: float = PERIOD_S, drift: DriftWatch | None = None,
        clock: Callable[[], float] = time.monotonic, episode_s: float = 0.0,
    ) -> None:  # fmt: skip
        self.inner, self.meter, self.period_s = inner, meter, period_s
        self.drift, self._clock, self._episode_s = drift or DriftWatch(), clock, episode_s
        self._ask: Ask | None = None
        self._runs: dict[tuple[str, int], _Watched] = {}
        self._facts: asyncio.Queue[Event] = asyncio.Queue()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._said: set[str] = set()
        self._strangers: set[tuple[str, int]] = set()  # runs of an earlier controller: their neighbours are not known

    def bind(self, ask: Ask) -> None:
        """Set the function that reads the core."""
        self._ask = ask

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)  # methods of this back end only (output, bound, notices)

    # ---- a back end -------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Open the back end and start the measuring tasks."""
        await self.inner.open()
        self._do(self._listen())
        self._do(self._read_often())
        if self.period_s > 0:
            self._do(self._look_often())

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        """Pass a command on; starts and moves are remembered."""
        if isinstance(command, StartJob):
            self._arrives(_Watched(command))
        try:
            await self.inner.execute(command, launch)
        except BaseException:
            if isinstance(command, StartJob):
                self._runs.pop((command.job_id, command.attempt), None)
            raise
        if isinstance(command, MoveJob) and (run := self._runs.get((command.job_id, command.attempt))) is not None:
            run.last, run.met = None, True  # its progress on the new nodes is measured from the next reading on

    def _arrives(self, run: _Watched) -> None:
        nodes = _numbers(run.order)
        for other in self._runs.values():
            if not nodes.isdisjoint(_numbers(other.order)):
                run.met = other.met = True
        run.met = run.met or bool(self._strangers)
        self._runs[run.order.job_id, run.order.attempt] = run

    async def events(self) -> AsyncIterator[Event]:
        """Yield the events of the back end and of the measurements."""
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
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for key in list(self._runs):
            self._let_go(key)
        await self.inner.close()

    # ---- runs -------------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        while True:
            try:
                async for event in self.inner.events():
                    for fact in await self._told(event):
                        self._facts.put_nowait(fact)
            except OSError:
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

    def _begun(self, key: tuple[str, int]) -> None:
        run = self._runs.get(key)
        if run is not None and run.begun_s is None and self._ask is not None:
            run.begun_s = self._clock()
            run.beginning = self._do(self._begin(key, run, self._ask))

    async def _begin(self, key: tuple[str, int], run: _Watched, ask: Ask) -> None:
        """Begin to measure a run; of a run shorter than BRIEF_S only the time is measured."""
        await asyncio.sleep(BRIEF_S)
        run.known = await ask(lambda core: _known(core, run.order))
        if run.known is None or not run.known.job.program:
            return
        with contextlib.suppress(OSError):
            await asyncio.to_thread(self.meter.begin, *key)
        run.first = run.last = await self._read(key)
        if run.order.purpose == CURVE and run.order.exclusive:
            run.stepping = self._do(self._step_ways(key, run))

    async def _ended(self, key: tuple[str, int], status: str) -> list[Event]:
        self._strangers.discard(key)
        run = self._runs.pop(key, None)
        if run is None:
            return []
        for task in (run.beginning, run.stepping):
            if task is not None and not task.done():
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
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
        job, order, hardware = known.job, run.order, hardware_key(known.node)
        before = None if known.profile is None else known.profile.at_scale(order.scale)
        expected_s = 0.0 if before is None or known.profile is None or known.profile.processes != job.processes else (
            before.time_s
        )  # fmt: skip
        if order.purpose == CURVE:
            measured = self._curves(run, known)
            return (
                []
                if measured is None
                else [ProfileLearned(job.program, job.processes, measured, hardware, known.owner)]
            )
        reason = self.drift.note(job.program, job.processes, order.scale, expected_s, took_s, run.alone, known.owner)
        facts: list[Event] = []
        if reason:
            log.log(logging.WARNING if order.exclusive else logging.INFO, "%s: it is profiled again", reason)
            facts.append(ProgramDrifted(job.program, reason, known.owner))
        fits = reason or not self.drift.departs(expected_s, took_s)
        if run.alone and fits and (order.exclusive or reason or not expected_s):  # alone by chance: one time is enough
            timed = ScaleProfile(order.scale, took_s, counters=_means(run), measured_at_us=time.time_ns() // 1000)
            facts.append(ProfileLearned(job.program, job.processes, timed, hardware, known.owner))
        return facts

    # ---- curves -----------------------------------------------------------------------------------------------------

    async def _step_ways(self, key: tuple[str, int], run: _Watched) -> None:
        """Change the number of ways every few seconds, cyclically, and count after each change has settled."""
        assert run.known is not None
        node, profile = run.known.node, run.known.profile
        if not node.ways or not self.inner.capabilities.shares:
            return
        timed = None if profile is None else profile.at_scale(run.order.scale)
        tour = tour_of(node.ways, node.min_ways, 0.0 if timed is None else timed.time_s)
        length_s = self._episode_s or tour.episode_s
        settle_s = tour.settle_s * length_s / tour.episode_s
        while True:
            for ways in tour.ways:
                try:
                    await self.inner.execute(SetShares(run.order.nodes, ((key[0], 0, ways),)))
                except (BackendError, OSError) as error:
                    self._say(f"the cache cannot be stepped for {key[0]}: {error}")
                    return
                await asyncio.sleep(settle_s)
                since_s, before = await self._read(key)
                await asyncio.sleep(length_s - settle_s)
                now_s, after = await self._read(key)
                amounts = _difference(before, after)
                if amounts and now_s > since_s:
                    run.episodes.append(Episode(ways, now_s - since_s, amounts))

    def _curves(self, run: _Watched, known: _Known) -> ScaleProfile | None:
        """Return the curves of a run; where the cache cannot be divided, they are the same for any number of ways."""
        found = curves_of(run.episodes)
        if not known.node.ways or not self.inner.capabilities.shares:
            found = self._level(run, known)
        if found.ipc is None or found.bandwidth_gbs is None:
            self._say(
                f"the curves of {known.job.program} were not measured: the run was too short, or nothing was counted"
            )
            return None
        return ScaleProfile(
            run.order.scale, ipc=found.ipc, bandwidth_gbs=found.bandwidth_gbs, miss_rate=found.miss_rate,
            measured_at_us=time.time_ns() // 1000,
        )  # fmt: skip

    def _level(self, run: _Watched, known: _Known) -> Curves:
        """Return constant curves, for an undivided cache. What cannot be counted is logged and books nothing."""
        amounts, seconds = {}, 0.0
        if run.first is not None and run.last is not None:
            amounts, seconds = _difference(run.first[1], run.last[1]), run.last[0] - run.first[0]
        cycles, done = amounts.get("cycles", 0.0), amounts.get("instructions", 0.0)
        moved = amounts.get("memory_total_bytes")
        if moved is None:
            moved = 64.0 * amounts["cache_misses"] if "cache_misses" in amounts else None
        if moved is None:
            self._say("memory traffic cannot be counted on this machine: programs share nodes by cores alone")
        ways = known.node.ways
        gbs = 0.0 if moved is None or seconds <= 0 else moved / seconds / 1e9
        return Curves(flat(done / cycles if cycles > 0 else 1.0, ways), flat(gbs, ways), None)

    # ---- progress ---------------------------------------------------------------------------------------------------

    async def _read_often(self) -> None:
        """Read exclusive runs often, so that the last reading is near their end."""
        while True:
            await asyncio.sleep(OFTEN_S)
            for key, run in list(self._runs.items()):
                now_s = self._clock()
                if run.order.exclusive and run.first is not None and now_s >= run.next_s:
                    run.next_s = now_s + min(max(SHARE * (now_s - run.first[0]), OFTEN_S), SELDOM_S)
                    found = await self._read(key)
                    if found[1]:
                        run.last = found

    async def _look_often(self) -> None:
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
            since, run.last = run.last, now
            run.known = known[key] or run.known
            if since is None or run.known is None or now[0] <= since[0]:
                continue
            window_s = now[0] - since[0]
            progress = progress_of(_difference(since[1], now[1]), window_s, run.known.profile)
            if progress is not None and key in self._runs:
                facts.append(ProgressMeasured(*key, progress, round(window_s * SECOND)))
        return facts

    async def _read(self, key: tuple[str, int]) -> tuple[float, Amounts]:
        """Return the time and the amounts; in a thread, because reading a process tree takes milliseconds."""

        def read() -> tuple[float, Amounts]:
            began_s = self._clock()
            try:
                found = self.meter.sample(*key)
            except OSError:
                found = {}
            return 0.5 * (began_s + self._clock()), found

        return await asyncio.to_thread(read)

    def _let_go(self, key: tuple[str, int]) -> None:
        self._runs.pop(key, None)
        self.meter.end(*key)

    def _say(self, sentence: str) -> None:
        """Log a warning once."""
        if sentence not in self._said:
            self._said.add(sentence)
            log.warning("%s", sentence)

    def _do(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def progress_of(amounts: Amounts, window_s: float, profile: Profile | None) -> float | None:
    """Return the speed relative to running alone: instructions per second, or else processor time per second.

    Processor time shows that a job shares cores, not that it waits for memory: then it is an upper bound. None: nothing
    was counted, or the program was never counted alone.
    """
    alone = None if profile is None else profile.at_scale(1)
    if alone is None or window_s <= 0:
        return None
    for name in ("instructions", "task_clock"):
        base = alone.counters.get(f"{name}_mean", 0.0)
        if base > 0 and name in amounts:
            return amounts[name] / window_s / base
    return None


def stored_facts(profiles: list[Profile]) -> list[ProfileLearned]:
    """Return the stored profiles as events for a new core."""
    return [
        ProfileLearned(one.program, one.processes, measured, one.hardware, one.owner)
        for one in profiles
        for measured in one.scales
    ]


def _known(core: SchedulerCore, order: StartJob) -> _Known | None:
    state = core.state
    row = state.rows.get(order.job_id)
    if row is None:
        return None
    job, node = state.spec(row), state.kinds.groups[int(state.kinds.of_node[order.nodes[0][0]])]
    owner = job.profile_owner or owner_of(job.user)  # a job of an older journal has only a user
    return _Known(job, node, core.view(0).profile(job.program, job.processes, owner), owner)


def _numbers(order: StartJob) -> set[int]:
    return {node for first, count in order.nodes for node in range(first, first + count)}


def _difference(before: Amounts, after: Amounts) -> dict[str, float]:
    """Return the amounts counted in between; a counter that was reset is left out."""
    return {name: after[name] - before[name] for name in after if name in before and after[name] >= before[name]}


def _means(run: _Watched) -> dict[str, float]:
    """Return the amounts per second over the measured part of a run."""
    if run.first is None or run.last is None or run.last[0] <= run.first[0]:
        return {}
    amounts, seconds = _difference(run.first[1], run.last[1]), run.last[0] - run.first[0]
    return {f"{name}_mean": amounts[name] / seconds for name in MEANS if amounts.get(name, 0.0) > 0}
