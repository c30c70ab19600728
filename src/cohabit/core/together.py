"""Decide for groups of jobs that start together on the same empty nodes: pairs, and jobs that are better off alone.

The placement policy makes the groups from the queue (`GroupPlacer.groups`); this module finds nodes for them, in order.
Members of a group start in the same instant on the same nodes; a group of one has its nodes to itself. A group that
finds no nodes may be split by a policy that knows which running jobs its members could join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from heapq import heappop, heappush

import numpy as np

from cohabit.core.gating import Gatekeeper
from cohabit.core.kernels.bundles import STRICT
from cohabit.core.ledger import Parts, Takes, nodes_in, ranges_of
from cohabit.core.protocols import GroupPlacer, PolicySet
from cohabit.core.sharing import Draft, next_chance, open_kinds
from cohabit.core.view import View
from cohabit.model.plan import Ask, Placement, Plan, Start


def decide_in_groups(view: View, policies: PolicySet, placer: GroupPlacer) -> Plan:
    """Start the groups for which there are nodes, in order; no job overtakes one past the age limit."""
    plan, draft = Plan(), Draft(view.ledger)
    queue = view.queue(policies.order).tolist()
    groups, plan.memory = placer.groups(queue, view) if queue else ([], {})
    strict, keeper = policies.backfill.depth == STRICT, Gatekeeper(view, policies.gates)
    for group in _that_fit(groups, queue, view, placer):
        starts = _place(group, view, placer, keeper, draft) or _join(group, view, placer, keeper, draft)
        plan.actions += starts
        if not starts and (strict or view.aged(np.array(group)).any()):
            break
    plan.wake_us = next_chance(view)
    keeper.close(plan)
    return plan


def _that_fit(
    groups: list[tuple[int, ...]], queue: list[int], view: View, placer: GroupPlacer
) -> Iterator[tuple[int, ...]]:
    """Yield the groups; split those that no node could ever hold: the policy does not look at cores and memory.

    Each member of a split group keeps its own place in the queue, so the partner of an earlier job delays no other job.
    """
    place: dict[int, int] = {}
    apart: list[tuple[int, int]] = []  # members of split groups still to be yielded: place, row
    for group in groups:
        while apart and apart[0][0] < min(place[row] for row in group):
            yield (heappop(apart)[1],)
        takes = [view.asks(row, placer)[0].takes for row in group]
        if len(group) == 1 or any(_nodes_for(takes, view.asks(group[0], placer)[-1].takes)):
            yield group
            continue
        place = place or {row: number for number, row in enumerate(queue)}
        first, *others = sorted(group, key=place.__getitem__)
        yield (first,)
        for row in others:
            heappush(apart, (place[row], row))
    while apart:
        yield (heappop(apart)[1],)


def _place(
    group: tuple[int, ...], view: View, placer: GroupPlacer, keeper: Gatekeeper, draft: Draft
) -> list[Start]:  # fmt: skip
    """Start the group on empty nodes; return nothing if there are not enough, or if a gate keeps a member back."""
    asks = [view.asks(row, placer)[-1 if len(group) == 1 else 0] for row in group]
    takes = [open_kinds(ask, row, view) for ask, row in zip(asks, group, strict=True)]
    whole = _nodes_for(takes, view.asks(group[0], placer)[-1].takes)
    parts = placer.find(group[0], asks[0], whole, draft.ledger(), view)
    if parts is None or not _all_let_in(group, parts, keeper, draft):
        return []
    starts: list[Start] = []
    for row, ask, own in zip(group, asks, takes, strict=True):
        if starts:
            classes = Counter(draft.ledger().class_at[nodes_in(starts[0].placement.ranges)].tolist())
            parts = tuple(sorted(classes.items()))
        starts.append(_start(row, ask, own, parts, draft))
    return starts


def _all_let_in(rows: tuple[int, ...], parts: Parts, keeper: Gatekeeper, draft: Draft) -> bool:
    ranges = ranges_of(draft.ledger().lowest(parts))
    return all(keeper.lets(row, ranges) for row in rows)


def _join(
    group: tuple[int, ...], view: View, placer: GroupPlacer, keeper: Gatekeeper, draft: Draft
) -> list[Start]:  # fmt: skip
    """Start the members that can join a running job on its nodes; the policy chooses the running job."""
    starts: list[Start] = []
    for row in group:
        ask = view.asks(row, placer)[0]
        takes = open_kinds(ask, row, view)
        parts = placer.join(row, ask, takes, draft.ledger(), view)
        if parts is not None and _all_let_in((row,), parts, keeper, draft):
            starts.append(_start(row, ask, takes, parts, draft))
    return starts


def _nodes_for(takes: list[Takes], whole: Takes) -> Takes:
    """Return all that a node has, for each kind of node that can hold all members at once."""
    return tuple(
        all_of_it if all(one[kind] for one in takes) and _hold(takes, kind, all_of_it) else ()
        for kind, all_of_it in enumerate(whole)
    )


def _hold(takes: list[Takes], kind: int, whole: tuple[int, ...]) -> bool:
    """Whether an empty node of this kind can hold all members; a kind that the job may not use alone holds none."""
    return bool(whole) and all(
        sum(column) <= most for *column, most in zip(*(one[kind] for one in takes), whole, strict=True)
    )


def _start(row: int, ask: Ask, takes: Takes, parts: Parts, draft: Draft) -> Start:
    nodes = draft.book(row, parts, takes)
    return Start(row, Placement(
        ranges_of(nodes), ask.scale, ask.cores, ask.ways, ask.bandwidth_mbs, ask.exclusive, ask.purpose, parts, takes
    ))  # fmt: skip
