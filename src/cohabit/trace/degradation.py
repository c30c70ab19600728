"""Degradation matrices (CSV) and durations (CSV or JSON), as `cohabit match` takes them.

A matrix is square: a header row of job names, the same names in the first column, and in row i, column j the percentage
by which job i slows beside job j. The diagonal is a program beside a copy of itself: policies, to which the names are
programs, need it; to `match`, where every name is one job, it means nothing. It may be empty. Measured speed-ups (below
zero) count as no degradation; their number is reported. Nothing here decides on pairs.
"""

from __future__ import annotations

import csv
import io
import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cohabit.model.errors import InputError
from cohabit.trace.files import json_object, read_text, readable, replacing

SHAPE = "a square table: a header row of job names, the same names in the first column, percentages in the cells"
MOST_PCT, LONGEST_S = 1e9, 1e12  # limits of a job's slowdown and duration
DURATIONS = "two columns, job and seconds, or a JSON object of them"


@dataclass(frozen=True)
class DegradationMatrix:
    """Mutual slowdowns of jobs, in percent."""

    names: tuple[str, ...]
    percent: NDArray[np.float64]  # [job, beside], none below zero; the diagonal is zero
    beside_itself: NDArray[np.float64]  # the diagonal as given; NaN where it is empty
    clamped: int  # entries that were below zero


def read_degradation(path: Path) -> DegradationMatrix:
    """Read a matrix, plain, .gz or .xz."""
    return parse_degradation(read_text(path), str(path))


def parse_degradation(text: str, where: str) -> DegradationMatrix:
    """A matrix from its text; `where` names it in errors."""
    rows = [(line, row) for line, row in _rows(text, where) if any(cell.strip() for cell in row)]
    if len(rows) < 2:
        raise InputError("has no jobs", where, f"a degradation matrix is {SHAPE}")
    names = tuple(cell.strip() for cell in rows[0][1][1:])
    _check_names(names, f"{where}, line {rows[0][0]}")
    if len(rows) - 1 != len(names):
        raise InputError(
            f"is not square: {len(names)} columns and {len(rows) - 1} rows of jobs", where, f"give {SHAPE}"
        )
    percent = np.zeros((len(names), len(names)))
    for place, (line, row) in enumerate(rows[1:]):
        at = f"{where}, line {line}"
        if len(row) != len(names) + 1:
            raise InputError(f"has {len(row) - 1} percentages for {len(names)} jobs", at, f"give {SHAPE}")
        if row[0].strip() != names[place]:
            fix = "name the rows as the columns, in the same order"
            raise InputError(f"the row is named {row[0].strip()!r}, its column {names[place]!r}", at, fix)
        for column, cell in enumerate(row[1:]):
            known = place != column or cell.strip()
            percent[place, column] = _number(cell, f"{at}, column {names[column]}") if known else np.nan
    beside_itself = np.maximum(np.diagonal(percent), 0.0)
    np.fill_diagonal(percent, 0.0)
    return DegradationMatrix(names, np.maximum(percent, 0.0), beside_itself, int((percent < 0.0).sum()))


def write_degradation(path: Path, names: tuple[str, ...], percent: NDArray[np.float64]) -> None:
    """Write a matrix as `cohabit match` reads it."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["", *names])
    for name, row in zip(names, percent.tolist(), strict=True):
        writer.writerow([name, *(f"{value:.6g}" for value in row)])
    with replacing(path) as target:
        target.write(stream.getvalue().encode("utf-8"))


def read_durations(path: Path, names: tuple[str, ...]) -> NDArray[np.float64]:
    """Seconds alone of every named job, in their order; jobs beyond those are ignored."""
    text, where = read_text(path), str(path)
    found = _json_durations(text, where) if text.lstrip().startswith("{") else _csv_durations(text, where)
    for name in names:
        if name not in found:
            raise InputError(f"has no duration of {name}", where, f"add a line for it: {DURATIONS}")
    return np.array([found[name] for name in names])


def _json_durations(text: str, where: str) -> dict[str, float]:
    document = json_object(text, where, '{"job": seconds}')
    return {name: _seconds(str(value), f"{where}, {name}") for name, value in document.items()}


def _csv_durations(text: str, where: str) -> dict[str, float]:
    found: dict[str, float] = {}
    for place, (line, row) in enumerate((line, row) for line, row in _rows(text, where) if any(row)):
        at = f"{where}, line {line}"
        if len(row) != 2:
            raise InputError(f"has {len(row)} columns", at, f"give {DURATIONS}")
        name, cell = row[0].strip(), row[1].strip()
        if place == 0 and not _is_number(cell):
            continue  # a header
        if name in found:
            raise InputError(f"names {name!r} twice", at, "keep one of the lines")
        found[name] = _seconds(cell, at)
    return found


def _rows(text: str, where: str) -> list[tuple[int, list[str]]]:
    reader = csv.reader(io.StringIO(text))
    return [(reader.line_num, row) for row in readable(reader, where)]


def _check_names(names: tuple[str, ...], where: str) -> None:
    seen: set[str] = set()
    for name in names:
        if not name:
            raise InputError("a column has no name", where, f"give {SHAPE}")
        if name in seen:
            raise InputError(f"names {name!r} twice", where, "give every job its own name")
        seen.add(name)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _number(cell: str, where: str) -> float:
    if not _is_number(cell):
        raise InputError(f"{cell.strip()!r} is not a number", where, "give the percentage by which the row's job slows")
    value = float(cell)
    if not math.isfinite(value) or abs(value) > MOST_PCT:
        raise InputError(f"{cell.strip()} is not a percentage", where, "measure or predict it, every pair is needed")
    return value


def _seconds(cell: str, where: str) -> float:
    if not _is_number(cell) or not 0.0 < float(cell) <= LONGEST_S:
        raise InputError(f"{cell!r} is not a duration", where, "give the seconds the job takes alone, more than 0")
    return float(cell)
