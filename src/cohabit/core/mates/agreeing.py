"""Estimate when a job could start, by requested times and promises: the estimate that domains exchange.

It respects the running jobs, the starts agreed on for other groups, and the head of the queue that waits for nodes;
a job with a mate at the top of another domain's queue may pass the others. A reservation keeps nothing idle: until its
time comes, any job that ends by then may use the nodes. On shared nodes it is a promise (core/promises.py) that stays
as it was agreed on.

An early start, when nodes have become free on one side, takes only what a pass has left: it goes before no other job.
"""

from __future__ import annotations

import numpy as np

from cohabit.core.decide import pass_on_shared_nodes
from cohabit.core.protocols import Order, PolicySet
from cohabit.core.state import State
from cohabit.core.timeline import planned
from cohabit.core.view import View
from cohabit.model.plan import Promise
from cohabit.model.units import FOREVER


def earliest_on_shared_nodes(
    state: State, policies: PolicySet, now_us: int, row: int, not_before_us: int
) -> Promise | None:
    """Return the first start from `not_before_us` on, on shared nodes, that breaks no promise."""
    one = pass_on_shared_nodes(View(state, now_us), policies)
    return one.promises.earliest(row, one.promised_asks(row), max(not_before_us, now_us))


def earliest_start(
    state: State, order: Order, now_us: int, row: int, not_before_us: int
) -> tuple[int, tuple[int, ...]]:
    """Return the first instant from `not_before_us` on with nodes for the whole job, and how many of each kind."""
    view = View(state, now_us)
    timeline = view.timeline(without=row)
    queue = [other for other in view.queue(order).tolist() if other != row]
    head = next((other for other in queue if view.need(other) > timeline.idle.sum()), None)
    if head is not None:
        length_us = planned(view.limit_us(head))
        start_us, counts = timeline.earliest(view.need(head), view.usable(head), length_us)
        if counts is not None:
            timeline.add(start_us, start_us + length_us, -counts)
    start_us, found = timeline.earliest(
        view.need(row), view.usable(row), planned(view.limit_us(row)), max(not_before_us, now_us)
    )
    return (FOREVER, ()) if found is None else (start_us, tuple(int(count) for count in np.asarray(found)))
