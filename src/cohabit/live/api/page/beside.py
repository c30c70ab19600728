"""Which running jobs slow each other: what is expected of each pair, and the speed that is measured."""

from __future__ import annotations

import numpy as np

from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.core.kernels.ladder import all_rows
from cohabit.live.api.page.documents import BesideJob, SharedNodes
from cohabit.live.api.page.views import measured, names
from cohabit.live.controller.slowdowns import predicted_slowdown
from cohabit.policy.degradation import ProfiledPairs

MOST_GROUPS = 40  # of jobs that share nodes
RUNS = (columns.STARTING, columns.RUNNING)


def shared_nodes(core: SchedulerCore, owner: int | None, now_us: int) -> list[SharedNodes]:
    """Return the jobs that share a node, each set of jobs once; `owner`: only sets with a job of this user."""
    state = core.state
    if state.ledger is None:
        return []
    sets: dict[tuple[int, ...], list[int]] = {}
    for row in all_rows(state.running).tolist():
        for first, count in state.ranges_of(row):
            for node in range(first, first + count):
                there = tuple(sorted(other for other in state.ledger.rows_on(node) if _runs(core, other)))
                if len(there) > 1 and there[0] == row:
                    sets.setdefault(there, []).append(node)
    own = [rows for rows in sets if owner is None or any(state.spec(row).user == owner for row in rows)]
    return [
        {"nodes": sets[rows], "jobs": _jobs(core, rows, sets[rows][0], owner, now_us)} for rows in own[:MOST_GROUPS]
    ]


def _runs(core: SchedulerCore, row: int) -> bool:
    return int(core.state.jobs[columns.STATE, row]) in RUNS


def _jobs(core: SchedulerCore, rows: tuple[int, ...], node: int, owner: int | None, now_us: int) -> list[BesideJob]:
    percent = _percent(core, rows, node, now_us)
    found: list[BesideJob] = []
    for place, row in enumerate(rows):
        job, program = names(core.state, row, owner)
        seen = owner is None or core.state.spec(row).user == owner
        found.append(
            {
                "job": job,
                "program": program,
                "slowed_percent": percent[place],
                "expected": predicted_slowdown(core, row, now_us) if seen else None,
                "measured": measured(core, core.state.spec(row).job_id) if seen else None,
            }
        )
    return found


def _percent(core: SchedulerCore, rows: tuple[int, ...], node: int, now_us: int) -> list[list[float | None]]:
    """By how much each job is slowed by each other one, in percent; None: a profile is missing."""
    view = core.view(now_us)
    kind = int(core.state.kinds.of_node[node])
    tenants = [view.tenant(row, kind) for row in rows]
    known = [place for place, one in enumerate(tenants) if one.profile is not None]
    found: list[list[float | None]] = [[None] * len(rows) for _ in rows]
    if len(known) > 1:
        judge = getattr(core.policies.placer, "degradations", None) or ProfiledPairs()
        cells = np.asarray(judge.between([tenants[place] for place in known], core.state.kinds.groups[kind]), float)
        for line, first in enumerate(known):
            for column, second in enumerate(known):
                if line != column and np.isfinite(cells[line, column]):
                    found[first][second] = round(float(cells[line, column]), 1)
    return found
