"""The machine and its jobs as the page draws them: columns of plain numbers, read from the core between two batches.

A job is named only if the caller may see it (`owner`; None: jobs of all users). Nothing here changes the core.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.core.guaranteeing import recalled, story_of
from cohabit.core.kernels.ladder import all_rows
from cohabit.core.ledger import ranges_of
from cohabit.core.short_reasons import ShortReasons
from cohabit.core.state import DOWN, DRAINED, State
from cohabit.live.api.dry_run import ExpectedStarts
from cohabit.live.api.page.documents import (
    Counts,
    JobLine,
    JobList,
    Neighbour,
    Node,
    NodeColumns,
    NodeTenant,
    Overview,
    Placement,
    Speed,
)
from cohabit.live.api.page.gantt_documents import Planned
from cohabit.live.api.views import node_numbers
from cohabit.model.cluster import NodeGroup
from cohabit.model.units import SECOND

ON_NODES = (columns.STARTING, columns.RUNNING, columns.HOLDING)
SHARED_CODE, DRAINED_CODE, DOWN_CODE = 2, 3, 4  # of a node; 0: idle, 1: one job


def overview(core: SchedulerCore, now_us: int) -> Overview:
    """Return every node in columns, and how many jobs wait and run."""
    state = core.state
    use = NodeUse(state.kinds.groups, state.kinds.of_node)
    for row in _rows_on_nodes(state):
        how = state.placed.get(row)
        share = (0, 0, 0) if how is None else (how.cores, how.ways, how.bandwidth_mbs)
        use.add(state.ranges_of(row), *share)
    nodes = use.columns(shares=state.ledger is not None)
    condition = np.array(nodes["state"], np.int64)
    condition[state.node_state == DRAINED] = DRAINED_CODE
    condition[state.node_state == DOWN] = DOWN_CODE
    nodes["state"] = condition.tolist()
    return {"nodes": nodes, "counts": counts(state), "at": now_us / SECOND}


class NodeUse:
    """The use of every node by its jobs; `of_node`: the group of every node."""

    def __init__(self, groups: Sequence[NodeGroup], of_node: NDArray[np.integer[Any]]) -> None:
        peak = [group.bandwidth_gbs[-1][1] if group.bandwidth_gbs else 0.0 for group in groups]
        self._cores, self._all_ways = (
            np.array([getattr(group, name) for group in groups], np.int64)[of_node] for name in ("cores", "ways")
        )
        self._peak_gbs = np.array(peak, float)[of_node]
        self._used, self._ways, self._mbs, self._tenants = (np.zeros(len(of_node), np.int64) for _ in range(4))

    def add(self, ranges: Iterable[tuple[int, int]], cores: int, ways: int, bandwidth_mbs: int) -> None:
        """Add a job's share of each of its nodes; no cores: it has the nodes to itself."""
        for first, count in ranges:
            nodes = slice(first, first + count)
            self._tenants[nodes] += 1
            self._used[nodes] += cores or self._cores[nodes]
            self._ways[nodes] += ways
            self._mbs[nodes] += bandwidth_mbs

    def columns(self, shares: bool) -> NodeColumns:
        """Return every node in columns; `shares`: whether jobs share nodes."""
        divides, has_peak = shares and self._all_ways.any(), shares and self._peak_gbs.any()
        return {
            "state": np.minimum(self._tenants, SHARED_CODE).tolist(),
            "cores": self._cores.tolist(),
            "used_cores": self._used.tolist(),
            "tenants": self._tenants.tolist(),
            "ways": self._all_ways.tolist() if divides else None,
            "used_ways": self._ways.tolist() if divides else None,
            "bandwidth_gbs": self._peak_gbs.tolist() if has_peak else None,
            "used_bandwidth_gbs": (self._mbs / 1000).tolist() if has_peak else None,
        }


def _rows_on_nodes(state: State) -> list[int]:
    return [row for row in state.rows.values() if state.jobs[columns.STATE, row] in ON_NODES]


def counts(state: State) -> Counts:
    """Count the jobs that have not ended, by state."""
    rows = np.fromiter(state.rows.values(), np.int64, len(state.rows))
    held = len(state.held)
    runs = int(np.isin(state.jobs[columns.STATE, rows], (columns.STARTING, columns.RUNNING)).sum())
    return {"running": runs, "held": held, "queued": len(rows) - runs - held}


# ---- jobs -----------------------------------------------------------------------------------------------------------


def _sorting(sort: str, now_us: int) -> Callable[[JobLine], Any]:
    """Return what a job is sorted by: a column, its wait until its start or now, or its run time until now."""
    now_s = now_us / SECOND
    if sort == "waited":
        return lambda job: (job["started_at"] or now_s) - (job["submitted_at"] or now_s)
    if sort == "ran":
        return lambda job: now_s - (job["started_at"] or now_s)
    return itemgetter(sort)


