"""A finite number of reservations in the profile of free nodes, planned anew in every pass.

The first jobs of the queue start or are promised a start, as many as the depth says. Any other job may start now if it
disturbs none of these. The module also notes how many nodes stay free from now on and until when, for conservative.py.
"""

from __future__ import annotations

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core.columns import (
    BACKFILL_SCORE,
    FREE,
    HEAD,
    LIMIT,
    NODES,
    PROFILE_BLOCKS,
    RELEASED,
    SCORE,
    STARTED,
    Ints,
)
from cohabit.core.kernels import profile, scoring
from cohabit.core.kernels.bundles import Machine, Queue, Rule, Scorer, Workspace
from cohabit.core.kernels.easy import first_keeps_all_back
from cohabit.core.kernels.ladder import MIN_LIMIT, MIN_NODES, ORDER, ROWS, RUNGS, SIZE, Ladder
from cohabit.core.kernels.moves import begin, dequeue
from cohabit.core.kernels.overrunning import open_pass
from cohabit.core.kernels.profile import IDLE, LASTING, SHIFT, TIME, find, occupy, point_after, reserve
from cohabit.model.units import FOREVER, SECOND

SORT_AT_MOST = 128  # jobs found by size; where there are more, the queue is scanned in order


@compiled_inline
def planned(limit: int) -> int:
    """Return how long a reservation lasts: one second for a job that requests no time."""
    return limit if limit > 0 else SECOND


# ---- what fits now ---------------------------------------------------------------------------------------------------


@compiled_lean
def note_lasting(slots: Ints, gauges: Ints, now: int) -> None:
    """slots[LASTING + 1, i] nodes stay free from `now` until slots[LASTING, i], and fewer after that; down to none."""
    place, column = find(slots, gauges, now)
    least, steps = slots[IDLE, column] + slots[SHIFT, place], 0
    while least > 0:
        place, column = point_after(slots, place, column)
        instant, idle = FOREVER, 0
        if place < gauges[PROFILE_BLOCKS]:
            instant, idle = slots[TIME, column], slots[IDLE, column] + slots[SHIFT, place]
        if idle < least:
            slots[LASTING, steps], slots[LASTING + 1, steps] = instant, least
            steps += 1
            least = idle
    slots[LASTING, steps], slots[LASTING + 1, steps] = 2 * (FOREVER - 1), 0


@compiled_inline
def fits_now(now: int, nodes: int, limit: int, slots: Ints) -> bool:
    step = 0
    while slots[LASTING, step] < now + limit:
        step += 1
    found: bool = nodes <= slots[LASTING + 1, step]
    return found


@compiled_inline
def free_until(now: int, nodes: int, slots: Ints) -> int:
    """Return until when this many nodes, one or more, stay free."""
    until, step = now, 0
    while slots[LASTING + 1, step] >= max(nodes, 1):
        until, step = slots[LASTING, step], step + 1
    return until


@compiled_inline
def disturbs_no_promise(now: int, nodes: int, limit: int, left: int, slots: Ints) -> bool:
    """Return whether this many nodes are free now for this long, by `note_lasting`, and this many are left."""
    return nodes <= left and (limit == 0 or fits_now(now, nodes, limit, slots))


@compiled_lean
def start_rows(now: int, rows: Ints, queue: Queue, machine: Machine, started: Ints) -> None:
    """Start those of these rows that find nodes from now on for their whole limit; they stay on the queue's ladders."""
    jobs, slots, gauges = queue.jobs, machine.slots, machine.gauges
    for row in rows:
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        if disturbs_no_promise(now, nodes, limit, gauges[FREE], slots):
            occupy(slots, gauges, now, now + limit, nodes)
            note_lasting(slots, gauges, now)
            begin(row, now, queue, machine, started)


