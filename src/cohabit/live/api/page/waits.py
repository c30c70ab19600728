"""The history of why jobs waited: the first jobs of the queue are checked repeatedly, and changes are kept.

For the page only, in memory: nothing is written, and a restarted controller has only what its records keep. A check
takes a few milliseconds of the controller's thread, whatever the queue.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from functools import partial

from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.records import Note
from cohabit.model.units import SECOND, without_durations

EVERY_S = 5.0
AGAIN_US = 60 * SECOND  # the same reason with other numbers is noted once a minute
LOOKED_AT = 40  # jobs
BUDGET_S = 0.02
NOTES_MOST = 60  # of one job: the first and the latest
JOBS_MOST = 5000
_NUMBER = re.compile(r"\d[\d.,]*")
log = logging.getLogger(__name__)


class Waits:
    """The notes so far, and the task that checks the queue."""

    def __init__(self, controller: Controller, now_us: Callable[[], int]) -> None:
        self._controller, self._now_us = controller, now_us
        self._kept: OrderedDict[str, list[Note]] = OrderedDict()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start the task; on the event loop."""
        self._task = asyncio.create_task(self._run())

    async def stop(self) -> None:
        """Stop the task."""
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(EVERY_S)
            now_us = self._now_us()
            try:
                found = await self._controller.ask(partial(first_waits, now_us=now_us))
            except Exception:
                log.debug("the queue was not looked at", exc_info=True)
                continue
            for job, why in found:
                self.note(job, now_us, why)

    def note(self, job: str, at_us: int, why: str) -> None:
        """Note why a job waits: the same reason only once, with other numbers only after a while."""
        if not why:
            return
        notes = self._kept.setdefault(job, [])
        if notes and _same(notes[-1], at_us, why):
            return
        notes.append(Note(at_us, why))
        if len(notes) > NOTES_MOST:
            del notes[1]
        self._kept.move_to_end(job)
        if len(self._kept) > JOBS_MOST:
            self._kept.popitem(last=False)

    def with_those_of(self, job: str, notes: Iterable[Note]) -> list[Note]:
        """Return the notes of a job's record and of this history, in order, each once."""
        found: list[Note] = []
        for one in sorted({*notes, *self._kept.get(job, ())}):
            if not found or found[-1].why != one.why:
                found.append(one)
        return found


def first_waits(core: SchedulerCore, now_us: int) -> list[tuple[str, str]]:
    """Return the first jobs of the queue with why they wait, as many as the time budget allows."""
    state, until = core.state, time.perf_counter() + BUDGET_S
    found = []
    for row in core.view(now_us).queue(core.policies.order)[:LOOKED_AT].tolist():
        job = state.spec(row).job_id
        found.append((job, why_waiting(state, core.policies, job, now_us)))
        if time.perf_counter() > until:
            break
    return found


def _same(last: Note, at_us: int, why: str) -> bool:
    if last.why == why:
        return True
    alike = _shape(last.why) == _shape(why)
    return alike and at_us - last.at_us < AGAIN_US


def _shape(why: str) -> str:
    """Return a reason without its numbers."""
    return _NUMBER.sub("#", without_durations(why))
