"""Project ATLAS tables of Los Alamos (Amvrosiadis et al., ATC 2018): Trinity and Mustang, one job per row.

The size is `tasks_requested`, in cores; a job that states none gets whole nodes. Rows have no job id, so a
job is known by its row. Trinity (told by its dispatch_time column) has 9,408 nodes of 32 cores, Mustang
1,600 of 24.
"""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from cohabit.model.errors import InputError
from cohabit.model.workload import Workload
from cohabit.trace.records import JobRecord, duration_us, instant_us, run_us_between, workload_of

REQUIRED = ("user_ID", "submit_time", "start_time", "end_time", "wallclock_limit", "node_count", "tasks_requested")
TRINITY_NODES, TRINITY_CORES = 9408, 32
MUSTANG_NODES, MUSTANG_CORES = 1600, 24


def parse(text: str, source: str = "atlas") -> Workload:
    """All jobs of an ATLAS table; a missing column or an unreadable value raises InputError naming line and column."""
    reader = csv.DictReader(text.splitlines())
    columns = reader.fieldnames or ()
    missing = [name for name in REQUIRED if name not in columns]
    if missing:
        raise InputError(f"has no column {missing[0]}", f"{source}, line 1", "this is not an ATLAS job table")
    is_trinity = "dispatch_time" in columns
    nodes, cores = (TRINITY_NODES, TRINITY_CORES) if is_trinity else (MUSTANG_NODES, MUSTANG_CORES)
    records: list[JobRecord] = []
    defects: Counter[str] = Counter()
    for row in reader:
        records.append(_record(row, len(records) + 1, cores, defects, f"{source}, line {reader.line_num}"))
    return workload_of(
        records, defects, source, max_nodes=nodes, max_procs=nodes * cores, header={"UnixStartTime": "0"}
    )


def _record(row: Mapping[str, str], number: int, cores: int, defects: Counter[str], where: str) -> JobRecord:
    submit_us = _instant(row, "submit_time", where)
    if submit_us is None:
        raise InputError("is empty", f"{where}, submit_time", "the file may be cut short")
    run_us = run_us_between(_instant(row, "start_time", where), _instant(row, "end_time", where), defects)
    tasks, nodes = _count(row, "tasks_requested", where), _count(row, "node_count", where)
    if not tasks and nodes:
        defects["jobs without a task count, given whole nodes"] += 1
    limit = row["wallclock_limit"]
    limit_us = duration_us(limit, f"{where}, wallclock_limit", "repair the line") if limit else 0
    if not limit_us:
        defects["jobs without a time limit"] += 1
    return JobRecord(
        job_id=str(number),
        submit_us=submit_us,
        run_us=run_us,
        limit_us=limit_us,
        processes=tasks or nodes * cores,
        user=row["user_ID"] or "",
        nodes=nodes,
    )


def _instant(row: Mapping[str, str], column: str, where: str) -> int | None:
    text = row[column]
    if not text:
        return None
    try:
        return instant_us(datetime.fromisoformat(text))
    except ValueError:
        raise InputError(f"{text!r} is not a date", f"{where}, {column}", "repair the line") from None


def _count(row: Mapping[str, str], column: str, where: str) -> int:
    text = row[column] or "0"
    try:
        return int(float(text))
    except ValueError:
        raise InputError(f"{text!r} is not a number", f"{where}, {column}", "repair the line") from None
