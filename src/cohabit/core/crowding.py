"""Nodes whose jobs do not fit together under the policies of now: they began under earlier ones (succession.py).

Such a node takes no new job until the last of these jobs has left it; what is told of it meanwhile is kept for then.
"""

from __future__ import annotations

from cohabit.core.columns import HEAD, NODES, RELEASED
from cohabit.core.ledger import STATES
from cohabit.core.state import DOWN, UP, State


def stays_crowded(state: State, node: int, condition: int) -> bool:
    """Note what is told of a node; return whether it waits until the node is not crowded any more."""
    if node not in state.crowded:
        return False
    state.crowded[node] = (condition, state.crowded[node][1])
    return condition % STATES != DOWN


def left(state: State, row: int) -> None:
    """Note that a job has left its nodes: those that are not crowded any more are as was told last."""
    state.jobs[NODES, row] = state.widened.pop(row, state.jobs[NODES, row])
    for node, (condition, rows) in list(state.crowded.items()):
        if row not in rows:
            continue
        rows.remove(row)
        if not rows:
            del state.crowded[node]
            _open(state, node, condition)


def _open(state: State, node: int, condition: int) -> None:
    state.node_state[node] = condition % STATES
    if state.ledger is not None:
        state.ledger.set_condition(node, condition)
    elif condition == UP:
        state.set_idle(node, True)
    state.nodes_by_kind.clear()
    state.gauges[RELEASED], state.gauges[HEAD] = 1, -1
    state.void_promises()
