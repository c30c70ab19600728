"""Take jobs off their nodes: a run has ended, kept nodes are given back, or a node was lost.

It decides only which jobs lost nodes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from cohabit.core import crowding
from cohabit.core.columns import (
    ATTEMPT,
    ENDS,
    HEAD,
    HOLDING,
    LIMIT,
    RELEASED,
    RUNNING,
    START,
    STARTING,
    STATE,
)
from cohabit.core.kernels import ladder
from cohabit.core.kernels.bundles import EASY
from cohabit.core.kernels.moves import finish
from cohabit.core.ledger import used_by_others
from cohabit.core.protocols import ANYBODY
from cohabit.core.state import DOWN, DRAINED, UP, State
from cohabit.model.command import CancelJob
from cohabit.model.event import NodeUsed

if TYPE_CHECKING:
    from cohabit.core.apply import Applier


def leave_nodes(state: State, now_us: int, row: int) -> None:
    """Free the nodes of a job, if they are up; its row is on no ladder any more."""
    if state.ledger is not None:
        _leave_shared_nodes(state, row)
    else:
        _leave_whole_nodes(state, now_us, row)
    if state.crowded or state.widened:
        crowding.left(state, row)


def _leave_shared_nodes(state: State, row: int) -> None:
    assert state.ledger is not None
    ladder.remove(state.running, state.jobs, state.keys[ENDS], row)
    state.ledger.release(row)
    if state.placed.pop(row).purpose != "run":
        state.described.forget_asks(state.spec(row).program)  # the trial may be repeated


def _leave_whole_nodes(state: State, now_us: int, row: int) -> None:
    ranges = state.ranges_of(row)
    state.nodes_by_kind.pop(row, None)
    finish(row, now_us, state.depth if state.profiled else EASY, state.queued, state.machine)
    if now_us > state.jobs[START, row] + state.jobs[LIMIT, row]:
        state.void_promises()
    for first, count in ranges:
        for node in (first + int(index) for index in np.flatnonzero(state.node_state[first : first + count])):
            state.set_idle(node, False)


def node_became(applier: Applier, now_us: int, node: int, becomes: int, used: int = 0, until_us: int = 0) -> bool:
    """Set a node up, drained or lost; jobs on a lost node are requeued or failed, never forgotten. `until_us`: when
    others, who use it, are to leave."""
    state = applier.state
    if not 0 <= node < len(state.node_state):
        return False
    until_was = state.used_until.pop(node, 0)
    if crowding.stays_crowded(state, node, becomes + used):
        return False
    if until_us:
        state.used_until[node] = until_us
    was = int(state.node_state[node]) if state.ledger is None else state.ledger.condition[state.ledger.class_of(node)]
    if was == becomes + used:
        if until_was == until_us:
            return False
        state.gauges[RELEASED], state.gauges[HEAD] = 1, -1
        return True
    if state.ledger is not None:
        on_it = list(state.ledger.rows_on(node))
    else:
        on_it = [row for row in state.rows.values() if _has_node(state, row, node)]
    state.node_state[node] = becomes
    state.nodes_by_kind.clear()
    state.gauges[RELEASED], state.gauges[HEAD] = 1, -1
    state.void_promises()
    if becomes != UP:
        name = state.cluster.called(node)
        for row in on_it:
            if state.jobs[STATE, row] == HOLDING:  # no job starts there any more, so the nodes must not be promised
                applier.let_go(now_us, row, f"node {name} {'was lost' if becomes == DOWN else 'takes no new jobs'}")
            elif becomes == DOWN:
                job, attempt = state.spec(row), int(state.jobs[ATTEMPT, row])
                applier.commands.append(CancelJob(job.job_id, attempt, f"node {name} was lost"))
                applier.finished(now_us, job.job_id, attempt, "lost")
    if state.ledger is not None:
        state.ledger.set_condition(node, becomes + used)
    elif becomes == UP:
        state.set_idle(node, not on_it)
    elif state.is_idle(node):
        state.set_idle(node, False)
    return True


def node_is_used(applier: Applier, now_us: int, told: NodeUsed) -> bool:
    """Set a node up but for what others use of it. Where nodes are given out whole, or no job may run beside one of
    another circle, it takes no job of ours."""
    state = applier.state
    if state.ledger is None:
        return node_became(applier, now_us, told.node, DRAINED, until_us=told.until_us)
    if state.trust.share_with != ANYBODY:
        return node_became(applier, now_us, told.node, DRAINED)
    used = used_by_others(told.cores, told.memory_mib)
    return node_became(applier, now_us, told.node, UP, used, told.until_us)


def _has_node(state: State, row: int, node: int) -> bool:
    if state.jobs[STATE, row] not in (STARTING, RUNNING, HOLDING):
        return False
    return any(first <= node < first + count for first, count in state.ranges_of(row))
