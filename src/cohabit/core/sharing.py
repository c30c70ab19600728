"""Decide on shared nodes: which jobs start at which scale, on which nodes, and how the cache is divided afterwards.

The queue is walked in order; a job that fits at none of its scales waits and the next one is tried, until one that has
waited past the age limit does not fit (S32, S33). There are no reservations: a promise about ways and bandwidth
would have to guess scales far ahead. Jobs of one description are tried once per pass, because a pass only takes room.
"""

from __future__ import annotations

import numpy as np

from cohabit.core.gating import Gatekeeper
from cohabit.core.guaranteeing import recalled
from cohabit.core.kernels.bundles import STRICT
from cohabit.core.ledger import Ledger, Nodes, Parts, Takes, nodes_in, ranges_of
from cohabit.core.protocols import Guarantor, Mover, PolicySet, SharedPlacer
from cohabit.core.state import State
from cohabit.core.view import View
from cohabit.core.walk import Walk
from cohabit.model.command import Command, SetShares
from cohabit.model.plan import Ask, Placement, Plan, Start
from cohabit.model.units import FOREVER

IN_VAIN = 64  # after this many different jobs found no nodes, all the others are compared with the nodes at once


def decide_on_shared_nodes(view: View, policies: PolicySet, placer: SharedPlacer) -> Plan:
    """Start the jobs that fit, in order; no job overtakes one that has waited past the age limit."""
    plan, draft, walk = Plan(), Draft(view.ledger), Walk(view, view.queue(policies.order))
    strict = policies.backfill.depth == STRICT
    room: dict[Takes, int] = {}  # the most nodes that have room: an upper bound for the rest of the pass
    trials: set[tuple[str, str, int, str]] = set()  # measuring runs of this pass: one of each is enough
    keeper, in_vain, took_room = Gatekeeper(view, policies.gates), 0, True
    for row, hopeless, aged in walk:
        if not hopeless:
            start = _place(row, view, placer, keeper, draft, room, trials)
            if start is not None:
                plan.actions.append(start)
                took_room = True
                continue
            if not keeper.waits(row):  # the gate may let in another job of the same description
                walk.give_up()
                in_vain += 1
                if in_vain >= IN_VAIN and took_room:
                    walk.give_up_all(view.without_room(draft.ledger()))
                    in_vain, took_room = 0, False
        if strict or aged:
            break
    if isinstance(placer, Mover) and placer.most_moves:
        plan.actions += placer.moves(draft.ledger(), _touched(view, plan), view)
    plan.wake_us = next_chance(view)
    keeper.close(plan)
    return plan


def next_chance(view: View) -> int:
    """Return the next instant at which a job may start without a new event."""
    waits = [until for until in view.refused_until.values() if until > view.now_us]
    waits += [window.end_us for window in view.kinds.windows if window.end_us > view.now_us]
    return min(waits, default=FOREVER)


def _touched(view: View, plan: Plan) -> set[int]:
    """Return the nodes whose residents have changed since the last decision, or change with this one."""
    touched = {node for came in view.ledger.touched.values() for nodes in came for node in nodes.tolist()}
    for action in plan.actions:
        if isinstance(action, Start):
            touched.update(nodes_in(action.placement.ranges).tolist())
    return touched


class Draft:
    """The ledger with the starts of this pass; it is copied when it is first read after a start."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger, self._copied = ledger, False
        self._last: tuple[int, Parts, Takes] | None = None

    def ledger(self) -> Ledger:
        """Return the ledger with everything booked so far; it must not be changed."""
        if self._last is not None:
            if not self._copied:
                self._ledger, self._copied = self._ledger.draft(), True
            self._ledger.book(*self._last)
            self._last = None
        return self._ledger

    def book(self, row: int, parts: Parts, takes: Takes) -> Nodes:
        """Book these nodes for the job."""
        nodes = self.ledger().lowest(parts)
        self._last = (row, parts, takes)
        return nodes


def _place(
    row: int,
    view: View,
    placer: SharedPlacer,
    keeper: Gatekeeper,
    draft: Draft,
    room: dict[Takes, int],
    trials: set[tuple[str, str, int, str]],
) -> Start | None:
    """Return a start for the first way to run the job for which there are nodes, unless a gate keeps it back."""
    windows = bool(view.kinds.windows)
    for ask in view.asks(row, placer):
        takes = open_kinds(ask, row, view) if windows else ask.takes
        if room.get(takes, ask.nodes) < ask.nodes:
            continue
        job = view.job(row)
        if ask.purpose != "run" and (job.program, job.profile_owner, ask.scale, ask.purpose) in trials:
            continue
        room[takes] = draft.ledger().room(takes)
        parts = placer.find(row, ask, takes, draft.ledger(), view) if room[takes] >= ask.nodes else None
        if parts is None:
            continue
        if not keeper.lets(row, ranges_of(draft.ledger().lowest(parts))):
            return None
        if ask.purpose != "run":
            trials.add((job.program, job.profile_owner, ask.scale, ask.purpose))
        placement = Placement(
            ranges_of(draft.book(row, parts, takes)), ask.scale, ask.cores, ask.ways, ask.bandwidth_mbs, ask.exclusive,
            ask.purpose, parts, takes,
        )  # fmt: skip
        return Start(row, placement)
    return None


def open_kinds(ask: Ask, row: int, view: View) -> Takes:
    """Return what the job takes, without the kinds of nodes that a maintenance window closes before its limit."""
    if not view.kinds.windows:
        return ask.takes
    until = view.now_us + max(view.limit_us(row), 1)
    return tuple(
        () if any(w.begin_us < until and view.now_us < w.end_us for w in windows) else takes
        for takes, windows in zip(ask.takes, view.kinds.windows_of, strict=True)
    )


def shares_that_changed(state: State, policies: PolicySet, view: View, reason: str = "") -> list[Command]:
    """Return the division of the cache on nodes whose residents changed, where the site divides it.

    A policy that corrects divisions by measurements may ask for other nodes, too; `reason` is its reason.
    """
    ledger = state.ledger
    assert ledger is not None
    touched, ledger.touched = ledger.touched, {}
    if policies.partitioner is None:
        return []
    commands: list[Command] = []
    corrects = policies.partitioner if isinstance(policies.partitioner, Guarantor) else None
    memory = {} if corrects is None else recalled(state, corrects)
    for index in sorted(touched, key=lambda one: int(ledger.first[one])):
        rows, kind = ledger.residents[index], int(ledger.kind[index])
        came = touched[index][0] if len(touched[index]) == 1 else np.unique(np.concatenate(touched[index]))
        nodes = came[np.isin(came, ledger.nodes_in_class(index), assume_unique=True)]  # some may have left again
        if not rows or not state.kinds.groups[kind].ways or not len(nodes):
            continue
        node = state.kinds.groups[kind]
        caps: tuple[tuple[str, int], ...] = ()
        shares = policies.partitioner.split([view.tenant(row, kind) for row in rows], node)
        if corrects is not None:
            shares, caps = corrects.correct(rows, shares, node, view, memory)
        named = tuple((state.spec(row).job_id, *share) for row, share in zip(rows, shares, strict=True))
        commands.append(SetShares(ranges_of(nodes), named, caps, reason))
    return commands
