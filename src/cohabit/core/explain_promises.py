"""Say which start a waiting job is promised, or the job that keeps it back: until when it waits at most.

Besides promises that a pass has made, two starts are as good as promised: that of the first job in the queue where
nothing may overtake it, and that of a first job past the age limit. They hold by requested times, unless nodes are
lost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cohabit.core.bounds import InUse
from cohabit.core.columns import RESERVED
from cohabit.core.gating import why_kept_back
from cohabit.core.kernels.bundles import CONSERVATIVE, STRICT
from cohabit.core.protocols import GroupPlacer, PolicySet, SharedPlacer
from cohabit.core.sharing import SharedPass
from cohabit.core.timeline import planned
from cohabit.core.view import View
from cohabit.model.units import FOREVER, counted, span

# ---- whole nodes ----------------------------------------------------------------------------------------------------


def starts_promised(view: View, policies: PolicySet, queue: Sequence[int]) -> dict[int, int]:
    """Return the starts that jobs are promised on whole nodes, by row, in order of the queue.

    Under EASY every pass promises the first job that waits for nodes its start anew; here it is computed as there.
    """
    depth, cycle = policies.backfill.depth, policies.backfill.cycle
    if depth == CONSERVATIVE:
        kept = {row: int(view.jobs[RESERVED, row]) for row in queue}
        return {row: start_us for row, start_us in kept.items() if 0 <= start_us < FOREVER}
    if not queue or (cycle is not None and cycle.interval_us > 0):  # promises are made in its cycles only
        return {}
    left, found = 1 if _is_not_passed(view, policies, queue[0]) else depth, dict[int, int]()
    if left <= 0 or any(view.is_holding(row) for row in view.running().tolist()):  # of which no end is known
        return found
    in_use, timeline = InUse(view, policies.bounds), view.timeline()
    for row in queue:
        if not left:
            break
        if in_use.why_not(row):
            continue
        left -= 1
        if why_kept_back(view, policies.gates, row):
            continue
        length_us = planned(view.limit_us(row))
        start_us, counts = timeline.earliest(view.need(row), view.usable(row), length_us)
        if counts is not None:
            timeline.add(start_us, start_us + length_us, -counts)
            found[row] = start_us
    return found


def promised_on_whole(view: View, row: int, starts: Mapping[int, int]) -> str:
    """Return the start that the job is promised on whole nodes; empty if it has no promise."""
    if row not in starts:
        return ""
    return _told(view, starts[row], view.need(row))


# ---- shared nodes ---------------------------------------------------------------------------------------------------


def promised_start(view: View, row: int) -> str:
    """Return the start that the job is promised on shared nodes; empty if it has no promise."""
    one = view.promises.get(row)
    if one is None:
        return ""
    text = _told(view, one.latest_us, sum(count for _, count in one.ranges))
    if one.expected_us < one.latest_us:
        text += f", expected in {span(max(one.expected_us - view.now_us, 0))}"
    return text


def start_of_head(view: View, policies: PolicySet, row: int, queue: Sequence[int]) -> str:
    """Return the start that the job is promised on shared nodes, or that it has because nothing may pass it."""
    placer = policies.placer
    if row in view.promises or row != queue[0] or not _is_not_passed(view, policies, row):
        return promised_start(view, row)
    if isinstance(placer, GroupPlacer) or not isinstance(placer, SharedPlacer):
        return ""
    one = SharedPass(view, policies, placer)
    found = one.promises.earliest(row, one.promised_asks(row), one.not_before_us(row))
    return "" if found is None else _told(view, found.latest_us, sum(count for _, count in found.ranges))


def _is_not_passed(view: View, policies: PolicySet, first: int) -> bool:
    """Return whether no job may pass the first one of the queue."""
    return policies.backfill.depth == STRICT or view.waited_us(first) >= view.age_limit_us()


def _told(view: View, start_us: int, nodes: int) -> str:
    return f"promised a start within {span(max(start_us - view.now_us, 0))} on {counted(nodes, 'node')}"
