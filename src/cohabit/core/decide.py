"""The decision in readable form: which jobs start now, which are promised a start, and why the others wait.

This loop serves every machine and placement. Where all nodes are interchangeable and given out whole, core/core.py
calls its compiled twin (kernels/schedule.py) instead; property tests check that the two are equal on random traces.
"""

from __future__ import annotations

from typing import cast

import numpy as np
from numpy.typing import NDArray

from cohabit.core.bounds import InUse
from cohabit.core.columns import RELEASED, VOID
from cohabit.core.cycles import Turn
from cohabit.core.gating import Gatekeeper
from cohabit.core.kernels.bundles import CONSERVATIVE, STRICT
from cohabit.core.protocols import GroupPlacer, Placer, PolicySet, SharedPlacer
from cohabit.core.scan import QueueScan
from cohabit.core.sharing import SharedPass, decide_on_shared_nodes
from cohabit.core.timeline import Timeline, planned
from cohabit.core.together import GroupPass, decide_in_groups
from cohabit.core.view import View
from cohabit.model.plan import Plan, Reserve, Start
from cohabit.model.units import FOREVER, SECOND

PROMISES = "promises"  # policy memory of conservative backfilling: job id -> (start, nodes of each kind)


def decide(view: View, policies: PolicySet) -> Plan:
    """Scan the queue in order: start what fits, promise a start to the first `depth` that do not, skip others."""
    if not policies.placer.exclusive:
        if isinstance(policies.placer, GroupPlacer):
            return decide_in_groups(view, policies, policies.placer)
        assert isinstance(policies.placer, SharedPlacer)
        return decide_on_shared_nodes(view, policies, policies.placer)
    depth, plan, timeline, idle = policies.backfill.depth, Plan(), view.timeline(), view.idle_nodes()
    queue = view.queue(policies.order)
    if depth == CONSERVATIVE:
        return _decide_with_kept_promises(view, policies, queue.tolist(), timeline, idle, plan)
    keeper, reserved, scan = Gatekeeper(view, policies.gates), 0, QueueScan(view, queue, by_limit=True)
    in_use, turn = InUse(view, policies.bounds), Turn(view, policies.backfill.cycle)
    scan.skips_none, scan.room, coming = True, int(timeline.idle.sum()), iter(scan)
    while (found := next(coming, None)) is not None:
        row, hopeless, aged = found
        if in_use.why_not(row) or not turn.may_try(row):
            continue
        starts = not hopeless and _start(row, view, policies, keeper, timeline, idle, plan)
        goes_on = turn.tried(row, starts)
        if starts:
            in_use.begin(row)
            scan.room = int(timeline.idle.sum())
        elif depth == STRICT or aged:
            break
        if not goes_on:
            break
        if starts or turn.between:
            continue
        if not keeper.waits(row):
            scan.give_up()
        if reserved < depth:
            length_us, chance_us = planned(view.limit_us(row)), keeper.next_chance(row)
            start_us, counts = timeline.earliest(view.need(row), view.usable(row), length_us, chance_us)
            if counts is not None and turn.promises(start_us := turn.rounded(start_us)):
                timeline.add(start_us, start_us + length_us, -counts)
                plan.actions.append(Reserve(row, start_us, tuple(map(int, counts))))
        reserved += 1
        if reserved == max(depth, 1):
            scan.skips_none = False  # nothing is promised to the jobs behind
            if policies.backfill_order is not None:
                rest = QueueScan(view, view.ranked(scan.rest(), policies.backfill_order), by_limit=True)
                rest.room, scan, coming = scan.room, rest, iter(rest)
    plan.wake_us = _next_wake(view, plan)
    keeper.close(plan)
    turn.close(plan)
    return plan


def pass_on_shared_nodes(view: View, policies: PolicySet) -> SharedPass | GroupPass:
    """Return a pass over shared nodes in which nothing has been decided yet."""
    if isinstance(policies.placer, GroupPlacer):
        return GroupPass(view, policies, policies.placer)
    assert isinstance(policies.placer, SharedPlacer)
    return SharedPass(view, policies, policies.placer)


def place_one(view: View, policies: PolicySet, row: int) -> Plan | None:
    """Start this job now on nodes that were reserved for it; None if there are none, or a gate keeps it back."""
    if not policies.placer.exclusive:
        one = pass_on_shared_nodes(view, policies)
        own = [view.promises[row].ask] if row in view.promises else one.promised_asks(row)[:1]
        started = any(one.start_promised(row, ask) for ask in own)
        one.keeper.close(one.plan)
        return one.plan if started else None
    keeper, plan = Gatekeeper(view, policies.gates), Plan()
    placed = _start(row, view, policies, keeper, view.timeline(without=row), view.idle_nodes(), plan)
    keeper.close(plan)
    return plan if placed else None


