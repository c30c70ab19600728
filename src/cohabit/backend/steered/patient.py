"""Ask a manager about jobs under the core's names, again and again while it does not answer. It decides nothing."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from cohabit.backend.protocol import FAILED, BackendError
from cohabit.backend.steered.contract import Manager, ManagerAway, ManagerRefused
from cohabit.backend.steered.naming import Names
from cohabit.backend.steered.shapes import STATUS, ManagerJob
from cohabit.model.event import JobFinished

PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0  # while the manager does not answer
STOP_S = 120.0  # a manager asks a run to end before it kills it
log = logging.getLogger(__name__)
T = TypeVar("T")


class PatientManager:
    """One manager, with the names of its jobs."""

    def __init__(self, manager: Manager, names: Names) -> None:
        self.manager, self.names = manager, names
        self._away = False

    async def insist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until the manager answers, whatever the answer is."""
        pause_s = PAUSE_S
        while True:
            try:
                return await ask()
            except ManagerAway as error:
                self.say_away(error)
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def say_away(self, error: ManagerAway | ManagerRefused) -> None:
        """Report once that the manager does not answer."""
        if not self._away:
            log.warning("%s does not answer; nothing is lost, it is asked again: %s", self.manager.title, error)
            self._away = True

    def say_back(self) -> bool:
        """Report that the manager answers again; return whether it was away."""
        was_away, self._away = self._away, False
        if was_away:
            log.warning("%s answers again", self.manager.title)
        return was_away

    async def ask_job(self, name: str) -> ManagerJob | None:
        """Return a job as the manager has it now; None if it knows no such job. ManagerAway is passed on."""
        job = await self.manager.job(self.names.theirs(name))
        named = None if job is None else self.names.one(job)
        return named if named is not None and named.name == name else job

    async def job(self, name: str) -> ManagerJob | None:
        """Return a job as the manager has it now; ask until it answers."""
        return await self.insist(lambda: self.ask_job(name))

    async def fence(self, name: str) -> ManagerJob | None:
        """Make sure that a released job that has not begun does not begin; return its state after that."""
        try:
            await self.insist(lambda: self.manager.hold(self.names.theirs(name)))
        except ManagerRefused as error:
            log.warning("job %s cannot be held: %s", name, error)
        return await self.job(name)

    async def ended(self, name: str, attempt: int) -> JobFinished:
        """Return how a run ended that the manager has forgotten. Without accounting this is unknown, and the run
        counts as failed, for it must not run twice."""
        try:
            one = await self.manager.ended(self.names.theirs(name))
        except ManagerAway:
            one = None
        if one is None:
            log.warning("it is not known how job %s ended: %s has forgotten it", name, self.manager.title)
            return JobFinished(name, attempt, FAILED, reason=f"{self.manager.title} has forgotten how it ended")
        return JobFinished(name, attempt, STATUS.get(one.state, FAILED), one.exit_status, one.exit_signal)

    async def until_off_nodes(self, name: str) -> ManagerJob | None:
        """Wait until the job is off its nodes and return its state; None if the manager has forgotten it."""
        until_s = time.monotonic() + STOP_S
        while (job := await self.job(name)) is not None and job.runs:
            if time.monotonic() > until_s:
                raise BackendError(f"{self.manager.title} has not ended job {name} after {STOP_S:g} s")
            await asyncio.sleep(PAUSE_S)
        return job
