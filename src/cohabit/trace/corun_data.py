"""Co-run data (CSV, one row per ordered pair) as `cohabit measure pairs` writes and `cohabit train` reads it.

Columns: app, other, target (percent, or what --target says), optionally app_time_s, suite, family and alone, and any
numeric primary.* and other.* columns. What measured each column is in a side file, DATA.csv.meta.json:
{"schema_version": 1, "sources": {column: source}, "environment": {...}}; without it every source is "unknown". Gaps,
duplicates and other targets are dealt with in corun_cleaning. Nothing here learns.
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
from cohabit.trace import corun_cleaning as cleaning
from cohabit.trace.corun_cleaning import PERCENT
from cohabit.trace.dcslab import is_dcslab, read_dcslab
from cohabit.trace.files import read_text, readable

SIDE_FILE = ".meta.json"
LARGEST = 1e20  # of any number: beyond, sums of squares overflow
SCHEMA_VERSION = 1
NEEDED = APP, BESIDE = "app", "other"
TARGET, ALONE, NOISE = "target", "alone", "meta.solo_noise_percent"
SUITE, FAMILY, PRIMARY, OTHER = "suite", "family", "primary.", "other."


def read_coruns(path: Path, with_target: bool = True, kind: str = PERCENT, average: bool = False) -> CoRuns:
    """Read a data set: ours, or the published measurements of dcslab-snu (its summary or its archive).

    `kind` says what the targets are; `average`: duplicates are averaged even where they contradict each other.
    """
    if is_dcslab(path):
        return read_dcslab(path)
    text = read_text(path)
    sources, environment = _side_file(path)
    return parse_coruns(text, str(path), with_target, sources, environment, kind, average)


def parse_coruns(
    text: str,
    where: str,
    with_target: bool,
    sources: dict[str, str] | None = None,
    environment: dict[str, Any] | None = None,
    kind: str = PERCENT,
    average: bool = False,
) -> CoRuns:
    """A data set from its text; `where` names it in errors."""
    data, family = _rows(text, where, with_target, kind)
    cleaning.to_percent(data, kind)
    if with_target:
        cleaning.without_target_gaps(data)
    elif data.target is not None and np.isnan(data.target).any():
        data.target = None
    cleaning.as_groups(data)
    cleaning.remark_on_noise(data)
    cleaning.merge_duplicates(data, average)
    cleaning.fill_gaps(data)
    return CoRuns(
        tuple(data.app),
        tuple(data.other),
        data.own,
        data.beside,
        Schema(tuple(data.own_names), tuple(data.beside_names), sources or {}),
        data.target,
        tuple(data.suite) if any(data.suite) else (),
        family,
        environment or {},
        where,
        "",
        tuple(data.notes),
    )


def _rows(text: str, where: str, with_target: bool, kind: str) -> tuple[cleaning.Rows, dict[str, str]]:
    """Return the cells of a file as they are, and the family of every program it names one of."""
    reader = csv.reader(io.StringIO(text))
    header = [name.strip() for name in next(readable(reader, where), [])]
    _check_header(header, where, with_target)
    own = [name for name in header if name == TIME or name.startswith(PRIMARY)]
    own.sort(key=lambda name: name != TIME)
    beside = [name for name in header if name.startswith(OTHER)]
    more = [name for name in (TARGET, ALONE, NOISE) if name in header]
    numeric = [*own, *beside, *more]
    places = [(header.index(name), name) for name in numeric]
    text_at = {name: header.index(name) for name in (APP, BESIDE, SUITE, FAMILY) if name in header}
    lines, words, numbers, family = [], [], [], dict[str, str]()
    for row in readable(reader, where):
        if not any(cell.strip() for cell in row):
            continue
        line = f"{where}, line {reader.line_num}"
        if len(row) != len(header):
            raise InputError(f"has {len(row)} cells, the header {len(header)}", line, "give every column a place")
        said = {name: row[at].strip() for name, at in text_at.items()}
        for name in (APP,) if kind != PERCENT and TARGET in header else (APP, BESIDE):
            if not said[name]:
                hint = "; for rows of runs alone add --target time, latency or throughput" if name == BESIDE else ""
                raise InputError("has no application", f"{line}, {name}", f"name it{hint}")
        if said.get(FAMILY):
            _note_family(family, said[APP], said[FAMILY], f"{line}, {FAMILY}")
        lines.append(reader.line_num)
        words.append((said[APP], said[BESIDE], said.get(SUITE, "")))
        numbers.append([_number(row[at], f"{line}, {name}") for at, name in places])
    if not words:
        raise InputError("has no rows", where, "a row is one ordered pair of applications")
    table, (apps, others, suites) = np.array(numbers), map(list, zip(*words, strict=True))
    first, last = len(own), len(own) + len(beside)
    column = {name: table[:, last + at].copy() for at, name in enumerate(more)}
    return cleaning.Rows(
        where,
        lines,
        apps,
        others,
        suites,
        table[:, :first],
        table[:, first:last],
        column.get(TARGET),
        column.get(ALONE),
        column.get(NOISE),
        [name.removeprefix(PRIMARY) for name in own],
        [name.removeprefix(OTHER) for name in beside],
    ), family


def _note_family(family: dict[str, str], app: str, own: str, where: str) -> None:
    if family.setdefault(app, own) != own:
        what = f"says that {app} is of the family {own}, another line {family[app]}"
        raise InputError(what, where, "give every program one family")


def _check_header(header: Sequence[str], where: str, with_target: bool) -> None:
    line = f"{where}, line 1"
    for name in (*NEEDED, TARGET) if with_target else NEEDED:
        if name not in header:
            fix = "co-run data needs app, other, target (percent, or see --target), primary.* and other.* columns"
            raise InputError(f"has no column {name}", line, fix)
    for name in header:
        if header.count(name) > 1:
            raise InputError(f"has two columns {name!r}", line, "keep one of them")
    for prefix in (PRIMARY, OTHER):
        if not any(name.startswith(prefix) for name in header):
            raise InputError(f"has no {prefix}* columns", line, "add the counters both had alone")


def _number(cell: str, where: str) -> float:
    """Return a number, NaN for an empty cell."""
    if not cell.strip():
        return math.nan
    try:
        value = float(cell)
    except ValueError:
        fix = "give a number, or leave the cell empty"
        raise InputError(f"{cell.strip()!r} is not a number", where, fix) from None
    if not math.isfinite(value):
        raise InputError(f"is {cell.strip()}", where, "give a number, or leave the cell empty")
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
