"""Jobs and nodes of a finished run for the page: lists at an instant, one job, one node. It never writes."""

from __future__ import annotations

from typing import Any

import numpy as np

from cohabit.app.view.run import FinishedRun, Ints
from cohabit.live.api.page.documents import JobLine, JobList, Neighbour, Node, NodeTenant, OneJob, Placement
from cohabit.model.errors import InputError
from cohabit.model.profile import Profile, Tenant, load_factor
from cohabit.model.records import NEVER, STATUS_NAMES
from cohabit.model.units import SECOND

MOST_BESIDE = 50


def listed(
    run: FinishedRun, view: str, find: str, sort: str, down: bool, first: int, most: int, at: float | None
) -> JobList:
    """Return a part of the jobs at an instant, sorted."""
    now_us = run.instant(at)
    runs, waits = run.running(now_us), run.waiting(now_us)
    rows = {"running": runs, "queued": waits, "waiting": waits, "finished": run.over(now_us)}.get(
        view, np.concatenate([runs, waits])
    )
    if find:
        text, programs = find.lower(), _programs(run, rows)
        keep = [
            text in name.lower() or text in program.lower()
            for name, program in zip(run.ids[rows], programs, strict=True)
        ]
        rows = rows[np.array(keep, bool)]
    if view != "finished" or sort != "submitted_at":
        order = np.argsort(_sorting(run, rows, sort, now_us), kind="stable")
        rows = rows[order[::-1] if down else order]
    part = rows[first : first + most].tolist()
    return {"jobs": [brief(run, row, now_us) for row in part], "total": len(rows)}


def _sorting(run: FinishedRun, rows: Ints, sort: str, now_us: int) -> Any:
    table = run.table
    if sort in ("waited", "ran"):
        start_us = table.start_us[rows]
        begin_us = np.where((start_us == NEVER) | (start_us > now_us), now_us, start_us)
        if sort == "waited":
            return begin_us - table.workload.submit_us[rows]
        end_us = table.end_us[rows]
        return np.where((end_us == NEVER) | (end_us > now_us), now_us, end_us) - begin_us
    if sort == "program":
        return np.array(_programs(run, rows))
    if sort == "job":
        return run.ids[rows]
    columns: dict[str, Any] = {
        "user": table.workload.user,
        "state": table.status,
        "processes": table.workload.processes,
        "limit_s": table.workload.limit_us,
    }
    return columns.get(sort, table.workload.submit_us)[rows]


def _programs(run: FinishedRun, rows: Ints) -> list[str]:
    names = [str(name) for name in run.table.workload.program_names]
    return [names[number] if number >= 0 else "" for number in run.table.workload.program[rows].tolist()]


def _name(names: Any, number: int) -> str:
    return str(names[number]) if number >= 0 else ""


def state_of(run: FinishedRun, row: int, now_us: int) -> str:
    """Return the state of a job at an instant."""
    table = run.table
    start, end = int(table.start_us[row]), int(table.end_us[row])
    if end != NEVER and end <= now_us:
        return STATUS_NAMES[table.status[row]]
    if start != NEVER and start <= now_us:
        return "running"
    word = STATUS_NAMES[table.status[row]]
    return word if word in ("rejected", "cancelled") and start == NEVER else "queued"


def brief(run: FinishedRun, row: int, now_us: int) -> JobLine:
    """Return one line of a list, without anything after that instant."""
    table, jobs = run.table, run.table.workload
    start, end = int(table.start_us[row]), int(table.end_us[row])
    return {
        "job": str(run.ids[row]),
        "user": _name(jobs.user_names, int(jobs.user[row])),
        "program": _name(jobs.program_names, int(jobs.program[row])),
        "state": state_of(run, row, now_us),
        "processes": int(jobs.processes[row]),
        "nodes": int(table.nodes[row]) if start <= now_us else 0,
        "limit_s": int(jobs.limit_us[row]) / SECOND,
        "submitted_at": run.at(int(jobs.submit_us[row])),
        "started_at": run.at(start) if start <= now_us else None,
        "ended_at": run.at(end) if end <= now_us else None,
        "why": table.reasons[table.reason[row]] if end == NEVER or end <= now_us else "",
    }


