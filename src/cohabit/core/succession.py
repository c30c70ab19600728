"""Make a core under other policies out of one that has jobs: it goes on with all of them.

Every waiting job keeps its place in the order of submission, its holds, dependencies and attempts; every running one
its nodes and its start. So do nodes, windows, usage, ends and profiles. What the old policies remembered and promised
is dropped: the new ones decide about the queue in the next step. Jobs that run together as the new policies would not
let them go on; their nodes take no new job until they have left (crowding.py). The result depends on nothing but the
arguments, so that a replay makes the same core.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from cohabit.core import fairness, known_programs, windows
from cohabit.core.apply import Applier
from cohabit.core.columns import (
    BLOCKED,
    ENDS,
    FREE,
    HOLDING,
    NODES,
    PROMISED,
    QUEUED,
    RANGE_COUNT,
    RANGE_FIRST,
    RANGE_NEXT,
    RANGES,
    RESERVED,
    RUN_US,
    RUNNING,
    RUNS,
    SEQ,
    SPARE_RANGE,
    STARTING,
    STATE,
)
from cohabit.core.core import SchedulerCore
from cohabit.core.kernels import ladder
from cohabit.core.kernels import nodes as nodes_kernel
from cohabit.core.kernels.profile import UNRESERVED
from cohabit.core.ledger import STATES, Ledger, Takes, nodes_in, ranges_of
from cohabit.core.mates.local import CoupledState
from cohabit.core.memory import draft_of
from cohabit.core.protocols import ANYBODY, PolicySet
from cohabit.core.state import DRAINED, UP, State
from cohabit.core.view import CO_RUNS
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError
from cohabit.model.plan import Placement
from cohabit.model.resources import Wish

KNOWLEDGE = (CO_RUNS, fairness.MEMORY)  # memory of no single policy
ANEW = "put it back as it was, or begin in a new place"


def refuse_impossible(old: SchedulerCore, cluster: Cluster, policies: PolicySet) -> None:
    """Refuse a successor that could not go on with all jobs."""
    state = old.state
    if [group.cores for group in _by_node(cluster)] != [group.cores for group in _by_node(state.cluster)]:
        raise InputError("its jobs were taken on other nodes", "cluster", ANEW)
    if cluster.names and state.cluster.names and cluster.names != state.cluster.names:
        raise InputError("its jobs were taken on nodes of other names", "cluster", ANEW)
    before, now = old.policies.mates, policies.mates
    if (before is None) != (now is None) or (
        before is not None and now is not None and replace(before, scheme=now.scheme) != now
    ):
        raise InputError("its jobs were taken in another domain, or among other peers", "domain", ANEW)
    bound = [name for name, row in state.rows.items() if state.spec(row).mates is not None]
    if bound or (state.jobs[STATE, list(state.rows.values())] == HOLDING).any():
        what = f"jobs with mates in other domains are bound to the policy they wait or run under: {_few(bound)}"
        raise InputError(what, "policy", "try again when they are over")


def _refuse_homeless(before: State, state: State) -> None:
    """Refuse nodes on which a job could never run (again)."""
    found = []
    for name, row in before.rows.items():
        usable, need = state.kinds.eligible(before.spec(row))
        if need > int(state.kinds.size[usable].sum()):
            found.append(name)
    if found:
        fix = "put the nodes back as they were, or cancel the jobs first"
        raise InputError(f"jobs fit on no nodes any more: {_few(found)}", "cluster", fix)


def _few(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (" and others" if len(names) > 5 else "")


def _by_node(cluster: Cluster) -> list[NodeGroup]:
    return [group for group in cluster.groups for _ in range(group.count)]


def succeed(old: SchedulerCore, cluster: Cluster, policies: PolicySet, now_us: int) -> SchedulerCore:
    """Return the successor of a core between two steps; the old one is not changed and must not be used any more."""
    refuse_impossible(old, cluster, policies)
    core = SchedulerCore(cluster, policies, readable=old.readable)
    before, state = old.state, core.state
    _refuse_homeless(before, state)
    state.finished, state.attempts = dict(before.finished), dict(before.attempts)
    state.arrays, state.open_arrays = dict(before.arrays), dict(before.open_arrays)
    state.users, state.usage = dict(before.users), before.usage.copy()
    state.next_seq, state.generation = before.next_seq, before.generation + 1
    state.window, state.used_until = before.window, dict(before.used_until)
    state.memory = {key: draft_of(before.memory[key]) for key in KNOWLEDGE if key in before.memory}
    state.gauges[RUN_US], state.gauges[RUNS] = before.gauges[RUN_US], before.gauges[RUNS]
    if before.coupled is not None and state.coupled is not None:
        state.coupled = msgspec.convert(msgspec.to_builtins(before.coupled), CoupledState)
    windows.restore(state, msgspec.to_builtins(before.windows))
    _know_programs(before, state)
    row_of = _take_rows(before, state)
    _take_runs(before, state, row_of)
    applier = Applier(state, policies)
    for old_row, row in row_of.items():
        if before.jobs[STATE, old_row] == QUEUED:
            applier.enter_queue(now_us, row)
    core.arrivals = applier.arrivals
    state.profiled = False  # the first pass computes what the compiled form needs
    state.void_promises()
    return core


def _know_programs(before: State, state: State) -> None:
    for known in (*before.profiles.values(), *before.own_profiles.values()):
        for one in known.values():
            known_programs.put(state, one)
    for key, known in before.own_profiles.items():
        if not known:
            state.own_profiles[key] = {}


def _take_rows(before: State, state: State) -> dict[int, int]:
    """Enter all jobs in the order they came; return the new row of each old one. None is queued yet."""
    row_of: dict[int, int] = {}
    for old_row in sorted(before.rows.values(), key=lambda one: int(before.jobs[SEQ, one])):
        row = row_of[old_row] = state.new_row(before.spec(old_row))
        state.jobs[:, row] = before.jobs[:, old_row]
        state.jobs[RANGES, row] = -1
        state.jobs[NODES, row] = before.widened.get(old_row, before.jobs[NODES, old_row])
        if before.jobs[STATE, old_row] in (BLOCKED, QUEUED):
            state.jobs[STATE, row] = BLOCKED
            state.jobs[RESERVED, row] = state.jobs[PROMISED, row] = UNRESERVED
    state.held = {row_of[row] for row in before.held}
    state.waiting_for = {row_of[row]: set(names) for row, names in before.waiting_for.items()}
    state.refused_until = {row_of[row]: until for row, until in before.refused_until.items() if row in row_of}
    return row_of


def _take_runs(before: State, state: State, row_of: dict[int, int]) -> None:
    """Put the running jobs on their nodes, and set every node as it was."""
    runs = [row for row in row_of if before.jobs[STATE, row] in (STARTING, RUNNING)]
    nodes_of = {row_of[row]: nodes_in(before.ranges_of(row)).tolist() for row in runs}
    rows_on: list[list[int]] = [[] for _ in range(state.cluster.nodes)]
    for row, nodes in nodes_of.items():
        for node in nodes:
            rows_on[node].append(row)
    if before.ledger is not None:
        for node, rows in enumerate(rows_on):
            rows[:] = [row_of[row] for row in before.ledger.rows_on(node)]
    conditions = [_condition(before, state, node) for node in range(state.cluster.nodes)]
    misfits = _misfits(before, state, row_of, nodes_of, rows_on)
    for node, rows in enumerate(rows_on):
        if crowd := [row for row in rows if row in misfits]:
            state.crowded[node] = (conditions[node], crowd)
            conditions[node] = DRAINED
    state.node_state[:] = np.array(conditions) % STATES
    if state.ledger is None:
        _take_whole_nodes(state, nodes_of, conditions, rows_on)
    else:
        _share_nodes(state, state.ledger, conditions, rows_on)
    for old_row in runs:
        row = row_of[old_row]
        state.keys[ENDS, row] = before.keys[ENDS, old_row]
        ladder.insert(state.running, state.jobs, state.keys[ENDS], row)


def _condition(before: State, state: State, node: int) -> int:
    """Return what was told of a node: up, drained or down, and what others use of it if nodes are shared now."""
    if node in before.crowded:
        told = before.crowded[node][0]
    elif before.ledger is None:
        told = int(before.node_state[node])
    else:
        told = before.ledger.condition[before.ledger.class_of(node)]
    if told < STATES or (state.ledger is not None and state.trust.share_with == ANYBODY):
        return told
    return DRAINED if told % STATES == UP else told % STATES


# ---- whole nodes ----------------------------------------------------------------------------------------------------


def _take_whole_nodes(
    state: State, nodes_of: dict[int, list[int]], conditions: Sequence[int], rows_on: Sequence[Sequence[int]]
) -> None:
    """Give running jobs their nodes, as many as they have."""
    runs_of = {row: _runs(nodes) for row, nodes in nodes_of.items()}
    room = len(conditions) + 1 + sum(map(len, runs_of.values()))  # nodes may be in the ranges of several jobs
    state.pool = np.zeros((3, room), np.int64)
    nodes_kernel.initialise(state.idle, state.pool, state.gauges, len(conditions))
    for row, runs in runs_of.items():
        if len(nodes_of[row]) != state.jobs[NODES, row]:
            state.widened[row] = int(state.jobs[NODES, row])
            state.jobs[NODES, row] = len(nodes_of[row])
        for first, count in reversed(runs):
            link = int(state.gauges[SPARE_RANGE])
            state.gauges[SPARE_RANGE] = state.pool[RANGE_NEXT, link]
            state.pool[RANGE_FIRST, link], state.pool[RANGE_COUNT, link] = first, count
            state.pool[RANGE_NEXT, link], state.jobs[RANGES, row] = state.jobs[RANGES, row], link
    for node, condition in enumerate(conditions):
        if condition != UP or rows_on[node]:
            state.set_idle(node, False)
    assert state.gauges[FREE] == int(state.idle_nodes().sum())


def _runs(nodes: Sequence[int]) -> list[tuple[int, int]]:
    return list(ranges_of(np.array(nodes, np.int32)))


# ---- shared nodes ---------------------------------------------------------------------------------------------------


def _misfits(
    before: State,
    state: State,
    row_of: dict[int, int],
    nodes_of: dict[int, list[int]],
    rows_on: Sequence[Sequence[int]],
) -> set[int]:
    """Return the jobs that do not fit together under the policies of now; where nodes are shared, book all jobs."""
    if state.ledger is None:
        return {row for rows in rows_on if len(rows) > 1 for row in rows}
    for old_row, row in row_of.items():
        if row in nodes_of:
            how = _placement(before, state, old_row, row, nodes_of[row])
            state.placed[row] = how
    found = set[int]()
    for node, rows in enumerate(rows_on):
        if rows and not _fit(state, state.ledger, int(state.kinds.of_node[node]), rows):
            found.update(rows)
    for row in found:
        how = state.placed[row]
        nothing: Takes = tuple(tuple(0 for _ in one) for one in how.takes)
        state.placed[row] = replace(how, takes=nothing, exclusive=False, ways=0, bandwidth_mbs=0)
    return found


def _fit(state: State, ledger: Ledger, kind: int, rows: Sequence[int]) -> bool:
    booked = np.sum([state.placed[row].takes[kind] for row in rows], axis=0)  # the node may have become smaller
    alone = len(rows) > 1 and any(state.placed[row].exclusive for row in rows)
    return not alone and len({state.trust.circle(row) for row in rows}) == 1 and (booked <= ledger.capacity[kind]).all()


def _placement(before: State, state: State, old_row: int, row: int, nodes: Sequence[int]) -> Placement:
    """Return how a running job runs: it takes what it was given, counted as now."""
    assert state.ledger is not None
    job, how = state.spec(row), before.placed.get(old_row)
    crowds = any(old_row in rows for _, rows in before.crowded.values())
    if how is not None and not crowds and _counts_alike(before, state):
        return how
    here = {int(state.kinds.of_node[node]) for node in nodes}
    usable = state.kinds.eligible(job)[0]
    kinds = [bool(fits) or kind in here for kind, fits in enumerate(usable)]
    ranges = tuple(_runs(nodes))
    if how is None or how.exclusive or not how.cores:
        scale = max(len(nodes) // max(int(state.jobs[NODES, row]), 1), 1)
        whole = [tuple(one.tolist()) for one in state.ledger.capacity]
        takes: Takes = tuple(one if fits else () for one, fits in zip(whole, kinds, strict=True))
        return Placement(ranges, scale, 0 if how is None else how.cores, takes=takes)
    gbs = how.bandwidth_mbs / 1000
    wish = Wish(job, None, how.scale, len(nodes), how.cores, how.ways, gbs)
    booked = tuple(dimension.need(wish) for dimension in state.ledger.dimensions)
    return replace(how, ranges=ranges, takes=tuple(booked if fits else () for fits in kinds))


def _counts_alike(before: State, state: State) -> bool:
    """Return whether bookings mean the same as before."""
    old, new = before.ledger, state.ledger
    assert new is not None
    if old is None or [one.name for one in old.dimensions] != [one.name for one in new.dimensions]:
        return False
    return np.array_equal(old.capacity, new.capacity)


def _share_nodes(state: State, ledger: Ledger, conditions: Sequence[int], rows_on: Sequence[Sequence[int]]) -> None:
    """Fill the ledger; all nodes with jobs are to be divided anew."""
    classes: dict[tuple[int, int, tuple[int, ...]], list[int]] = {}
    for node, (condition, rows) in enumerate(zip(conditions, rows_on, strict=True)):
        classes.setdefault((int(state.kinds.of_node[node]), condition, tuple(rows)), []).append(node)
    saved = [
        [kind, condition, list(rows), np.array(nodes, "<i4").tobytes()]
        for (kind, condition, rows), nodes in classes.items()
    ]
    ledger.load({"classes": saved, "takes": [[row, how.takes] for row, how in state.placed.items()]})
    for index in ledger.classes():
        if ledger.residents[index]:
            ledger.touched[index] = [ledger.nodes_in_class(index)]


def living_of(core: SchedulerCore) -> tuple[int, int]:
    """Return how many jobs wait and how many have nodes."""
    states = core.state.jobs[STATE, list(core.state.rows.values())]
    waiting = int(np.isin(states, (BLOCKED, QUEUED)).sum())
    return waiting, len(states) - waiting
