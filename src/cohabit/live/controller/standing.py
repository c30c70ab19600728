"""The state of a job, for people: its record and what the core knows of it now, without reading the queue."""

from __future__ import annotations

from copy import copy
from typing import NamedTuple

from cohabit.backend.protocol import Launch
from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.core.short_reasons import ShortReasons, before_the_queue
from cohabit.live.controller.recorder import Recorder
from cohabit.live.controller.records import OVER, REFUSED, RUNS, Note, Record
from cohabit.model.cluster import Cluster
from cohabit.model.job import Job
from cohabit.model.profile import owner_of

QUEUED, HELD, STARTING, RUNNING, CANCELLED = "queued", "held", "starting", "running", "cancelled"

_UNMET = "it depends on did not finish well"  # how the core's reason ends (core/apply.py)


class Standing(NamedTuple):
    """A job as it is now."""

    record: Record  # a copy
    state: str  # queued, held, starting, running, done, failed, killed, cancelled or lost
    why: str  # why it waits, in short; empty if it does not or nothing particular is known
    launch: Launch | None  # what it executes; without its environment if it is over


class Listed(NamedTuple):
    """Some of many jobs, latest first; `before` asks for those that follow, None: there are none."""

    jobs: list[Standing]
    before: int | None


class Explained(NamedTuple):
    """The reasons why a job waits, in full, and why it waited before."""

    standing: Standing
    why: str
    short: str  # the same in a few words, as lists have it
    history: tuple[Note, ...]
    profile: str = ""  # what is known of its program, where the policy plans by that


def stand(
    record: Record, core: SchedulerCore, recorder: Recorder, launch: Launch | None, reasons: ShortReasons | None = None
) -> Standing:
    """Join a record with the core; in the thread of the core. `reasons`: of the jobs of a list, at this instant."""
    record = recorder.living.get(record.job_id, record)
    own = copy(record)  # the recorder goes on changing its own
    return Standing(own, _state(record, core, recorder), _short_why(record, core, reasons), launch)


def with_reason(why: str, notes: tuple[Note, ...]) -> str:
    """Return the reason with the executor's words: the core knows only that a start was refused and until when."""
    if why.startswith(f"{REFUSED};") and notes and notes[-1].why.startswith(f"{REFUSED}:"):
        return f"{notes[-1].why}; {why.partition('; ')[2]}"
    return why


def advice(reason: str, job: Job, cluster: Cluster) -> str:
    """Return what the owner of a job that was cancelled at once can do about it."""
    if job.after and reason.endswith(_UNMET):
        return "run that job again first, or submit with --after-any (after_any)"
    if "needs" not in reason:
        return ""
    groups = [one for one in cluster.groups if not job.partition or job.partition in one.partitions]
    if not groups:
        return f"no node is in partition {job.partition}: name another"
    words = []
    for one in groups:
        memory = f" and {one.memory_bytes >> 20:,} MiB" if job.memory_bytes and one.memory_bytes else ""
        words.append(f"{_counted(one.count, 'node')} of {_counted(one.cores, 'core')}{memory}")
    there = "there is" if sum(one.count for one in groups) == 1 else "there are"
    return f"it asks for {_asked(job)}, and {there} {', '.join(words)}: ask for less"


def _asked(job: Job) -> str:
    much = _counted(job.nodes, "whole node") if job.nodes else _counted(job.processes, "core")
    memory = f" with {job.memory_bytes >> 20:,} MiB for each process" if job.memory_bytes else ""
    return f"{much}{memory}" + (f" in partition {job.partition}" if job.partition else "")


def _counted(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


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


def _short_why(record: Record, core: SchedulerCore, reasons: ShortReasons | None) -> str:
    """Return why it waits, in short; without `reasons` what keeps it out of the queue, or what last happened to it."""
    state = core.state
    row = state.rows.get(record.job_id)
    if row is None or state.jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING):
        return ""
    if reasons is not None:
        return with_reason(reasons.of(row), record.notes)
    return before_the_queue(state, row, 0) or (record.notes[-1].why if record.notes else "waits for nodes")


def profile_words(core: SchedulerCore, job_id: str) -> str:
    """Return which profile a waiting or running job is planned by; empty: the policy does not look at profiles."""
    state = core.state
    row = state.rows.get(job_id)
    if row is None or core.policies.placer.exclusive:
        return ""
    job = state.spec(row)
    if not job.program:
        return ""
    profile = core.view(0).profile(job.program, job.processes, job.profile_owner or owner_of(job.user))
    timed = () if profile is None else [one for one in profile.scales if one.time_s > 0]
    if profile is None or not timed:
        return f"nothing is known of program {job.program} yet"
    times = ", ".join(f"{one.time_s:.4g} s at scale {one.scale}" for one in timed)
    whose = "its owner's runs" if profile.owner else "the shared profile"
    runs = sum(one.samples for one in timed)
    return f"{job.program} with {profile.processes} processes, from {whose}: {times} ({runs} run{'s' * (runs > 1)})"
