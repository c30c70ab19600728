"""Decide for groups of jobs that start together on the same empty nodes: pairs, and jobs that are better off alone.

The placement policy makes the groups from the queue (`GroupPlacer.groups`); this module finds nodes for them, in order.
Members of a group start in the same instant on the same nodes; a group of one has its nodes to itself. A group that
finds no nodes may be split by a policy that knows which running jobs its members could join.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

import numpy as np

from cohabit.core.gating import Gatekeeper
from cohabit.core.kernels.bundles import STRICT
from cohabit.core.ledger import Parts, Takes, nodes_in, ranges_of
from cohabit.core.promises import Draft, Promises
from cohabit.core.protocols import GroupPlacer, PolicySet
from cohabit.core.sharing import next_chance, open_kinds, placement_of
from cohabit.core.view import View
from cohabit.model.plan import Ask, Plan, Start


def decide_in_groups(view: View, policies: PolicySet, placer: GroupPlacer) -> Plan:
    """Start the groups for which there are nodes, in order, if they break no promise and overtake no job past the age
    limit; promise the first *depth* groups that find none their nodes."""
    queue = view.queue(policies.order).tolist()
    groups, memory = placer.groups(queue, view) if queue else ([], {})
    one, depth = GroupPass(view, policies, placer), policies.backfill.depth
    one.plan.memory = memory
    fitting = list(_that_fit(groups, queue, view, placer))
    kept = one.keep_promises({row: group for group in fitting for row in group})
    for group in fitting:
        if kept.isdisjoint(group) and not one.start(group):
            if depth == STRICT or view.aged(np.array(group)).any():
                break
            if one.promises.made < depth:
                one.promise(group)
    one.plan.wake_us = min(next_chance(view), one.promises.next_us())
    one.keeper.close(one.plan)
    return one.plan


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


class GroupPass:
    """One pass over the groups: what is booked and promised so far."""

    def __init__(self, view: View, policies: PolicySet, placer: GroupPlacer) -> None:
        self.view, self.placer, self.plan = view, placer, Plan()
        self.draft, self.keeper = Draft(view.ledger), Gatekeeper(view, policies.gates)
        self._group_of: Mapping[int, tuple[int, ...]] = {}
        self.promises, self.depth = Promises(view, self.draft, self.plan), policies.backfill.depth

    def keep_promises(self, group_of: Mapping[int, tuple[int, ...]]) -> set[int]:
        """Start the groups of promised jobs that can start now, or these jobs alone; look for earlier starts for the
        others. Return the rows that were looked at."""
        looked_at = {other for row in self.promises.kept for other in group_of.get(row, (row,))}

        self._group_of = group_of
        self.promises.keep(self, self.depth)
        return looked_at

    def promise(self, group: tuple[int, ...]) -> None:
        """Promise nodes to a group; if its first member could have them at once without the others, it starts alone."""
        row = group[0]
        self.promises.make(row, self.promised_asks(row), self.not_before_us(row))
        if row in self.promises.kept and self.promises.kept[row].latest_us <= self.view.now_us:
            self.start((row,))

    def start_promised(self, row: int, own: Ask) -> bool:
        """Start the group of a promised job now, or the job alone."""
        return self.start(self._group_of.get(row, (row,))) or self.start((row,))

    def promised_asks(self, row: int) -> list[Ask]:
        """Return what the promise to a group rests on: empty nodes for its first member."""
        return [self.whole_ask((row,))]

    def not_before_us(self, row: int) -> int:
        """Return until when a gate keeps a job back; 0: none does."""
        return self.keeper.next_chance(row)

    def whole_ask(self, group: tuple[int, ...]) -> Ask:
        """Return what a group takes until it has started: all of its nodes."""
        return self.view.asks(group[0], self.placer)[-1]

    def start(self, group: tuple[int, ...]) -> bool:
        """Start the group on empty nodes, or its members beside running jobs; return whether any member starts."""
        starts = [] if any(self.draft.has(row) for row in group) else (self._place(group) or self._join(group))
        self.plan.actions += starts
        for start in starts:
            self.promises.drop(start.row)
        return bool(starts)

    def _place(self, group: tuple[int, ...]) -> list[Start]:
        """Start the group on empty nodes; return nothing if there are not enough, or if a gate keeps a member back."""
        view, placer = self.view, self.placer
        asks = [view.asks(row, placer)[-1 if len(group) == 1 else 0] for row in group]
        takes = [open_kinds(ask, row, view) for ask, row in zip(asks, group, strict=True)]
        whole = _nodes_for(takes, view.asks(group[0], placer)[-1].takes)
        ledger = self.draft.ledger()
        for row in group:
            ledger = ledger.open_to(self.promises.open_to(row, whole).ledger.up)
        parts = placer.find(group[0], asks[0], whole, ledger, view)
        if parts is None or not self._all_let_in(group, parts):
            return []
        starts: list[Start] = []
        for row, ask, own in zip(group, asks, takes, strict=True):
            if starts:
                classes = Counter(self.draft.ledger().class_at[nodes_in(starts[0].placement.ranges)].tolist())
                parts = tuple(sorted(classes.items()))
            starts.append(self._start(row, ask, own, parts))
        return starts

    def _all_let_in(self, rows: tuple[int, ...], parts: Parts) -> bool:
        ranges = ranges_of(self.draft.ledger().lowest(parts))
        return all(self.keeper.lets(row, ranges) for row in rows)

    def _join(self, group: tuple[int, ...]) -> list[Start]:
        """Start the members that can join a running job on its nodes; the policy chooses the running job."""
        starts: list[Start] = []
        for row in group:
            ask = self.view.asks(row, self.placer)[0]
            takes = open_kinds(ask, row, self.view)
            parts = self.placer.join(row, ask, takes, self.promises.open_to(row, takes).ledger, self.view)
            if parts is not None and self._all_let_in((row,), parts):
                starts.append(self._start(row, ask, takes, parts))
        return starts

    def _start(self, row: int, ask: Ask, takes: Takes, parts: Parts) -> Start:
        return Start(row, placement_of(ask, takes, self.draft.book(row, parts, takes, ask.run_us)))


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
