"""Decides what may go into the next batch: names must be new, and verbs must fit the state of their job. It also adds
the ends of jobs that the core has forgotten.

It reads the core, the journal and the records and changes none of them. Observed events are never refused, only
requests.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from cohabit.core import columns
from cohabit.core.state import State
from cohabit.live.controller.inbox import Letter
from cohabit.live.controller.journal import Journal, JournalError
from cohabit.live.controller.recorder import Recorder
from cohabit.live.controller.records import OVER
from cohabit.live.controller.refusals import RemovedJob, UnknownJob, UnknownNode, UnknownProfile, WrongState
from cohabit.model.errors import InputError
from cohabit.model.event import (
    EndRecalled,
    EndsForgotten,
    Event,
    JobCancelled,
    JobChanged,
    JobHeld,
    JobReleased,
    JobRequeued,
    JobSubmitted,
    NodeDrained,
    NodeUp,
    ProfileShared,
)
from cohabit.model.job import Job

FORGET_AT = 1_000  # ends the core knows of before it is told to forget them
_OF_JOBS = JobCancelled | JobChanged | JobHeld | JobReleased | JobRequeued


class Admitted(NamedTuple):
    """The entries that go into the batch, and the refused ones with the reasons."""

    letters: list[Letter]
    refused: list[tuple[Letter, InputError]]


class Admission:
    """The check of one batch."""

    def __init__(self, state: State, journal: Journal, recorder: Recorder) -> None:
        self._state, self._journal, self._recorder = state, journal, recorder
        self._coming: set[str] = set()  # names this batch brings
        self._used: set[str] = set()
        self._forgets = len(state.finished) >= FORGET_AT

    def admit(self, letters: Sequence[Letter]) -> Admitted:
        """Check each entry; entries that only report are accepted."""
        wanted = [name for one in letters if isinstance(one.event, JobSubmitted) for name in names_of(one.event.job)]
        self._used = self._journal.known_jobs(wanted) if wanted else set()
        ends = self._ends_of(letters)
        admitted: list[Letter] = [Letter(EndsForgotten())] if self._forgets else []
        refused: list[tuple[Letter, InputError]] = []
        for one in letters:
            try:
                admitted.append(self._checked(one, ends))
            except JournalError:
                raise
            except InputError as error:
                refused.append((one, error))
        return Admitted(admitted if len(admitted) > self._forgets else [], refused)

    def _checked(self, letter: Letter, ends: dict[str, str]) -> Letter:
        event = letter.event
        if isinstance(event, JobSubmitted):
            self._check_names(event.job)
            recalled = (EndRecalled(name, ends[name]) for name in event.job.after if name in ends)
            return letter._replace(first=tuple(recalled))
        if letter.answer is None:
            return letter
        if isinstance(event, _OF_JOBS):
            facts = self._of_jobs(event.job_id, event)
            return letter._replace(event=facts[-1], first=tuple(facts[:-1]))
        if isinstance(event, NodeDrained | NodeUp) and not 0 <= event.node < len(self._state.node_state):
            raise UnknownNode(event.node, len(self._state.node_state))
        if isinstance(event, ProfileShared) and not self._state.own_profiles.get((event.owner, event.program)):
            raise UnknownProfile(event.program, event.owner)
        return letter

    # ---- submissions ------------------------------------------------------------------------------------------------

    def _check_names(self, job: Job) -> None:
        names = list(names_of(job))
        for name in names:
            if name in self._used or name in self._coming:
                raise InputError("a job of this name was here before", f"job {name}")
        self._coming.update(names)

    def _ends_of(self, letters: Sequence[Letter]) -> dict[str, str]:
        """Return how jobs ended that submissions depend on and that the core does not know."""
        state, wanted = self._state, set[str]()
        for one in letters:
            if isinstance(one.event, JobSubmitted):
                wanted.update(one.event.job.after)
        ended = {} if self._forgets else state.finished
        known = (state.rows, state.open_arrays, ended)
        unknown = [name for name in sorted(wanted) if not any(name in one for one in known)]
        found = self._journal.records_of(unknown) if unknown else {}
        return {name: one.status for name, one in found.items() if one.phase == OVER}

    # ---- verbs ------------------------------------------------------------------------------------------------------

    def _of_jobs(self, name: str, event: _OF_JOBS) -> list[Event]:
        """Return the event for this job, or for every member of an array that allows it."""
        if name in self._coming:
            return [event]
        members = self._members(name)
        if not members:
            self._check(name, event)
            return [event]
        facts: list[Event] = []
        trouble: InputError = WrongState(name, "has no member that is not over")
        for member in members:
            try:
                self._check(member, event)
                facts.append(_about(event, member))
            except WrongState as error:
                trouble = error
        if not facts:
            raise trouble
        return facts

    def _members(self, name: str) -> list[str]:
        record = self._recorder.living.get(name)
        if record is None or not record.members:
            return []
        names = (f"{name}_{number}" for number in range(record.array_first, record.array_first + record.members))
        return [one for one in names if one in self._state.rows]

    def _check(self, name: str, event: _OF_JOBS) -> None:
        row = self._state.rows.get(name)
        if row is None:
            found = self._journal.records_of([name]).get(name)
            if found is None:
                raise RemovedJob(name) if self._journal.removed(name) else UnknownJob(name)
            raise WrongState(name, f"is over: {found.status or 'it has ended'}")
        if (problem := _PROBLEMS[type(event)](self._state, row)) is not None:
            raise WrongState(name, problem)


def names_of(job: Job) -> Iterable[str]:
    """Yield the names a submission takes for ever: its own, and those of its members."""
    yield job.job_id
    for number in range(job.array_first, job.array_first + job.array_count):
        yield f"{job.job_id}_{number}"


def _about(event: _OF_JOBS, member: str) -> Event:
    if isinstance(event, JobChanged):
        return JobChanged(member, event.limit_us, event.qos)
    return type(event)(member)


def _runs(state: State, row: int) -> bool:
    return bool(state.jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING))


def _not_changeable(state: State, row: int) -> str | None:
    return "runs already" if _runs(state, row) else None


def _not_holdable(state: State, row: int) -> str | None:
    return "is held already" if row in state.held else _not_changeable(state, row)


def _not_releasable(state: State, row: int) -> str | None:
    return None if row in state.held else "is not held"


def _not_requeuable(state: State, row: int) -> str | None:
    if not _runs(state, row):
        return "waits in the queue already"
    if state.jobs[columns.FLAGS, row] == columns.CANCELLED:
        return "is being cancelled"
    return None if state.spec(row).requeue else "must not be run again: it was submitted so"


def _not_cancellable(state: State, row: int) -> str | None:
    return None


_PROBLEMS: dict[type, Callable[[State, int], str | None]] = {
    JobCancelled: _not_cancellable,
    JobChanged: _not_changeable,
    JobHeld: _not_holdable,
    JobReleased: _not_releasable,
    JobRequeued: _not_requeuable,
}
