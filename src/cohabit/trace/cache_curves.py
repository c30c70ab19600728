"""Measured cache-way curves of single-threaded programs (CSV, one line per program and number of ways) as programs.

The columns are those of PBBCache's metrics: BENCH, NR_WAYS, ipc, bandwidth_mbps, stalls_l3_miss, and llcmpki if it is
there; others are ignored. A program is taken to run as 16 independent copies on a node, each as it was measured alone
with those ways: a node's bandwidth is 16 times a copy's. Nothing was measured of spreading, so only scale 1 is known,
and the run time is assumed. Both assumptions are in every program's provenance.
"""

from __future__ import annotations

import csv
import io
import math
from pathlib import Path

from cohabit.model.curve import Curve
from cohabit.model.errors import InputError
from cohabit.model.program import Program
from cohabit.trace.files import read_text
from cohabit.trace.program_checks import REFERENCE_PROCESSES, Programs, checked_curve, rising_ipc

ASSUMED_TIME_S = 600.0
MEGA = 1000.0  # MB/s to GB/s
REQUIRED = ("BENCH", "NR_WAYS", "ipc", "bandwidth_mbps", "stalls_l3_miss")
OPTIONAL = ("llcmpki",)
PROVENANCE = {
    "ipc": "measured, one copy",
    "bw": f"measured for one copy, times {REFERENCE_PROCESSES} copies (A)",
    "mu": "measured: share of cycles stalled on last-level cache misses with all ways",
    "t": f"A: {ASSUMED_TIME_S:g} s for every program, nothing was measured",
    "sp": "not measured: scale 1 only",
}
Table = dict[str, dict[int, dict[str, float]]]


def read_curves(path: Path) -> Programs:
    """Read the table, plain, .gz or .xz."""
    return parse_curves(read_text(path), str(path))


def parse_curves(text: str, where: str) -> Programs:
    """Programs from the text of such a table; `where` names it in errors."""
    programs, raised = {}, {}
    for name, rows in _table(text, where).items():
        programs[name], raised[name] = _program(name, rows, where)
    return Programs(programs, raised)


def _program(name: str, rows: dict[int, dict[str, float]], where: str) -> tuple[Program, int]:
    def curve(column: str, what: str, factor: float = 1.0) -> Curve:
        points = {str(ways): row[column] * factor for ways, row in rows.items()}
        return checked_curve(points, f"the {what} of {name}", where)

    most = rows[max(rows)]
    absolute, raised = rising_ipc(curve("ipc", "IPC"), f"the IPC of {name}", where)
    full = absolute.values[-1]
    program = Program(
        name=name,
        title=f"{name}, {REFERENCE_PROCESSES} copies",
        processes=REFERENCE_PROCESSES,
        ce_time_s=ASSUMED_TIME_S,
        mu=min(max(most["stalls_l3_miss"], 0.0), 1.0),
        ipc=Curve(absolute.ways, tuple(value / full for value in absolute.values)),
        bandwidth_gbs=curve("bandwidth_mbps", "bandwidth", REFERENCE_PROCESSES / MEGA),
        miss_rate=curve("llcmpki", "miss rate") if "llcmpki" in most else None,
        ipc_full=full,
        framework="replicated sequential",
        provenance=PROVENANCE,
    )
    return program, raised


def _table(text: str, where: str) -> Table:
    reader = csv.DictReader(io.StringIO(text))
    header = [name.strip() for name in reader.fieldnames or ()]
    for column in REQUIRED:
        if column not in header:
            raise InputError(f"has no column {column}", f"{where}, line 1", f"curves need {', '.join(REQUIRED)}")
    reader.fieldnames = header
    table: Table = {}
    for row in reader:
        name, line = (row["BENCH"] or "").strip(), f"{where}, line {reader.line_num}"
        if not name:
            raise InputError("the program has no name", f"{line}, BENCH", "correct the cell")
        ways = _cell(row, "NR_WAYS", name, line)
        if ways != int(ways) or ways < 1:
            raise InputError(f"{name} has a point at {ways:g} ways", f"{line}, NR_WAYS", "count ways from 1")
        points = table.setdefault(name, {})
        if int(ways) in points:
            raise InputError(f"{name} has two lines for {int(ways)} ways", f"{line}, NR_WAYS", "keep one of them")
        columns = [column for column in (*REQUIRED[2:], *OPTIONAL) if column in header]
        points[int(ways)] = {column: _cell(row, column, name, f"{line}", int(ways)) for column in columns}
    if not table:
        raise InputError("has no programs", where, "a program is one line per number of ways under the header")
    return table


def _cell(row: dict[str, str], column: str, name: str, line: str, ways: int = 0) -> float:
    at = f" at {ways} ways" if ways else ""
    try:
        value = float(row[column] or "")
    except ValueError:
        raise InputError(f"{column} of {name}{at} is {row[column]!r}, not a number", line, "correct the cell") from None
    if not math.isfinite(value):
        raise InputError(f"{column} of {name}{at} is {value}", line, "leave the line out or measure it again")
    return value