@compiled_inline
def places_that_may_fit(now: int, first: int, rows: Ints, jobs: Ints, machine: Machine, out: Ints) -> int:
    """Write into `out` the places from `first` on whose jobs are neither too wide nor too long; return how many."""
    slots, left, latest, step, count = machine.slots, machine.gauges[FREE], now, 0, 0
    while slots[LASTING + 1, step] > 0:
        latest, step = slots[LASTING, step], step + 1
    for place in range(first, len(rows)):  # no branches: they are hard to predict
        out[count] = place
        count += (jobs[NODES, rows[place]] <= left) & (now + jobs[LIMIT, rows[place]] <= latest)
    return count


@compiled_inline
def _find_by_size(now: int, jobs: Ints, second: Ladder, machine: Machine, out: Ints, places: Ints) -> int:
    """Write into `out` the jobs of a ladder by size that disturb no promise; return how many, -1: too many."""
    (items, info, meta), slots, count = second, machine.slots, 0
    left = machine.gauges[FREE]
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        fewest, shortest = info[MIN_NODES, rung], info[MIN_LIMIT, rung]
        if fewest > left:
            break
        if disturbs_no_promise(now, fewest, shortest, left, slots):
            found = places_that_may_fit(now, 0, items[rung, : info[SIZE, rung]], jobs, machine, places)
            for index in range(found):
                row = int(items[rung, places[index]])
                if disturbs_no_promise(now, jobs[NODES, row], jobs[LIMIT, row], left, slots):
                    if count == SORT_AT_MOST:
                        return -1
                    out[count] = row
                    count += 1
    return count


@compiled_lean
def starts_or_is_promised(row: int, now: int, jobs: Ints, machine: Machine) -> bool:
    """Take nodes from now on if they are free for the whole limit, else when they are; return whether it starts now."""
    nodes, limit, left = jobs[NODES, row], jobs[LIMIT, row], machine.gauges[FREE]
    if limit == 0 and nodes <= left:
        return True
    return reserve(machine.slots, machine.gauges, now, nodes, planned(limit)) == now and nodes <= left


# ---- a queue that is sorted by score --------------------------------------------------------------------------------


@compiled_lean
def none_fits(ladders: Ladder, first_is_narrowest: bool, gauges: Ints) -> bool:
    """Return whether no queued job fits the idle nodes, so that nothing needs computing."""
    info, meta = ladders.info, ladders.meta
    for place in range(min(meta[RUNGS], 1) if first_is_narrowest else meta[RUNGS]):
        if info[MIN_NODES, info[ORDER, place]] <= gauges[FREE]:
            return False
    return True


@compiled_inline
def _start_or_promise(now: int, rule: Rule, queue: Queue, machine: Machine, started: Ints) -> tuple[int, int, int]:
    """Start or promise in order until `depth` promises stand; return the last job, and where the rest begins."""
    items, info, meta = queue.order
    reserved, place, position, last = 0, 0, 0, -1
    while place < meta[RUNGS] and reserved < rule.depth:
        rung = info[ORDER, place]
        last, position = int(items[rung, position]), position + 1
        if position == info[SIZE, rung]:
            place, position = place + 1, 0
        if starts_or_is_promised(last, now, queue.jobs, machine):
            begin(last, now, queue, machine, started)
        else:
            reserved += 1
    machine.gauges[HEAD] = last if reserved == rule.depth else -1
    return last, place, position


@compiled_inline
def _start_rest_by_size(now: int, last: int, queue: Queue, machine: Machine, work: Workspace) -> bool:
    """Start the jobs behind `last` that disturb no promise; False: they are too many to be found by size."""
    rows, key, jobs = work.rows[1], queue.keys[SCORE], queue.jobs
    found, count = _find_by_size(now, jobs, queue.second, machine, rows, work.rows[2]), 0
    for index in range(found):
        rows[count] = rows[index]
        count += scoring.goes_before(last, rows[index], key, jobs)
    scoring.sort_rows(rows[:count], key, jobs)
    start_rows(now, rows[:count], queue, machine, work.started)
    return found >= 0


