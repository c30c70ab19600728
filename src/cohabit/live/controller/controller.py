"""The controller: drain the inbox, make events durable, ask the core, send its commands. Only the core decides.

It handles one batch at a time. Events are in the journal before the core sees them, and commands leave after that; so
everything the controller has said or done follows from its journal. The journal and the core live in one worker thread
(stepping.py); the event loop stays free for callers. The controller must never wait for the back end or for a peer, and
no request may end it or keep another from its answer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from functools import partial

from cohabit.backend.protocol import Backend, BackendError, Launch
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import PolicySet
from cohabit.live.controller import recovery
from cohabit.live.controller.answers import Answers
from cohabit.live.controller.clock import BootClock, keep_clock
from cohabit.live.controller.dispatch import Dispatcher, Settle
from cohabit.live.controller.inbox import Entry, Inbox
from cohabit.live.controller.journal import Journal, JournalError
from cohabit.live.controller.recovery import Restored
from cohabit.live.controller.refusals import Busy, NotWritable
from cohabit.live.controller.reserve import Reserve
from cohabit.live.controller.standing import advice
from cohabit.live.controller.stepping import OneByOne, Stepper, Turn
from cohabit.live.controller.telling import CoreFailed
from cohabit.model import codec
from cohabit.model.cluster import Cluster
from cohabit.model.command import CancelJob, Command, SetShares, StartJob, TellPeer, WakeAt
from cohabit.model.errors import InputError
from cohabit.model.event import (
    Event,
    JobCancelled,
    JobChanged,
    JobFinished,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobStarted,
    JobSubmitted,
    NodeDown,
    NodeDrained,
    NodeUp,
    NodeUsed,
    PeerReported,
    ProfileShared,
    Recovered,
    SchemeChanged,
    StartRefused,
    WindowCleared,
    WindowSet,
    Woken,
)
from cohabit.model.job import Job
from cohabit.model.peer import Message
from cohabit.model.scheme import Scheme
from cohabit.model.texts import wrong_in_name
from cohabit.model.units import FOREVER, SECOND

INBOX_MOST = 20_000
BATCH_MOST = 512
CHECKPOINT_EVERY = 2_000  # batches
LONGEST_PATIENCE_S = 30.0
PAUSE_S = 0.5  # before another attempt to write the journal
ROOM_S = 2.0  # between two checks of how full the disk is
FIRST_AGAIN_S, LONGEST_AGAIN_S = 10.0, 3600.0  # before an event on which the core raised is told again
OF_THE_WORLD = (  # sent only once
    JobStarted
    | JobFinished
    | StartRefused
    | NodeDown
    | NodeUp
    | NodeUsed
    | NodeDrained
    | WindowSet
    | WindowCleared
    | Woken
)
LONGEST_NAME = 64  # bytes; as the name of a file it can be three times as long
log = logging.getLogger(__name__)


class Controller(Answers):
    """One cluster under one core. `post` takes messages to peers and must return at once."""

    def __init__(
        self,
        journal: Journal,
        restored: Restored,
        clock: BootClock,
        backend: Backend,
        post: Callable[[str, Message], None],
    ) -> None:
        super().__init__(journal, Stepper(journal, restored, clock.now_us), clock)
        self._restored, self._backend, self._post = restored, backend, post
        self._wake_us = int(restored.core.state.wake_us)
        self._inbox, self._reserve = Inbox(INBOX_MOST), Reserve(journal.file)
        self._dispatch = Dispatcher(backend, self.tell, self._reserve.give)
        self._owed: list[Event] = []  # observed events on which the core raised; told again at `_again_us`
        self._again_us, self._pause_s = FOREVER, FIRST_AGAIN_S
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False
        self._changes: list[tuple[Callable[[bytes], tuple[int, int]], asyncio.Future[tuple[int, int]]]] = []
        self._deadlock = ""  # as it was last logged
        self.hears_lessons: Callable[[Iterable[Event]], None] | None = None  # events that the core was told

    @property
    def left_out(self) -> int:
        """The number of events in the journal on which the core raised."""
        return self._stepper.left_out

    def watch_core(self, put_on: Callable[[SchedulerCore], None]) -> None:
        """Apply this function to the core, and to every core that replaces it."""
        self._stepper.watch(put_on)

    # ---- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reconcile with the back end, then listen. Returns when the first batch after a restart is handled."""
        await self._backend.open()
        runs = await self._backend.observe()
        found = recovery.reconcile(recovery.active_runs(self._core), runs, self._restored.orders)
        for key in found.strays:
            log.warning("run %s of job %s is stopped: no job expects it", key[1], key[0])
            try:
                await self._backend.execute(CancelJob(*key, "no job expects this run"))
            except BackendError as error:  # killed, and not dead: the operating system cannot end it
                log.error("%s", error)
        if not self._restored.fresh:
            await self._turn([Entry(fact) for fact in (Recovered(self._clock.same), *found.facts)])
        if not self._clock.same:
            await self._in_worker(partial(keep_clock, self._journal, self._clock))
        for order in found.orders:
            self._dispatch.give(order)
        told = {(one.job_id, one.attempt) for one in found.facts if isinstance(one, JobFinished)}
        for key in (*found.over, *found.strays):
            if key not in told:  # the others are settled as soon as their end is in the journal
                self._dispatch.give(Settle(*key))
        self._tasks = [asyncio.create_task(one) for one in (self._run(), self._listen(), self._keep_room())]

    async def stop(self) -> None:
        """Stop in good order: finish the current batch with all its commands, then write a checkpoint. Jobs go on."""
        self._stopping = True
        self._inbox.interrupt()
        await asyncio.gather(*self._tasks[:1], return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for _, answer in self._changes:
            answer.set_exception(InputError("the controller is being stopped"))
        left = await self._inbox.take(0.0, INBOX_MOST)
        self._refuse([(one, InputError("the controller is being stopped")) for one in left])
        await self._checkpoint()
        await self._dispatch.close()
        await self._backend.close()
        self._worker.shutdown()
        self._reader.shutdown()
        try:
            self._journal.close()
        except JournalError as error:
            log.error("%s", error)  # the next controller computes it again

    async def failed(self) -> None:
        """Return, with the exception, only if the controller cannot go on."""
        done, _ = await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()

    # ---- what others may ask ----------------------------------------------------------------------------------------

    async def submit(self, job: Job, launch: Launch) -> None:
        """Take a job; return when it is durable. An InputError says why it cannot be taken."""
        if wrong := wrong_in_name(job.job_id):
            raise InputError(wrong, "a job's name")
        if not 0 < len(job.job_id.encode()) <= LONGEST_NAME:
            raise InputError(f"a job's name has 1 to {LONGEST_NAME} bytes", "job")
        if not launch.command:
            raise InputError("there is nothing to execute", f"job {job.job_id}", "give a command")
        if short := self._reserve.shortage():
            raise NotWritable(f"nothing can be accepted now: {short}", "", "try again when there is room")
        await self._demand(JobSubmitted(job), launch)

    async def cancel(self, job_id: str) -> None:
        """Cancel a job, or what is left of an array; like the methods below it returns when that is durable."""
        await self._demand(JobCancelled(job_id))

    async def hold(self, job_id: str) -> None:
        """Keep a waiting job from starting until it is released."""
        await self._demand(JobHeld(job_id))

    async def release(self, job_id: str, operates: bool = True) -> None:
        """Lift the hold. `operates`: the caller is an operator."""
        await self._demand(JobReleased(job_id))

    async def requeue(self, job_id: str) -> None:
        """Stop a running job and put it into the queue again."""
        await self._demand(JobRequeued(job_id))

    async def change(self, job_id: str, limit_us: int | None = None, qos: int | None = None) -> None:
        """Change the limit or priority of a waiting job."""
        if limit_us is not None and limit_us <= 0:
            raise InputError("the limit must be longer than 0 s", f"job {job_id}")
        await self._demand(JobChanged(job_id, limit_us, qos))

    async def drain(self, node: int) -> None:
        """Start nothing more on a node; what runs there goes on."""
        await self._demand(NodeDrained(node))

    async def resume(self, node: int) -> None:
        """Use a node again."""
        await self._demand(NodeUp(node))

    async def reserve(self, window: WindowSet) -> None:
        """Close nodes to new jobs for a time, under a name; what runs there goes on."""
        await self._demand(window)

    async def unreserve(self, name: str) -> None:
        """Drop the window of this name."""
        await self._demand(WindowCleared(name))

    async def set_scheme(self, scheme: Scheme, job_id: str = "", from_file: bool = False) -> None:
        """Treat jobs with mates in other domains, or one of them, by this scheme from now on."""
        await self._demand(SchemeChanged(scheme, job_id, from_file))

    async def share_profile(self, program: str, owner: str) -> None:
        """Make the profile from an owner's runs of a program the shared one."""
        await self._demand(ProfileShared(program, owner))

    async def go_on_under(
        self, cluster: Cluster, policies: PolicySet, ended: str, settings: Mapping[str, str]
    ) -> tuple[int, int]:
        """Go on under other policies with all jobs; return how many wait and how many have nodes. `ended`: the settings
        so far, `settings`: those of now, as the journal keeps them. InputError: everything is as before."""
        answer: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        self._changes.append((partial(self._stepper.go_on_under, cluster, policies, ended, settings), answer))
        self._inbox.interrupt()
        return await answer

    async def _demand(self, event: Event, launch: Launch | None = None) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._inbox.offer(Entry(event, launch, answer)):
            raise Busy
        await answer

    def hear(self, message: Message) -> bool:
        """Take a message of a peer whose origin is checked; False: too busy to take it."""
        return self._inbox.offer(Entry(PeerReported(message)))

    # ---- the loop ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._stopping:
            while self._changes:
                await self._change(*self._changes.pop(0))
            due_us = min(self._wake_us, self._again_us)
            patience_us = min(max(due_us - self._clock.now_us(), 0), round(LONGEST_PATIENCE_S * SECOND))
            entries = await self._inbox.take(patience_us / SECOND, BATCH_MOST)
            if self._clock.now_us() >= self._again_us:
                entries += [Entry(fact) for fact in self._owed]
                self._owed, self._again_us = [], FOREVER
            if self._clock.now_us() >= self._wake_us:
                entries.append(Entry(Woken()))
            if entries:
                await self._turn(entries)
            if self._stepper.since_checkpoint >= CHECKPOINT_EVERY:
                await self._checkpoint()

    async def _change(
        self, change: Callable[[bytes], tuple[int, int]], answer: asyncio.Future[tuple[int, int]]
    ) -> None:
        """Let another core go on between two batches; it decides at once."""
        try:
            counts = await self._in_worker(partial(change, codec.encode(self._dispatch.pending())))
        except Exception as error:
            if not answer.done():
                answer.set_exception(error)
            return
        self._wake_us = int(self._core.state.wake_us)
        await self._turn([Entry(Woken())])
        if not answer.done():
            answer.set_result(counts)

    async def _turn(self, entries: list[Entry]) -> None:
        """Handle one batch: write it, decide, send the commands, answer."""
        while entries:
            try:
                turn = await self._in_worker(partial(self._stepper.step, entries))
            except JournalError as error:
                entries = await self._not_written(entries, error)
                continue
            except OneByOne as error:
                log.error("%d requests are taken one by one: %r", len(entries), error.__cause__)
                for one in entries:
                    await self._turn([one])
                return
            except CoreFailed as error:
                log.error("the core cannot be used any more and is rebuilt: %s", error, exc_info=error)
                turn = await self._mend(entries)
            self._follow(turn)
            return

    async def _not_written(self, entries: list[Entry], error: JournalError) -> list[Entry]:
        """Refuse submissions; try the rest again at once if the disk was full and there is a reserve."""
        log.error("%s", error)
        unable = NotWritable(f"nothing can be accepted now: {error}", "", "try again later")
        self._refuse([(one, unable) for one in entries if isinstance(one.event, JobSubmitted)])
        rest = [one for one in entries if one.answer is None or not one.answer.done()]
        if self._reserve.give():
            return rest
        self._refuse([(one, unable) for one in rest])
        self._inbox.put_back([one for one in rest if one.answer is None and not isinstance(one.event, Woken)])
        await asyncio.sleep(PAUSE_S)
        return []

    async def _mend(self, entries: list[Entry]) -> Turn:
        """Try until the core is rebuilt; the batch it has to handle is in the journal already."""
        while not self._stopping:
            try:
                turn = await self._in_worker(self._stepper.mend)
            except JournalError as error:
                log.error("%s", error)
                await asyncio.sleep(PAUSE_S)
            else:
                self._wake_us = int(self._core.state.wake_us)
                return turn
        return Turn([], [(one, InputError("the controller is being stopped")) for one in entries])

    def _follow(self, turn: Turn) -> None:
        """Send the commands of a batch, answer its callers, and schedule again the events that were left out."""
        self._refuse(turn.refused)
        if any(isinstance(one.event, Woken) for one in turn.entries):
            self._wake_us = FOREVER  # the wake-up is used up
        for command in turn.commands:
            try:
                self._hand_out(command, turn)
            except Exception:
                log.exception("%s could not be carried out", command)
        if self.hears_lessons is not None:
            self.hears_lessons(one.event for one in turn.entries)
        self._answer(turn)
        self._log_deadlock()
        for one in turn.entries:
            if isinstance(one.event, JobFinished):
                self._dispatch.give(Settle(one.event.job_id, one.event.attempt))
        if again := [one for one in turn.lost if isinstance(one, OF_THE_WORLD)]:
            self._owed += [one for one in again if not isinstance(one, Woken)]
            self._again_us = self._clock.now_us() + round(self._pause_s * SECOND)
            self._wake_us = max(self._wake_us, self._again_us)
            self._pause_s = min(2 * self._pause_s, LONGEST_AGAIN_S)

    def _log_deadlock(self) -> None:
        """Log groups of mates that wait for each other's nodes, and the end of it."""
        about = self._core.state.coupled
        found = "" if about is None else about.deadlock
        if found != self._deadlock:
            self._deadlock = found
            log.warning("%s", f"deadlock between groups: {found}" if found else "the deadlock between groups has ended")

    def _hand_out(self, command: Command, turn: Turn) -> None:
        match command:
            case WakeAt(at_us):
                self._wake_us = at_us
            case TellPeer(domain, message):
                self._post(domain, message)
            case SetShares(reason=reason) if reason:
                log.info("nodes are divided again: %s", reason)
                self._dispatch.give(command)
            case StartJob():
                self._dispatch.give(command, turn.launches.get(command.job_id))
            case _:
                self._dispatch.give(command)

    def _answer(self, turn: Turn) -> None:
        """Tell submitters that their job is durable, or why the core will never run it."""
        never = {one.job_id: one.reason for one in turn.commands if isinstance(one, CancelJob) and one.attempt == 0}
        for one in turn.entries:
            if one.answer is None or one.answer.done():
                continue
            job = one.event.job if isinstance(one.event, JobSubmitted) else None
            first = "" if job is None else f"{job.job_id}_{job.array_first}" if job.array_count else job.job_id
            if job is not None and first in never:
                fix = advice(never[first], job, self._core.state.cluster)
                one.answer.set_exception(InputError(never[first], f"job {job.job_id}", fix))
            else:
                one.answer.set_result(None)

    def _refuse(self, refused: Iterable[tuple[Entry, InputError]]) -> None:
        for one, error in refused:
            if one.answer is not None and not one.answer.done():
                one.answer.set_exception(error)

    async def _checkpoint(self) -> None:
        """Write a checkpoint of the core, so that the journal before it can be removed."""
        try:
            await self._in_worker(partial(self._stepper.checkpoint, codec.encode(self._dispatch.pending())))
        except Exception as error:
            log.error("%s", error, exc_info=None if isinstance(error, JournalError) else error)
            self._stepper.since_checkpoint = CHECKPOINT_EVERY // 2 + 1  # not again before many more batches

    # ---- back end, disk ---------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Pass the events of the back end on, for ever."""
        while True:
            try:
                async for event in self._backend.events():
                    await self.tell(event)
            except Exception:
                log.exception("the back end does not report")
                await asyncio.sleep(PAUSE_S)

    async def _keep_room(self) -> None:
        """Keep room on the journal's disk."""
        while True:
            try:
                self._reserve.tend()
                await self._in_worker(self._journal.keep_room)
            except Exception:
                log.exception("no room is kept for a full disk")
            await asyncio.sleep(ROOM_S)

    async def tell(self, event: Event) -> None:
        """Take an event of the back end or of a measurement; wait while the inbox is full."""
        await self._inbox.put(Entry(event))
