"""Standard Workload Format 2.2, in both directions: what each field means and which jobs can never run.

Size is field 8 if positive, else field 5; the request is field 9 if positive, else the run time; a job with
a negative run time or no processors stays in the table with its rejection. Rows stay in file order. The
reader never repairs a value silently: every oddity it tolerates is counted in `Workload.defects`.

numba (reading) and polars (writing) are imported where they are used: each costs a command that does not
need it a noticeable part of a second.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.model.workload import ACCEPTED, BAD_RUN, BAD_SIZE, Ints, Workload
from cohabit.trace.files import line_blocks, replacing
from cohabit.trace.names import codes_of_numbers, codes_of_texts, numbers_of_codes

NEEDED_FIELDS = (1, 2, 4, 5, 8, 9, 12, 14, 15, 16)
WAIT, CPU_TIME, USED_MEMORY, REQUESTED_MEMORY, STATUS, GROUP, PRECEDING, THINK = 3, 6, 7, 10, 11, 13, 17, 18
FURTHER_COLUMNS = {
    WAIT: "swf_wait_us", CPU_TIME: "swf_cpu_us", USED_MEMORY: "swf_used_memory_kb", STATUS: "swf_status",
    GROUP: "swf_group", PRECEDING: "swf_preceding_job", THINK: "swf_think_us",
}  # fmt: skip
KIBIBYTE = 1024

USER_KEY, PROGRAM_KEY, PARTITION_KEY, ACCOUNT_KEY = "UserName", "ProgramName", "Partition", "GroupName"
_OWN_KEYS = {"Version", "MaxJobs", "MaxRecords", "MaxNodes", "MaxProcs", USER_KEY, PROGRAM_KEY}
_HEADER_LINE = re.compile(r"\s*;+\s*([A-Za-z][A-Za-z _-]*?)\s*:(?!//)\s*(.*?)\s*$")
_FIRST_NUMBER = re.compile(r"\d[\d,]*")
_NUMBERED_NAME = re.compile(r"(\d{1,18})\s+(\S.*)")


def read_swf(path: Path, *, every_field: bool = False, accounts: bool = False) -> Workload:
    """Read a plain, gzip or xz trace; `every_field` adds requested memory and the fields no scheduler decides by,
    `accounts` the groups of users as accounts."""
    from cohabit.trace.scan import scan_fields

    fields = NEEDED_FIELDS + ((*FURTHER_COLUMNS, REQUESTED_MEMORY) if every_field else ())
    fields += (GROUP,) if accounts and not every_field else ()
    scanned = scan_fields(line_blocks(path), fields, str(path))
    columns = scanned.columns
    if not len(columns[1]):
        raise InputError("has no jobs", str(path), "a trace has one line of 18 numbers per job")
    header = parse_header(scanned.comments)

    run_us = columns[4]
    processes = np.where(columns[8] > 0, columns[8], columns[5])
    limit_us = np.where(columns[9] > 0, columns[9], run_us)
    rejection = np.where(run_us < 0, BAD_RUN, np.where(processes <= 0, BAD_SIZE, ACCEPTED)).astype(np.int8)
    user, user_names = codes_of_numbers(columns[12], _numbered_names(header, USER_KEY))
    program, program_names = codes_of_numbers(columns[14], _numbered_names(header, PROGRAM_KEY))
    partition, partition_names = codes_of_numbers(columns[16], _numbered_names(header, PARTITION_KEY))
    extra: dict[str, NDArray[Any]] = {}
    if bool((columns[15] >= 0).any()):
        extra["queue"] = columns[15]
    if accounts and bool((columns[GROUP] >= 0).any()):
        code, names = codes_of_numbers(columns[GROUP], _numbered_names(header, ACCOUNT_KEY))
        extra["account"] = np.array([*names, ""], np.object_)[code]
    memory_bytes = None
    if every_field:
        extra |= {name: columns[field] for field, name in FURTHER_COLUMNS.items()}
        memory_bytes = np.maximum(columns[REQUESTED_MEMORY], 0) * KIBIBYTE
    defects = {
        "lines with fewer than 18 fields": scanned.short_lines,
        "lines with more than 18 fields": scanned.long_lines,
        "fractions where a whole number belongs, rounded": scanned.rounded_numbers,
        "submit times earlier than on the line before": int((columns[2][1:] < columns[2][:-1]).sum()),
        "submit times that are negative": int((columns[2] < 0).sum()),
        "job numbers used before": _repeats(columns[1]),
    }
    return Workload(
        job_id=columns[1],
        submit_us=columns[2],
        run_us=run_us,
        limit_us=limit_us,
        processes=processes,
        user=user,
        program=program,
        rejection=rejection,
        user_names=user_names,
        program_names=program_names,
        memory_bytes=memory_bytes,
        partition=partition if partition_names else None,
        partition_names=partition_names,
        extra=extra,
        max_nodes=_header_number(header, "MaxNodes"),
        max_procs=_header_number(header, "MaxProcs"),
        header=header,
        defects={sentence: count for sentence, count in defects.items() if count},
        source=str(path),
    )


def parse_header(comments: Iterable[str]) -> dict[str, str]:
    """`; Key: value` lines; a key that comes again and a line without a key add a line to the value."""
    header: dict[str, str] = {}
    key = ""
    for comment in comments:
        if found := _HEADER_LINE.match(comment):
            key, value = found[1], found[2]
        else:
            value = comment.strip().lstrip(";").strip()
            if not value or not key:
                continue
        header[key] = f"{header[key]}\n{value}" if key in header else value
    return header


def _header_number(header: Mapping[str, str], key: str) -> int:
    """The first number of "338 (batch partition; 512 total)", 0 where the header does not state one."""
    stated = {name.lower(): value for name, value in header.items()}.get(key.lower(), "")
    found = _FIRST_NUMBER.search(stated)
    return int(found[0].replace(",", "")) if found else 0


def _numbered_names(header: Mapping[str, str], key: str) -> dict[int, str]:
    entries = (_NUMBERED_NAME.match(line) for line in header.get(key, "").split("\n"))
    return {int(entry[1]): entry[2] for entry in entries if entry}


def _repeats(numbers: Ints) -> int:
    if bool((numbers[1:] > numbers[:-1]).all()):
        return 0
    return len(numbers) - len(np.unique(numbers))


def write_swf(workload: Workload, path: Path) -> None:
    """Write version 2.2, compressed if the name ends in .gz or .xz; the file appears complete or not at all.

    Job ids that are not numbers become row numbers. Dependencies (`after`) have no place in the format.
    """
    import polars as pl

    from cohabit.trace.seconds_column import seconds_text

    if bool(((workload.run_us < 0) & (workload.rejection != BAD_RUN)).any()):
        raise InputError("jobs without a run time cannot be written as SWF", str(path), "write a .csv file instead")
    rows = len(workload)
    has_numbers = workload.job_id.dtype.kind == "i"
    absent = np.full(rows, -1, np.int64)
    user, user_names = numbers_of_codes(workload.user, workload.user_names)
    program, program_names = numbers_of_codes(workload.program, workload.program_names)
    partition, partition_names = absent, dict[int, str]()
    if workload.partition is not None:
        partition, partition_names = numbers_of_codes(workload.partition, workload.partition_names)
    fields: dict[int, NDArray[Any]] = dict.fromkeys(range(1, 19), absent)
    fields |= {
        1: workload.job_id if has_numbers else np.arange(1, rows + 1),
        5: workload.processes,
        8: workload.processes,
        12: user,
        14: program,
        16: partition,
        15: workload.extra.get("queue", absent),
    }
    fields |= {field: workload.extra[name] for field, name in FURTHER_COLUMNS.items() if name in workload.extra}
    account_names = dict[int, str]()
    if "account" in workload.extra:
        fields[GROUP], account_names = numbers_of_codes(*codes_of_texts([*map(str, workload.extra["account"])]))
    if workload.memory_bytes is not None:
        stated_kb = -(-workload.memory_bytes // KIBIBYTE)
        fields[REQUESTED_MEMORY] = np.where(workload.memory_bytes > 0, stated_kb, -1)
    times = {2: workload.submit_us, 4: workload.run_us, 9: workload.limit_us}
    times |= {field: fields[field] for field in (WAIT, CPU_TIME, THINK) if fields[field] is not absent}
    texts = {str(field): seconds_text(times[field]) if field in times else fields[field] for field in fields}
    names = {USER_KEY: user_names, PROGRAM_KEY: program_names, PARTITION_KEY: partition_names}
    names |= {ACCOUNT_KEY: account_names}
    with replacing(path) as target:
        target.write(_header_text(workload, names, has_numbers).encode())
        pl.DataFrame(texts).write_csv(target, include_header=False, separator=" ", quote_style="never")


def _header_text(workload: Workload, names: Mapping[str, Mapping[int, str]], has_numbers: bool) -> str:
    entries = [("Version", "2.2"), ("MaxJobs", str(len(workload))), ("MaxRecords", str(len(workload)))]
    for key, size in (("MaxNodes", workload.max_nodes), ("MaxProcs", workload.max_procs)):
        if size:
            remark_holds = _header_number(workload.header, key) == size
            entries.append((key, workload.header.get(key, str(size)) if remark_holds else str(size)))
    replaced = _OWN_KEYS | {key for key, table in names.items() if table}
    entries += [(key, value) for key, value in workload.header.items() if key not in replaced]
    for key, table in names.items():
        entries += [(key, f"{number} {' '.join(name.split())}") for number, name in table.items()]
    if not has_numbers:
        entries.append(("Note", "job numbers are rows of the source, whose own ids are not numbers"))
    return "".join(f"; {key}: {line}\n" for key, value in entries for line in value.split("\n"))
