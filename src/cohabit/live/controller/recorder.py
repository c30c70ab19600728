"""Keeps a record of every job up to date from the batches; the journal writes what has changed.

The records are a function of the batches alone: what a crash has lost of them comes out the same in a replay. The
recorder holds the records of jobs that are not over and nothing else, and it never changes the core.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.core.explain_running import profile_in_words
from cohabit.core.guaranteeing import story_of
from cohabit.core.state import State
from cohabit.live.controller.records import OVER, REFUSED, RUNS, WAITS, Record
from cohabit.live.controller.slowdowns import NOT_KNOWN, actual_slowdown, predicted_slowdown
from cohabit.model import event as fact
from cohabit.model.command import CancelJob, Command, HoldJob, ReleaseJob, SetShares, StartJob, StopJob
from cohabit.model.event import Event
from cohabit.model.job import Job

MEMBERS_BITS = 21  # jobs one batch can bring, as a power of two
_LOST = "lost"
T = TypeVar("T")
log = logging.getLogger(__name__)


class Recorder:
    """The records of jobs that are not over, by their names."""

    def __init__(self, living: Iterable[Record] = ()) -> None:
        self.begin(living)

    def begin(self, living: Iterable[Record]) -> None:
        """Start anew with these records."""
        self.living = {one.job_id: one for one in living}
        self._touched: dict[str, Record] = {}
        self._ends: dict[str, str] = {}  # of runs in this batch
        self._faults: dict[str, str] = {}  # the reasons of their failures
        self._batch = (-1, 0)  # the last one observed, and how many jobs it has brought so far

    def observe(
        self, seq: int, now_us: int, events: Sequence[Event], commands: Sequence[Command], core: SchedulerCore
    ) -> list[Record]:
        """Observe a batch that the core has handled, or the next part of it; return the changed records."""
        self._touched, self._ends, self._faults = {}, {}, {}
        count = self._batch[1] if self._batch[0] == seq else 0
        for event in events:
            if isinstance(event, fact.JobSubmitted):
                count = self._taken(now_us, event.job, (seq << MEMBERS_BITS) + count) - (seq << MEMBERS_BITS)
            else:
                self._heard(now_us, event)
        self._batch = (seq, count)
        for command in commands:
            self._ordered(now_us, command, core)
        for record in list(self._touched.values()):
            self._settle(now_us, record, core)
        return list(self._touched.values())

    def adopt(self, now_us: int, core: SchedulerCore) -> list[Record]:
        """Return records of the jobs in a checkpoint, for a journal without any; finished jobs get only their end."""
        self._touched, state = {}, core.state
        for number, (name, status) in enumerate(state.finished.items()):
            self._touched[name] = Record(name, number, OVER, status=status)
        for number, (name, (left, _)) in enumerate(state.open_arrays.items(), len(self._touched)):
            self._touched[name] = self.living[name] = Record(name, number, members=left)
        first = len(self._touched)
        by_age = sorted(state.rows.items(), key=lambda item: int(state.jobs[columns.SEQ, item[1]]))
        for number, (name, row) in enumerate(by_age):
            record = _record(state.spec(row), first + number, int(state.jobs[columns.SUBMIT, row]))
            record.array = name.rpartition("_")[0] if name.rpartition("_")[0] in state.open_arrays else ""
            self._touched[name] = self.living[name] = record
            if state.jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING):
                self._running(record, state, row, int(state.jobs[columns.START, row]))
        return list(self._touched.values())

    def give_up(self, now_us: int, core: SchedulerCore, why: str) -> list[Record]:
        """Mark jobs that a restored core does not have as lost; return the changed records."""
        self._touched, state = {}, core.state
        for name, record in list(self.living.items()):
            if name not in state.rows and name not in state.open_arrays:
                del self.living[name]
                record.phase, record.status, record.end_us = OVER, state.finished.get(name, _LOST), now_us
                record.reason = why
                self._touched[name] = record
        return list(self._touched.values())

    # ---- facts ------------------------------------------------------------------------------------------------------

    def _taken(self, now_us: int, job: Job, ordinal: int) -> int:
        """Add a job, or an array with all its members; return the next free ordinal."""
        record = self._touched[job.job_id] = self.living[job.job_id] = _record(job, ordinal, now_us)
        if not job.array_count:
            return ordinal + 1
        record.members, record.array_first = job.array_count, job.array_first
        for number in range(job.array_first, job.array_first + job.array_count):
            ordinal, name = ordinal + 1, f"{job.job_id}_{number}"
            member = self._touched[name] = self.living[name] = _record(job, ordinal, now_us)
            member.job_id, member.array = name, job.job_id
        return ordinal + 1

    def _heard(self, now_us: int, event: Event) -> None:
        match event:
            case fact.JobFinished(job_id, attempt, status, exit_status, exit_signal, reason):
                record = self._touch(job_id)
                if record is not None and record.attempt == attempt:
                    record.exit_status, record.exit_signal = exit_status, exit_signal
                    self._ends[job_id], self._faults[job_id] = status, reason
                    if status in (_LOST, "stopped"):
                        record.with_note(now_us, f"run {attempt} was {status}")
            case fact.StartRefused(job_id, _, reason):
                self._note(now_us, job_id, f"{REFUSED}: {reason or 'no reason given'}")
            case fact.JobHeld(job_id):
                self._note(now_us, job_id, "held: it must be released first")
            case fact.JobReleased(job_id):
                self._note(now_us, job_id, "released")
            case fact.JobChanged(job_id, limit_us, qos):
                record = self._touch(job_id)
                if record is not None:
                    record.limit_us = record.limit_us if limit_us is None else limit_us
                    record.qos = record.qos if qos is None else qos

    def _ordered(self, now_us: int, command: Command, core: SchedulerCore) -> None:
        match command:
            case StartJob(job_id, attempt):
                record, row = self._touch(job_id), core.state.rows.get(job_id, -1)
                if record is None or row < 0:
                    return
                self._running(record, core.state, row, now_us)
                record.attempt, record.nodes, record.scale = attempt, command.nodes, command.scale
                record.ways, record.bandwidth_mbs = command.ways, command.bandwidth_mbs
                record.exclusive, record.purpose = command.exclusive, command.purpose
                record.profile = _judged(lambda: profile_in_words(core.view(now_us), row), "")
                self._meets(record, core.state, row)
                record.predicted_slowdown = _judged(lambda: predicted_slowdown(core, row, now_us), None)
            case CancelJob(job_id, _, reason):
                record = self._touch(job_id)
                if record is not None:
                    record.reason = reason
            case StopJob(job_id, _, reason) | ReleaseJob(job_id, reason):
                self._note(now_us, job_id, reason)
            case SetShares(shares=shares, reason=reason) if reason:
                for name in {job_id for job_id, _, _ in shares}:
                    for at_us, text in story_of(core.state, core.policies, name):
                        if at_us == now_us:  # it was done for this job, or at its cost
                            self._note(now_us, name, text)
            case HoldJob(job_id):
                self._note(now_us, job_id, "has nodes and waits for its mates in other domains")

    def _meets(self, record: Record, state: State, row: int) -> None:
        """Note the jobs on its nodes, and this one in theirs."""
        record.met, record.beside = False, ()
        if record.exclusive or state.ledger is None:
            return
        ledger = state.ledger
        for other in sorted(
            {one for index in ledger.classes_of.get(row, ()) for one in ledger.residents[index]} - {row}
        ):
            beside = self.living.get(state.spec(other).job_id)
            if beside is not None:
                known = beside.beside
                record.meets(beside)
                beside.meets(record)
                if beside.beside is not known:
                    self._touched[beside.job_id] = beside

    def _running(self, record: Record, state: State, row: int, start_us: int) -> None:
        record.phase, record.start_us, record.attempt = RUNS, start_us, int(state.jobs[columns.ATTEMPT, row])
        record.nodes, record.cores = state.ranges_of(row), _cores(state, row)
        record.exit_status = record.exit_signal = None

    def _settle(self, now_us: int, record: Record, core: SchedulerCore) -> None:
        """Update the phase of the job after the batch; a job that is over is dropped."""
        state, name = core.state, record.job_id
        row = state.rows.get(name)
        if row is not None:
            runs = state.jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING)
            if not runs and record.phase == RUNS:
                record.start_us, record.nodes, record.cores, record.predicted_slowdown = None, (), 0, None
            record.phase = RUNS if runs else WAITS
            return
        status = state.finished.get(name)
        if status is None:
            return  # an array with members that are not over
        ended = self._ends.get(name)
        record.phase, record.status, record.end_us = OVER, _LOST if ended == _LOST else status, now_us
        if record.status == "done" and not record.members:
            found = _judged(lambda: actual_slowdown(core, record, now_us), NOT_KNOWN)
            record.actual_slowdown, record.slowdown_why = found
        if status not in ("cancelled", "rejected"):
            record.reason = self._faults.get(name, "")
        self.living.pop(name, None)
        if record.array and (array := self._touch(record.array)) is not None:
            self._settle(now_us, array, core)

    def _note(self, now_us: int, job_id: str, why: str) -> None:
        record = self._touch(job_id)
        if record is not None:
            record.with_note(now_us, why)

    def _touch(self, job_id: str) -> Record | None:
        record = self.living.get(job_id)
        if record is not None:
            self._touched[job_id] = record
        return record


def _record(job: Job, ordinal: int, submit_us: int) -> Record:
    return Record(
        job.job_id,
        ordinal,
        user=job.user,
        program=job.program,
        processes=job.processes,
        whole_nodes=job.nodes,
        partition=job.partition,
        qos=job.qos,
        limit_us=job.limit_us,
        after=job.after,
        submit_us=submit_us,
        account=job.account,
    )


def _judged(judge: Callable[[], T], otherwise: T) -> T:
    """Return a figure that no job depends on: an exception in it must not stop the batch."""
    try:
        return judge()
    except Exception:
        log.exception("a slowdown cannot be told")
        return otherwise


def _cores(state: State, row: int) -> int:
    """Return the cores of a running job over all its nodes."""
    how = state.placed.get(row)
    if how is not None and how.cores:
        return how.cores * how.nodes
    kinds = state.kinds
    nodes = (node for first, count in state.ranges_of(row) for node in range(first, first + count))
    return sum(kinds.groups[kinds.of_node[node]].cores for node in nodes)
