"""The back end on top of a resource manager: turns orders into a placement and a release, and the manager's own changes
into events.

A restart loses nothing: what was done with a job is written in its mark. It touches no job that is not marked as ours,
never cancels a run that the core does not expect, and waits while the manager does not answer.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from cohabit.backend.protocol import ENDED, FAILED, NEVER, RUNNING, STOPPED, BackendError, Capabilities, Launch, Run
from cohabit.backend.steered.contract import Manager, ManagerAway, ManagerRefused
from cohabit.backend.steered.fuses import Fuses
from cohabit.backend.steered.handback import give_back
from cohabit.backend.steered.holds import holder
from cohabit.backend.steered.known import ORDERED, PARKED, QUEUED, RUNS, Known, Picture, Wishes
from cohabit.backend.steered.latency import pause_s
from cohabit.backend.steered.marks import BACK, HELD, HOLD, NOTED, Mark, flag_of, is_back, is_run, read_mark, run_mark
from cohabit.backend.steered.naming import Names, mates_of
from cohabit.backend.steered.node_facts import NodeFact
from cohabit.backend.steered.node_orders import NodeOrders
from cohabit.backend.steered.noting import FREED, note, stop_run
from cohabit.backend.steered.patient import LONGEST_PAUSE_S, PAUSE_S, PatientManager
from cohabit.backend.steered.retaking import Retaking
from cohabit.backend.steered.shapes import STATUS, Discovered, ManagerJob
from cohabit.backend.steered.watcher import BACK_OFF_US, Watcher
from cohabit.model.command import CancelJob, Command, RenewJob, SetShares, StartJob, StopJob
from cohabit.model.event import Event, JobFinished, StartRefused
from cohabit.model.units import FOREVER, SECOND

TOO_LATE = "the agreed instant had passed before it could be started"
POLL_S = 1.0
PATIENCE_S = 20.0  # between the release of a job and its start
MATES_WITHIN_S = 2.0  # the same for a job with mates that start elsewhere at that instant
STALLS_S = 3.0  # where there are mates, a manager that has not answered for this long counts as away
SLOW_S = 1.0  # a look that takes longer may have waited for a manager that was away
NEVER_RUNS, NODE_LOST = "can never run", "was lost"  # the core's words in two cancel orders that are not the owner's
log = logging.getLogger(__name__)


class Expected(NamedTuple):
    """A job of the core after a restart."""

    attempt: int
    active: bool  # the core expects a run of it
    limit_us: int = 0  # as the core knows it
    confirmed: bool = False  # that run had begun
    bandwidth_mbs: int = 0  # booked on each node
    any_nodes: bool = False  # its owner named no number of nodes


class SteeredBackend:
    """Steer one manager. `expected` are the jobs of the restored core, `told` the states of nodes it was told, `first`
    events to be reported before all others, `over` jobs it had once and will never take again, `orders` the folder
    where nodes read how their caches are divided, `may_hold` whether jobs may be held now, by the lease."""

    capabilities = Capabilities(fuses=True)

    def __init__(
        self,
        manager: Manager,
        found: Discovered,
        expected: Mapping[str, Expected] | None = None,
        told: Mapping[int, NodeFact] | None = None,
        poll_s: float = POLL_S,
        patience_s: float = PATIENCE_S,
        first: Sequence[Event] = (),
        over: Collection[str] = (),
        fuses: Fuses | None = None,
        mates_within_s: float = MATES_WITHIN_S,
        names: Names | None = None,
        orders: Path | None = None,
        may_hold: Callable[[], bool] = lambda: True,
    ) -> None:
        self.manager, self.found, self._poll_s = manager, found, poll_s
        self.names, self.fuses = names or Names(found.terms), fuses or Fuses(None, int)
        self.node_orders = NodeOrders(orders, found.names, self.names.theirs, self._booked_mbs)
        self._patient = PatientManager(manager, self.names)
        self.watcher = Watcher(found.names, found.terms, manager.title, patience_s, mates_within_s, self._burnt)
        for number, state in (told or {}).items():
            self.watcher.told[number] = state
        self._expected, self.watcher.over = dict(expected or {}), set(over)
        self._look_s = 0.0  # how long the last look took
        self._soon, self.alone = asyncio.Event(), asyncio.Lock()  # alone: no look while a job is submitted
        self._to_do: list[tuple[str, str]] = []  # (what, job)
        self.retaking = Retaking(manager, self._patient, found.terms, may_hold)
        self._kept: set[str] = set()  # could not be given back yet
        self._events: list[Event] = list(first)

    # ---- life -------------------------------------------------------------------------------------------------------

    async def open(self) -> None:
        """Look at the manager; repeat until it answers."""
        while True:
            try:
                await self.picture()
                return
            except ManagerAway as error:
                self._patient.say_away(error)
                await asyncio.sleep(LONGEST_PAUSE_S)

    async def close(self) -> None:
        """Release nothing: jobs stay where they are, held jobs until the lease is over."""

    @property
    def lasted(self) -> Mapping[tuple[str, int], float]:
        """How long runs took that are over and not settled, in seconds, by the manager's instants."""
        return self.watcher.lasted

    async def settled(self, job_id: str, attempt: int) -> None:
        """Forget how long the run took: the manager keeps its own records."""
        self.watcher.lasted.pop((job_id, attempt), None)

    async def observe(self) -> list[Run]:
        """Return the state of the runs the core expects, from the manager alone; a job that has not begun is held
        again."""
        picture = await self._patient.insist(self.picture)
        jobs, runs = picture.jobs, list[Run]()
        for name, (attempt, active, limit_us, confirmed, booked_mbs, any_nodes) in self._expected.items():
            job = jobs.get(name)
            same = job is not None and is_run(job.mark, attempt)
            if active and same and job is not None and job.waits and not job.held:
                job = await self._patient.fence(name) or job
            if active and job is None:
                runs.append(Run(name, attempt, ENDED, (await self._patient.ended(name, attempt)).status))
            elif job is None or not active or not same:
                known = self._queued(name, job, attempt, limit_us)
                if any_nodes and job is not None and is_back(job.mark):  # whose mark does not say so
                    known.before = known.before._replace(most=0)
                runs += [Run(name, attempt, NEVER)] if active else []
            elif job.runs:
                self.watcher.take(job, attempt, RUNS).bandwidth_mbs = booked_mbs
                runs.append(Run(name, attempt, RUNNING))
            elif job.waits:
                known = self._queued(name, job, attempt, limit_us)
                if confirmed and job.held and not (flag_of(job.mark) or self.watcher.was_stopped(known, job)):
                    self._events.append(known.park(HOLD))  # an operator's requeuehold, while we were away
                runs.append(Run(name, attempt, ENDED, STOPPED) if confirmed else Run(name, attempt, NEVER))
            else:
                runs.append(Run(name, attempt, ENDED, STATUS.get(job.state, FAILED)))
        for known in self.watcher.known.values():
            known.touched_s = max(known.touched_s, picture.begun_s)
        return runs

    def _queued(self, name: str, job: ManagerJob | None, attempt: int, limit_us: int) -> Known:
        """Add a job that is in the core's queue; the first look reports what happened to it meanwhile."""
        known = Known(name) if job is None else self.watcher.take(job)
        known.attempt, known.limit_us = attempt, limit_us
        self.watcher.known[name] = known
        if job is not None and holder(job):
            self._events.append(known.park(NOTED))
        return known

    # ---- facts ------------------------------------------------------------------------------------------------------

    async def events(self) -> AsyncIterator[Event]:
        """Look at the manager again and again; yield what changed."""
        while True:
            look = asyncio.create_task(self._poll())
            try:
                if self.found.terms.domain and not (await asyncio.wait({look}, timeout=STALLS_S))[0]:
                    for event in self.watcher.away():
                        yield event
                for event in await look:
                    yield event
            finally:
                look.cancel()
            self._soon.clear()
            try:
                waits = any(known.phase == QUEUED for known in self.watcher.known.values())
                async with asyncio.timeout(pause_s(self._poll_s, self._look_s, waits)):
                    await self._soon.wait()
                await asyncio.sleep(min(PAUSE_S, self._poll_s))  # gives the manager time to act on its orders
            except TimeoutError:
                continue

    async def _poll(self) -> list[Event]:
        facts, self._events = self._events, []
        try:
            await self._do()
            await self._place_again()
            async with self.alone:
                new, wishes = self.watcher.look(await self.picture())
            facts += new
            self._take_down(wishes)
            await self._do()
            self.retaking.say()
        except (ManagerAway, ManagerRefused) as error:  # a refused question was not answered either
            self._patient.say_away(error)
            facts += self.watcher.away() if self.found.terms.domain else []
        facts += self._events
        self._events = []
        for one in facts:
            if isinstance(one, JobFinished | StartRefused):
                self.fuses.put_out(self.names.theirs(one.job_id))
        return facts

    async def picture(self) -> Picture:
        """Read nodes before jobs: when a node is lost, its jobs are seen as they are after that."""
        begun_s, since_s = time.time(), time.monotonic()
        nodes, windows = await asyncio.gather(self.manager.nodes(), self.manager.windows())
        jobs = self.names.ours(await self.manager.jobs())
        if self._patient.say_back():
            self.watcher.back_s = time.time()
        self._look_s = time.monotonic() - since_s
        if self._look_s > SLOW_S:  # newer commands wait for a controller that restarts instead of failing
            self.watcher.back_s = max(self.watcher.back_s, await self.manager.started_s())
        return Picture(begun_s, jobs, nodes, windows)

    def _take_down(self, wishes: Wishes) -> None:
        """Keep wishes until they are done: the manager may be away now."""
        for text in wishes.said:
            log.warning("%s", text)
        for name, why in wishes.pass_on.items():
            log.warning("job %s %s: left to %s", name, why, self.manager.title)
        for name in wishes.stop:
            log.error("job %s runs where it should not and is queued again", name)
        self._to_do += wishes.in_order(self._kept)

    async def _do(self) -> None:
        while self._to_do:
            what, name = self._to_do[0]
            known = self.watcher.known.get(name)
            if what == "pass on":
                await self._pass_on(name)
            elif what == "hold":
                await self._try(self.manager.hold, name)
            elif what == "stop":
                await self._try(partial(stop_run, self.manager), name)
            elif what.startswith("note "):
                await self._try(partial(note, self.manager, what=what.removeprefix("note ")), name)
            elif what == "take again" and known is not None:
                await self.retaking.take(known, self.names)
            elif what == "take back" and known is not None and known.phase == ORDERED:
                await self._take_back(known)
            elif what == "ask" and known is not None:
                self._events.append(await self._patient.ended(name, known.attempt))
                self.watcher.known.pop(name, None)
            self._to_do.pop(0)

    def hold_on_purpose(self, names: Sequence[str], held: bool) -> None:
        """Hold waiting jobs in the manager too, so that they stay held without us; or lift every hold but ours."""
        for name in names:
            known = self.watcher.known.get(name)
            if known is not None and known.phase in (QUEUED, PARKED):
                known.phase, known.parked_as, known.touched_s = PARKED if held else QUEUED, HOLD, time.time()
                self._to_do.append((f"note {HOLD if held else FREED}", name))
        self._soon.set()

    async def _try(self, call: Callable[[str], Awaitable[None]], name: str) -> None:
        known = self.watcher.known.get(name)
        if known is not None:
            known.touched_s = time.time()
        try:
            await call(self.names.theirs(name))
        except ManagerRefused as error:
            log.warning("job %s: %s", name, error)
        if known is not None:
            known.touched_s = time.time()

    async def _pass_on(self, name: str) -> None:
        """Give a job to the plain manager as its owner asked for it; a job with mates goes to its owner, held."""
        job = await self._patient.ask_job(name)
        if job is None or not job.waits:
            self._kept.discard(name)
            return
        mark = read_mark(job.mark) or Mark(HELD)
        mark = mark._replace(mates=mates_of(job, self.found.terms))
        why = await give_back(self.manager, job, self.names.theirs(name), mark, len(self.found.names))
        if why:
            if name not in self._kept:
                log.warning(
                    "job %s could not be given back to %s and is tried again: %s", name, self.manager.title, why
                )
            self._kept.add(name)
        else:
            self._kept.discard(name)

    async def _take_back(self, known: Known) -> None:
        """Hold a released job again that the manager does not start: another decision is due."""
        job = await self._patient.fence(known.name)
        known.touched_s = time.time()
        if job is not None and job.waits and job.held:  # otherwise it started after all; the next picture reports it
            known.phase = QUEUED
            reason = f"{self.manager.title} did not start it: {known.kept_by or 'no reason given'}"
            log.warning("job %s is decided upon anew; %s", known.name, reason)
            self._events.append(StartRefused(known.name, known.attempt, reason, BACK_OFF_US))

    # ---- orders -----------------------------------------------------------------------------------------------------

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        """Carry out an order; an order to stop returns when the run is over."""
        match command:
            case StartJob():
                await self._start(command)
            case CancelJob(job_id, attempt, reason):
                await self._cancel(job_id, attempt, reason)
            case StopJob(job_id, attempt):
                await self._stop(job_id, attempt)
            case RenewJob(job_id, attempt, fuse_us):
                self._renew(job_id, attempt, fuse_us)
            case SetShares():
                await self.node_orders.divide(command)
                return
            case _:
                raise BackendError(f"{self.manager.title} cannot carry out {type(command).__name__}")
        self._soon.set()

    async def _start(self, order: StartJob) -> None:
        known = self.watcher.known.get(order.job_id)
        if known is None:
            raise BackendError(f"{self.manager.title} does not have this job any more")
        if known.attempt >= order.attempt and known.phase != QUEUED:
            return  # the same order again
        if known.phase == PARKED:
            raise BackendError("it is held", 1)
        await self.node_orders.starts(order)
        known.take_down(order, self.found)
        if order.fuse_us < FOREVER:  # on the disk before the run can begin
            self.fuses.light(self.names.theirs(order.job_id), order.attempt, order.fuse_us)
        known.attempt, known.phase, known.stopping, known.to_place = order.attempt, ORDERED, False, True
        known.ordered_s, known.waits_since_s = time.time(), time.monotonic()
        await self._place(known)

    def _booked_mbs(self, name: str) -> int:
        known = self.watcher.known.get(name)
        return 0 if known is None else known.bandwidth_mbs

    def _renew(self, job_id: str, attempt: int, fuse_us: int) -> None:
        """Move the fuse after a message from its mates; remove it if the run no longer needs them."""
        theirs = self.names.theirs(job_id)
        if fuse_us >= FOREVER:
            self.fuses.put_out(theirs)
        else:
            self.fuses.move(theirs, attempt, fuse_us)

    def _burnt(self, name: str, attempt: int) -> bool:
        return self.fuses.burnt(self.names.theirs(name), attempt)

    async def _place(self, known: Known) -> None:
        """Steer and release a job. If the manager does not answer, the effect is unknown until the next look."""
        known.busy, theirs = True, self.names.theirs(known.name)
        try:
            text = run_mark(known.attempt, known.before, known.mates)
            await self.manager.place(theirs, known.nodes, known.cores, text)
            if self._too_late(known):
                await self._give_up(known)
                return
            await self.manager.release([theirs])
            known.to_place = False
        except ManagerAway as error:
            self._patient.say_away(error)
        except ManagerRefused as error:
            job = await self._patient.job(known.name)
            if job is not None and job.runs and is_run(job.mark, known.attempt):
                known.to_place = False  # the first order had its effect
                return
            known.phase, known.to_place = QUEUED, False
            log.warning("job %s: %s refuses its start: %s", known.name, self.manager.title, error)
            raise BackendError(f"{self.manager.title} refuses: {error}") from error
        finally:
            known.busy, known.touched_s = False, time.time()

    async def _place_again(self) -> None:
        for known in list(self.watcher.known.values()):
            if known.to_place and not known.busy:
                try:
                    await (self._give_up(known) if self._too_late(known) else self._place(known))
                except BackendError as error:
                    self._events.append(StartRefused(known.name, known.attempt, str(error), BACK_OFF_US))
                if known.to_place:
                    return  # still away

    def _too_late(self, known: Known) -> bool:
        """Return whether the mates have started elsewhere or given up, so that the job would start alone."""
        return bool(known.mates) and time.monotonic() - known.waits_since_s > self.watcher.mates_within_s

    async def _give_up(self, known: Known) -> None:
        """Give up a start: the manager was away at the agreed instant, and the effect of the order is unknown."""
        job = await self._patient.fence(known.name)
        known.to_place, known.touched_s = False, time.time()
        if job is None or not job.runs:
            known.phase = QUEUED
            self._events.append(StartRefused(known.name, known.attempt, TOO_LATE, 2 * SECOND))

    async def _stop(self, job_id: str, attempt: int) -> None:
        known = self.watcher.known.get(job_id)
        if known is None or known.attempt != attempt or known.phase not in (ORDERED, RUNS):
            return  # it is over
        known.stopping = True
        job = await self._patient.job(job_id)
        try:
            if known.phase == ORDERED and job is not None and job.waits:
                job = await self._patient.fence(job_id) or job
                if job.waits:
                    self._stopped(known, job)
                    return
            requeue = job is not None and job.requeue
            stop = partial(stop_run, self.manager) if requeue else self.manager.cancel
            await self._patient.insist(lambda: stop(self.names.theirs(job_id)))
        except ManagerRefused as error:
            job = await self._patient.job(job_id)
            if job is None or job.runs:  # otherwise it was stopped at the same time, by the watchdog or its owner
                raise BackendError(f"{self.manager.title} refuses: {error}") from error
        job = await self._patient.until_off_nodes(job_id)
        if job is not None and job.waits and job_id in self.watcher.known:
            self._stopped(known, job)

    def _stopped(self, known: Known, job: ManagerJob) -> None:
        """Report a stopped job as queued and held; done here as its next order may come before the next look."""
        if known.phase in (ORDERED, RUNS):
            known.phase, known.to_place, known.stopping, known.restarts = QUEUED, False, False, job.restarts
            self._events.append(JobFinished(known.name, known.attempt, STOPPED))
        known.touched_s = time.time()

    async def _cancel(self, job_id: str, attempt: int, reason: str) -> None:
        """Cancel a job only if it is ours: a job that was given back, or released by a user, is not touched."""
        if reason.startswith(NEVER_RUNS):
            self.watcher.known.pop(job_id, None)
            self.watcher.left.add(job_id)
            log.warning("job %s %s: left to %s", job_id, reason, self.manager.title)
            await self._patient.insist(lambda: self._pass_on(job_id))
            return
        if reason.endswith(NODE_LOST):
            await self._stop(job_id, attempt)
            return
        job = await self._patient.job(job_id)
        if job is None or not (job.waits or job.runs):
            return
        if not (is_run(job.mark, attempt) or (job.waits and job.held and self._has(job))):
            return
        try:
            await self._patient.insist(lambda: self.manager.cancel(self.names.theirs(job_id)))
        except ManagerRefused as error:
            raise BackendError(f"{self.manager.title} refuses: {error}") from error
        await self._patient.until_off_nodes(job_id)

    def _has(self, job: ManagerJob) -> bool:
        """Return whether the job is held for us and was not left to the manager meanwhile."""
        mark = read_mark(job.mark)
        marked = mark is not None and mark.kind != BACK
        return job.name not in self.watcher.left and (marked or (self.found.terms.all_held and not job.mark))
