"""How much slower than alone a job was expected to run when it started, and did run: what a site watches its policy by.

Alone means: exclusively, at the same scale and number of processes, as its program's profile says. A policy that books
ways or chooses neighbours by degradation is taken at its word. Under the others the profiles of all on the node say it:
the ways each has there (live/neighbours.py) and what they draw from memory together. None where a profile is missing.
Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cohabit.core.core import SchedulerCore
from cohabit.core.view import View
from cohabit.live.neighbours import expected_slowdown
from cohabit.live.records import Record
from cohabit.model.cluster import NodeGroup
from cohabit.model.profile import Profile, Tenant, demand, owner_of
from cohabit.model.units import seconds

LEAST = 0.8  # of its time alone: whoever is sooner done beside others had less to do


class _Degradations(Protocol):
    def between(self, jobs: list[Tenant], node: NodeGroup) -> NDArray[np.float64]:
        """Percent for every ordered pair."""


@runtime_checkable
class _KnowsNeighbours(Protocol):
    """A placer that chooses neighbours by how much they slow each other."""

    degradations: _Degradations


def predicted_slowdown(core: SchedulerCore, row: int, now_us: int) -> float | None:
    """Of a job that has just got its nodes."""
    view, state = core.view(now_us), core.state
    job, how = state.spec(row), state.placed.get(row)
    profile = view.profile(job.program, job.processes, job.profile_owner)
    if profile is None or (how is not None and how.purpose != "run"):
        return None
    if how is None or how.exclusive:
        return 1.0
    measured = profile.at_scale(how.scale)
    if how.ways and measured is not None and measured.ipc is not None:
        booked = measured.ipc.at(how.ways)
        return max(1.0, measured.ipc.values[-1] / booked) if booked > 0 else None
    placer, partitioner = core.policies.placer, core.policies.partitioner
    if isinstance(placer, _KnowsNeighbours):
        known = placer.degradations
        return _on_worst_node(view, core, row, lambda tenants, node: _by_degradation(known, tenants, node))
    return _on_worst_node(view, core, row, lambda tenants, node: expected_slowdown(tenants, node, partitioner))


def _on_worst_node(
    view: View, core: SchedulerCore, row: int, judge: Callable[[list[Tenant], NodeGroup], float | None]
) -> float | None:
    """What its neighbours cost it, where they cost it most; `judge` is told of it first, then of them."""
    ledger, worst = core.state.ledger, 1.0
    assert ledger is not None
    for number in ledger.nodes_of(row):
        others = [other for other in ledger.rows_on(int(number)) if other != row]
        kind = int(view.kinds.of_node[number])
        if not others:
            continue
        found = judge([view.tenant(one, kind) for one in (row, *others)], view.kinds.groups[kind])
        if found is None:
            return None
        worst = max(worst, found)
    return worst


def _by_degradation(known: _Degradations, tenants: list[Tenant], node: NodeGroup) -> float | None:
    percent = known.between(tenants, node)[0, 1:]
    return None if np.isnan(percent).any() else 1.0 + float(percent.sum()) / 100.0


def actual_slowdown(core: SchedulerCore, record: Record, now_us: int) -> float | None:
    """Of a job that ended well just now."""
    view = core.view(now_us)
    profile = view.profile(record.program, record.processes, owner_of(record.user))
    if profile is None or record.start_us is None or record.purpose != "run" or not record.nodes:
        return None
    if not (record.exclusive or record.met or record.ways):
        return None  # nobody came: nothing was shared that could have slowed it
    node = view.kinds.groups[int(view.kinds.of_node[record.nodes[0][0]])]
    alone_s = _alone_s(profile, record, node)
    found = None if not alone_s else seconds(now_us - record.start_us) / alone_s
    return None if found is not None and record.met and found < LEAST else found


def _alone_s(profile: Profile, record: Record, node: NodeGroup) -> float:
    """Its time alone; with other numbers of processes than were measured only where the curves say what follows."""
    if (wanted := demand(profile, record.scale, record.processes, 1.0, node)) is not None:
        return wanted.time_s
    measured = profile.at_scale(record.scale)
    return measured.time_s if measured is not None and profile.processes == record.processes else 0.0
