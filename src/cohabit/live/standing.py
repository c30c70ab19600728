"""Where a job stands, for people: its record and what the core knows of it just now, without looking at the queue."""

from __future__ import annotations

from typing import NamedTuple

from cohabit.backend.protocol import Launch
from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.live.recorder import Recorder
from cohabit.live.records import OVER, REFUSED, RUNS, Note, Record
from cohabit.model.job import Job

QUEUED, HELD, STARTING, RUNNING, CANCELLED = "queued", "held", "starting", "running", "cancelled"

_UNMET = "it depends on did not finish well"  # how the core's reason ends (core/apply.py)


class Standing(NamedTuple):
    """A job as it is now."""

    record: Record  # a copy
    state: str  # queued, held, starting, running, done, failed, killed, cancelled or lost
    why: str  # it waits, in short; empty if it does not or nothing particular is known
    launch: Launch | None  # what it executes; of a job that is over without its environment


class Listed(NamedTuple):
    """Some of many jobs, latest first; `before` asks for those that follow, None: there are none."""

    jobs: list[Standing]
    before: int | None


class Explained(NamedTuple):
    """Why a job waits, in full, and why it waited before."""

    standing: Standing
    why: str
    history: tuple[Note, ...]


def stand(record: Record, core: SchedulerCore, recorder: Recorder, launch: Launch | None) -> Standing:
    """Join a record with the core; in the thread of the core."""
    record = recorder.living.get(record.job_id, record)
    return Standing(_copied(record), _state(record, core, recorder), _short_why(record, core), launch)


def with_reason(why: str, notes: tuple[Note, ...]) -> str:
    """The core knows that a start was refused and until when; its record knows what the executor said."""
    if why.startswith(f"{REFUSED};") and notes and notes[-1].why.startswith(f"{REFUSED}:"):
        return f"{notes[-1].why}; {why.partition('; ')[2]}"
    return why


def asked(job: Job) -> str:
    """What a job wants, for whoever is told that nobody has it."""
    much = f"{job.nodes} whole node{'' if job.nodes == 1 else 's'}" if job.nodes else (
        f"{job.processes} core{'' if job.processes == 1 else 's'}"
    )  # fmt: skip
    memory = f" with {job.memory_bytes >> 20:,} MiB for each process" if job.memory_bytes else ""
    return f"{much}{memory}" + (f" in partition {job.partition}" if job.partition else "")


def advice(job: Job, reason: str) -> str:
    """What whoever submitted a job can do about the reason why it was cancelled at once."""
    if job.after and reason.endswith(_UNMET):
        return "run that job again first, or submit with --after-any (after_any)"
    return f"it asks for {asked(job)}; `cohabit nodes` shows what there is"


def _copied(record: Record) -> Record:
    """The recorder goes on changing its own."""
    return Record(**{name: getattr(record, name) for name in record.__struct_fields__})


def _state(record: Record, core: SchedulerCore, recorder: Recorder) -> str:
    if record.phase == OVER:
        return CANCELLED if record.status in ("rejected", "") else record.status
    if record.members:
        names = (f"{record.job_id}_{n}" for n in range(record.array_first, record.array_first + record.members))
        left = [one for one in names if one in recorder.living]
        if any(recorder.living[one].phase == RUNS for one in left):
            return RUNNING
        rows = [core.state.rows.get(one) for one in left]
        return HELD if rows and all(row in core.state.held for row in rows) else QUEUED
    row = core.state.rows.get(record.job_id)
    if row is None:
        return QUEUED  # it has just been taken
    stands = core.state.jobs[columns.STATE, row]
    if stands in (columns.STARTING, columns.RUNNING):
        return STARTING if stands == columns.STARTING else RUNNING
    return HELD if row in core.state.held else QUEUED


def _short_why(record: Record, core: SchedulerCore) -> str:
    """What keeps it out of the queue, or what last happened to it there."""
    state = core.state
    row = state.rows.get(record.job_id)
    if row is None or state.jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING):
        return ""
    if row in state.held:
        return "held: it must be released first"
    if pending := state.waiting_for.get(row):
        more = f" and {len(pending) - 3} more" if len(pending) > 3 else ""
        return f"waits for the end of job {', '.join(sorted(pending)[:3])}{more}"
    return record.notes[-1].why if record.notes else "waits for nodes"