def row_of(run: FinishedRun, job: str) -> int:
    """Return the row of a job by its name; with several domains, by DOMAIN:JOB."""
    found = np.flatnonzero(run.ids == job)
    if not len(found):
        raise InputError("there is no such job in this run", f"job {job}", "see the list of jobs")
    return int(found[0])


def one_job(run: FinishedRun, job: str) -> OneJob:
    """Return everything about one job at the end of the run."""
    row, table = row_of(run, job), run.table
    how, extra = run.share_of(row), table.workload.extra
    nodes = [node for first, count in run.ranges_of(row) for node in range(first, first + count)]
    shown = brief(run, row, run.until_us)
    segments = [[one[0] - run.origin_us / SECOND, *one[1:]] for one in how.get("segments", [])]
    mean = _mean_rate(segments, shown["ended_at"])
    alpha = extra["alpha"][row] if "alpha" in extra else None
    mate = extra["group"][row] if "group" in extra else None
    placement: Placement | None = None
    if how and nodes:
        placement = {
            "nodes": nodes,
            "cores": how["cores"],
            "ways": how["ways"],
            "bandwidth_gbs": how["bandwidth_mbs"] / 1000,
            "exclusive": how["exclusive"],
            "purpose": how["purpose"],
            "scale": int(table.scale[row]),
            "beside": _beside(run, row),
            "expected_end_at": shown["ended_at"],
            "promised": 1.0 if how["exclusive"] else _number(alpha) or _site_alpha(run),
            "story": [],
            "measured": {"mean": mean, "last": segments[-1][1]} if segments and mean is not None else None,
        }
    return {
        "job": {
            "job": shown["job"],
            "user": shown["user"],
            "program": shown["program"],
            "state": shown["state"],
            "processes": shown["processes"],
            "nodes": nodes,
            "limit_s": shown["limit_s"],
            "submitted_at": shown["submitted_at"],
            "started_at": shown["started_at"],
            "ended_at": shown["ended_at"],
            "why": shown["why"],
            "cores": int(table.cores[row]),
            "scale": int(table.scale[row]),
            "command": None,
            "attempt": None,
            "exit_status": None,
            "exit_signal": None,
            "after": list(_after(run, row)),
            "array": None,
            "predicted_slowdown": _slowdown(table.slowdowns.predicted[row]) if table.slowdowns else None,
            "actual_slowdown": _slowdown(table.slowdowns.measured[row]) if table.slowdowns else None,
            "mate": str(mate) if mate else None,
        },
        "placement": placement,
        "why": shown["why"],
        "history": [],
        "actions": [],
        "segments": segments,
        "replay": bool(run.domains),
        "summary": "",
        "at": (run.until_us - run.origin_us) / SECOND,
    }


def _slowdown(value: float) -> float | None:
    return float(value) if np.isfinite(value) else None


def _number(value: Any) -> float | None:
    return float(value) if value is not None and np.isfinite(float(value)) else None


def _after(run: FinishedRun, row: int) -> tuple[str, ...]:
    after, extra = run.table.workload.after, run.table.workload.extra
    before = f"{extra['domain'][row]}:" if "domain" in extra else ""
    return tuple(f"{before}{name}" for name in after[row]) if after is not None else ()


def _site_alpha(run: FinishedRun) -> float | None:
    return None if run.prepared is None else getattr(run.prepared.policies.placer, "alpha", None)


def _mean_rate(segments: list[list[float]], ended_at: float | None) -> float | None:
    """Return its mean speed over its whole run, as a share of its speed alone."""
    if not segments or ended_at is None or ended_at <= segments[0][0]:
        return None
    ends = [one[0] for one in segments[1:]] + [ended_at]
    done = sum(one[1] * (end - one[0]) for one, end in zip(segments, ends, strict=True))
    return done / (ended_at - segments[0][0])


