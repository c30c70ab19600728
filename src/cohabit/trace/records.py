"""Collect job records, as importers read them from a log, into the columns of a workload.

An importer decides what a line means; this module only turns the records into columns and applies the two
rules every reader shares: no run time or no processors means rejected, no request means the run time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    if any(record.account for record in records):
        extra["account"] = np.array([record.account for record in records], np.object_)
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
        extra={name: column for name, column in extra.items() if any(column)},
        max_nodes=max_nodes,
        max_procs=max_procs,
        header=dict(header or {}),
        defects={sentence: count for sentence, count in defects.items() if count},
        source=source,
    )


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
