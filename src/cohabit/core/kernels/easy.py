"""EASY backfilling, first-fit and strict order over a queue that is sorted by score.

The head is the first job that does not fit. Its shadow time is the earliest instant at which, by requested times,
enough nodes are free for it; extra is the number of nodes free then, after all jobs expected to end by then, less the
head's. A later job starts now if it fits and either ends by the shadow time or needs no more than extra, which it then
reduces. First-fit makes no promise to the head: its shadow time is infinite. Strict order lets no job pass the head.
"""

from __future__ import annotations

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core.columns import (
    BACKFILL_SCORE,
    ELIGIBLE,
    EXPECTED,
    EXTRA,
    FREE,
    HEAD,
    LIMIT,
    NODES,
    RELEASED,
    SCORE,
    SHADOW,
    STARTED,
    Ints,
)
from cohabit.core.kernels import scoring
from cohabit.core.kernels.bundles import EASY, STRICT, Machine, Queue, Rule, Scorer, Workspace
from cohabit.core.kernels.ladder import MIN_LIMIT, MIN_NODES, ORDER, ROWS, RUNGS, SIZE, SUM_NODES, Ladder
from cohabit.core.kernels.moves import age_limit, begin, dequeue
from cohabit.core.kernels.overrunning import open_pass
from cohabit.model.units import FOREVER


@compiled_lean
def shadow_of(need: int, jobs: Ints, running: Ladder, free_now: int) -> tuple[int, int]:
    """Return the shadow time of a job that needs this many nodes, and how many extra nodes there are then."""
    items, info, meta = running
    total, shadow, place = free_now, FOREVER, 0
    while place < meta[RUNGS] and total + info[SUM_NODES, info[ORDER, place]] < need:
        total += info[SUM_NODES, info[ORDER, place]]
        place += 1
    while place < meta[RUNGS]:
        rung = info[ORDER, place]
        for position in range(info[SIZE, rung]):
            row = items[rung, position]
            if total >= need and jobs[EXPECTED, row] > shadow:
                return shadow, total - need
            total += jobs[NODES, row]
            if total >= need and shadow == FOREVER:
                shadow = jobs[EXPECTED, row]
        place += 1
    return shadow, max(total - need, 0)


@compiled_lean
def set_head(head: int, depth: int, jobs: Ints, machine: Machine) -> None:
    """Note the head, its shadow time and the extra nodes."""
    gauges = machine.gauges
    gauges[HEAD], gauges[SHADOW], gauges[EXTRA] = head, FOREVER, 0
    if depth == EASY:
        gauges[SHADOW], gauges[EXTRA] = shadow_of(jobs[NODES, head], jobs, machine.running, gauges[FREE])


@compiled_lean
def may_backfill(row: int, now: int, jobs: Ints, gauges: Ints) -> bool:
    """Return whether a job fits now without delaying the head."""
    nodes = jobs[NODES, row]
    if nodes > gauges[FREE]:
        return False
    found: bool = now + jobs[LIMIT, row] <= gauges[SHADOW] or nodes <= gauges[EXTRA]
    return found


@compiled_lean
def backfill(row: int, now: int, queue: Queue, machine: Machine, started: Ints) -> None:
    """Start a job that may pass the head."""
    if now + queue.jobs[LIMIT, row] > machine.gauges[SHADOW]:
        machine.gauges[EXTRA] -= queue.jobs[NODES, row]
    begin(row, now, queue, machine, started)


@compiled_lean
def first_keeps_all_back(first: int, now: int, queue: Queue, machine: Machine) -> bool:
    """Return whether the first job does not fit and no job may pass it.

    Then no job starts with more reservations either. The second ladder is sorted by size.
    This check is cheap compared to planning, and half of all plans start no job.
    """
    jobs, gauges, (items, info, meta) = queue.jobs, machine.gauges, queue.second
    free = gauges[FREE]
    if jobs[NODES, first] <= free:
        return False
    shadow, extra = shadow_of(jobs[NODES, first], jobs, machine.running, free)
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        fewest = info[MIN_NODES, rung]
        if fewest > free:
            return True
        if fewest <= extra or now + info[MIN_LIMIT, rung] <= shadow:
            for position in range(info[SIZE, rung]):
                nodes, limit = jobs[NODES, items[rung, position]], jobs[LIMIT, items[rung, position]]
                if nodes <= free and (nodes <= extra or now + limit <= shadow):
                    return False
    return True


