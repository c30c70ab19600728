"""Explain why a job waits, in words and numbers, from the state alone."""

from __future__ import annotations

from cohabit.core.bounds import InUse
from cohabit.core.columns import EXPECTED
from cohabit.core.cycles import next_cycle_us
from cohabit.core.explain_promises import promised_on_whole, starts_promised
from cohabit.core.explain_sharing import held_for, why_not_shared
from cohabit.core.explain_windows import open_nodes, why_closed
from cohabit.core.gating import why_kept_back
from cohabit.core.guaranteeing import story_of
from cohabit.core.kernels.bundles import CONSERVATIVE, STRICT
from cohabit.core.mates.explain import why_not_together
from cohabit.core.protocols import PolicySet, SharedPlacer
from cohabit.core.short_reasons import array_is_full, before_the_queue
from cohabit.core.state import State
from cohabit.core.timeline import planned
from cohabit.core.view import View
from cohabit.model.units import FOREVER, counted, span


def why_waiting(state: State, policies: PolicySet, job_id: str, now_us: int, names_all: bool = False) -> str:
    """Return one sentence for a job that is here but has not started; empty if it is not waiting.

    For a running job it says what was last done to keep its speed, or at its cost, if anything was. Jobs of other users
    are not named unless `names_all`.
    """
    row = state.rows.get(job_id)
    if row is None:
        return ""
    view = View(state, now_us, names_all)
    if before := before_the_queue(state, row, now_us):
        return before
    if together := why_not_together(state, row, now_us):
        return together
    if view.is_running(row):
        told = story_of(state, policies, job_id)
        return told[-1][1] if told else ""
    if not view.is_queued(row):
        return array_is_full(state, row)
    if kept_back := why_kept_back(view, policies.gates, row):
        return kept_back
    if over := InUse(view, policies.bounds).why_not(row):
        return over
    queue = view.queue(policies.order).tolist()
    if isinstance(policies.placer, SharedPlacer):
        found = why_not_shared(view, policies, policies.placer, row, queue)
    else:
        found = _why_not_whole(view, policies, row, queue)
    due_us = next_cycle_us(view, policies.backfill.cycle)
    cycle = f"jobs may pass others again in {span(due_us - now_us)}, in the next cycle of backfilling" if due_us else ""
    return "; ".join(filter(None, (found, why_closed(view, row), cycle)))


def _why_not_whole(view: View, policies: PolicySet, row: int, queue: list[int]) -> str:
    """Return what a job lacks that asks for whole nodes, or which job ahead keeps it back."""
    now_us, place, starts = view.now_us, queue.index(row), starts_promised(view, policies, queue)
    need, usable = view.need(row), view.usable(row)
    idle = int(view.idle_by_kind()[usable].sum())
    first = next(iter(starts), row)  # the job that is promised the next start
    ahead = f"{counted(place, 'job')} ahead of it"
    if first in queue[:place]:
        ahead += f", one of them {promised_on_whole(view, first, starts)}"
    promised = promised_on_whole(view, row, starts)
    if need > idle:
        text = f"needs {counted(need, 'node')}, {idle} idle ({_in_use(view, row)})"
        text = "; ".join(filter(None, (text, ahead if place else "", promised)))
        freed, when = _when_enough(view, row, idle)
        if when < FOREVER and not promised:
            are = "is" if freed == 1 else "are"
            text += f"; by requested times {counted(freed, 'node')} {are} free in {span(when - now_us)}"
        return text
    if place == 0 or open_nodes(view, row) < need:
        text = f"needs {counted(need, 'node')}, {idle} idle, but not for its whole requested time"
        return "; ".join(filter(None, (text, ahead if place else "", promised)))
    if policies.backfill.depth == STRICT:
        return f"it fits ({need} of {idle} idle nodes), but {ahead}, and nothing may overtake"
    head = first if first in queue[:place] else queue[0]
    return _kept_back(view, policies, row, head, head in starts, idle, place)


def _in_use(view: View, row: int) -> str:
    """Return how many jobs run, and which nodes are only held."""
    running = view.running().tolist()
    holding = [other for other in running if view.is_holding(other)]
    text = f"{counted(len(running) - len(holding), 'job')} running"
    if holding:
        nodes = sum(view.need(other) for other in holding)
        text += f", {counted(nodes, 'node')} {held_for(view, row, holding)}"
    return text


def _kept_back(view: View, policies: PolicySet, row: int, head: int, promised: bool, idle: int, place: int) -> str:
    now_us, limit_us, need = view.now_us, view.limit_us(row), view.need(row)
    timeline = view.timeline()
    shadow_us, counts = timeline.earliest(view.need(head), view.usable(head), planned(view.limit_us(head)))
    whose = (
        "the promises made to the jobs ahead"
        if policies.backfill.depth == CONSERVATIVE
        else "the first job in the queue"
    )
    if counts is None:
        return f"it fits ({need} of {idle} idle nodes), but {counted(place, 'job')} ahead of it"
    when = span(shadow_us - now_us)
    starts = f"is promised a start within {when}" if promised else f"starts in {when} by requested times"
    at_shadow = timeline.free_throughout(shadow_us, 1)
    extra = int(at_shadow.sum() - counts.sum())
    return (
        f"it fits now ({need} of {idle} idle nodes) but would delay {whose}: the first needs {view.need(head)} nodes "
        f"and {starts}, leaving {extra} over; this job asks for "
        f"{span(limit_us)} on {need}"
    )


def _when_enough(view: View, row: int, idle: int) -> tuple[int, int]:
    free, need, usable = idle, view.need(row), view.usable(row)
    for other in view.running():
        if view.is_holding(other):
            continue  # it has not begun: its requested time says nothing
        free += int(view.kind_counts(int(other))[usable].sum())
        if free >= need:
            return free, int(view.jobs[EXPECTED, other])
    return free, FOREVER
