"""Estimate when a job could start, by requested times and promises: the estimate that domains exchange.

It respects the running jobs, the starts agreed on for other groups, and the head of the queue that waits for nodes;
a job with a mate at the top of another domain's queue may pass the others. A reservation keeps nothing idle: until its
time comes, any job that ends by then may use the nodes. On shared nodes it is a promise (core/promises.py) that stays
as it was agreed on.

An early start, when nodes have become free on one side, takes only what a pass has left: it goes before no other job.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from cohabit.core.decide import pass_on_shared_nodes
from cohabit.core.protocols import Order, PolicySet
from cohabit.core.state import State
from cohabit.core.timeline import planned
from cohabit.core.view import View
from cohabit.model.plan import Promise


class Slot(NamedTuple):
    """A start that could be agreed on: from when, with how many nodes of each kind, or as promised on shared nodes."""

    start_us: int
    kinds: tuple[int, ...] = ()
    promise: Promise | None = None


def earliest(state: State, policies: PolicySet, now_us: int, row: int, not_before_us: int) -> Slot | None:
    """Return the first start from `not_before_us` on with nodes for the whole job; None: it can never start."""
    if state.ledger is None:
        return _on_whole_nodes(state, policies.order, now_us, row, not_before_us)
    one = pass_on_shared_nodes(View(state, now_us), policies)
    promise = one.promises.earliest(row, one.promised_asks(row), not_before_us)
    return None if promise is None else Slot(promise.latest_us, promise=promise)


def _on_whole_nodes(state: State, order: Order, now_us: int, row: int, not_before_us: int) -> Slot | None:
    view = View(state, now_us)
    timeline = view.timeline(without=row)
    queue = [other for other in view.queue(order).tolist() if other != row]
    head = next((other for other in queue if view.need(other) > timeline.idle.sum()), None)
    if head is not None:
        length_us = planned(view.limit_us(head))
        start_us, counts = timeline.earliest(view.need(head), view.usable(head), length_us)
        if counts is not None:
            timeline.add(start_us, start_us + length_us, -counts)
    length_us = planned(view.limit_us(row))
    start_us, found = timeline.earliest(view.need(row), view.usable(row), length_us, not_before_us)
    return None if found is None else Slot(start_us, tuple(int(count) for count in np.asarray(found)))
