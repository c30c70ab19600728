"""Decide on shared nodes: which jobs start at which scale, on which nodes, and how the cache is divided afterwards.

The queue is scanned in order. A job that fits in none of its ways waits; the first *depth* such jobs are promised a
start (core/promises.py), and later jobs may pass if they break no promise. Without promises a job that has waited
past the age limit may not be overtaken (S32, S33). Jobs of one description are tried once per pass, because a pass only
takes room. A placement that weighs jobs against each other first chooses among the jobs at the front.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cohabit.core.bounds import InUse
from cohabit.core.cycles import Turn
from cohabit.core.gating import Gatekeeper
from cohabit.core.guaranteeing import recalled
from cohabit.core.kernels.bundles import CONSERVATIVE, STRICT
from cohabit.core.ledger import Ledger, Parts, Takes, nodes_in, ranges_of
from cohabit.core.promises import Draft, Promises
from cohabit.core.protocols import Choosing, Intent, Mover, Planning, PolicySet, SharedPlacer
from cohabit.core.scan import QueueScan
from cohabit.core.state import State
from cohabit.core.view import View
from cohabit.model.command import Command, SetShares
from cohabit.model.plan import Ask, Move, Placement, Plan, Ranges, Start
from cohabit.model.units import FOREVER

NOT_KNOWN = FOREVER, -1  # room and number of starts
IN_VAIN = 64  # after this many different jobs found no nodes, all the others are compared with the nodes at once


def decide_on_shared_nodes(view: View, policies: PolicySet, placer: SharedPlacer) -> Plan:
    """Start the jobs that fit, in order, as far as they break no promise and overtake no job past the age limit."""
    one = SharedPass(view, policies, placer)
    if isinstance(placer, Planning):
        one.consult(placer)
    one.keep_promises()
    begun = FOREVER if one.follow() else -1
    while len(one.draft.begun) > begun:  # every start makes waiting cheaper for the others, where that is weighed
        begun = len(one.draft.begun) if one.choosing is not None else FOREVER
        one.scan(one.choose(one.unpromised(view.queue(policies.order))))
    plan = one.plan
    if isinstance(placer, Mover) and placer.most_moves:
        ledger = one.draft.ledger()
        moves = placer.moves(ledger, _touched(view, plan), view)
        plan.actions += [move for move in moves if may_move(move, ledger, view)]
    plan.wake_us = min(next_chance(view), FOREVER if one.turn.between else one.promises.next_us())
    one.keeper.close(plan)
    one.turn.close(plan)
    return plan


class SharedPass:
    """One pass over the queue: what is booked and promised so far, and what was found to have no room."""

    def __init__(self, view: View, policies: PolicySet, placer: SharedPlacer) -> None:
        self.view, self.policies, self.placer, self.plan = view, policies, placer, Plan()
        self.draft, self.keeper = Draft(view.ledger), Gatekeeper(view, policies.gates)
        self.promises = Promises(view, self.draft, self.plan)
        self.in_use, self.turn = InUse(view, policies.bounds), Turn(view, policies.backfill.cycle)
        self.promises.turn = self.turn
        self.depth = STRICT if self.turn.between else policies.backfill.depth
        self.choosing = placer if isinstance(placer, Choosing) else None
        # how many nodes had room when so many jobs had begun: an upper bound for the rest of the pass
        self._room: dict[Takes, tuple[int, int]] = {}
        self._not_before: dict[int, int] = {}  # jobs kept back until a promised job is expected to start
        self._holding: dict[Takes, int] = {}  # how many nodes could hold so much if they were empty
        self._intent: Intent | None = None  # of a placement that plans
        self._trials: set[tuple[str, str, int, str]] = set()  # measuring runs of this pass: one of each is enough

    # ---- promises ---------------------------------------------------------------------------------------------------

    def keep_promises(self) -> None:
        """Start the jobs with promises that can start now; look for earlier starts for the others."""
        queued = [row for row in self.promises.kept if self.view.is_queued(row)]
        for row in queued if self.turn.anew else [row for row in queued if self.in_use.why_not(row)]:
            self.promises.withdraw(row)
        if not self.turn.anew and not self.turn.between:
            self.promises.keep(self, CONSERVATIVE if self._is_followed() else self.depth)

    def start_promised(self, row: int, own: Ask) -> bool:
        """Start a promised job now, if it can; as it was to run, if its program's profile has changed meanwhile."""
        kept = self.promises.kept.get(row)
        if self._is_followed() and kept is not None and kept.latest_us > self.view.now_us:
            return False  # the plan says when
        return self.start(row, [*self._asks(row), own])

    def not_before_us(self, row: int) -> int:
        """Return until when a gate, or the expected start of a promised job, keeps this one back; 0: nothing does."""
        return max(self.keeper.next_chance(row), self._not_before.get(row, 0))

    def unpromised(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the rows that have not started, and that were not looked at for their promises."""
        known = {*(() if self.turn.between or self.turn.anew else self.view.promises), *self.draft.begun}
        return rows[~np.isin(rows, list(known))] if known else rows

    def _may_promise(self) -> bool:
        return self.promises.made < self.depth

    def _promise(self, row: int) -> None:
        """Promise a start to a job that cannot start now, if it is among the first that cannot."""
        if self._may_promise() and row not in self.promises.kept and not self.in_use.why_not(row):
            self.promises.make(row, self.promised_asks(row), self.not_before_us(row))

    def _asks(self, row: int) -> list[Ask]:
        """Return the ways to run a job that are worth it now, the preferred one first."""
        if self.choosing is not None:
            return [ask for _, ask in self._priced(row, self.choosing)]
        return self.view.asks(row, self.placer)

    def _priced(self, row: int, placer: Choosing) -> list[tuple[float, Ask]]:
        """Return the ways worth it with their regret, of those that enough nodes could hold if they were empty."""
        return placer.costs(row, self._possible(row), self.view, len(self.draft.begun))

    def _possible(self, row: int) -> list[Ask]:
        """Return the ways to run a job that enough nodes could hold if they were empty."""
        return [ask for ask in self.view.asks(row, self.placer) if self._most(ask.takes) >= ask.nodes]

    def _most(self, takes: Takes) -> int:
        """Return how many nodes could hold this much if they were empty."""
        most = self._holding.get(takes)
        if most is None:
            ledger = self.view.ledger
            used = ledger.up & (ledger.count > 0)
            up = np.bincount(ledger.kind[used], ledger.count[used], len(ledger.capacity)).astype(np.int64)
            holds = [bool(one) and bool((ledger.capacity[kind] >= one).all()) for kind, one in enumerate(takes)]
            most = self._holding[takes] = int(up[holds].sum())
        return most

    def promised_asks(self, row: int) -> list[Ask]:
        """Return the ways to run a job that depend on free nodes only, not on what else runs there."""
        asks = self._asks(row)
        return asks if not getattr(self.placer, "picky", False) else [ask for ask in asks if ask.exclusive]

    # ---- plans ------------------------------------------------------------------------------------------------------

    def consult(self, placer: Planning) -> None:
        """Ask a placement that plans the queue what to do now."""
        self._intent = placer.intent(self.view.queue(self.policies.order).tolist(), self._possible, self.view)
        self.plan.memory[placer.name] = self._intent.memory

    def follow(self) -> bool:
        """Start what the plan wants now, and promise the first blocked jobs a start; return whether a plan decides.

        A plan that starts nothing on an idle machine does not decide: nothing would ever happen.
        """
        if self._intent is None or not self._intent.followed:
            return False
        for row, ask, ranges in self._intent.starts:
            if not self.draft.has(row) and not self._start_on(row, ask, ranges):
                self.start(row, [ask])
        if not self.draft.begun and not self.view.placed:
            return False
        for row in self.unpromised(self.view.queue(self.policies.order)).tolist():
            self._promise(row)
        return True

    def _start_on(self, row: int, ask: Ask, ranges: Ranges) -> bool:
        """Start a job on these nodes, if they are open to it."""
        takes, parts = open_kinds(ask, row, self.view), self.draft.ledger().parts_of(ranges)
        if (
            parts is None
            or self._is_tried(row, ask)
            or self.in_use.why_not(row)
            or not self.promises.open_to(row, takes).ledger.holds(parts, takes)
        ):
            return False
        return self._begin(row, ask, takes, parts)

    def _is_followed(self) -> bool:
        return self._intent is not None and self._intent.followed

    # ---- starts -----------------------------------------------------------------------------------------------------

    def scan(self, rows: NDArray[np.int64]) -> None:
        """Start what fits, in order."""
        scan, in_vain, took_room = QueueScan(self.view, rows, by_limit=self.depth > STRICT), 0, True
        scan.skips_none = self._may_promise()
        for row, hopeless, aged in scan:
            if self.in_use.why_not(row) or not self.turn.may_try(row):
                continue
            starts = (scan.skips_none or not hopeless) and not self._is_full(row) and self.start(row, self._asks(row))
            if not self.turn.tried(row, starts):
                break
            if starts:
                took_room = True
                continue
            if self.turn.between:
                continue
            if scan.skips_none:
                self._promise(row)
                scan.skips_none = self._may_promise()
            if not hopeless and not self.keeper.waits(row):  # the gate may let in another job of the same description
                scan.give_up()
                in_vain += 1
                if in_vain >= IN_VAIN and took_room:
                    scan.give_up_all(self.view.without_room(self.draft.ledger()))
                    in_vain, took_room = 0, False
            if self.depth == STRICT or aged:
                break

    def choose(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Start jobs at the front in the order of least regret: how much more their best way now costs than the best
        one would; return the rows that were not started."""
        placer = self.choosing
        if placer is None or self.depth == STRICT:
            return rows
        waiting, stuck = rows.tolist(), set[int]()
        while True:
            best: tuple[float, int, Ask, Takes, Parts] | None = None
            for row in waiting[: placer.window]:
                if row in stuck or (best is not None and best[0] <= 0.0):
                    continue
                found = self._least_regret(row, placer)
                if found is not None and (best is None or found[0] < best[0]):
                    best = (found[0], row, *found[1:])
                elif found is None and best is None:  # else an earlier job starts first: what it leaves is promised
                    stuck.add(row)
                    self._promise(row)
            if best is None:
                return np.array(waiting, np.int64)
            _, row, ask, takes, parts = best
            if self._begin(row, ask, takes, parts):
                waiting.remove(row)
            else:  # a gate keeps it back
                stuck.add(row)
                self._promise(row)

    def _least_regret(self, row: int, placer: Choosing) -> tuple[float, Ask, Takes, Parts] | None:
        for cost, ask in () if self._is_full(row) else self._priced(row, placer):
            takes = open_kinds(ask, row, self.view)
            parts = self._find(row, ask, takes)
            if parts is not None:
                return cost, ask, takes, parts
        return None

    def start(self, row: int, asks: Sequence[Ask]) -> bool:
        """Start a job in the first of these ways for which there are nodes, unless a gate keeps it back."""
        windows = bool(self.view.kinds.windows)
        for ask in asks:
            takes = open_kinds(ask, row, self.view) if windows else ask.takes
            parts = self._find(row, ask, takes)
            if parts is not None:
                return self._begin(row, ask, takes, parts)
        return False

    def _find(self, row: int, ask: Ask, takes: Takes) -> Parts | None:
        """Find nodes that are open to the job, so that no promise is broken or, as far as known, delayed."""
        if not self._has_room(row, ask, takes) or self._is_tried(row, ask) or self.in_use.why_not(row):
            return None
        ledger = self.promises.open_to(row, takes).ledger
        parts = self.placer.find(row, ask, takes, ledger, self.view)
        if parts is None:
            return None
        for lost, spare, expected_us in self.promises.delays(row, ask, takes):
            if sum(count for index, count in parts if lost[index]) > spare:
                ledger = ledger.open_to(~lost)
                parts = self.placer.find(row, ask, takes, ledger, self.view)
                if parts is None:
                    self._not_before[row] = max(expected_us, self._not_before.get(row, 0))
                    return None
        return parts

    def _is_full(self, row: int) -> bool:
        """Return whether the nodes that are open to the job have room for it in no way."""
        for ask in self.view.asks(row, self.placer):
            if self._room.get(ask.takes, NOT_KNOWN)[0] < ask.nodes:
                continue
            if self._has_room(row, ask, open_kinds(ask, row, self.view)):
                return False
        return True

    def _has_room(self, row: int, ask: Ask, takes: Takes) -> bool:
        """Return whether enough of the nodes that are open to the job have room."""
        room, begun = self._room.get(takes, NOT_KNOWN)
        if room >= ask.nodes and begun < len(self.draft.begun):
            room, _ = self._room[takes] = self.draft.ledger().room(takes), len(self.draft.begun)
        return room >= ask.nodes and self.promises.open_to(row, takes).room >= ask.nodes

    def _is_tried(self, row: int, ask: Ask) -> bool:
        return ask.purpose != "run" and self._trial(row, ask) in self._trials

    def _trial(self, row: int, ask: Ask) -> tuple[str, str, int, str]:
        job = self.view.job(row)
        return job.program, job.profile_owner, ask.scale, ask.purpose

    def _begin(self, row: int, ask: Ask, takes: Takes, parts: Parts) -> bool:
        if not self.keeper.lets(row, ranges_of(self.draft.ledger().lowest(parts))):
            return False
        if ask.purpose != "run":
            self._trials.add(self._trial(row, ask))
        self.plan.actions.append(Start(row, placement_of(ask, takes, self.draft.book(row, parts, takes, ask.run_us))))
        self.promises.drop(row)
        self.in_use.begin(row)
        return True


def may_move(move: Move, ledger: Ledger, view: View) -> bool:
    """Whether the node of a move is promised to no job, and the moved job may run beside all jobs there."""
    target, strangers = ledger.class_of(move.node), view.strangers(move.row)
    beside_strangers = strangers is not None and any(strangers[other] for other in ledger.residents[target])
    return not ledger.promised[target] and not beside_strangers


def placement_of(ask: Ask, takes: Takes, nodes: NDArray[np.int32]) -> Placement:
    """Return how a job runs that asks for this, on these nodes."""
    return Placement(
        ranges_of(nodes),
        ask.scale,
        ask.cores,
        ask.ways,
        ask.bandwidth_mbs,
        ask.exclusive,
        ask.purpose,
        takes,
        ask.run_us,
    )


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
    corrects = policies.guarantor
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
