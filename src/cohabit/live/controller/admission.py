"""Decides what may go into the next batch: names must be new, and verbs must fit the state of their job. It also adds
the ends of jobs that the core has forgotten.

It reads the core, the journal and the records and changes none of them. Observed events are never refused, only
requests.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cohabit.core import columns
from cohabit.core.state import State
from cohabit.core.windows import what_is_wrong
from cohabit.live.controller.inbox import Entry
from cohabit.live.controller.journal import Journal, JournalError
from cohabit.live.controller.recorder import Recorder
from cohabit.live.controller.records import OVER
from cohabit.live.controller.refusals import (
    RemovedJob,
    UnknownJob,
    UnknownNode,
    UnknownProfile,
    UnknownWindow,
    WrongState,
)
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
    WindowCleared,
    WindowSet,
)
from cohabit.model.job import Job

MOST_WINDOWS = 256  # each may split the kinds of nodes
FORGET_AT = 1_000  # ends the core knows of before it is told to forget them
_OF_JOBS = JobCancelled | JobChanged | JobHeld | JobReleased | JobRequeued


class Admitted(NamedTuple):
    """The entries that go into the batch, and the refused ones with the reasons."""

    entries: list[Entry]
    refused: list[tuple[Entry, InputError]]


class Admission:
    """The check of one batch."""

    def __init__(self, state: State, journal: Journal, recorder: Recorder) -> None:
        self._state, self._journal, self._recorder = state, journal, recorder
        self._coming: set[str] = set()  # names this batch brings
        self._used: set[str] = set()
        self._forgets = len(state.finished) >= FORGET_AT

    def admit(self, entries: Sequence[Entry]) -> Admitted:
        """Check each entry; entries that only report are accepted."""
        wanted = [name for one in entries if isinstance(one.event, JobSubmitted) for name in names_of(one.event.job)]
        self._used = self._journal.known_jobs(wanted) if wanted else set()
        ends = self._ends_of(entries)
        admitted: list[Entry] = [Entry(EndsForgotten())] if self._forgets else []
        refused: list[tuple[Entry, InputError]] = []
        for one in entries:
            try:
                admitted.append(self._checked(one, ends))
            except JournalError:
                raise
            except InputError as error:
                refused.append((one, error))
        return Admitted(admitted if len(admitted) > self._forgets else [], refused)

    def _checked(self, entry: Entry, ends: dict[str, str]) -> Entry:
        event = entry.event
        if isinstance(event, JobSubmitted):
            self._check_names(event.job)
            recalled = (EndRecalled(name, ends[name]) for name in event.job.after if name in ends)
            return entry._replace(first=tuple(recalled))
        if entry.answer is None:
            return entry
        if isinstance(event, _OF_JOBS):
            facts = self._of_jobs(event.job_id, event)
            return entry._replace(event=facts[-1], first=tuple(facts[:-1]))
        if isinstance(event, NodeDrained | NodeUp) and not 0 <= event.node < len(self._state.node_state):
            raise UnknownNode(event.node, len(self._state.node_state))
        if isinstance(event, WindowSet):
            self._check_window(event)
        if isinstance(event, WindowCleared) and event.name not in self._state.windows:
            raise UnknownWindow(event.name)
        if isinstance(event, ProfileShared) and not self._state.own_profiles.get((event.owner, event.program)):
            raise UnknownProfile(event.program, event.owner)
        return entry

    def _check_window(self, told: WindowSet) -> None:
        if wrong := what_is_wrong(self._state, told):
            raise InputError(wrong, f"window {told.name}")
        if told.name not in self._state.windows and len(self._state.windows) >= MOST_WINDOWS:
            raise InputError(f"{MOST_WINDOWS} windows are announced", f"window {told.name}", "clear some first")

    # ---- submissions ------------------------------------------------------------------------------------------------

    def _check_names(self, job: Job) -> None:
        names = list(names_of(job))
        for name in names:
            if name in self._used or name in self._coming:
                raise InputError("a job of this name was here before", f"job {name}")
        self._coming.update(names)

    def _ends_of(self, entries: Sequence[Entry]) -> dict[str, str]:
        """Return how jobs ended that submissions depend on and that the core does not know."""
        state, wanted = self._state, set[str]()
        for one in entries:
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
        if problem := _problem(self._state, row, event):
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


def _problem(state: State, row: int, event: _OF_JOBS) -> str:
    """Return why a verb does not fit the state of its job; empty: it does."""
    runs = state.jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING)
    if isinstance(event, JobHeld) and row in state.held:
        return "is held already"
    if isinstance(event, JobHeld | JobChanged) and runs:
        return "runs already"
    if isinstance(event, JobReleased) and row not in state.held:
        return "is not held"
    if isinstance(event, JobRequeued):
        if not runs:
            return "waits in the queue already"
        if state.jobs[columns.FLAGS, row] == columns.CANCELLED:
            return "is being cancelled"
        if not state.spec(row).requeue:
            return "was submitted with --no-requeue: it must not be run again"
    return ""
