"""Every trace format by name, and which reader or writer a file is for. Knows the formats only by their first line."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType

from cohabit.model.errors import InputError
from cohabit.model.workload import Workload
from cohabit.trace import atlas, cobalt, gridengine, lumos, sacct
from cohabit.trace.files import UTF8_MARK, open_trace, read_text
from cohabit.trace.swf import read_swf, write_swf

Reader = Callable[[Path], Workload]
_SNIFFED_BYTES = 64 * 1024
_SIGNS = {  # what the first line of a log that must be imported first looks like
    "sacct": re.compile(r"(.*\|)?JobID(Raw)?\|"),
    "lumos": re.compile(r"(.*,)?job,user,"),
    "atlas": re.compile(r"user_ID,"),
    "cobalt": re.compile(r"\d\d/\d\d/\d{4} \d\d:\d\d:\d\d;|.*\bqtime=.*;"),
    "gridengine": re.compile(r"([^:\s]*:){35}"),
}


def read_trace(path: Path, accounts: bool = False) -> Workload:
    """Read what the simulator accepts directly: SWF (plain, gzip, xz) or a jobs.csv, told apart by content.

    `accounts`: the groups of users of an SWF are their accounts."""
    first_line = _first_line(path)
    if re.match(r"\s*[\"']?job_id[\"']?\s*(,|$)|[\w\"', ]*,\s*[\"']?job_id\b", first_line):
        return _read_jobs_csv(path)
    for name, sign in _SIGNS.items():
        if sign.match(first_line):
            advice = f"convert it with: cohabit import {name} {path} -o jobs.swf"
            raise InputError(f"looks like a {name} log", str(path), advice)
    if ".csv" in path.suffixes:
        return _read_jobs_csv(path)
    return read_swf(path, accounts=accounts)


def write_trace(workload: Workload, path: Path) -> None:
    """Write SWF or jobs.csv by the name of the file (.swf, .csv, either with .gz or .xz)."""
    if ".csv" in path.suffixes:
        from cohabit.trace.jobs_csv import write_jobs_csv

        write_jobs_csv(workload, path)
    elif ".swf" in path.suffixes:
        write_swf(workload, path)
    else:
        raise InputError("has no known ending", str(path), "name it .swf or .csv, with .gz or .xz to compress")


def _read_jobs_csv(path: Path) -> Workload:
    from cohabit.trace.jobs_csv import read_jobs_csv  # polars, which SWF does not need

    return read_jobs_csv(path)


def _importer(module: ModuleType) -> Reader:
    def read(path: Path) -> Workload:
        imported: Workload = module.parse(read_text(path), str(path))
        return imported

    return read


READERS: Mapping[str, Reader] = {
    "swf": read_swf,
    "jobs": _read_jobs_csv,
    "sacct": _importer(sacct),
    "gridengine": _importer(gridengine),
    "lumos": _importer(lumos),
    "cobalt": _importer(cobalt),
    "atlas": _importer(atlas),
}


def _first_line(path: Path) -> str:
    """The first line that is neither blank nor a remark of Grid Engine, as far as the first 64 KiB go."""
    with open_trace(path) as stream:
        start = stream.read(_SNIFFED_BYTES).removeprefix(UTF8_MARK).decode("utf-8", "replace")
    return next((line for line in start.splitlines() if line.strip() and not line.startswith("#")), "")
