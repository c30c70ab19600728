"""Read counters measured elsewhere from a CSV file: one row per program and interval.

Columns: program, seconds (the length of the interval), then counters by their names in the schema. An amount is the
count in that interval, a level its value then; an empty cell was not measured. Calculated counters are derived.
"""

from __future__ import annotations

import csv
import math
from pathlib import Path

from cohabit.agent.sensors.summary import Readings, Sample, summarise
from cohabit.model.counters import COUNTERS
from cohabit.model.errors import InputError

SOURCE = "imported"


def read_counters(path: Path) -> dict[str, Readings]:
    """Return readings by program."""
    try:
        with path.open(newline="", encoding="utf-8") as stream:
            rows = list(csv.reader(stream))
    except (OSError, UnicodeDecodeError) as error:
        reason = (getattr(error, "strerror", None) or "it is not text").lower()
        raise InputError(f"cannot be read: {reason}", str(path), "give a CSV file of counters") from error
    if not rows or rows[0][:2] != ["program", "seconds"] or len(rows[0]) < 3:
        raise InputError(
            "does not begin with the columns program, seconds and a counter",
            str(path),
            "see docs/measuring.md for the format",
        )
    names = rows[0][2:]
    for name in names:
        if name not in COUNTERS or COUNTERS[name].kind == "ratio" or names.count(name) > 1:
            raise InputError(
                f"{name!r} is not a counter that can be imported, or occurs twice",
                f"{path}, line 1",
                "docs/measuring.md lists the names; calculated counters follow by themselves",
            )
    samples: dict[str, list[Sample]] = {}
    for number, row in enumerate(rows[1:], 2):
        if not row:
            continue
        where = f"{path}, line {number}"
        if len(row) != len(rows[0]) or not row[0]:
            raise InputError(f"has {len(row)} cells, not {len(rows[0])}, or no program", where, "complete the row")
        length = _number(row[1], "seconds", where)
        if length <= 0:
            raise InputError("seconds must be above 0", where, "give the length of the interval")
        values = {name: _number(cell, name, where) for name, cell in zip(names, row[2:], strict=True) if cell}
        known = samples.setdefault(row[0], [(0.0, dict.fromkeys(names, 0.0))])
        known.append(_next(known[-1], length, values))
    if not samples:
        raise InputError("has no rows", str(path), "add at least one interval per program")
    return {program: summarise(found, SOURCE, 0.0) for program, found in samples.items()}


def _next(before: Sample, length: float, values: dict[str, float]) -> Sample:
    """Add amounts to sums from the start, as live sources give them."""
    sums = {
        name: value if COUNTERS[name].kind == "level" else before[1].get(name, 0.0) + value
        for name, value in values.items()
    }
    return before[0] + length, sums


def _number(cell: str, name: str, where: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not math.isfinite(value) or value < 0:
        raise InputError(f"{name} is {cell!r}, not a number of 0 or more", where, "correct it or leave the cell empty")
    return value
