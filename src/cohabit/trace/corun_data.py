"""Co-run data (CSV, one row per ordered pair) as `cohabit measure pairs` writes and `cohabit train` reads it.

Columns: app, other, target (percent), app_time_s, optionally suite, and any numeric primary.* and other.* columns. What
measured each column is in a side file, DATA.csv.meta.json: {"schema_version": 1, "sources": {column: source},
"environment": {...}}; without it every source is "unknown". Nothing here learns.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.features import TIME
from cohabit.predict.features import CoRuns, Schema
from cohabit.trace.dcslab import is_dcslab, read_dcslab
from cohabit.trace.files import read_text, readable

SIDE_FILE = ".meta.json"
LARGEST = 1e20  # of any number: beyond, sums of squares overflow
SCHEMA_VERSION = 1
NEEDED = ("app", "other", TIME)
TARGET, SUITE, PRIMARY, OTHER = "target", "suite", "primary.", "other."


def read_coruns(path: Path, with_target: bool = True) -> CoRuns:
    """Read a data set: ours, or the published measurements of dcslab-snu (its summary or its archive)."""
    if is_dcslab(path):
        return read_dcslab(path)
    text = read_text(path)
    sources, environment = _side_file(path)
    return parse_coruns(text, str(path), with_target, sources, environment)


def parse_coruns(
    text: str,
    where: str,
    with_target: bool,
    sources: dict[str, str] | None = None,
    environment: dict[str, Any] | None = None,
) -> CoRuns:
    """A data set from its text; `where` names it in errors."""
    reader = csv.reader(io.StringIO(text))
    header = [name.strip() for name in next(readable(reader, where), [])]
    _check_header(header, where, with_target)
    own = [name for name in header if name.startswith(PRIMARY)]
    other = [name for name in header if name.startswith(OTHER)]
    numeric = [TIME, *own, *other, *([TARGET] if TARGET in header else [])]
    places = [header.index(name) for name in numeric]
    app_at, other_at, suite_at = header.index("app"), header.index("other"), _place(header, SUITE)
    apps, others, suites, numbers = [], [], [], []
    for row in readable(reader, where):
        if not any(cell.strip() for cell in row):
            continue
        line = f"{where}, line {reader.line_num}"
        if len(row) != len(header):
            raise InputError(f"has {len(row)} cells, the header {len(header)}", line, "give every column a value")
        for at, name in ((app_at, "app"), (other_at, "other")):
            if not row[at].strip():
                raise InputError("has no application", f"{line}, {name}", "name it")
        apps.append(row[app_at].strip())
        others.append(row[other_at].strip())
        suites.append(row[suite_at].strip() if suite_at is not None else "")
        numbers.append([_number(row[at], f"{line}, {name}") for at, name in zip(places, numeric, strict=True)])
    if not apps:
        raise InputError("has no rows", where, "a row is one ordered pair of applications")
    table, width = np.array(numbers), 1 + len(own)
    schema = Schema(
        (TIME, *(name.removeprefix(PRIMARY) for name in own)),
        tuple(name.removeprefix(OTHER) for name in other),
        sources or {},
    )
    target = table[:, -1].copy() if TARGET in header else None
    return CoRuns(
        tuple(apps),
        tuple(others),
        table[:, :width],
        table[:, width : width + len(other)],
        schema,
        target,
        tuple(suites) if any(suites) else (),
        environment or {},
        where,
    )


def _check_header(header: Sequence[str], where: str, with_target: bool) -> None:
    line = f"{where}, line 1"
    for name in (*NEEDED, TARGET) if with_target else NEEDED:
        if name not in header:
            fix = "co-run data needs app, other, target (percent), app_time_s, primary.* and other.* columns"
            raise InputError(f"has no column {name}", line, fix)
    for name in header:
        if header.count(name) > 1:
            raise InputError(f"has two columns {name!r}", line, "keep one of them")
    for prefix in (PRIMARY, OTHER):
        if not any(name.startswith(prefix) for name in header):
            raise InputError(f"has no {prefix}* columns", line, "add the counters both had alone")


def _place(header: Sequence[str], name: str) -> int | None:
    return header.index(name) if name in header else None


def _number(cell: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        what = f"{cell.strip()!r} is not a number" if cell.strip() else "is empty"
        raise InputError(what, where, "give a number in every row or leave the row or column out") from None
    if not math.isfinite(value):
        raise InputError(f"is {cell.strip()}", where, "give a number in every row or leave the row or column out")
    if abs(value) > LARGEST:
        raise InputError(f"is {value:g}, which nothing measures", where, f"give a number of at most {LARGEST:g}")
    return value


def _side_file(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    side = path.with_name(path.name + SIDE_FILE)
    if not side.is_file():
        return {}, {}
    where = str(side)
    try:
        document = json.loads(read_text(side))
    except json.JSONDecodeError as problem:
        at = f"{where}, line {problem.lineno}"
        raise InputError(f"is not JSON ({problem.msg})", at, "write it again with `cohabit measure pairs`") from None
    version = document.get("schema_version") if isinstance(document, dict) else None
    if version != SCHEMA_VERSION:
        raise InputError(f"has schema_version {version}, not {SCHEMA_VERSION}", where, "measure the pairs again")
    sources, environment = document.get("sources", {}), document.get("environment", {})
    if not isinstance(sources, dict) or not isinstance(environment, dict):
        raise InputError("sources and environment are not objects", where, 'write {"sources": {"column": "source"}}')
    return {str(column): str(source) for column, source in sources.items()}, environment
