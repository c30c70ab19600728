"""Collect job records, as importers read them from a log, into the columns of a workload.

An importer decides what a line means; this module only turns the records into columns and applies the two
rules every reader shares: no run time or no processors means rejected, no request means the run time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.model.units import SECOND, parse_duration
from cohabit.model.workload import ACCEPTED, BAD_RUN, BAD_SIZE, Workload
from cohabit.trace.names import codes_of_texts, job_id_column

NO_RUN_US = -SECOND  # what SWF writes as -1: the job never ran, or its run time is unknown
RUN_FROM_CATALOGUE_US = -1  # the program catalogue gives the run time; the job is accepted
WAITED = "swf_wait_us"  # the wait in the log, under the name that a trace in SWF gives it
BEGIN_AFTER, CANCEL_AFTER = "begin_after_us", "cancel_after_us"
TIMES = (WAITED, BEGIN_AFTER, CANCEL_AFTER)
TERMS = ("any:", "not:", "start:")  # before a job that another waits for: until it ends, fails, or has begun
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(slots=True)
class JobRecord:
    """One job of a log; a `limit_us` of 0 means the log states none."""

    job_id: str
    submit_us: int
    run_us: int
    limit_us: int
    processes: int
    user: str = ""
    program: str = ""
    partition: str = ""
    memory_bytes: int = 0
    nodes: int = 0
    gpus: int = 0
    account: str = ""
    wait_us: int = -SECOND  # in the log; below 0: unknown
    qos: str = ""
    begin_after_us: int = -SECOND  # so long after its submission it could start; below 0: at once
    cancel_after_us: int = -SECOND  # so long after its submission it was cancelled before it began; below 0: it was not
    failed: bool = False
    after: str = ""  # terms as in the column `after` of jobs.csv
    array: str = ""
    at_most: int = 0  # how many jobs of the array may run at once; 0: any number


def workload_of(
    records: Sequence[JobRecord],
    defects: Counter[str],
    source: str,
    *,
    max_nodes: int = 0,
    max_procs: int = 0,
    header: Mapping[str, str] | None = None,
) -> Workload:
    """Columns in the order of the records; `nodes`, `gpus` and `account` become extra columns if any states them."""
    if not records:
        raise InputError("has no jobs", source, "check that this is the right file and format")
    run_us = np.array([record.run_us for record in records], np.int64)
    stated_us = np.array([record.limit_us for record in records], np.int64)
    processes = np.array([record.processes for record in records], np.int64)
    submit_us = np.array([record.submit_us for record in records], np.int64)
    rejection = np.where(run_us < 0, BAD_RUN, np.where(processes <= 0, BAD_SIZE, ACCEPTED)).astype(np.int8)
    user, user_names = codes_of_texts([record.user for record in records])
    program, program_names = codes_of_texts([record.program for record in records])
    partition, partition_names = codes_of_texts([record.partition for record in records])
    memory_bytes = np.array([record.memory_bytes for record in records], np.int64)
    extra: dict[str, NDArray[Any]] = {
        "nodes": np.array([record.nodes for record in records], np.int64),
        "gpus": np.array([record.gpus for record in records], np.int64),
    }
    for name in ("account", "qos", "array"):
        if any(getattr(record, name) for record in records):
            extra[name] = np.array([getattr(record, name) for record in records], np.object_)
    for name, field in ((WAITED, "wait_us"), (BEGIN_AFTER, "begin_after_us"), (CANCEL_AFTER, "cancel_after_us")):
        times_us = np.array([getattr(record, field) for record in records], np.int64)
        if bool((times_us >= 0).any()):
            extra[name] = times_us
    extra["failed"] = np.array([record.failed for record in records], np.int64)
    extra["at_most"] = np.array([record.at_most for record in records], np.int64)
    ids = [record.job_id for record in records]
    defects["job ids used before"] += len(ids) - len(set(ids))
    defects["submit times earlier than on the line before"] += int((submit_us[1:] < submit_us[:-1]).sum())
    return Workload(
        job_id=job_id_column(ids),
        submit_us=submit_us,
        run_us=run_us,
        limit_us=np.where(stated_us > 0, stated_us, run_us),
        processes=processes,
        user=user,
        program=program,
        rejection=rejection,
        user_names=user_names,
        program_names=program_names,
        memory_bytes=memory_bytes if memory_bytes.any() else None,
        partition=partition if partition_names else None,
        partition_names=partition_names,
        after=[tuple(record.after.split()) for record in records] if any(one.after for one in records) else None,
        extra={name: column for name, column in extra.items() if name in TIMES or any(column)},
        max_nodes=max_nodes,
        max_procs=max_procs,
        header=dict(header or {}),
        defects={sentence: count for sentence, count in defects.items() if count},
        source=source,
    )


def with_cancelled(workload: Workload) -> Workload:
    """Return the same jobs, in which those that were cancelled before they began take part, too.

    How long they would have run is not known: as long as they ask for, until their owner cancels them.
    """
    cancel_us = workload.extra.get(CANCEL_AFTER)
    if cancel_us is None:
        return workload
    never = (workload.rejection == BAD_RUN) & (cancel_us >= 0)
    until_us = np.maximum(cancel_us, SECOND)
    asked_us = np.where(never & (workload.limit_us <= 0), until_us, workload.limit_us)
    return replace(
        workload,
        run_us=np.where(never, asked_us, workload.run_us),
        limit_us=asked_us,
        rejection=np.where(never, ACCEPTED, workload.rejection).astype(np.int8),
    )


def without_place_in_swf(workload: Workload) -> str:
    """Return in words what a trace in SWF cannot say of these jobs; empty if it can say all."""
    counts = {
        "dependencies": sum(bool(one) for one in workload.after or ()),
        "begin times": int((workload.extra.get(BEGIN_AFTER, np.zeros(0)) >= SECOND).sum()),
        "cancelled jobs": int((workload.extra.get(CANCEL_AFTER, np.full(0, -1)) >= 0).sum()),
        "bounds of arrays": int((workload.extra.get("at_most", np.zeros(0)) > 0).sum()),
    }
    return ", ".join(f"{what} ({count:,} jobs)" for what, count in counts.items() if count)


def run_us_between(start_us: int | None, end_us: int | None, defects: Counter[str]) -> int:
    """The run time from a start to an end, which a log may lack."""
    if start_us is None or end_us is None:
        defects["jobs without a start or an end"] += 1
        return NO_RUN_US
    if end_us < start_us:
        defects["jobs that end before they start"] += 1
        return NO_RUN_US
    return end_us - start_us


def duration_us(text: str, where: str, fix: str = "") -> int:
    """Read a duration, or say in one sentence that it is none."""
    try:
        return parse_duration(text)
    except ValueError as problem:
        raise InputError(str(problem), where, fix) from None


def instant_us(moment: datetime) -> int:
    """Microseconds since 1970; a moment without a zone is taken as UTC, because logs do not say theirs."""
    aware = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    since = aware - _EPOCH
    return (since.days * 86_400 + since.seconds) * SECOND + since.microseconds