def living_jobs(
    core: SchedulerCore,
    owner: int | None,
    wanted: str,
    find: str,
    sort: str,
    down: bool,
    first: int,
    most: int,
    now_us: int,
) -> JobList:
    """Return a part of the waiting and running jobs, sorted; user numbers instead of names."""
    state = core.state
    value = _sorting(sort, now_us)
    rows = [row for row in state.rows.values() if owner is None or state.spec(row).user == owner]
    found = [(row, _line(state, row)) for row in rows]
    if wanted != "all":
        runs = wanted == "running"
        found = [one for one in found if (one[1]["state"] in ("running", "starting")) == runs]
    if find:
        text = find.lower()
        found = [one for one in found if text in one[1]["job"].lower() or text in one[1]["program"].lower()]

    def sort_key(one: tuple[int, JobLine]) -> tuple[bool, Any, int]:
        key = state.spec(one[0]).user if sort == "user" else value(one[1])
        return key is None, 0 if key is None else key, one[1]["seq"]

    found.sort(key=sort_key, reverse=down)
    part = found[first : first + most]
    reasons = ShortReasons(core.state, core.policies, now_us)
    for row, line in part:
        if line["state"] in ("queued", "held", "holding"):
            line["why"] = reasons.of(row)
    return {"jobs": [line for _, line in part], "total": len(found)}


def _line(state: State, row: int) -> JobLine:
    job, stands = state.spec(row), int(state.jobs[columns.STATE, row])
    runs = stands in (columns.STARTING, columns.RUNNING)
    name = columns.STATE_NAMES[stands]
    if not runs and stands != columns.HOLDING:
        name = "held" if row in state.held else "queued"
    started = int(state.jobs[columns.START, row]) / SECOND if runs else None
    return {
        "seq": int(state.jobs[columns.SEQ, row]),
        "job": job.job_id,
        "user": str(job.user),
        "program": job.program,
        "state": name,
        "processes": job.processes,
        "why": "",
        "nodes": len(node_numbers(state.ranges_of(row))) if stands in ON_NODES else 0,
        "limit_s": int(state.jobs[columns.LIMIT, row]) / SECOND,
        "submitted_at": int(state.jobs[columns.SUBMIT, row]) / SECOND,
        "started_at": started,
        "ended_at": None,
    }


def planned(core: SchedulerCore, ahead: ExpectedStarts, owner: int | None, most: int) -> Planned:
    """Return expected ends of running jobs and expected starts of waiting ones, by requested times."""
    state = core.state
    own = [row for row in all_rows(state.running) if owner in (None, state.spec(int(row)).user)]
    known = [
        (start, state.spec(state.rows[name]))
        for name, start in ahead.starts.items()
        if name in state.rows and owner in (None, start.user)
        if int(state.jobs[columns.STATE, state.rows[name]]) in (columns.QUEUED, columns.BLOCKED)
    ]
    known.sort(key=lambda pair: pair[0].start_us)
    per_core = state.cluster.nodes / state.cluster.cores
    return {
        "running": {state.spec(int(row)).job_id: int(state.jobs[columns.EXPECTED, row]) / SECOND for row in own},
        "planned": [
            {
                "job": job.job_id,
                "program": job.program,
                "user": str(job.user),
                "size": len(start.nodes),
                "share": 1.0 if job.nodes else job.processes / len(start.nodes) * per_core,
                "submitted_at": int(state.jobs[columns.SUBMIT, state.rows[job.job_id]]) / SECOND,
                "start_at": start.start_us / SECOND,
                "end_at": start.end_us / SECOND,
                "nodes": list(ranges_of(np.array(start.nodes, np.int64))),
            }
            for start, job in known[:most]
        ],
        "left_out": max(len(known) - most, 0),
        "why": ahead.why,
        "at": ahead.at_us / SECOND,
    }


# ---- one job, one node ----------------------------------------------------------------------------------------------


