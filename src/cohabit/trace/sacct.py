"""Slurm's `sacct --parsable2` with its header row: one job per line, columns found by name.

Steps (123.batch, 123.0) are skipped; array tasks (123_4) and parts of heterogeneous jobs (123+1) are jobs of
their own. Dependencies, begin times, bounds of arrays, and jobs that failed or were cancelled while they waited are
kept (trace/sacct_terms.py). Processors come from AllocCPUS, NCPUS or ReqCPUS, nodes only where no such column
exists. Dates without a zone are taken as UTC. Never runs sacct itself.

    sacct --allusers --parsable2 --format=JobID,User,JobName,Partition,State,Submit,Start,End,ElapsedRaw,...
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from cohabit.model.errors import InputError
from cohabit.model.units import MINUTE, SECOND
from cohabit.model.workload import Workload
from cohabit.trace.records import NO_RUN_US, JobRecord, duration_us, instant_us, workload_of
from cohabit.trace.sacct_terms import SubmitTerms

_NO_DATE = {"", "Unknown", "None", "N/A", "0"}
_NO_LIMIT = {"", "UNLIMITED", "INFINITE", "Partition_Limit", "INVALID", "Unknown"}
_NOT_FINISHED = ("PENDING", "RUNNING", "SUSPENDED", "CONFIGURING", "COMPLETING", "REQUEUED", "RESIZING")
_FAILED = ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE", "CANCELLED", "PREEMPTED")
_JOB = re.compile(r"\d+(_\d+|_\[[^|]*\]|\+\d+)?(\.[\w.+]+)?\|")
_MEMORY = re.compile(r"(\d+(?:\.\d+)?)([KMGTP]?)([nc]?)")
_BYTES = {"K": 2**10, "": 2**20, "M": 2**20, "G": 2**30, "T": 2**40, "P": 2**50}
_FORMAT_ADVICE = "make it with sacct --parsable2 --format=JobID,User,State,Submit,Start,End,Elapsed,Timelimit,NCPUS"


def parse(text: str, source: str = "sacct") -> Workload:
    """All jobs of a report; a row with too few columns or an unreadable date raises InputError naming the line."""
    lines = text.splitlines()
    header = lines[0].split("|") if lines else []
    if "JobID" not in header or "Submit" not in header:
        raise InputError("has no header row with JobID and Submit", f"{source}, line 1", _FORMAT_ADVICE)
    records: list[JobRecord] = []
    defects: Counter[str] = Counter()
    terms = SubmitTerms()
    for number, line in _rows(lines[1:], header, defects):
        where = f"{source}, line {number}"
        row = dict(zip(header, _cells(line, header, defects, where), strict=True))
        if "." in row["JobID"]:
            defects["job steps, skipped"] += 1
            continue
        records.append(_record(row, defects, where))
        terms.note(records[-1], row.get("SubmitLine", ""))
    terms.settle(records, defects)
    return workload_of(records, defects, source, header={"UnixStartTime": "0"})


def _rows(lines: Sequence[str], header: list[str], defects: Counter[str]) -> Iterator[tuple[int, str]]:
    """Yield the records with their line numbers; a submit line may go over several lines, and is the last column."""
    pending, begun = "", 0
    free_text = header[-1] == "SubmitLine"
    for number, line in enumerate(lines, start=2):
        if pending and free_text and not _JOB.match(line):
            pending += f" {line}"
            defects["submit lines of several lines"] += 1
            continue
        if pending.strip():
            yield begun, pending
        pending, begun = line, number
    if pending.strip():
        yield begun, pending


def _cells(line: str, header: list[str], defects: Counter[str], where: str) -> list[str]:
    cells = line.split("|")
    surplus = len(cells) - len(header)
    if surplus > 0 and header[-1] == "SubmitLine":
        cells[len(header) - 1 :] = ["|".join(cells[len(header) - 1 :])]
    elif surplus > 0 and "JobName" in header:  # only names are free text, and sacct does not quote the separator
        at = header.index("JobName")
        cells[at : at + surplus + 1] = ["|".join(cells[at : at + surplus + 1])]
        defects["job names that contain the separator"] += 1
    if len(cells) != len(header):
        raise InputError(f"has {len(cells)} columns where the header has {len(header)}", where, "the file may be cut")
    return cells


def _record(row: Mapping[str, str], defects: Counter[str], where: str) -> JobRecord:
    submit_us = _date(row["Submit"], "Submit", where)
    if submit_us is None:
        raise InputError("has no submit time", f"{where}, Submit", "remove the line")
    cpus = next((count for name in ("AllocCPUS", "NCPUS", "ReqCPUS") if (count := _count(row.get(name, "")))), 0)
    nodes = next((count for name in ("AllocNodes", "NNodes", "ReqNodes") if (count := _count(row.get(name, "")))), 0)
    if not cpus and nodes:
        defects["jobs without a processor count, counted in nodes"] += 1
    if "+" in row["JobID"]:
        defects["parts of heterogeneous jobs, each taken as a job"] += 1
    processes = cpus or nodes
    start_us, end_us = (_date(row.get(column, ""), column, where) for column in ("Start", "End"))
    eligible_us = _date(row.get("Eligible", ""), "Eligible", where)
    state = row.get("State", "")
    cancelled = state.startswith("CANCELLED") and start_us is None and end_us is not None and "Start" in row
    return JobRecord(
        job_id=row["JobID"],
        submit_us=submit_us,
        run_us=_run_us(row, defects, where),
        limit_us=_limit_us(row, defects, where),
        processes=processes,
        user=row.get("User", ""),
        program=row.get("JobName", ""),
        partition=row.get("Partition", "").split(",")[0],
        memory_bytes=_memory_bytes(row.get("ReqMem", ""), max(processes, 1), max(nodes, 1)),
        nodes=nodes,
        account=row.get("Account", ""),
        wait_us=-SECOND if start_us is None else max(start_us - submit_us, 0),
        qos=row.get("QOS", ""),
        begin_after_us=-SECOND if eligible_us is None or eligible_us <= submit_us + SECOND else eligible_us - submit_us,
        cancel_after_us=max(end_us - submit_us, 0) if cancelled and end_us is not None else -SECOND,
        failed=state.startswith(_FAILED),
    )


def _run_us(row: Mapping[str, str], defects: Counter[str], where: str) -> int:
    if row.get("State", "").startswith(_NOT_FINISHED):
        defects["jobs not finished when the report was made"] += 1
        return NO_RUN_US
    start_us = _date(row.get("Start", ""), "Start", where)
    if "Start" in row and start_us is None:
        never = "jobs that never started"
        cancelled = row.get("State", "").startswith("CANCELLED") and row.get("End", "") not in _NO_DATE
        defects[f"{never}, cancelled while they waited" if cancelled else never] += 1
        return NO_RUN_US
    if row.get("ElapsedRaw", "").isdigit():
        return int(row["ElapsedRaw"]) * SECOND
    if row.get("Elapsed"):
        return duration_us(row["Elapsed"], f"{where}, Elapsed")
    end_us = _date(row.get("End", ""), "End", where)
    if start_us is None or end_us is None or end_us < start_us:
        defects["jobs whose run time cannot be known"] += 1
        return NO_RUN_US
    return end_us - start_us


def _limit_us(row: Mapping[str, str], defects: Counter[str], where: str) -> int:
    if row.get("TimelimitRaw", "").isdigit():
        return int(row["TimelimitRaw"]) * MINUTE
    limit = row.get("Timelimit", "")
    if limit in _NO_LIMIT:
        defects["jobs without a time limit"] += 1
        return 0
    return duration_us(limit, f"{where}, Timelimit")


def _date(text: str, column: str, where: str) -> int | None:
    if text in _NO_DATE:
        return None
    if text.isdigit():
        return int(text) * SECOND
    try:
        return instant_us(datetime.fromisoformat(text))
    except ValueError:
        raise InputError(f"{text!r} is not a date", f"{where}, {column}", "unset SLURM_TIME_FORMAT") from None


def _count(text: str) -> int:
    return int(text) if text.isdigit() else 0


def _memory_bytes(text: str, processes: int, nodes: int) -> int:
    """Per process: "4Gn" is per node, "2Gc" per processor, and a plain "4G" (Slurm 21.08 and later) the whole job."""
    found = _MEMORY.fullmatch(text)
    if not found:
        return 0
    size = float(found[1]) * _BYTES[found[2]]
    share = {"c": size, "n": size * nodes / processes, "": size / processes}[found[3]]
    return round(share)
