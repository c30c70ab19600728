"""Jobs and nodes as plain documents for callers. Nothing here checks permissions; arguments say what may be shown."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from typing import Any

from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.core.state import DOWN, DRAINED, State
from cohabit.live.api.page.documents import JobDetails, Reason
from cohabit.live.controller.records import OVER, WAITS, Note, Record
from cohabit.live.controller.standing import Standing
from cohabit.model.node_names import names_in, nodes_text
from cohabit.model.units import SECOND

_ON_NODES = (columns.STARTING, columns.RUNNING, columns.HOLDING)


def job_view(
    standing: Standing, user: str, command: bool, stdout: str, stderr: str, names: Sequence[str] = ()
) -> JobDetails:
    """Return the JobView of docs/api.md; `command`: whether its command is shown; `names`: of all nodes."""
    record, launch = standing.record, standing.launch
    return {
        "job": record.job_id,
        "name": record.array or record.job_id,
        "user": user,
        "program": record.program,
        "command": list(launch.command) if command and launch is not None else None,
        "state": standing.state,
        "why": record.reason if record.phase == OVER else standing.why if record.phase == WAITS else "",
        "processes": record.processes,
        "nodes": node_numbers(record.nodes),
        "node_names": names_in(record.nodes, names),
        "cores": record.cores,
        "used_cores": record.cores if record.whole_nodes else min(record.processes, record.cores),
        "scale": record.scale,
        "limit_s": record.limit_us / SECOND,
        "submitted_at": at(record.submit_us),
        "started_at": at(record.start_us),
        "ended_at": at(record.end_us),
        "attempt": record.attempt,
        "exit_status": record.exit_status,
        "exit_signal": record.exit_signal,
        "stdout": stdout,
        "stderr": stderr,
        "array": _array(record),
        "after": list(record.after),
        "predicted_slowdown": record.predicted_slowdown,
        "actual_slowdown": record.actual_slowdown,
        "slowdown_why": record.slowdown_why,
        "whole_nodes": record.whole_nodes,
        "account": record.account,
    }


def history(notes: Iterable[Note]) -> list[Reason]:
    """Return what a job waited for, in the order it happened."""
    return [{"at": at(note.at_us), "why": note.why} for note in notes]


def node_numbers(ranges: Iterable[tuple[int, int]]) -> list[int]:
    """Return every node of these ranges."""
    return [node for first, count in ranges for node in range(first, first + count)]


def node_views(core: SchedulerCore, owner: int | None) -> list[dict[str, Any]]:
    """Return every node with the jobs on it; only jobs of `owner` are named, None: all jobs."""
    state = core.state
    tenants: dict[int, list[int]] = {}
    for row in state.rows.values():
        if state.jobs[columns.STATE, row] in _ON_NODES:
            for node in node_numbers(state.ranges_of(row)):
                tenants.setdefault(node, []).append(row)
    return [_node_view(state, number, tenants.get(number, []), owner) for number in range(state.cluster.nodes)]


def _node_view(state: State, number: int, rows: list[int], owner: int | None) -> dict[str, Any]:
    group = state.kinds.groups[state.kinds.of_node[number]]
    used = ways = megabytes = 0
    for row in rows:
        how = state.placed.get(row)
        used += how.cores if how is not None and how.cores else group.cores
        ways += how.ways if how is not None else 0
        megabytes += how.bandwidth_mbs if how is not None else 0
    jobs = [state.spec(row) for row in rows]
    shares = state.ledger is not None
    others = 0 if state.ledger is None else state.ledger.others_on(number)[0]  # of a manager's own jobs
    return {
        "node": number,
        "name": state.cluster.called(number),
        "state": _condition(int(state.node_state[number]), len(rows) + bool(others)),
        "cores": group.cores,
        "used_cores": min(used, group.cores) if not shares else used + others,
        "jobs": sorted(job.job_id for job in jobs if owner is None or job.user == owner),
        "ways": group.ways or None,
        "used_ways": ways if shares and group.ways else None,
        "bandwidth_gbs": group.bandwidth_gbs[-1][1] if group.bandwidth_gbs else None,
        "used_bandwidth_gbs": megabytes / 1000 if shares else None,
    }


def window_views(core: SchedulerCore) -> list[dict[str, Any]]:
    """Return the announced windows that are not over, in the order of their begin."""
    now_us = time.time() * SECOND
    found = [
        {
            "name": name,
            "nodes": nodes_text(((one.first, one.count) for one in parts), core.state.cluster.names),
            "begin": at(parts[0].begin_us),
            "end": at(parts[0].end_us),
        }
        for name, parts in core.state.windows.items()
        if parts[0].end_us > now_us
    ]
    return sorted(found, key=lambda one: (one["begin"], one["name"]))


def _condition(condition: int, tenants: int) -> str:
    if condition == DOWN:
        return "down"
    if condition == DRAINED:
        return "drained"
    return "idle" if not tenants else "busy" if tenants == 1 else "shared"


def slowdown_points(records: Iterable[Record]) -> dict[str, Any]:
    """Return predicted (if there was a prediction) and actual slowdowns, and their mean absolute difference."""
    points: list[dict[str, Any]] = [
        {
            "ended_at": at(one.end_us),
            "job": one.job_id,
            "program": one.program,
            "predicted": one.predicted_slowdown,
            "actual": one.actual_slowdown,
        }
        for one in records
        if one.actual_slowdown is not None
    ]
    errors = [abs(point["predicted"] - point["actual"]) for point in points if point["predicted"] is not None]
    return {"points": points, "mean_abs_error": sum(errors) / len(errors) if errors else None}


def at(us: int | None) -> float | None:
    """Return an instant in Unix seconds."""
    return None if us is None else us / SECOND


def _array(record: Record) -> str | None:
    if record.members:
        return f"{record.array_first}-{record.array_first + record.members - 1}"
    return record.array or None
