"""The controller: drain the inbox, make the facts durable, ask the core, hand out its orders. Nothing else decides.

One batch at a time. Facts are in the journal before the core hears of them, orders leave after that; so whatever the
controller has ever said or done follows from its journal. The journal and the core live in one worker thread; the event
loop stays free for whoever talks to the controller. It must never wait for the back end or for a peer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from cohabit.backend.protocol import Backend, BackendError, Launch
from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.core.guaranteeing import story_of
from cohabit.live import records, recovery
from cohabit.live.admission import Admission
from cohabit.live.clock import BootClock
from cohabit.live.database import said
from cohabit.live.dispatch import Dispatcher, Settle
from cohabit.live.inbox import Inbox, Letter
from cohabit.live.journal import Checkpoint, Journal, JournalError
from cohabit.live.records import Note, Record
from cohabit.live.recovery import Restored
from cohabit.live.refusals import Busy, NotWritable, UnknownJob
from cohabit.live.standing import Explained, Listed, Standing, asked, stand, with_reason
from cohabit.model import codec
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
    JobSubmitted,
    NodeDrained,
    NodeUp,
    PeerReported,
    ProfileShared,
    Recovered,
    Woken,
)
from cohabit.model.job import Job
from cohabit.model.peer import Message
from cohabit.model.units import FOREVER, SECOND

INBOX_MOST = 20_000
BATCH_MOST = 512
CHECKPOINT_EVERY = 2_000  # batches
LONGEST_PATIENCE_S = 30.0
PAUSE_S = 0.5  # before a journal that could not be written is tried again
LONGEST_NAME = 64  # bytes; written as the name of a file it can be three times as long
log = logging.getLogger(__name__)
T = TypeVar("T")


class _Turn(NamedTuple):
    """What one batch led to."""

    seq: int
    commands: list[Command]
    launches: dict[str, Launch]  # of the jobs that start


class Controller:
    """One cluster under one core. `post` takes messages to peers and must return at once."""

    def __init__(
        self,
        journal: Journal,
        restored: Restored,
        clock: BootClock,
        backend: Backend,
        post: Callable[[str, Message], None],
    ) -> None:
        self._journal, self._restored, self._clock, self._backend, self._post = journal, restored, clock, backend, post
        self._core: SchedulerCore = restored.core
        self._last_us, self._wake_us = restored.last_us, int(restored.core.state.wake_us)
        self._inbox = Inbox(INBOX_MOST)
        self._dispatch = Dispatcher(backend, self.tell)
        self._worker, self._reader = ThreadPoolExecutor(1, "core"), ThreadPoolExecutor(1, "records")
        self._recorder = restored.recorder
        self._since_checkpoint = restored.batches
        self._tasks: list[asyncio.Task[None]] = []
        self._stopping = False

    # ---- life -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Reconcile with the world, then listen. Returns when the first batch after a restart is dealt with."""
        await self._backend.open()
        runs = await self._backend.observe()
        found = recovery.reconcile(recovery.active_runs(self._core), runs, self._restored.orders)
        for key in found.strays:
            log.warning("run %s of job %s is stopped: nobody counts on it", key[1], key[0])
            try:
                await self._backend.execute(CancelJob(*key, "nobody counts on this run"))
            except BackendError as error:  # killed, and not dead: the operating system cannot let go of it
                log.error("%s", error)
        if not self._restored.fresh:
            await self._turn([Letter(fact) for fact in (Recovered(self._clock.same), *found.facts)])
        for order in found.orders:
            self._dispatch.give(order)
        told = {(one.job_id, one.attempt) for one in found.facts if isinstance(one, JobFinished)}
        for key in (*found.over, *found.strays):
            if key not in told:  # those are settled as soon as their end is in the journal
                self._dispatch.give(Settle(*key))
        self._tasks = [asyncio.create_task(self._run()), asyncio.create_task(self._listen())]

    async def stop(self) -> None:
        """End in good order: the batch in hand with all its orders, then a checkpoint. Jobs go on."""
        self._stopping = True
        self._inbox.interrupt()
        await asyncio.gather(*self._tasks[:1], return_exceptions=True)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._refuse_answers(await self._inbox.take(0.0, INBOX_MOST), InputError("the controller is being stopped"))
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
        """Take a job; returns when it is durable. An InputError says why it cannot be taken."""
        if not 0 < len(job.job_id.encode()) <= LONGEST_NAME:
            raise InputError(f"a job's name has 1 to {LONGEST_NAME} bytes", "job")
        if not launch.command:
            raise InputError("there is nothing to execute", f"job {job.job_id}", "give a command")
        await self._demand(JobSubmitted(job), launch)

    async def cancel(self, job_id: str) -> None:
        """Have a job, or what is left of an array, cancelled; like all that follow it returns when that is durable."""
        await self._demand(JobCancelled(job_id))

    async def hold(self, job_id: str) -> None:
        """A job that waits must not start until it is released."""
        await self._demand(JobHeld(job_id))

    async def release(self, job_id: str) -> None:
        """Lift the hold."""
        await self._demand(JobReleased(job_id))

    async def requeue(self, job_id: str) -> None:
        """Stop a running job; it waits in the queue again."""
        await self._demand(JobRequeued(job_id))

    async def change(self, job_id: str, limit_us: int | None = None, qos: int | None = None) -> None:
        """Another limit or priority for a job that waits."""
        if limit_us is not None and limit_us <= 0:
            raise InputError("a limit is longer than nothing", f"job {job_id}")
        await self._demand(JobChanged(job_id, limit_us, qos))

    async def drain(self, node: int) -> None:
        """Start nothing more on a node; what runs there goes on."""
        await self._demand(NodeDrained(node))

    async def resume(self, node: int) -> None:
        """Use a node again."""
        await self._demand(NodeUp(node))

    async def share_profile(self, program: str, owner: str) -> None:
        """What is known from an owner's runs of a program becomes the shared profile."""
        await self._demand(ProfileShared(program, owner))

    async def _demand(self, event: Event, launch: Launch | None = None) -> None:
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._inbox.offer(Letter(event, launch, answer)):
            raise Busy
        await answer

    def hear(self, message: Message) -> bool:
        """A message of a peer, its origin checked; False: too busy to take it."""
        return self._inbox.offer(Letter(PeerReported(message)))

    async def ask(self, question: Callable[[SchedulerCore], T]) -> T:
        """Read the core between two batches."""
        return await self._in_worker(lambda: question(self._core))

    # ---- where jobs stand -------------------------------------------------------------------------------------------

    async def view(self, job_id: str) -> Standing:
        """One job or array, also one that ended long ago; never looks at the whole queue."""
        return await self._in_worker(lambda: self._stand(job_id))

    async def states(self, names: Sequence[str]) -> dict[str, str]:
        """Where these jobs stand, in a word; those never heard of are left out."""

        def look() -> dict[str, str]:
            over = self._journal.records_of([name for name in names if name not in self._recorder.living])
            found = over | {name: one for name in names if (one := self._recorder.living.get(name)) is not None}
            return {name: stand(one, self._core, self._recorder, None).state for name, one in found.items()}

        return await self._in_worker(look)

    async def why(self, job_id: str) -> Explained:
        """Why a job waits, with all there is to say, and what was done to keep its speed; reads the queue once."""

        def explain() -> Explained:
            standing, now_us = self._stand(job_id), max(self._clock.now_us(), self._last_us)
            why = why_waiting(self._core.state, self._core.policies, job_id, now_us)
            story = story_of(self._core.state, self._core.policies, job_id)
            history = sorted({*standing.record.notes, *(Note(at_us, text) for at_us, text in story)})
            return Explained(standing, with_reason(why or standing.why, standing.record.notes), tuple(history))

        return await self._in_worker(explain)

    async def page(
        self, state: str = "", user: int | None = None, limit: int = 100, before: int | None = None
    ) -> Listed:
        """The latest jobs that are queued, running, finished or "all"; "": queued and running. Latest first."""
        await self._in_worker(self._write_owed)
        found, launches = await self._read(lambda connection: _with_launches(connection, state, user, limit, before))

        def join() -> list[Standing]:
            return [
                stand(one, self._core, self._recorder, launches.get(one.job_id, launches.get(one.array)))
                for one in found.records
            ]

        return Listed(await self._in_worker(join), found.before)

    async def between(
        self, since_us: int, until_us: int, user: int | None = None, limit: int = 1000,
        behind: tuple[int, str] | None = None,
    ) -> list[Record]:  # fmt: skip
        """Jobs that ended in [since, until), by their end; `behind`: the (end_us, job_id) of the last one read."""
        await self._in_worker(self._write_owed)
        return await self._read(lambda one: records.between(one, since_us, until_us, user, limit, behind))

    def _stand(self, job_id: str) -> Standing:
        record = self._recorder.living.get(job_id) or self._journal.records_of([job_id]).get(job_id)
        if record is None:
            raise UnknownJob(job_id)
        return stand(record, self._core, self._recorder, self._journal.launch_of(job_id))

    def _write_owed(self) -> None:
        """So that a list shows what was answered; where that cannot be written now, it is a batch behind."""
        try:
            self._journal.flush()
        except JournalError as error:
            log.warning("%s", error)

    async def _read(self, question: Callable[[sa.Connection], T]) -> T:
        def read() -> T:
            try:
                with self._journal.reader().connect() as connection, connection.begin():
                    return question(connection)
            except DBAPIError as error:
                raise JournalError(f"the journal cannot be read: {said(error)}", self._journal.where) from error

        return await asyncio.get_running_loop().run_in_executor(self._reader, read)

    # ---- the loop ---------------------------------------------------------------------------------------------------

    async def _run(self) -> None:
        while not self._stopping:
            patience_us = min(max(self._wake_us - self._clock.now_us(), 0), round(LONGEST_PATIENCE_S * SECOND))
            letters = await self._inbox.take(patience_us / SECOND, BATCH_MOST)
            if self._clock.now_us() >= self._wake_us:
                letters.append(Letter(Woken()))
            if letters:
                await self._turn(letters)
            if self._since_checkpoint >= CHECKPOINT_EVERY:
                await self._checkpoint()

    async def _turn(self, letters: list[Letter]) -> None:
        """One batch: durable, decided, handed out, answered."""
        try:
            letters, turn = await self._in_worker(lambda: self._admit_and_step(letters))
        except JournalError as error:
            log.error("%s", error)
            unable = NotWritable(f"nothing can be taken now: {error}", "", "try again later")
            self._refuse_answers(letters, unable)
            self._inbox.put_back([one for one in letters if one.answer is None and not isinstance(one.event, Woken)])
            await asyncio.sleep(PAUSE_S)
            return
        if turn is None:
            return
        if any(isinstance(one.event, Woken) for one in letters):
            self._wake_us = FOREVER  # the request is used up
        self._hand_out(turn)
        self._answer(letters, turn)
        for one in letters:
            if isinstance(one.event, JobFinished):
                self._dispatch.give(Settle(one.event.job_id, one.event.attempt))

    def _admit_and_step(self, letters: list[Letter]) -> tuple[list[Letter], _Turn | None]:
        """In the worker: who may go in, then the journal, then the core; None if nobody may."""
        admitted, refused = Admission(self._core.state, self._journal, self._recorder).admit(letters)
        for one, error in refused:
            self._refuse_answers([one], error)
        return admitted, self._step(admitted) if admitted else None

    def _step(self, letters: list[Letter]) -> _Turn:
        now_us = max(self._clock.now_us(), self._last_us)
        events = [event for one in letters for event in one.events]
        launches = {
            one.event.job.job_id: one.launch
            for one in letters
            if isinstance(one.event, JobSubmitted) and one.launch is not None
        }
        seq = self._journal.append(now_us, events, launches)
        self._last_us = now_us
        commands = self._core.step(now_us, events)
        changed = self._recorder.observe(seq, now_us, events, commands, self._core)
        self._journal.note(seq, commands, changed)
        self._since_checkpoint += 1
        starting = {one.job_id: self._journal.launch_of(one.job_id) for one in commands if isinstance(one, StartJob)}
        return _Turn(seq, commands, {name: launch for name, launch in starting.items() if launch is not None})

    def _hand_out(self, turn: _Turn) -> None:
        for command in turn.commands:
            match command:
                case WakeAt(at_us):
                    self._wake_us = at_us
                case TellPeer(domain, message):
                    self._post(domain, message)
                case SetShares(reason=reason) if reason:
                    log.info("nodes are divided anew: %s", reason)
                    self._dispatch.give(command)
                case StartJob():
                    self._dispatch.give(command, turn.launches.get(command.job_id))
                case _:
                    self._dispatch.give(command)

    def _answer(self, letters: list[Letter], turn: _Turn) -> None:
        """Submitters hear that their job is durable, or why the core will never run it."""
        never = {one.job_id: one.reason for one in turn.commands if isinstance(one, CancelJob) and one.attempt == 0}
        for one in letters:
            if one.answer is None or one.answer.done():
                continue
            job = one.event.job if isinstance(one.event, JobSubmitted) else None
            first = "" if job is None else f"{job.job_id}_{job.array_first}" if job.array_count else job.job_id
            if job is not None and first in never:
                fix = f"it asks for {asked(job)}; `cohabit nodes` shows what there is"
                one.answer.set_exception(InputError(never[first], f"job {job.job_id}", fix))
            else:
                one.answer.set_result(None)

    def _refuse_answers(self, letters: list[Letter], error: InputError) -> None:
        for one in letters:
            if one.answer is not None:
                one.answer.get_loop().call_soon_threadsafe(_refuse, one.answer, error)

    async def _checkpoint(self) -> None:
        """The core's state, so that the journal before it can go."""
        pending = codec.encode(self._dispatch.pending())

        def write() -> None:
            seq = self._journal.next_seq - 1
            if seq > 0 and self._since_checkpoint:
                self._journal.checkpoint(Checkpoint(seq, self._last_us, checkpoint.save(self._core), pending))
            self._since_checkpoint = 0

        try:
            await self._in_worker(write)
        except JournalError as error:
            log.error("%s", error)

    # ---- the world --------------------------------------------------------------------------------------------------

    async def _listen(self) -> None:
        """Facts of the back end, for as long as it takes."""
        while True:
            try:
                async for event in self._backend.events():
                    await self.tell(event)
            except OSError:
                log.exception("the back end does not report")
                await asyncio.sleep(PAUSE_S)

    async def tell(self, event: Event) -> None:
        """A fact of whoever executes or measures; waits while the inbox is full."""
        await self._inbox.put(Letter(event))

    async def _in_worker(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)


def _with_launches(
    connection: sa.Connection, state: str, user: int | None, limit: int, before: int | None
) -> tuple[records.Page, dict[str, Launch]]:
    found = records.page(connection, state, user, limit, before)
    names = sorted({one.array or one.job_id for one in found.records})
    return found, records.launches(connection, names)


def _refuse(answer: asyncio.Future[None], error: InputError) -> None:
    if not answer.done():
        answer.set_exception(error)
