"""Variability data (CSV, one row per run) as `cohabit measure runs` writes and `cohabit train variability` reads it.

Columns: app, start_s, run_s, workload_type (compute, network or io), and any numeric columns: what the counters said in
the window before the run began, named COUNTER.STAT. Columns named meta.* are for people and not learned from. Every
number is checked here; nothing here learns.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.telemetry import WORKLOAD_TYPES
from cohabit.predict.variability_data import TYPE_COLUMNS, Runs
from cohabit.trace.files import read_text, readable

APP, START, RUN, TYPE, META = "app", "start_s", "run_s", "workload_type", "meta."
LARGEST = 1e20  # of any number: above it sums of squares overflow
FIX_NUMBER = "give a number in every row or leave the row or column out"


def read_runs(path: Path, with_run: bool = True) -> Runs:
    """Read a data set; without `with_run` the column run_s may be absent."""
    return parse_runs(read_text(path), str(path), with_run)


def parse_runs(text: str, where: str, with_run: bool = True) -> Runs:
    """Parse a data set from its text; `where` names it in errors."""
    reader = csv.reader(io.StringIO(text))
    header = [name.strip() for name in next(readable(reader, where), [])]
    _check_header(header, where, with_run)
    features = [name for name in header if name not in (APP, START, RUN, TYPE) and not name.startswith(META)]
    numeric = [START, *([RUN] if RUN in header else []), *features]
    places = [header.index(name) for name in numeric]
    app_at, type_at = header.index(APP), header.index(TYPE)
    apps, types, numbers = [], [], []
    for row in readable(reader, where):
        if not any(cell.strip() for cell in row):
            continue
        line = f"{where}, line {reader.line_num}"
        if len(row) != len(header):
            raise InputError(f"has {len(row)} cells, the header {len(header)}", line, "give every column a value")
        if not row[app_at].strip():
            raise InputError("has no application", f"{line}, {APP}", "name it")
        if row[type_at].strip() not in WORKLOAD_TYPES:
            what = f"{row[type_at].strip()!r} is not a type of work"
            raise InputError(what, f"{line}, {TYPE}", f"write one of {', '.join(WORKLOAD_TYPES)}")
        apps.append(row[app_at].strip())
        types.append(row[type_at].strip())
        numbers.append(_numbers([row[at] for at in places], numeric, line))
    if not apps:
        raise InputError("has no rows", where, "a row is one run of an application")
    table = np.array(numbers)
    first = len(numeric) - len(features)
    run_s = table[:, 1].copy() if RUN in header else None
    if run_s is not None and (run_s <= 0.0).any():
        name = apps[int(np.argmax(run_s <= 0.0))]
        raise InputError(f"has a run of {name} with a run_s of 0 or below", where, "leave that row out")
    return Runs(tuple(apps), table[:, 0].copy(), run_s, tuple(types), table[:, first:], tuple(features), where)


def runs_text(runs: Runs) -> str:
    """Return runs as a data set that `read_runs` reads."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([APP, START, RUN, TYPE, *runs.columns])
    columns = zip(runs.app, runs.start_s.tolist(), runs.times_s.tolist(), runs.workload_type, runs.table, strict=True)
    for app, start_s, run_s, kind, counters in columns:
        writer.writerow([app, f"{start_s:.6f}", f"{run_s:.6f}", kind, *(f"{one:.9g}" for one in counters.tolist())])
    return text.getvalue()


def _check_header(header: Sequence[str], where: str, with_run: bool) -> None:
    line = f"{where}, line 1"
    for name in (APP, START, RUN, TYPE) if with_run else (APP, START, TYPE):
        if name not in header:
            fix = "variability data needs app, start_s, run_s, workload_type and columns of counters"
            raise InputError(f"has no column {name}", line, fix)
    for name in header:
        if not name:
            raise InputError("has a column without a name", line, "name it, or leave it out")
        if header.count(name) > 1:
            raise InputError(f"has two columns {name!r}", line, "keep one of them")
        if name in TYPE_COLUMNS:
            raise InputError(f"has a column {name}, which is made from {TYPE}", line, "leave it out")
    if all(name in (APP, START, RUN, TYPE) or name.startswith(META) for name in header):
        raise InputError("has no columns of counters", line, "add what the counters said before each run")


def _numbers(cells: list[str], names: Sequence[str], line: str) -> list[float]:
    found = []
    for cell, name in zip(map(str.strip, cells), names, strict=True):
        where = f"{line}, {name}"
        try:
            number = float(cell)
        except ValueError:
            raise InputError(f"{cell!r} is not a number" if cell else "is empty", where, FIX_NUMBER) from None
        if not math.isfinite(number):
            raise InputError(f"is {cell}", where, FIX_NUMBER)
        if abs(number) > LARGEST:
            raise InputError(f"is {cell}, which nothing measures", where, f"give a number of at most {LARGEST:g}")
        found.append(number)
    return found
