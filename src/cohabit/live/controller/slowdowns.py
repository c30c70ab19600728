"""The expected and the actual slowdown of a job relative to running alone, by which a site monitors its policy.

Alone means: exclusively, at the same scale and number of processes, as its program's profile says. For a policy that
books ways or chooses neighbours by degradation, its own figures are used. For others the slowdown follows from the
profiles of all jobs on the node: the ways each has there (neighbours.py) and what they draw from memory together. It is
None where a profile is missing.

A slowdown is given only where it exceeds the noise: the uncertainty of a run's time (its start and end as the
controller sees them, and twice the standard deviation of the runs alone) is at most a tenth of the time alone. A run
that had its nodes to itself has none. Nothing here decides anything.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from cohabit.core.core import SchedulerCore
from cohabit.core.view import View
from cohabit.live.controller.neighbours import expected_slowdown
from cohabit.live.controller.records import Record
from cohabit.model.cluster import NodeGroup
from cohabit.model.profile import Profile, ScaleProfile, Tenant, demand, owner_of
from cohabit.model.units import seconds
from cohabit.policy.degradation import Degradations

LEAST = 0.8  # of its time alone: a shared run that is faster had less to do
START_AND_END_S = 0.5  # of a run as the controller sees it: to start it and to learn of its end, on a busy machine
MOST_DOUBT = 0.1  # of the time alone
TOO_SHORT, TOO_VARIED = "too short to tell", "its runs alone vary too much to tell"
TOO_FAST = "it was faster than alone: it had less to do, or its run alone was disturbed"


class Slowdown(NamedTuple):
    """A slowdown relative to running alone; None: not known. `why`: why not, though the time alone is known."""

    factor: float | None
    why: str = ""


NOT_KNOWN = Slowdown(None)


def predicted_slowdown(core: SchedulerCore, row: int, now_us: int) -> float | None:
    """Return the expected slowdown of a job that has just got its nodes."""
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
    known: Degradations | None = getattr(placer, "degradations", None)
    if known is not None:
        return _on_worst_node(view, core, row, lambda tenants, node: _by_degradation(known, tenants, node, view))
    return _on_worst_node(view, core, row, lambda tenants, node: expected_slowdown(tenants, node, partitioner))


def _on_worst_node(
    view: View, core: SchedulerCore, row: int, judge: Callable[[list[Tenant], NodeGroup], float | None]
) -> float | None:
    """Return the slowdown on the node where neighbours cost it most; `judge` gets the job, then the neighbours."""
    ledger, worst = core.state.ledger, 1.0
    assert ledger is not None
    for index in ledger.classes_of.get(row, ()):  # nodes of one class have the same jobs
        others = [other for other in ledger.residents[index] if other != row]
        kind = int(ledger.kind[index])
        if not others:
            continue
        found = judge([view.tenant(one, kind) for one in (row, *others)], view.kinds.groups[kind])
        if found is None:
            return None
        worst = max(worst, found)
    return worst


def _by_degradation(known: Degradations, tenants: list[Tenant], node: NodeGroup, view: View) -> float | None:
    percent = known.between(tenants, node, view.co_runs)[0, 1:]
    return None if np.isnan(percent).any() else 1.0 + float(percent.sum()) / 100.0


def actual_slowdown(core: SchedulerCore, record: Record, now_us: int) -> Slowdown:
    """Return the slowdown of a job that ended well just now."""
    view = core.view(now_us)
    profile = view.profile(record.program, record.processes, owner_of(record.user))
    if profile is None or record.start_us is None or record.purpose != "run" or not record.nodes:
        return NOT_KNOWN
    if record.exclusive or not (record.met or record.ways):
        return NOT_KNOWN  # it had no neighbours: nothing was shared that could have slowed it
    node = view.kinds.groups[int(view.kinds.of_node[record.nodes[0][0]])]
    alone_s, measured = _alone_s(profile, record, node), profile.at_scale(record.scale)
    if not alone_s or measured is None:
        return NOT_KNOWN
    if doubt := _doubt(measured, alone_s):
        return Slowdown(None, doubt)
    found = seconds(now_us - record.start_us) / alone_s
    return Slowdown(None, TOO_FAST) if record.met and found < LEAST else Slowdown(found)


def _doubt(measured: ScaleProfile, alone_s: float) -> str:
    """Return why no slowdown can be given for runs of this length and spread; empty: it can."""
    bound_s, runs = MOST_DOUBT * alone_s, measured.samples
    if bound_s < START_AND_END_S:
        return TOO_SHORT
    deviation_s = math.sqrt(measured.time_variance * runs / (runs - 1)) if runs > 1 else 0.0
    return TOO_VARIED if START_AND_END_S + 2 * deviation_s > bound_s else ""


def _alone_s(profile: Profile, record: Record, node: NodeGroup) -> float:
    """Return its time alone; for a number of processes that was not measured only where the curves give it."""
    if (wanted := demand(profile, record.scale, record.processes, 1.0, node)) is not None:
        return wanted.time_s
    measured = profile.at_scale(record.scale)
    return measured.time_s if measured is not None and profile.processes == record.processes else 0.0
