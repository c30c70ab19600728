"""Take a job off its nodes: it has run there, or only kept them while it waited for its mates."""

from __future__ import annotations

import numpy as np

from cohabit.core.columns import ENDS, LIMIT, START
from cohabit.core.kernels import ladder
from cohabit.core.kernels.bundles import EASY
from cohabit.core.kernels.moves import finish
from cohabit.core.state import State


def leave_nodes(state: State, now_us: int, row: int) -> None:
    """Free the nodes of a job, if they are up; its row is on no ladder any more."""
    if state.ledger is not None:
        _leave_shared_nodes(state, row)
    else:
        _leave_whole_nodes(state, now_us, row)


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
