"""How much slower than alone a job was expected to run when it started, and did run: what a site watches its policy by.

Alone means: exclusively, at the same scale and number of processes, as its program's profile says. None where the
profile, or a word of the policy about the neighbours, is missing. Nothing here decides anything.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from cohabit.core.core import SchedulerCore
from cohabit.core.view import View
from cohabit.live.records import Record
from cohabit.model.cluster import NodeGroup
from cohabit.model.profile import Profile, Tenant, demand
from cohabit.model.units import seconds


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
    profile = view.profile(job.program, job.processes)
    if profile is None or (how is not None and how.purpose != "run"):
        return None
    if how is None or how.exclusive:
        return 1.0
    measured = profile.at_scale(how.scale)
    if how.ways and measured is not None and measured.ipc is not None:
        booked = measured.ipc.at(how.ways)
        return max(1.0, measured.ipc.values[-1] / booked) if booked > 0 else None
    placer = core.policies.placer
    return _beside_neighbours(view, core, row, placer.degradations) if isinstance(placer, _KnowsNeighbours) else None


def _beside_neighbours(view: View, core: SchedulerCore, row: int, known: _Degradations) -> float | None:
    """What its neighbours cost it together, on the worst of its nodes."""
    ledger, worst = core.state.ledger, 1.0
    assert ledger is not None
    for node in ledger.nodes_of(row):
        others = [other for other in ledger.rows_on(int(node)) if other != row]
        kind = int(view.kinds.of_node[node])
        percent = known.between([view.tenant(one, kind) for one in (row, *others)], view.kinds.groups[kind])[0, 1:]
        if np.isnan(percent).any():
            return None
        worst = max(worst, 1.0 + float(percent.sum()) / 100.0)
    return worst


def actual_slowdown(core: SchedulerCore, record: Record, now_us: int) -> float | None:
    """Of a job that ended well just now."""
    view = core.view(now_us)
    profile = view.profile(record.program, record.processes)
    if profile is None or record.start_us is None or record.purpose != "run" or not record.nodes:
        return None
    node = view.kinds.groups[int(view.kinds.of_node[record.nodes[0][0]])]
    alone_s = _alone_s(profile, record, node)
    return None if not alone_s else seconds(now_us - record.start_us) / alone_s


def _alone_s(profile: Profile, record: Record, node: NodeGroup) -> float:
    """Its time alone; with other numbers of processes than were measured only where the curves say what follows."""
    if (wanted := demand(profile, record.scale, record.processes, 1.0, node)) is not None:
        return wanted.time_s
    measured = profile.at_scale(record.scale)
    return measured.time_s if measured is not None and profile.processes == record.processes else 0.0
