"""Take jobs again that were given back and still wait: after `detach`, or when the lease was over."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence

from cohabit.backend.steered.contract import Manager, ManagerRefused
from cohabit.backend.steered.known import Known
from cohabit.backend.steered.marks import held_mark
from cohabit.backend.steered.naming import Names
from cohabit.backend.steered.patient import PatientManager
from cohabit.backend.steered.shapes import ManagerJob, Terms
from cohabit.backend.steered.translate import goes_on_waiting

log = logging.getLogger(__name__)


class Retaking:
    """`may_hold`: whether jobs may be held now, by the lease."""

    def __init__(self, manager: Manager, patient: PatientManager, terms: Terms, may_hold: Callable[[], bool]) -> None:
        self._manager, self._patient, self._terms, self._may_hold = manager, patient, terms, may_hold
        self._taken: list[str] = []  # to be said
        self._said: set[str] = set()

    def announce(self, jobs: Iterable[ManagerJob]) -> None:
        """Say which of these jobs will be taken again."""
        self._taken = [job.name for job in jobs if goes_on_waiting(job, self._terms)]
        self.say()

    async def take(self, known: Known, names: Names) -> None:
        """Hold a job for us again. Its mark is first: without it the hold would count as another's."""
        job = await self._patient.ask_job(known.name)
        if job is None or not goes_on_waiting(job, self._terms) or not self._may_hold():
            return
        theirs = names.theirs(known.name)
        try:
            await self._manager.mark([theirs], held_mark(any_nodes=not known.before.most))
            await self._manager.hold(theirs)
            self._taken.append(known.name)
        except ManagerRefused as error:  # it has just begun
            log.warning("job %s: %s", known.name, error)
        known.touched_s = time.time()

    def say(self) -> None:
        """Say which jobs were taken again and have not been named."""
        if names := [name for name in self._taken if name not in self._said]:
            log.warning("%s", _in_words(names))
        self._said.update(self._taken)
        self._taken = []


def _in_words(names: Sequence[str]) -> str:
    few = ", ".join(names[:10]) + (" and others" if len(names) > 10 else "")
    if len(names) == 1:
        return f"1 job that was given back and still waits is taken again: {few}"
    return f"{len(names)} jobs that were given back and still wait are taken again: {few}"
