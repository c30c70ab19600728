"""The machine and its jobs as the page draws them: columns of plain numbers, read from the core between two batches.

A job is named only if the caller may see it (`owner`; None: jobs of all users). Nothing here changes the core.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
from cohabit.core.guaranteeing import recalled, story_of
from cohabit.core.protocols import Guarantor
from cohabit.core.state import DOWN, DRAINED, State
from cohabit.live.api.views import node_numbers
from cohabit.model.units import SECOND

ON_NODES = (columns.STARTING, columns.RUNNING, columns.HOLDING)
IDLE_CODE, BUSY_CODE, SHARED_CODE, DRAINED_CODE, DOWN_CODE = range(5)
EXPLAINING_S = 0.03  # time to explain the waits of one list in full; the rest is explained in short
SORTS = ("job", "user", "program", "state", "processes", "submitted_at", "started_at", "limit_s")


def overview(core: SchedulerCore) -> dict[str, Any]:
    """Return every node in columns, and how many jobs wait and run."""
    state = core.state
    kinds, count = state.kinds, state.cluster.nodes
    used, ways, megabytes, tenants = (np.zeros(count, np.int64) for _ in range(4))
    cores = np.array([group.cores for group in kinds.groups], np.int64)[kinds.of_node]
    for row in _rows_on_nodes(state):
        how, nodes = state.placed.get(row), np.array(node_numbers(state.ranges_of(row)), np.int64)
        tenants[nodes] += 1
        used[nodes] += how.cores if how is not None and how.cores else cores[nodes]
        if how is not None:
            ways[nodes] += how.ways
            megabytes[nodes] += how.bandwidth_mbs
    condition = np.minimum(tenants, SHARED_CODE)
    condition[state.node_state == DRAINED] = DRAINED_CODE
    condition[state.node_state == DOWN] = DOWN_CODE
    shares = state.ledger is not None
    all_ways = np.array([group.ways for group in kinds.groups], np.int64)[kinds.of_node]
    peak = np.array([group.bandwidth_gbs[-1][1] if group.bandwidth_gbs else 0.0 for group in kinds.groups])
    divides = shares and bool(all_ways.any())
    return {
        "nodes": {
            "state": condition.tolist(), "cores": cores.tolist(), "used_cores": used.tolist(),
            "tenants": tenants.tolist(), "ways": all_ways.tolist() if divides else None,
            "used_ways": ways.tolist() if divides else None,
            "bandwidth_gbs": peak[kinds.of_node].tolist() if shares and peak.any() else None,
            "used_bandwidth_gbs": (megabytes / 1000).tolist() if shares and peak.any() else None,
        },
        "counts": counts(state),
    }  # fmt: skip


def _rows_on_nodes(state: State) -> list[int]:
    return [row for row in state.rows.values() if state.jobs[columns.STATE, row] in ON_NODES]


def counts(state: State) -> dict[str, int]:
    """Return how many jobs have not ended, by state."""
    rows = np.fromiter(state.rows.values(), np.int64, len(state.rows))
    held = len(state.held)
    runs = int(np.isin(state.jobs[columns.STATE, rows], (columns.STARTING, columns.RUNNING)).sum())
    return {"running": runs, "held": held, "queued": len(rows) - runs - held}


# ---- jobs -----------------------------------------------------------------------------------------------------------


def living_jobs(
    core: SchedulerCore, owner: int | None, wanted: str, find: str, sort: str, down: bool, first: int, most: int,
    now_us: int,
) -> dict[str, Any]:  # fmt: skip
    """Return a part of the waiting and running jobs, sorted; user numbers instead of names."""
    state = core.state
    found = [_brief(state, row) for row in state.rows.values() if owner is None or state.spec(row).user == owner]
    if wanted != "all":
        runs = wanted == "running"
        found = [one for one in found if (one["state"] in ("running", "starting")) == runs]
    if find:
        text = find.lower()
        found = [one for one in found if text in one["job"].lower() or text in (one["program"] or "").lower()]
    found.sort(key=lambda one: (one[sort] is None, one[sort] if one[sort] is not None else 0, one["seq"]), reverse=down)
    part = found[first : first + most]
    waits = Explainer(core, now_us)
    for one in part:
        row = one.pop("row")
        if one["state"] in ("queued", "held", "holding"):
            one["why"] = waits.why(row, one["job"])
    return {"jobs": part, "total": len(found)}


def _brief(state: State, row: int) -> dict[str, Any]:
    job, stands = state.spec(row), int(state.jobs[columns.STATE, row])
    runs = stands in (columns.STARTING, columns.RUNNING)
    name = columns.STATE_NAMES[stands]
    if not runs and stands != columns.HOLDING:
        name = "held" if row in state.held else "queued"
    started = int(state.jobs[columns.START, row]) / SECOND if runs else None
    return {
        "row": row, "seq": int(state.jobs[columns.SEQ, row]), "job": job.job_id, "user": job.user,
        "program": job.program, "state": name, "processes": job.processes, "why": "",
        "nodes": len(node_numbers(state.ranges_of(row))) if stands in ON_NODES else 0,
        "limit_s": int(state.jobs[columns.LIMIT, row]) / SECOND,
        "submitted_at": int(state.jobs[columns.SUBMIT, row]) / SECOND, "started_at": started, "ended_at": None,
    }  # fmt: skip


class Explainer:
    """Explains why the jobs of one list wait: in full while there is time, then in short, also with numbers.

    A full answer reads the whole queue; in a queue of ten thousand that takes milliseconds of the scheduler's time.
    """

    def __init__(self, core: SchedulerCore, now_us: int) -> None:
        self._core, self._now_us = core, now_us
        self._until = time.perf_counter() + EXPLAINING_S
        self._view = core.view(now_us)
        self._places: dict[int, int] | None = None

    def why(self, row: int, job_id: str) -> str:
        """Return the reason in one sentence."""
        state = self._core.state
        quick = row in state.held or row in state.waiting_for
        if quick or time.perf_counter() < self._until:
            return why_waiting(state, self._core.policies, job_id, self._now_us)
        return self._in_short(row)

    def _in_short(self, row: int) -> str:
        if self._places is None:
            queue = self._view.queue(self._core.policies.order).tolist()
            self._places = {one: place for place, one in enumerate(queue)}
            self._idle = self._view.idle_by_kind()
        place = self._places.get(row)
        ahead = "" if not place else f"; {place:,} job{'' if place == 1 else 's'} ahead of it"
        if not self._core.policies.placer.exclusive:
            cores = int(self._core.state.jobs[columns.PROCESSES, row])
            return f"needs {cores:,} core{'' if cores == 1 else 's'} with what its program needs{ahead}"
        need, idle = self._view.need(row), int(self._idle[self._view.usable(row)].sum())
        return f"needs {need:,} node{'' if need == 1 else 's'}, {idle:,} idle{ahead}"


# ---- one job, one node ----------------------------------------------------------------------------------------------


def placement_of(core: SchedulerCore, job_id: str, owner: int | None) -> dict[str, Any] | None:
    """Return how a job runs now: its share of every node, its neighbours, and its speed; None: it has no nodes."""
    state = core.state
    row = state.rows.get(job_id)
    if row is None or state.jobs[columns.STATE, row] not in ON_NODES:
        return None
    how, nodes = state.placed.get(row), node_numbers(state.ranges_of(row))
    beside: dict[str, dict[str, Any]] = {}
    if state.ledger is not None:
        for node in nodes:
            for other in state.ledger.rows_on(node):
                if other != row:
                    known = _named(state, other, owner)
                    one = beside.setdefault(known["job"] or f"hidden {other}", {**known, "nodes": 0})
                    one["nodes"] += 1
    return {
        "holds": int(state.jobs[columns.STATE, row]) == columns.HOLDING,
        "nodes": nodes, "cores": how.cores if how is not None else 0, "ways": how.ways if how is not None else 0,
        "bandwidth_gbs": how.bandwidth_mbs / 1000 if how is not None else 0.0,
        "exclusive": how is None or how.exclusive, "purpose": how.purpose if how is not None else "run",
        "scale": how.scale if how is not None else 1, "beside": list(beside.values()),
        "expected_end_at": int(state.jobs[columns.EXPECTED, row]) / SECOND,
        "promised": _promised(core, row), "measured": _measured(core, job_id),
        "story": [{"at": at / SECOND, "why": text} for at, text in story_of(state, core.policies, job_id)],
    }  # fmt: skip


def _promised(core: SchedulerCore, row: int) -> float | None:
    """Return the promised share of its solo speed; None: nothing is promised."""
    how = core.state.placed.get(row)
    if how is None or how.exclusive:
        return 1.0
    site = getattr(core.policies.partitioner, "alpha", None) or getattr(core.policies.placer, "alpha", None)
    return core.state.spec(row).alpha or site or None


def _measured(core: SchedulerCore, job_id: str) -> dict[str, float] | None:
    """Return the last measurement of the loop that keeps the promise, as shares of the solo speed."""
    guarantor = core.policies.partitioner
    if not isinstance(guarantor, Guarantor):
        return None
    about = recalled(core.state, guarantor)["jobs"].get(job_id)
    if not about or not about.get("span_us"):
        return None
    recent = about.get("recent") or [0.0]
    return {"mean": about["done_us"] / about["span_us"], "last": recent[-1]}


def _named(state: State, row: int, owner: int | None) -> dict[str, Any]:
    job = state.spec(row)
    seen = owner is None or job.user == owner
    return {"job": job.job_id if seen else None, "program": job.program if seen else None}


def node_view(core: SchedulerCore, node: int, owner: int | None, now_us: int) -> dict[str, Any]:
    """Return the jobs on a node with their cores, ways and bandwidth, and the resources of the node."""
    state = core.state
    group = state.kinds.groups[state.kinds.of_node[node]]
    rows = [row for row in _rows_on_nodes(state) if any(a <= node < a + n for a, n in state.ranges_of(row))]
    masks = _masks(core, node, rows, now_us)
    tenants = []
    for row in rows:
        how = state.placed.get(row)
        tenants.append(_named(state, row, owner) | {
            "cores": how.cores if how is not None and how.cores else group.cores,
            "first_way": masks[row][0] if row in masks else None, "ways": masks[row][1] if row in masks else None,
            "booked_ways": how.ways if how is not None else 0,
            "bandwidth_gbs": how.bandwidth_mbs / 1000 if how is not None else 0.0,
            "exclusive": how is None or how.exclusive, "state": columns.STATE_NAMES[state.jobs[columns.STATE, row]],
            "started_at": int(state.jobs[columns.START, row]) / SECOND,
        })  # fmt: skip
    condition = int(state.node_state[node])
    word = "down" if condition == DOWN else "drained" if condition == DRAINED else "up"
    return {
        "node": node, "state": word, "cores": group.cores, "ways": group.ways, "min_ways": group.min_ways,
        "memory_bytes": group.memory_bytes, "tenants": tenants, "divided": bool(masks),
        "bandwidth_curve": [list(point) for point in group.bandwidth_gbs],
        "server": int(state.kinds.server_of[node]), "domains": group.domains,
    }  # fmt: skip


def _masks(core: SchedulerCore, node: int, rows: list[int], now_us: int) -> dict[int, tuple[int, int]]:
    """Return (first way, ways) of every job on a node, as commanded; empty: the cache is not divided."""
    state, policies = core.state, core.policies
    kind = int(state.kinds.of_node[node])
    group, partitioner = state.kinds.groups[kind], policies.partitioner
    if partitioner is None or state.ledger is None or not group.ways or not rows:
        return {}
    view, residents = core.view(now_us), state.ledger.rows_on(node)
    shares = partitioner.split([view.tenant(row, kind) for row in residents], group)
    if isinstance(partitioner, Guarantor):
        shares, _ = partitioner.correct(residents, shares, group, view, recalled(state, partitioner))
    return {row: (int(share[0]), int(share[1])) for row, share in zip(residents, shares, strict=True)}
