"""Carry out a plan: check every action against the state again, change the state, return the commands.

A plan may be stale or wrong; an action that is no longer valid is refused and noted, never forced.
"""

from __future__ import annotations

from dataclasses import replace

from cohabit.core.columns import (
    ATTEMPT,
    ENDS,
    EXPECTED,
    FREE,
    LIMIT,
    NODES,
    PROMISED,
    QUEUED,
    RANGE_COUNT,
    RANGE_FIRST,
    RANGE_NEXT,
    RANGES,
    RELEASED,
    RESERVED,
    RUNNING,
    SPARE_RANGE,
    START,
    STARTING,
    STATE,
    VOID,
)
from cohabit.core.decide import PROMISES
from cohabit.core.kernels import ladder
from cohabit.core.kernels.bundles import CONSERVATIVE
from cohabit.core.kernels.moves import dequeue
from cohabit.core.state import UP, State
from cohabit.model.command import Command, MoveJob, StartJob
from cohabit.model.plan import Move, Placement, Plan, Promise, Reserve, Start, Withdraw
from cohabit.model.units import FOREVER


def commit(state: State, plan: Plan, now_us: int, kept: int = -1) -> tuple[list[Command], list[Start | Move]]:
    """Return the commands, and the refused starts and moves. The job in row `kept` only gets its nodes."""
    commands: list[Command] = []
    refused: list[Start | Move] = []
    promises = state.memory.setdefault(PROMISES, {}) if state.depth == CONSERVATIVE else {}
    if state.gauges[VOID]:
        promises.clear()
    state.gauges[VOID], state.gauges[RELEASED] = 0, 0
    for action in plan.actions:
        if isinstance(action, Reserve):
            state.jobs[RESERVED, action.row] = action.start_us
            if state.jobs[PROMISED, action.row] < 0:
                state.jobs[PROMISED, action.row] = action.start_us
            promises[state.spec(action.row).job_id] = (action.start_us, action.kinds)
        elif isinstance(action, Promise):
            _promise(state, action)
        elif isinstance(action, Withdraw):
            state.withdraw_promise(action.row)
        elif isinstance(action, Move):
            if _moved(state, action):
                job_id, attempt = state.spec(action.row).job_id, int(state.jobs[ATTEMPT, action.row])
                commands.append(MoveJob(job_id, attempt, state.placed[action.row].ranges))
            else:
                refused.append(action)
        elif not _still_possible(state, action):
            refused.append(action)
        else:
            promises.pop(state.spec(action.row).job_id, None)
            _begin(state, action.row, action.placement, now_us)
            if action.row != kept:
                commands.append(start_command(state, action.row))
    state.memory.update(plan.memory)
    state.touch()
    return commands, refused


def start_command(state: State, row: int, fuse_us: int = FOREVER) -> StartJob:
    """Return the command for a job that has its nodes; it counts as starting until the back end answers."""
    job = state.spec(row)
    attempt = state.attempts.get(job.job_id, 0) + 1
    state.attempts[job.job_id] = attempt
    state.jobs[ATTEMPT, row], state.jobs[STATE, row] = attempt, STARTING
    state.refused_until.pop(row, None)
    if (array := _array_of(job.job_id)) in state.arrays:
        running, at_most = state.arrays[array]
        state.arrays[array] = (running + 1, at_most)
    how = state.placed.get(row)
    if how is None:
        return StartJob(job.job_id, attempt, state.ranges_of(row), job.limit_us, fuse_us=fuse_us)
    return StartJob(
        job.job_id,
        attempt,
        how.ranges,
        job.limit_us,
        how.scale,
        how.cores,
        how.exclusive,
        how.ways,
        how.bandwidth_mbs,
        how.purpose,
        fuse_us,
    )


def _array_of(job_id: str) -> str:
    return job_id.rpartition("_")[0]


def _still_possible(state: State, action: Start) -> bool:
    if state.jobs[STATE, action.row] != QUEUED:
        return False
    if state.ledger is not None:
        how, parts = action.placement, state.ledger.parts_of(action.placement.ranges)
        whole = how.nodes == how.scale * state.jobs[NODES, action.row]
        if not whole or parts is None or state.meets_strangers(action.row, (index for index, _ in parts)):
            return False
        return state.ledger.holds(parts, how.takes)
    if action.placement.nodes != state.jobs[NODES, action.row]:
        return False
    free = state.idle_nodes() & (state.node_state == UP)
    for first, count in action.placement.ranges:
        if first < 0 or first + count > len(free) or not free[first : first + count].all():
            return False
        free[first : first + count] = False
    return True


def _promise(state: State, action: Promise) -> None:
    """Make or change a promise on shared nodes."""
    row = action.row
    if state.jobs[STATE, row] == QUEUED:
        state.promise(action)
        state.jobs[RESERVED, row] = action.latest_us
        if state.jobs[PROMISED, row] < 0:
            state.jobs[PROMISED, row] = action.latest_us


def _moved(state: State, action: Move) -> bool:
    """Move a running job within its server, if its owner allows it."""
    row, servers = action.row, state.kinds.server_of
    if state.ledger is None or state.jobs[STATE, row] != RUNNING or not state.spec(row).movable:
        return False
    here = state.ledger.nodes_of(row)
    if len(here) != 1 or servers[here[0]] != servers[action.node] or not state.ledger.move(row, action.node):
        return False
    state.placed[row] = replace(state.placed[row], ranges=((action.node, 1),))
    return True


def _begin(state: State, row: int, placement: Placement, now_us: int) -> None:
    dequeue(row, state.rule, state.queued)
    if state.ledger is not None:
        parts = state.ledger.parts_of(placement.ranges)
        assert parts is not None
        state.ledger.book(row, parts, placement.takes)
        state.placed[row] = placement
        state.promises.pop(row, None)
        if placement.purpose != "run":
            state.described.forget_asks(state.spec(row).program)  # the next trial is another one
    else:
        _take_whole_nodes(state, row, placement)
    state.jobs[START, row], state.jobs[EXPECTED, row] = now_us, now_us + state.jobs[LIMIT, row]
    state.jobs[RESERVED, row] = -1
    state.keys[ENDS, row] = state.jobs[EXPECTED, row]
    ladder.insert(state.running, state.jobs, state.keys[ENDS], row)


def _take_whole_nodes(state: State, row: int, placement: Placement) -> None:
    chain = -1
    for first, count in reversed(placement.ranges):
        link = int(state.gauges[SPARE_RANGE])
        state.gauges[SPARE_RANGE] = state.pool[RANGE_NEXT, link]
        state.pool[RANGE_FIRST, link], state.pool[RANGE_COUNT, link], state.pool[RANGE_NEXT, link] = first, count, chain
        chain = link
        state.take(first, count)
    state.jobs[RANGES, row] = chain
    state.gauges[FREE] -= placement.nodes
