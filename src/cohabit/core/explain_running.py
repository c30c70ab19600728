"""Explain how a started job runs: its scale and share of each node, its neighbours, and the profile behind that."""

from __future__ import annotations

from collections.abc import Sequence

from cohabit.core.explain_sharing import joined, named
from cohabit.core.guaranteeing import recalled
from cohabit.core.protocols import PolicySet
from cohabit.core.state import State
from cohabit.core.view import View
from cohabit.model.node_names import nodes_text
from cohabit.model.plan import Placement, Ranges
from cohabit.model.profile import SHARED
from cohabit.model.units import counted

MEASURED = "measured"
PURPOSES = {"time": "to measure its time", "curve": "to measure its curves"}


def how_it_runs(state: State, policies: PolicySet, job_id: str, now_us: int, names_all: bool = False) -> str:
    """Return one sentence for a job that has started; empty for others.

    Jobs of other users are not named unless `names_all`.
    """
    row = state.rows.get(job_id)
    if row is None:
        return ""
    view = View(state, now_us, names_all)
    if not view.is_running(row):
        return ""
    where, how = nodes_in_words(state.ranges_of(row), state.cluster.names), state.placed.get(row)
    if state.ledger is None or how is None:
        return f"runs on {where}, which it has to itself"
    words = [f"runs at scale {how.scale} on {where}{_share(state, policies, view, row, how)}"]
    if how.purpose in PURPOSES:
        words.append(f"{PURPOSES[how.purpose]} at this scale")
    if not how.exclusive:
        nodes = [node for first, count in how.ranges for node in range(first, first + count)]
        beside = sorted({other for node in nodes for other in state.ledger.rows_on(node)} - {row})
        words.append(f"beside {named(view, row, beside)}" if beside else "no other job is there now")
    words.append(profile_in_words(view, row))
    return "; ".join(words)


def nodes_in_words(ranges: Ranges, names: Sequence[str]) -> str:
    """Return the nodes: node 3, nodes 0 to 3 and 7, nodes n[0-3,7]."""
    if names:
        return f"{'node' if sum(count for _, count in ranges) == 1 else 'nodes'} {nodes_text(ranges, names)}"
    parts = [str(first) if count == 1 else f"{first} to {first + count - 1}" for first, count in ranges]
    return f"{'node' if sum(count for _, count in ranges) == 1 else 'nodes'} {joined(parts)}"


def _share(state: State, policies: PolicySet, view: View, row: int, how: Placement) -> str:
    """Return what it has of each node."""
    if how.exclusive:
        return ", which it has to itself"
    booked, group = [counted(how.cores, "core")], state.kinds.groups[int(state.kinds.of_node[how.ranges[0][0]])]
    if how.ways and group.ways:
        now = _ways_now(state, policies, view, row, how)
        booked.append(counted(how.ways, "cache way") + (f" ({now} now)" if now and now != how.ways else ""))
    if how.bandwidth_mbs and group.bandwidth_gbs:
        booked.append(f"{how.bandwidth_mbs / 1000:.1f} GB/s of memory bandwidth")
    return f" with {joined(booked)}{' on each' if how.nodes > 1 else ''}"


def _ways_now(state: State, policies: PolicySet, view: View, row: int, how: Placement) -> int:
    """Return the ways that the division of its first node gives it; 0: the cache is not divided."""
    partitioner, ledger, node = policies.partitioner, state.ledger, how.ranges[0][0]
    kind = int(state.kinds.of_node[node])
    group = state.kinds.groups[kind]
    if partitioner is None or ledger is None or not group.ways:
        return 0
    residents = ledger.rows_on(node)
    shares = partitioner.split([view.tenant(other, kind) for other in residents], group)
    if (guarantor := policies.guarantor) is not None:
        shares, _ = guarantor.correct(residents, shares, group, view, recalled(state, guarantor))
    return int(shares[residents.index(row)][1])


def profile_in_words(view: View, row: int) -> str:
    """Return the profile that there is of a running job's program; empty where jobs have whole nodes."""
    job, how = view.job(row), view.placed.get(row)
    if how is None:
        return ""
    if not job.program:
        return "it has no program name, so no profile"
    profile = view.profile(job.program, job.processes, job.profile_owner)
    if profile is None:
        return f"there is no profile of {job.program}"
    whose = "shared" if profile.owner == SHARED else "its user's own"
    plural = "" if profile.processes == 1 else "es"
    text = f"its profile: {job.program} with {profile.processes} process{plural}, {whose}, {profile.provenance}"
    found = profile.at_scale(how.scale)
    if found is None or found.time_s <= 0:
        return f"{text}, without scale {how.scale}"
    return f"{text} in {counted(found.samples, 'run')} at this scale" if profile.provenance == MEASURED else text
