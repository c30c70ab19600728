"""Grid Engine's `accounting` file (accounting(5)): colon-separated, one line per job or array task.

Understands Sun, Son of and Univa Grid Engine; Univa writes milliseconds, which is seen from their size. The
request is `h_rt` of the category field, memory per process its `h_vmem`. Lines of the parallel tasks of one
job (pe_taskid) are skipped: the job has a line of its own.
"""

from __future__ import annotations

import re
from collections import Counter

from cohabit.model.errors import InputError
from cohabit.model.units import SECOND
from cohabit.model.workload import Workload
from cohabit.trace.records import NO_RUN_US, JobRecord, workload_of

QUEUE, OWNER, JOB_NAME, JOB_NUMBER, SUBMITTED, STARTED, ENDED, WALLCLOCK = 0, 3, 4, 5, 8, 9, 10, 13
PROJECT, PROCESSORS, ARRAY_TASK, CATEGORY, PARALLEL_TASK = 31, 34, 35, 39, 41
_FEWEST_FIELDS = 36
_CLOCK_VALUE = re.compile(r"(\b[hs]_(?:rt|cpu)=)(\d+):(\d\d):(\d\d)")
_LIMIT = re.compile(r"\bh_rt=(\d+(?:\.\d+)?)")
_MEMORY = re.compile(r"\bh_vmem=(\d+(?:\.\d+)?)([kKmMgG]?)")
_BYTES = {"": 1, "k": 1000, "K": 2**10, "m": 10**6, "M": 2**20, "g": 10**9, "G": 2**30}
_MILLISECONDS_FROM = 10**11  # as seconds this is the year 5138


def parse(text: str, source: str = "accounting") -> Workload:
    """All jobs of an accounting file; a line with too few fields or a bad number raises InputError naming it."""
    records: list[JobRecord] = []
    defects: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        fields = _CLOCK_VALUE.sub(_clock_in_seconds, line).split(":")
        where = f"{source}, line {number}"
        if len(fields) < _FEWEST_FIELDS:
            what = f"has {len(fields)} fields where an accounting line has 45"
            raise InputError(what, where, "this is the file of accounting(5), not the output of qacct")
        if len(fields) > PARALLEL_TASK and fields[PARALLEL_TASK] not in ("NONE", ""):
            defects["lines of parallel tasks within a job, skipped"] += 1
            continue
        try:
            records.append(_record(fields, defects))
        except ValueError as problem:
            raise InputError(f"has a field that is not a number ({problem})", where, "repair the line") from None
    return workload_of(records, defects, source, header={"UnixStartTime": "0"})


def _clock_in_seconds(found: re.Match[str]) -> str:
    return f"{found[1]}{int(found[2]) * 3600 + int(found[3]) * 60 + int(found[4])}"


def _record(fields: list[str], defects: Counter[str]) -> JobRecord:
    category = fields[CATEGORY] if len(fields) > CATEGORY else ""
    limit = _LIMIT.search(category)
    if not limit:
        defects["jobs without a time limit"] += 1
    memory = _MEMORY.search(category)
    task = fields[ARRAY_TASK]
    is_array = task.isdigit() and int(task) > 0
    return JobRecord(
        job_id=f"{fields[JOB_NUMBER]}.{task}" if is_array else fields[JOB_NUMBER],
        submit_us=_instant_us(fields[SUBMITTED]),
        run_us=_run_us(fields, defects),
        limit_us=round(float(limit[1]) * SECOND) if limit else 0,
        processes=int(fields[PROCESSORS]),
        user=fields[OWNER],
        program=fields[JOB_NAME],
        partition=fields[QUEUE],
        account="" if fields[PROJECT] == "NONE" else fields[PROJECT],
        memory_bytes=round(float(memory[1]) * _BYTES[memory[2]]) if memory else 0,
    )


def _run_us(fields: list[str], defects: Counter[str]) -> int:
    started_us, ended_us = _instant_us(fields[STARTED]), _instant_us(fields[ENDED])
    if started_us <= 0:
        defects["jobs that never started"] += 1
        return NO_RUN_US
    if ended_us >= started_us:
        return ended_us - started_us
    defects["jobs that end before they start, timed by ru_wallclock"] += 1
    return max(round(float(fields[WALLCLOCK]) * SECOND), 0)


def _instant_us(text: str) -> int:
    moment = float(text)
    return round(moment * SECOND / (1000 if moment >= _MILLISECONDS_FROM else 1))
