"""The questions a controller answers: the state of jobs, why they wait, and lists of jobs. It changes nothing.

The core and its records are read in the worker thread, between two batches; lists are read from the journal in a
separate thread, so that no batch waits for them.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError

from cohabit.backend.protocol import Launch
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.core.explain_running import how_it_runs
from cohabit.core.guaranteeing import story_of
from cohabit.core.short_reasons import ShortReasons
from cohabit.live.controller import records
from cohabit.live.controller.clock import BootClock
from cohabit.live.controller.database import said
from cohabit.live.controller.ended import how_it_ran
from cohabit.live.controller.journal import Journal, JournalError
from cohabit.live.controller.records import Note, Record
from cohabit.live.controller.refusals import RemovedJob, UnknownJob
from cohabit.live.controller.removal import Gone
from cohabit.live.controller.standing import Explained, Listed, Standing, profile_words, stand, with_reason
from cohabit.live.controller.stepping import Stepper

log = logging.getLogger(__name__)
T = TypeVar("T")


class Answers:
    """The questions, answered from the core that a stepper owns."""

    def __init__(self, journal: Journal, stepper: Stepper, clock: BootClock) -> None:
        self._journal, self._stepper, self._clock = journal, stepper, clock
        self._recorder = stepper.recorder
        self._worker, self._reader = ThreadPoolExecutor(1, "core"), ThreadPoolExecutor(1, "records")

    @property
    def _core(self) -> SchedulerCore:
        return self._stepper.core

    async def ask(self, question: Callable[[SchedulerCore], T]) -> T:
        """Read the core between two batches."""
        return await self._in_worker(lambda: question(self._core))

    async def _in_worker(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._worker, work)

    async def view(self, job_id: str) -> Standing:
        """Return one job or array, also one that ended long ago; never reads the whole queue."""
        return await self._in_worker(lambda: self._stand(job_id))

    async def states(self, names: Sequence[str]) -> dict[str, str]:
        """Return the state of these jobs, in a word; unknown jobs are left out."""

        def look() -> dict[str, str]:
            over = self._journal.records_of([name for name in names if name not in self._recorder.living])
            found = over | {name: one for name in names if (one := self._recorder.living.get(name)) is not None}
            return {name: stand(one, self._core, self._recorder, None).state for name, one in found.items()}

        return await self._in_worker(look)

    async def why(self, job_id: str, in_full: bool = True) -> Explained:
        """Return why a job waits or how it runs, and what was done to keep its speed; reads the queue once."""

        def explain() -> Explained:
            state, policies, now_us = self._core.state, self._core.policies, self._now_us()
            standing = self._stand(job_id, ShortReasons(state, policies, now_us))
            why = why_waiting(state, policies, job_id, now_us) if in_full else ""
            history = {
                *standing.record.notes,
                *(Note(at_us, text) for at_us, text in story_of(state, policies, job_id)),
            }
            full = with_reason(why or standing.why, standing.record.notes)
            if in_full and (how := how_it_runs(state, policies, job_id, now_us)):
                said = full in {note.why for note in history}  # its history, which comes with the answer
                full = how if said or not full else f"{how}; {full}"
            if in_full and standing.record.phase == records.OVER:
                full = how_it_ran(standing.record, self._core)
            return Explained(standing, full, standing.why, tuple(sorted(history)), profile_words(self._core, job_id))

        return await self._in_worker(explain)

    async def page(
        self, state: str = "", user: int | None = None, limit: int = 100, before: int | None = None
    ) -> Listed:
        """Return the latest jobs that are queued, running, finished or "all"; "": queued and running. Latest first."""
        await self._in_worker(self._write_owed)
        found, launches = await self.read(lambda connection: _with_launches(connection, state, user, limit, before))

        def join() -> list[Standing]:
            core, recorder = self._core, self._recorder
            reasons = ShortReasons(core.state, core.policies, self._now_us())
            return [
                stand(one, core, recorder, launches.get(one.job_id, launches.get(one.array)), reasons)
                for one in found.records
            ]

        return Listed(await self._in_worker(join), found.before)

    async def between(
        self,
        since_us: int,
        until_us: int,
        user: int | None = None,
        limit: int = 1000,
        behind: tuple[int, str] | None = None,
    ) -> list[Record]:
        """Return jobs that ended in [since, until), by end; `behind`: the (end_us, job_id) of the last one read."""
        await self._in_worker(self._write_owed)
        return await self.read(lambda one: records.between(one, since_us, until_us, user, limit, behind))

    async def removed(self, job_id: str) -> Gone | None:
        """Return what is known of a job whose record retention removed, or may have removed (Journal.removed)."""
        return await self._in_worker(lambda: self._journal.removed(job_id))

    def _now_us(self) -> int:
        return max(self._clock.now_us(), self._stepper.last_us)

    def _stand(self, job_id: str, reasons: ShortReasons | None = None) -> Standing:
        record = self._recorder.living.get(job_id) or self._journal.records_of([job_id]).get(job_id)
        if record is None:
            raise RemovedJob(job_id) if self._journal.removed(job_id) else UnknownJob(job_id)
        return stand(record, self._core, self._recorder, self._journal.launch_of(job_id), reasons)

    def _write_owed(self) -> None:
        """Write what is owed, so that a list shows what was answered; if that fails, the list is a batch behind."""
        try:
            self._journal.flush()
        except JournalError as error:
            log.warning("%s", error)

    async def read(self, question: Callable[[sa.Connection], T]) -> T:
        """Read the journal over a separate connection; what is owed to it may be missing."""

        def read() -> T:
            try:
                with self._journal.reader().connect() as connection, connection.begin():
                    return question(connection)
            except DBAPIError as error:
                raise JournalError(f"the journal cannot be read: {said(error)}", self._journal.where) from error

        return await asyncio.get_running_loop().run_in_executor(self._reader, read)


def _with_launches(
    connection: sa.Connection, state: str, user: int | None, limit: int, before: int | None
) -> tuple[records.Page, dict[str, Launch]]:
    found = records.page(connection, state, user, limit, before)
    names = sorted({one.array or one.job_id for one in found.records})
    return found, records.launches(connection, names)