def _start(
    row: int,
    view: View,
    policies: PolicySet,
    keeper: Gatekeeper,
    timeline: Timeline,
    idle: NDArray[np.bool_],
    plan: Plan,
) -> bool:
    """Start the job now if it takes nothing that is promised to another, and no gate keeps it back."""
    placer = cast(Placer, policies.placer)
    if view.need(row) > timeline.idle.sum():
        return False
    allowed = policies.backfill.allowed(view.limit_us(row), timeline)
    calm = keeper.calmer(row, idle)
    placement = None if calm is None else placer.place(row, allowed, calm, view)
    placement = placement or placer.place(row, allowed, idle, view)
    if placement is None or not keeper.lets(row, placement.ranges):
        return False
    counts = np.zeros(view.kinds.count, np.int64)
    for first, count in placement.ranges:
        idle[first : first + count] = False
        counts += np.bincount(view.kinds.of_node[first : first + count], minlength=len(counts))
    timeline.idle -= counts
    timeline.add(view.now_us, view.now_us + view.limit_us(row), -counts)
    plan.actions.append(Start(row, placement))
    return True


def _decide_with_kept_promises(
    view: View, policies: PolicySet, queue: list[int], timeline: Timeline, idle: NDArray[np.bool_], plan: Plan
) -> Plan:
    """Conservative backfilling: after a release, a job starts at once if this breaks no promise to another job."""
    promises, gauges, keeper = dict(view.memory.get(PROMISES, {})), view.gauges, Gatekeeper(view, policies.gates)
    if gauges[VOID]:
        promises.clear()
    lengths = {row: planned(view.limit_us(row)) for row in queue}
    for row in queue:
        if view.job_id(row) in promises:
            start_us, counts = promises[view.job_id(row)]
            timeline.add(start_us, start_us + lengths[row], -np.array(counts))
    for row in queue:
        start_us, counts = promises.get(view.job_id(row), (FOREVER, None))
        if counts is None:
            start_us, found = timeline.earliest(view.need(row), view.usable(row), lengths[row])
            if found is None:
                continue  # the nodes that are up are not enough; it is tried again when they change
            counts = _promise(row, start_us, found, lengths[row], timeline, plan)
        elif gauges[RELEASED] and start_us > view.now_us and view.need(row) <= timeline.idle.sum():
            timeline.add(start_us, start_us + lengths[row], np.array(counts))
            free = timeline.free_throughout(view.now_us, lengths[row]) * view.usable(row)
            found = view.kinds.choose(free, view.need(row))
            if found is None:
                timeline.add(start_us, start_us + lengths[row], -np.array(counts))
            else:
                start_us = view.now_us
                counts = _promise(row, start_us, found, lengths[row], timeline, plan)
        if start_us <= view.now_us:
            timeline.add(start_us, start_us + lengths[row], np.array(counts))
            if not _start(row, view, policies, keeper, timeline, idle, plan):
                chance_us = keeper.next_chance(row)
                if chance_us > view.now_us:  # a gate keeps it back: promise it its next chance
                    start_us, found = timeline.earliest(view.need(row), view.usable(row), lengths[row], chance_us)
                    if found is not None:
                        _promise(row, start_us, found, lengths[row], timeline, plan)
                else:
                    timeline.add(start_us, start_us + lengths[row], -np.array(counts))
                    plan.late |= start_us < view.now_us and view.need(row) <= timeline.idle[view.usable(row)].sum()
    plan.wake_us = _next_wake(view, plan, promises)
    keeper.close(plan)
    return plan


def _promise(
    row: int, start_us: int, counts: NDArray[np.int64], length_us: int, timeline: Timeline, plan: Plan
) -> tuple[int, ...]:
    timeline.add(start_us, start_us + length_us, -counts)
    plan.actions.append(Reserve(row, start_us, tuple(map(int, counts))))
    return tuple(map(int, counts))


def _next_wake(view: View, plan: Plan, promises: dict[str, tuple[int, tuple[int, ...]]] | None = None) -> int:
    """Return the next instant at which a job may start without a new event: a promise or the end of a window."""
    started = {action.row for action in plan.actions if isinstance(action, Start)}
    latest = (
        {row: promises[view.job_id(row)][0] for row in map(int, view.queued()) if view.job_id(row) in promises}
        if promises
        else {}
    )
    latest |= {action.row: action.start_us for action in plan.actions if isinstance(action, Reserve)}
    kept = (
        []
        if promises is None
        else [start for row, start in latest.items() if row not in {*started, *view.refused_until}]
    )
    # A promise due now may be blocked by a job of request 0: if that job runs on, it is expected to end in one second.
    instants = [start if start > view.now_us else view.now_us + SECOND for start in kept]
    instants += [window.end_us for window in view.kinds.windows]
    instants += [until for row, until in view.refused_until.items() if row not in started]
    return min((instant for instant in instants if instant > view.now_us), default=FOREVER)