def _beside(run: FinishedRun, row: int) -> list[Neighbour]:
    """Return the jobs that shared a node with it at some time, and their number."""
    table, mine = run.table, run.ranges_of(row)
    met = (table.start_us < table.end_us[row]) & (table.end_us > table.start_us[row]) & (table.start_us != NEVER)
    met[row] = False
    found: list[Neighbour] = []
    for other in np.flatnonzero(met).tolist():
        shared = sum(max(0, min(a + n, b + m) - max(a, b)) for a, n in mine for b, m in run.ranges_of(other))
        if shared:
            program = _name(table.workload.program_names, int(table.workload.program[other]))
            found.append({"job": str(run.ids[other]), "program": program, "nodes": shared})
    return found[:MOST_BESIDE]


# ---- nodes ----------------------------------------------------------------------------------------------------------


def one_node(run: FinishedRun, node: int, at: float | None) -> Node:
    """Return the jobs that shared a node at an instant, and their shares."""
    if not 0 <= node < len(run.groups):
        raise InputError("there is no such node", f"node {node}", f"they are 0 to {len(run.groups) - 1}")
    now_us, group = run.instant(at), run.groups[node]
    rows = [row for row in run.running(now_us).tolist() if any(a <= node < a + n for a, n in run.ranges_of(row))]
    rows.sort(key=lambda row: int(run.table.start_us[row]))
    masks, tenants = _masks(run, rows, node), list[NodeTenant]()
    for row in rows:
        how, shown = run.share_of(row), brief(run, row, now_us)
        tenants.append(
            {
                "job": shown["job"],
                "program": shown["program"],
                "cores": how.get("cores") or group.cores,
                "first_way": masks[row][0] if row in masks else None,
                "ways": masks[row][1] if row in masks else None,
                "booked_ways": how.get("ways", 0),
                "bandwidth_gbs": how.get("bandwidth_mbs", 0) / 1000,
                "exclusive": how.get("exclusive", True),
                "state": shown["state"],
                "started_at": shown["started_at"],
            }
        )
    return {
        "node": node,
        "state": "up",
        "cores": group.cores,
        "ways": group.ways,
        "min_ways": group.min_ways,
        "memory_bytes": group.memory_bytes,
        "tenants": tenants,
        "divided": bool(masks),
        "server": node,
        "domains": group.domains,
        "bandwidth_curve": [list(point) for point in group.bandwidth_gbs],
        "actions": [],
        "at": run.at(now_us),
    }


def _masks(run: FinishedRun, rows: list[int], node: int) -> dict[int, tuple[int, int]]:
    """Return the ways of every job there, divided by the run's policy; corrections by measurements are not recorded."""
    prepared, group = run.prepared, run.groups[node]
    if prepared is None or prepared.policies.partitioner is None or not group.ways or not rows:
        return {}
    shares = prepared.policies.partitioner.split([_tenant(run, row, node) for row in rows], group)
    return {row: (int(share[0]), int(share[1])) for row, share in zip(rows, shares, strict=True)}


def _tenant(run: FinishedRun, row: int, node: int) -> Tenant:
    assert run.prepared is not None
    how, group, jobs = run.share_of(row), run.groups[node], run.table.workload
    name, processes = _name(jobs.program_names, int(jobs.program[row])), int(jobs.processes[row])
    known = [one for one in run.prepared.profiles if one.program == name]
    profile: Profile | None = min(known, key=lambda one: abs(one.processes - processes), default=None)
    load = 0.0
    if profile is not None:
        load = load_factor(processes, group.cores, profile.processes, -(-profile.processes // group.cores))
    return Tenant(
        name, how.get("cores") or group.cores, int(run.table.scale[row]), how.get("ways", 0), 0.0, load, profile
    )