@compiled_lean
def sure_to_start(now: int, promised: bool, queue: Queue, machine: Machine) -> int:
    """Return the only job that fits, if it starts whatever the scores are; -1: scores decide, or no job fits.

    promised: the head is promised a start, as in EASY.
    """
    jobs, (items, info, meta), free = queue.jobs, queue.order, machine.gauges[FREE]
    found, fewest = -1, FOREVER
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        if info[MIN_NODES, rung] > free:
            fewest = min(fewest, info[MIN_NODES, rung])
            continue
        for position in range(info[SIZE, rung]):
            row = int(items[rung, position])
            if jobs[NODES, row] > free:
                fewest = min(fewest, jobs[NODES, row])
            elif found >= 0:
                return -1
            else:
                found = row
    if found < 0 or fewest == FOREVER or not promised:
        return found
    shadow, _ = shadow_of(fewest, jobs, machine.running, free)  # with any other head it would not be earlier
    return found if now + jobs[LIMIT, found] <= shadow else -1


@compiled_inline
def _start_heads(now: int, rule: Rule, queue: Queue, machine: Machine, started: Ints) -> None:
    """Start the first job as long as it fits."""
    items, info, meta = queue.order
    while meta[ROWS] > 0:
        head = items[info[ORDER, 0], 0]
        if queue.jobs[NODES, head] > machine.gauges[FREE]:
            break
        dequeue(head, rule, queue)
        begin(head, now, queue, machine, started)


@compiled_inline
def _start_behind_the_head(now: int, candidates: Ladder, queue: Queue, machine: Machine, started: Ints) -> None:
    """Start jobs of a ladder that may pass the head; the summaries of rungs show where to look."""
    jobs, gauges, (items, info, meta) = queue.jobs, machine.gauges, candidates
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        fewest = info[MIN_NODES, rung]
        if fewest > gauges[FREE] or (fewest > gauges[EXTRA] and now + info[MIN_LIMIT, rung] > gauges[SHADOW]):
            continue
        for position in range(info[SIZE, rung]):
            row = items[rung, position]
            if row != gauges[HEAD] and may_backfill(row, now, jobs, gauges):
                backfill(row, now, queue, machine, started)
                if gauges[FREE] == 0:
                    return


@compiled_inline
def _pass_over_arrivals(now: int, rule: Rule, arrivals: Ints, queue: Queue, machine: Machine, started: Ints) -> None:
    """Start arrivals that may pass the head; jobs refused before stay refused."""
    gauges = machine.gauges
    if now - queue.jobs[ELIGIBLE, gauges[HEAD]] >= age_limit(gauges):
        return
    scoring.sort_rows(arrivals, queue.keys[BACKFILL_SCORE if rule.two_orders else SCORE], queue.jobs)
    for row in arrivals:
        if may_backfill(row, now, queue.jobs, gauges):
            dequeue(row, rule, queue)
            backfill(row, now, queue, machine, started)


@compiled_lean
def pass_by_ladder(
    now: int, rule: Rule, arrived: int, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace
) -> None:
    """Start every job that may start, where the queue is sorted by score."""
    open_pass(now, queue, machine)
    jobs, gauges, (items, info, meta), started = queue.jobs, machine.gauges, queue.order, work.started
    released, gauges[RELEASED] = gauges[RELEASED], 0
    if meta[ROWS] == 0 or gauges[FREE] == 0:
        gauges[HEAD] = -1
        return
    if not released and gauges[HEAD] >= 0 and items[info[ORDER, 0], 0] == gauges[HEAD]:
        _pass_over_arrivals(now, rule, work.arrivals[:arrived], queue, machine, started)
        return
    _start_heads(now, rule, queue, machine, started)
    gauges[HEAD] = -1
    if meta[ROWS] < 2 or rule.depth == STRICT or gauges[FREE] == 0:
        return
    head, first = items[info[ORDER, 0], 0], gauges[STARTED]
    if now - jobs[ELIGIBLE, head] >= age_limit(gauges):  # in order of age the head is the oldest
        return
    set_head(head, rule.depth, jobs, machine)
    _start_behind_the_head(now, queue.second if rule.two_orders else queue.order, queue, machine, started)
    for index in range(first, gauges[STARTED]):
        dequeue(started[index], rule, queue)
