"""Accounting of finished and running jobs for other programs: JSON, CSV, and the columns of sacct --parsable2.

Instants in the sacct form are whole seconds without a zone, in UTC, as `cohabit import sacct` reads them.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

COLUMNS = (
    "job", "user", "program", "state", "processes", "nodes", "cores", "used_cores", "scale", "limit_s",
    "submitted_at", "started_at", "ended_at", "attempt", "exit_status", "exit_signal", "predicted_slowdown",
    "actual_slowdown",
)  # fmt: skip
SACCT = (
    "JobID", "User", "JobName", "Partition", "State", "Submit", "Start", "End", "ElapsedRaw", "TimelimitRaw",
    "AllocCPUS", "AllocNodes", "ExitCode",
)  # fmt: skip
_STATES = {
    "queued": "PENDING", "held": "PENDING", "starting": "CONFIGURING", "running": "RUNNING", "done": "COMPLETED",
    "failed": "FAILED", "killed": "TIMEOUT", "cancelled": "CANCELLED", "lost": "NODE_FAIL",
}  # fmt: skip


def as_csv(views: Iterable[Mapping[str, Any]]) -> str:
    """Return one row per job; lists of nodes as counts."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for view in views:
        writer.writerow([_cell(len(view["nodes"]) if name == "nodes" else view[name]) for name in COLUMNS])
    return text.getvalue()


def as_sacct(views: Iterable[Mapping[str, Any]]) -> str:
    """Return one line per job under a header, cells between bars."""
    lines = ["|".join(SACCT)]
    lines += ["|".join(_sacct_cells(view)) for view in views]
    return "\n".join(lines) + "\n"


def _sacct_cells(view: Mapping[str, Any]) -> list[str]:
    start, end = view["started_at"], view["ended_at"]
    elapsed = "" if start is None or end is None else str(max(round(end - start), 0))
    code = f"{view['exit_status'] or 0}:{view['exit_signal'] or 0}"
    name = str(view["program"] or view["name"]).replace("\n", " ").replace("|", "/")
    return [
        view["job"],
        view["user"],
        name,
        "",
        _STATES.get(view["state"], "FAILED"),
        _date(view["submitted_at"]),
        _date(start),
        _date(end),
        elapsed,
        str(max(round(view["limit_s"] / 60), 1)),
        str(view["cores"] or view["processes"]),
        str(len(view["nodes"]) or 1),
        code,
    ]


def _date(at: float | None) -> str:
    return "Unknown" if at is None else datetime.fromtimestamp(round(at), UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _cell(value: Any) -> Any:
    if value is None:
        return ""
    if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r"):
        return "'" + value  # a spreadsheet would take it for a formula
    return value