@compiled_inline
def _start_rest(now: int, place: int, position: int, queue: Queue, machine: Machine, work: Workspace) -> None:
    """Start the jobs from this place of the ladder on that disturb no promise, in order."""
    (items, info, meta), gauges, places = queue.order, machine.gauges, work.rows[1]
    while place < meta[RUNGS] and gauges[FREE] > 0:
        rung = info[ORDER, place]
        if disturbs_no_promise(now, info[MIN_NODES, rung], info[MIN_LIMIT, rung], gauges[FREE], machine.slots):
            found = places_that_may_fit(now, position, items[rung, : info[SIZE, rung]], queue.jobs, machine, places)
            for index in range(found):
                places[index] = items[rung, places[index]]
            start_rows(now, places[:found], queue, machine, work.started)
        place, position = place + 1, 0


@compiled_inline
def _start_rest_by_second_order(
    now: int, place: int, position: int, queue: Queue, machine: Machine, work: Workspace
) -> None:
    """Do the same in the second order."""
    (items, info, meta), rows, count = queue.order, work.rows[1], 0
    while place < meta[RUNGS]:
        rung = info[ORDER, place]
        if info[MIN_NODES, rung] <= machine.gauges[FREE]:
            for index in range(position, info[SIZE, rung]):
                rows[count] = items[rung, index]
                count += queue.jobs[NODES, rows[count]] <= machine.gauges[FREE]
        place, position = place + 1, 0
    scoring.sort_rows(rows[:count], queue.keys[BACKFILL_SCORE], queue.jobs)
    start_rows(now, rows[:count], queue, machine, work.started)


@compiled_inline
def _all_behind(row: int, arrivals: Ints, queue: Queue) -> bool:
    """Return whether a queued job goes before all of these."""
    for other in arrivals:
        if not scoring.goes_before(row, other, queue.keys[SCORE], queue.jobs):
            return False
    return True


@compiled_inline
def _plan(now: int, rule: Rule, queue: Queue, machine: Machine, work: Workspace) -> None:
    """Make the promises anew, then start what disturbs none of them."""
    profile.rebuild(now, queue.jobs, machine)
    last, place, position = _start_or_promise(now, rule, queue, machine, work.started)
    if place < queue.order.meta[RUNGS] and machine.gauges[FREE] > 0:
        note_lasting(machine.slots, machine.gauges, now)
        if rule.two_orders:
            _start_rest_by_second_order(now, place, position, queue, machine, work)
        elif not (rule.by_size and _start_rest_by_size(now, last, queue, machine, work)):
            _start_rest(now, place, position, queue, machine, work)


@compiled_lean
def pass_to_depth(
    now: int, rule: Rule, arrived: int, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace
) -> None:
    """Start every job that may start, where the queue is sorted by score and the depth is two or more.

    As long as no node is released and no instant of the profile has passed, the promises would come out the same and
    jobs refused before stay refused: only arrivals that go behind the promised jobs can start.
    """
    open_pass(now, queue, machine)
    gauges, slots, arrivals, (items, info, meta) = machine.gauges, machine.slots, work.arrivals[:arrived], queue.order
    released, gauges[RELEASED] = gauges[RELEASED], 0
    if meta[ROWS] == 0 or gauges[FREE] == 0:
        gauges[HEAD] = -1
        return
    stand = not released and gauges[HEAD] >= 0 and profile.still_holds(now, slots, gauges)
    if stand and _all_behind(gauges[HEAD], arrivals, queue):
        scoring.sort_rows(arrivals, queue.keys[BACKFILL_SCORE if rule.two_orders else SCORE], queue.jobs)
        note_lasting(slots, gauges, now)
        start_rows(now, arrivals, queue, machine, work.started)
    elif none_fits(queue.second if rule.by_size else queue.order, rule.by_size, gauges) or (
        rule.by_size and first_keeps_all_back(items[info[ORDER, 0], 0], now, queue, machine)
    ):
        gauges[HEAD] = -1
    else:
        _plan(now, rule, queue, machine, work)
    for index in range(gauges[STARTED]):
        dequeue(work.started[index], rule, queue)
