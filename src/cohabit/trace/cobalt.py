"""Argonne's Cobalt job logs, the input of its simulator Qsim, in the two forms they are found in.

The accounting form (PBS style) has several lines per job, joined by job id:
    04/03/2019 00:32:17;E;327220;Resource_List.nodect=3000 Resource_List.walltime=1:00:00 qtime=... start=... end=...
The workload form has one line per job, `key=value;key=value;...`, with dates and a walltime in seconds.
The size is nodes. A date without a zone is taken as UTC.
"""

from __future__ import annotations

import os.path
import re
from collections import Counter
from collections.abc import Mapping
from datetime import datetime

from cohabit.model.errors import InputError
from cohabit.model.units import microseconds
from cohabit.model.workload import Workload
from cohabit.trace.records import JobRecord, duration_us, instant_us, run_us_between, workload_of

_EVENT_LINE = re.compile(r"(\d\d/\d\d/\d{4} \d\d:\d\d:\d\d);([A-Z]+);([^;]+);(.*)")
_PAIR = re.compile(r'([\w.]+)=("[^"]*"|\S*)')
_QUEUED_AT = "queued_at"  # our own key, beside those of the log: the date of the job's Q line


def parse(text: str, source: str = "cobalt") -> Workload:
    """All jobs of a log in order of first mention; lines that are not records are skipped and counted."""
    jobs: dict[str, dict[str, str]] = {}
    first_line: dict[str, int] = {}
    defects: Counter[str] = Counter()
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.strip():
            continue
        facts = _facts(line)
        if facts is None:
            defects["lines that are not job records, skipped"] += 1
            continue
        known = jobs.setdefault(facts["jobid"], {})
        first_line.setdefault(facts["jobid"], number)
        for key, value in facts.items():
            known.setdefault(key, value)
    records = [_record(facts, defects, f"{source}, line {first_line[job]}") for job, facts in jobs.items()]
    return workload_of(records, defects, source, header={"UnixStartTime": "0"})


def _facts(line: str) -> dict[str, str] | None:
    """The keys and values one line states about its job, or None if it is not a record."""
    if event := _EVENT_LINE.match(line):
        facts = {key: value.strip('"') for key, value in _PAIR.findall(event[4])}
        facts["jobid"] = event[3].strip()
        if event[2] == "Q":
            facts[_QUEUED_AT] = event[1]
        return facts
    facts = dict(part.split("=", 1) for part in line.strip().split(";") if "=" in part)
    return facts if "jobid" in facts and "qtime" in facts else None


def _record(facts: Mapping[str, str], defects: Counter[str], where: str) -> JobRecord:
    submit_us = _instant(facts, "qtime", where)
    if submit_us is None:
        submit_us = _instant(facts, _QUEUED_AT, where)
    if submit_us is None:
        submit_us = _instant(facts, "ctime", where)
    if submit_us is None:
        raise InputError(f"job {facts['jobid']} has no submit time", where, "the log lacks its Q line and qtime")
    walltime = facts.get("Resource_List.walltime", "")
    if not walltime:
        defects["jobs without a time limit"] += 1
    return JobRecord(
        job_id=facts["jobid"],
        submit_us=submit_us,
        run_us=run_us_between(_instant(facts, "start", where), _instant(facts, "end", where), defects),
        limit_us=duration_us(walltime, f"{where}, Resource_List.walltime", "write HH:MM:SS") if walltime else 0,
        processes=_nodes(facts),
        nodes=_nodes(facts),
        user=facts.get("user", ""),
        program=os.path.basename(facts.get("exe", "")) or facts.get("jobname", ""),
        partition=facts.get("queue", ""),
        account=facts.get("account", ""),
    )


def _nodes(facts: Mapping[str, str]) -> int:
    keys = ("Resource_List.nodect", "nodes", "Resource_List.ncpus")
    return next((int(facts[key]) for key in keys if facts.get(key, "").isdigit()), 0)


def _instant(facts: Mapping[str, str], key: str, where: str) -> int | None:
    text = facts.get(key, "")
    if not text:
        return None
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return microseconds(float(text)) or None
    for form in ("%m/%d/%Y %H:%M:%S", "%Y-%m-%d %H:%M:%S"):
        try:
            return instant_us(datetime.strptime(text, form))
        except ValueError:
            continue
    raise InputError(f"{text!r} is not a date", f"{where}, {key}", "seconds since 1970 or YYYY-MM-DD HH:MM:SS")
