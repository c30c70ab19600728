"""The controller: drain the inbox, make the facts durable, ask the core, hand out its orders. Nothing else decides.

One batch at a time. Facts are in the journal before the core hears of them, orders leave after that; so whatever the
controller has ever said or done follows from its journal. The journal and the core live in one worker thread; the event
loop stays free for whoever talks to the controller. It must never wait for the back end or for a peer.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

from cohabit.backend.protocol import Backend, BackendError, Launch
from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.live import recovery
from cohabit.live.clock import BootClock
from cohabit.live.dispatch import Dispatcher, Settle
from cohabit.live.inbox import Inbox, Letter
from cohabit.live.journal import Checkpoint, Journal, JournalError
from cohabit.live.recovery import Restored
from cohabit.model import codec
from cohabit.model.command import CancelJob, Command, StartJob, TellPeer, WakeAt
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobCancelled, JobFinished, JobSubmitted, PeerReported, Recovered, Woken
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


class Busy(Exception):
    """More came in than the controller could take; try again later."""


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
        self._dispatch = Dispatcher(backend, self._report)
        self._worker = ThreadPoolExecutor(1, "core")
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
        for key in (*found.over, *found.strays):
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
        self._journal.close()

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
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._inbox.offer(Letter(JobSubmitted(job), launch, answer)):
            raise Busy
        await answer

    async def cancel(self, job_id: str) -> None:
        """Have a job cancelled; returns when that is durable."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if not self._inbox.offer(Letter(JobCancelled(job_id), None, answer)):
            raise Busy
        await answer

    def hear(self, message: Message) -> bool:
        """A message of a peer, its origin checked; False: too busy to take it."""
        return self._inbox.offer(Letter(PeerReported(message)))

    async def ask(self, question: Callable[[SchedulerCore], T]) -> T:
        """Read the core between two batches."""
        return await self._in_worker(lambda: question(self._core))

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
        letters = await self._in_worker(lambda: self._admit(letters))
        if not letters:
            return
        try:
            turn = await self._in_worker(lambda: self._step(letters))
        except JournalError as error:
            log.error("%s", error)
            self._refuse_answers(letters, InputError(f"nothing can be taken now: {error}"))
            self._inbox.put_back([one for one in letters if one.answer is None and not isinstance(one.event, Woken)])
            await asyncio.sleep(PAUSE_S)
            return
        if any(isinstance(one.event, Woken) for one in letters):
            self._wake_us = FOREVER  # the request is used up
        self._hand_out(turn)
        self._answer(letters, turn)
        for one in letters:
            if isinstance(one.event, JobFinished):
                self._dispatch.give(Settle(one.event.job_id, one.event.attempt))

    def _admit(self, letters: list[Letter]) -> list[Letter]:
        """Refuse names that were used before: a run is known by its job's name for ever."""
        names = [one.event.job.job_id for one in letters if isinstance(one.event, JobSubmitted)]
        if not names:
            return letters
        used, admitted = self._journal.known_jobs(names), []
        for one in letters:
            if isinstance(one.event, JobSubmitted):
                name = one.event.job.job_id
                if name in used:
                    self._refuse_answers([one], InputError("a job of this name was here before", f"job {name}"))
                    continue
                used.add(name)
            admitted.append(one)
        return admitted

    def _step(self, letters: list[Letter]) -> _Turn:
        """In the worker: the journal first, then the core."""
        now_us = max(self._clock.now_us(), self._last_us)
        events = [one.event for one in letters]
        launches = {
            one.event.job.job_id: one.launch
            for one in letters
            if isinstance(one.event, JobSubmitted) and one.launch is not None
        }
        seq = self._journal.append(now_us, events, launches)
        self._last_us = now_us
        commands = self._core.step(now_us, events)
        self._journal.note_commands(seq, commands)
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
            name = one.event.job.job_id if isinstance(one.event, JobSubmitted) else ""
            if name in never:
                one.answer.set_exception(InputError(never[name], f"job {name}"))
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
                    await self._report(event)
            except OSError:
                log.exception("the back end does not report")
                await asyncio.sleep(PAUSE_S)

    async def _report(self, event: Event) -> None:
        await self._inbox.put(Letter(event))

    async def _in_worker(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)


def _refuse(answer: asyncio.Future[None], error: InputError) -> None:
    if not answer.done():
        answer.set_exception(error)