def placement_of(core: SchedulerCore, job_id: str, owner: int | None) -> Placement | None:
    """Return a job's share of its nodes, its neighbours and its speed now; None: it has no nodes."""
    state = core.state
    row = state.rows.get(job_id)
    if row is None or state.jobs[columns.STATE, row] not in ON_NODES:
        return None
    how, nodes = state.placed.get(row), node_numbers(state.ranges_of(row))
    beside: dict[int, Neighbour] = {}
    if state.ledger is not None:
        for node in nodes:
            for other in state.ledger.rows_on(node):
                if other != row:
                    name, program = names(state, other, owner)
                    beside.setdefault(other, {"job": name, "program": program, "nodes": 0})["nodes"] += 1
    return {
        "holds": int(state.jobs[columns.STATE, row]) == columns.HOLDING,
        "nodes": nodes,
        "cores": how.cores if how is not None else 0,
        "ways": how.ways if how is not None else 0,
        "bandwidth_gbs": how.bandwidth_mbs / 1000 if how is not None else 0.0,
        "exclusive": how is None or how.exclusive,
        "purpose": how.purpose if how is not None else "run",
        "scale": how.scale if how is not None else 1,
        "beside": list(beside.values()),
        "expected_end_at": int(state.jobs[columns.EXPECTED, row]) / SECOND,
        "promised": _promised(core, row),
        "measured": measured(core, job_id),
        "story": [{"at": at / SECOND, "why": text} for at, text in story_of(state, core.policies, job_id)],
    }


def _promised(core: SchedulerCore, row: int) -> float | None:
    """Return the promised share of its solo speed; None: nothing is promised."""
    how = core.state.placed.get(row)
    if how is None or how.exclusive:
        return 1.0
    site = getattr(core.policies.partitioner, "alpha", None) or getattr(core.policies.placer, "alpha", None)
    return core.state.spec(row).alpha or site or None


def measured(core: SchedulerCore, job_id: str) -> Speed | None:
    """Return the last measurement of the loop that keeps the promise, as shares of the solo speed."""
    guarantor = core.policies.guarantor
    if guarantor is None:
        return None
    about = recalled(core.state, guarantor)["jobs"].get(job_id)
    if not about or not about.get("span_us"):
        return None
    recent = about.get("recent") or [0.0]
    return {"mean": about["done_us"] / about["span_us"], "last": recent[-1]}


def names(state: State, row: int, owner: int | None) -> tuple[str, str] | tuple[None, None]:
    """Return job and program, if the caller may see them."""
    job = state.spec(row)
    return (job.job_id, job.program) if owner is None or job.user == owner else (None, None)


def node_view(core: SchedulerCore, node: int, owner: int | None, now_us: int) -> Node:
    """Return the resources of a node, and the jobs on it with their cores, ways and bandwidth."""
    state = core.state
    group = state.kinds.groups[state.kinds.of_node[node]]
    rows = [row for row in _rows_on_nodes(state) if any(a <= node < a + n for a, n in state.ranges_of(row))]
    masks = _masks(core, node, rows, now_us)
    tenants: list[NodeTenant] = []
    for row in rows:
        how, (name, program) = state.placed.get(row), names(state, row, owner)
        tenants.append(
            {
                "job": name,
                "program": program,
                "cores": how.cores if how is not None and how.cores else group.cores,
                "first_way": masks[row][0] if row in masks else None,
                "ways": masks[row][1] if row in masks else None,
                "booked_ways": how.ways if how is not None else 0,
                "bandwidth_gbs": how.bandwidth_mbs / 1000 if how is not None else 0.0,
                "exclusive": how is None or how.exclusive,
                "state": columns.STATE_NAMES[state.jobs[columns.STATE, row]],
                "started_at": int(state.jobs[columns.START, row]) / SECOND,
            }
        )
    condition = int(state.node_state[node])
    word = "down" if condition == DOWN else "drained" if condition == DRAINED else "up"
    return {
        "node": node,
        "state": word,
        "cores": group.cores,
        "ways": group.ways,
        "min_ways": group.min_ways,
        "memory_bytes": group.memory_bytes,
        "tenants": tenants,
        "divided": bool(masks),
        "bandwidth_curve": [list(point) for point in group.bandwidth_gbs],
        "server": int(state.kinds.server_of[node]),
        "domains": group.domains,
        "windows": [
            {"name": one.name, "begin_at": one.begin_us / SECOND, "end_at": one.end_us / SECOND}
            for one in state.kinds.windows_of[state.kinds.of_node[node]]
        ],
        "actions": [],
        "at": now_us / SECOND,
    }


def _masks(core: SchedulerCore, node: int, rows: list[int], now_us: int) -> dict[int, tuple[int, int]]:
    """Return (first way, ways) of every job on a node, as commanded; empty: the cache is not divided."""
    state, policies = core.state, core.policies
    kind = int(state.kinds.of_node[node])
    group, partitioner = state.kinds.groups[kind], policies.partitioner
    if partitioner is None or state.ledger is None or not group.ways or not rows:
        return {}
    view, residents = core.view(now_us), state.ledger.rows_on(node)
    shares = partitioner.split([view.tenant(row, kind) for row in residents], group)
    if (guarantor := policies.guarantor) is not None:
        shares, _ = guarantor.correct(residents, shares, group, view, recalled(state, guarantor))
    return {row: (int(share[0]), int(share[1])) for row, share in zip(residents, shares, strict=True)}
