"""Conservative backfilling in the profile of free nodes: every job is promised a start, and some may start earlier.

A job keeps the start it was promised on arrival. When nodes are released, a job that could start at once without
breaking a promise to another does so, in order. A promise never moves later (planning anew from nothing would break
that), and only an immediate start moves it earlier. promises.py keeps the promises by time.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core.columns import (
    ARRIVAL,
    FREE,
    LIMIT,
    NODES,
    PROMISED,
    PROMISES,
    QUEUED,
    RELEASED,
    RESERVED,
    SCORE,
    STATE,
    VOID,
    WAKE,
    Floats,
    Ints,
)
from cohabit.core.kernels import ladder, profile, promises, scoring
from cohabit.core.kernels.bundles import Machine, Queue, Rule, Scorer, Workspace
from cohabit.core.kernels.depth import fits_now, free_until, note_lasting, planned
from cohabit.core.kernels.ladder import LEAST_SCORE, MIN_LIMIT, MIN_NODES, ORDER, ROWS, RUNGS, SIZE, SOONEST, Ladder
from cohabit.core.kernels.moves import begin, dequeue
from cohabit.core.kernels.overrunning import open_pass
from cohabit.core.kernels.profile import LASTING, UNRESERVED, occupy, reserve, vacate
from cohabit.model.units import FOREVER, SECOND

STALE = -1  # in place of the first count of lasting nodes: they must be counted anew
MUST, FOUND = 0, 1  # rows of work.rows: jobs that must be looked at; these and the jobs that could start early


@compiled_lean
def _reserve(row: int, now: int, jobs: Ints, machine: Machine) -> None:
    """Promise a job its earliest start."""
    slots, gauges = machine.slots, machine.gauges
    start = reserve(slots, gauges, now, jobs[NODES, row], planned(jobs[LIMIT, row]))
    if start < FOREVER:
        promises.make_room(slots.shape[1], jobs, slots, gauges)
        promises.note_promise(slots, gauges, start, row)
    jobs[RESERVED, row] = start
    if jobs[PROMISED, row] == UNRESERVED:
        jobs[PROMISED, row] = start


@compiled_lean
def cancel_reservation(row: int, jobs: Ints, machine: Machine) -> None:
    """Drop the promise of a queued job that left."""
    start = jobs[RESERVED, row]
    if start != UNRESERVED and start < FOREVER:
        vacate(machine.slots, machine.gauges, start, start + planned(jobs[LIMIT, row]), jobs[NODES, row])
    jobs[RESERVED, row] = UNRESERVED


@compiled_inline
def _lasts_now(now: int, nodes: int, length: int, machine: Machine) -> bool:
    """Return whether this many nodes are free from now on for this long."""
    if machine.slots[LASTING + 1, 0] == STALE:
        note_lasting(machine.slots, machine.gauges, now)
    return fits_now(now, nodes, length, machine.slots)


@compiled_inline
def could_start_early(row: int, now: int, left: int, jobs: Ints, machine: Machine) -> bool:
    """Return whether a job finds nodes from now on for its limit; from its promise on it has the promised nodes."""
    start, nodes = jobs[RESERVED, row], jobs[NODES, row]
    if start <= now or nodes > left:
        return False
    return _lasts_now(now, nodes, min(planned(jobs[LIMIT, row]), start - now), machine)


@compiled_lean
def _settle(row: int, now: int, released: bool, left: int, jobs: Ints, machine: Machine) -> bool:
    """Promise an arrival its start, or move up a job that could start now; return whether it starts."""
    slots, gauges, nodes, length = machine.slots, machine.gauges, jobs[NODES, row], planned(jobs[LIMIT, row])
    if jobs[RESERVED, row] == UNRESERVED:
        _reserve(row, now, jobs, machine)
        slots[LASTING + 1, 0] = STALE
    elif released and could_start_early(row, now, left, jobs, machine):
        if jobs[RESERVED, row] < FOREVER:
            vacate(slots, gauges, jobs[RESERVED, row], jobs[RESERVED, row] + length, nodes)
        occupy(slots, gauges, now, now + length, nodes)
        jobs[RESERVED, row] = now
        slots[LASTING + 1, 0] = STALE
    if jobs[RESERVED, row] > now or nodes > left:  # not enough left: a job of request 0 is still on the nodes
        return False
    jobs[RESERVED, row] = UNRESERVED
    if jobs[LIMIT, row] == 0:  # it ends within this instant: once started it needs no nodes later
        vacate(slots, gauges, now, now + SECOND, nodes)
        slots[LASTING + 1, 0] = STALE
    return True


# ---- jobs that could start before their promise ---------------------------------------------------------------------


@compiled_inline
def _one_may_fit(rung: int, now: int, left: int, info: Ints, machine: Machine) -> bool:
    """Return whether a job of the rung might start early, by the rung's summary."""
    fewest = info[MIN_NODES, rung]
    shortest = min(info[MIN_LIMIT, rung], info[SOONEST, rung] - now)  # a request of 0 holds a second, others less
    return fewest <= left and _lasts_now(now, fewest, shortest, machine)


@compiled_inline
def rounded_down(score: float) -> int:
    return int(np.floor(min(max(score, -1.0 * FOREVER), 1.0 * FOREVER)))


@compiled_inline
def _may_start_early(
    rung: int, now: int, left: int, latest: int, jobs: Ints, order: Ladder, out: Ints
) -> tuple[int, bool]:
    """Write into `out` the jobs of the rung that might start early if its narrowest jobs find nodes until `latest`.

    Return how many, and whether that is certain: all jobs of the rung are as narrow.
    """
    rows, info, count, soonest, widest = order.items[rung], order.info, 0, FOREVER, 0
    for position in range(info[SIZE, rung]):  # no branches: they are hard to predict
        row = int(rows[position])
        nodes, limit, promised = jobs[NODES, row], jobs[LIMIT, row], jobs[RESERVED, row]
        soonest, widest = min(soonest, promised), max(widest, nodes)
        out[count] = row
        count += (nodes <= left) & (promised > now) & (min(now + planned(limit), promised) <= latest)
    info[SOONEST, rung] = soonest
    return count, widest == info[MIN_NODES, rung]


@compiled_inline
def _equals_that_start_early(rung: int, now: int, latest: int, jobs: Ints, order: Ladder, out: Ints) -> int:
    """Do the same for a rung by size whose jobs are all as wide: all of them are certain."""
    rows, count, soonest = order.items[rung], 0, FOREVER
    short = ladder.not_longer(rung, latest - now, order, jobs)
    for position in range(order.info[SIZE, rung]):
        row = int(rows[position])
        promised = jobs[RESERVED, row]
        soonest = min(soonest, promised)
        out[count] = row
        count += (promised > now) & ((position < short) | (promised <= latest))
    order.info[SOONEST, rung] = soonest
    return count


@compiled_inline
def _note_least_score(rung: int, score: Floats, order: Ladder) -> None:
    least = np.inf
    for row in order.items[rung, : order.info[SIZE, rung]]:
        least = min(least, score[row])
    order.info[LEAST_SCORE, rung] = rounded_down(least)


@compiled_inline
def _early_on(rung: int, now: int, left: int, rule: Rule, queue: Queue, machine: Machine, out: Ints) -> int:
    """Write into `out` the jobs of the rung that could start early; return how many."""
    jobs, order = queue.jobs, queue.order
    latest = free_until(now, order.info[MIN_NODES, rung], machine.slots)
    if rule.by_size and latest - now >= SECOND and ladder.all_as_wide(rung, order, jobs):
        return _equals_that_start_early(rung, now, latest, jobs, order, out)
    found, certain = _may_start_early(rung, now, left, latest, jobs, order, out)
    if certain:
        return found
    count = 0
    for index in range(found):
        out[count] = out[index]
        count += could_start_early(out[index], now, left, jobs, machine)
    return count


@compiled_inline
def _first_after(last: int, best: int, rows: Ints, score: Floats, jobs: Ints) -> int:
    """Return the first of these rows that goes after `last`, or `best` if that goes before; -1: no row."""
    for row in rows:
        if (last < 0 or scoring.goes_before(last, row, score, jobs)) and (
            best < 0 or scoring.goes_before(row, best, score, jobs)
        ):
            best = row
    return best


@compiled_inline
def _find_due(now: int, must: int, jobs: Ints, work: Workspace) -> int:
    """Write into work.rows[FOUND] the jobs that must be looked at and have not been yet; return how many."""
    rows, count = work.rows[FOUND], 0
    for index in range(must):
        rows[count] = work.rows[MUST, index]
        count += jobs[RESERVED, rows[count]] <= now
    return count


@compiled_inline
def _find_early(
    now: int, left: int, last: int, count: int, rule: Rule, queue: Queue, machine: Machine, work: Workspace
) -> int:
    """Add to work.rows[FOUND] the jobs that could start early; return the new count.

    If scores do not change, only the first of them after `last` is needed.
    """
    score, rows, (_, info, meta) = queue.keys[SCORE], work.rows[FOUND], queue.order
    best = -1
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        if rule.by_size and info[MIN_NODES, rung] > left:
            break
        behind = best >= 0 and info[LEAST_SCORE, rung] > score[best]
        if behind or not _one_may_fit(rung, now, left, info, machine):
            continue
        if not rule.changing:
            _note_least_score(rung, score, queue.order)
        found = _early_on(rung, now, left, rule, queue, machine, rows[count:])
        if rule.changing:
            count += found
        else:
            best = _first_after(last, best, rows[count : count + found], score, queue.jobs)
    rows[count] = best
    return count + (best >= 0)


# ---- in turn --------------------------------------------------------------------------------------------------------


@compiled_inline
def _score_found(now: int, found: int, last: int, rule: Rule, queue: Queue, scorer: Scorer, work: Workspace) -> None:
    """Score the jobs found and the last one settled, if any; the whole queue if rows cannot be scored alone."""
    waiting, asked = work.waiting, found + (last >= 0)
    if rule.alone:
        waiting[scoring.copy_rows(work.rows[FOUND, :found], waiting)] = last
    else:
        asked = ladder.rows_in_order(queue.order, waiting)
    scoring.score_rows(waiting[:asked], now, queue.jobs, scorer, work.fresh[0])
    for index in range(asked):
        queue.keys[SCORE, waiting[index]] = work.fresh[0, index]


@compiled_inline
def _those_after(last: int, rows: Ints, score: Floats, jobs: Ints) -> int:
    """Keep the rows that go after the last one settled, if any, with the first to go in front; return how many."""
    count, best = 0, 0
    for row in rows:
        if last < 0 or scoring.goes_before(last, row, score, jobs):
            rows[count] = row
            best = count if scoring.goes_before(row, rows[best], score, jobs) else best
            count += 1
    if count > 0:
        rows[0], rows[best] = rows[best], rows[0]
    return count


@compiled_inline
def _settle_in_turn(
    now: int, released: bool, must: int, rule: Rule, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace
) -> int:
    """Settle, in order of score, the jobs that must be looked at and, after a release, those that could start early.

    The order matters only if there are two. A job that starts early gives up its promise, which may let others start
    early: they are looked for again. Return how many start.
    """
    jobs, score, rows, left = queue.jobs, queue.keys[SCORE], work.rows[FOUND], machine.gauges[FREE]
    count, last, found, turns, known, search = 0, -1, 0, 0, not rule.changing, True
    while search or found > 0:
        if search:
            found = _find_due(now, must, jobs, work)
            if released:
                found = _find_early(now, left, last, found, rule, queue, machine, work)
            if not known and found + (last >= 0) > 1:
                known = not rule.alone
                _score_found(now, found, last, rule, queue, scorer, work)
            found, search, turns = _those_after(last, rows[:found], score, jobs), False, 0
            continue
        if turns == 1:  # mostly there is only one
            scoring.make_heap(rows[:found], score, jobs)
        row, found, turns = rows[0], found - 1, turns + 1
        rows[0] = rows[found]
        if turns > 1:
            scoring.sink(rows, 0, found, score, jobs)
        early = jobs[RESERVED, row] > now
        if early and not could_start_early(row, now, left, jobs, machine):  # another job took the nodes it found
            if not rule.changing:  # the next one has not been looked for
                search, last = True, row
            continue
        if _settle(row, now, released, left, jobs, machine):
            work.started[count] = row
            count += 1
            left -= jobs[NODES, row]
            search, last = released and (early or jobs[LIMIT, row] == 0), row
    return count


@compiled_lean
def _plan_anew(now: int, rule: Rule, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace) -> int:
    """Make all promises anew, after a job overran its request or nodes were lost. Return how many jobs start."""
    jobs, gauges, waiting, info = queue.jobs, machine.gauges, work.waiting, queue.order.info
    profile.rebuild(now, jobs, machine)
    gauges[VOID], gauges[PROMISES] = 0, 0
    for place in range(queue.order.meta[RUNGS]):
        info[SOONEST, info[ORDER, place]] = -1
    if rule.changing:
        count = scoring.score_queue(now, queue, scorer, waiting, work.fresh[0])
        for index in range(count):
            queue.keys[SCORE, waiting[index]] = work.fresh[0, index]
    rows, count, left = waiting[: ladder.rows_in_order(queue.order, waiting)], 0, gauges[FREE]
    scoring.sort_rows(rows, queue.keys[SCORE], jobs)
    for row in rows:
        jobs[RESERVED, row] = UNRESERVED
    for row in rows:
        if _settle(row, now, False, left, jobs, machine):
            work.started[count] = row
            count += 1
            left -= jobs[NODES, row]
    return count


@compiled_lean
def pass_with_promises(
    now: int, rule: Rule, arrived: int, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace
) -> None:
    """Promise arrivals a start, and start every job whose promise is due or that may start before it.

    work.arrivals has room for the jobs whose promise is due.
    """
    open_pass(now, queue, machine)
    jobs, slots, gauges = queue.jobs, machine.slots, machine.gauges
    released, gauges[RELEASED], must = gauges[RELEASED], 0, arrived
    if promises.first(jobs, slots, gauges) <= now:
        must = promises.take_due(now, jobs, slots, gauges, work.arrivals, arrived)
    scoring.copy_rows(work.arrivals[:must], work.rows[MUST])
    profile.forget_past(slots, gauges, now)
    slots[LASTING + 1, 0] = STALE
    if gauges[VOID] == 1:
        count = _plan_anew(now, rule, queue, machine, scorer, work)
    else:
        count = _settle_in_turn(now, released, must, rule, queue, machine, scorer, work)
    for index in range(count):
        row = work.started[index]  # where `begin` writes it again
        dequeue(row, rule, queue)
        begin(row, now, queue, machine, work.started)
    for row in work.rows[MUST, :arrived]:
        if jobs[STATE, row] == QUEUED:
            least = rounded_down(queue.keys[SCORE, row])
            ladder.lower(
                queue.order, jobs, queue.keys[SCORE if rule.by_score else ARRIVAL], row, jobs[RESERVED, row], least
            )
    promises.note_again(work.rows[MUST, arrived:must], jobs, slots, gauges)
    promises.make_room(4 * queue.order.meta[ROWS] + 1024, jobs, slots, gauges)
    gauges[WAKE] = promises.next_wake(now, jobs, slots, gauges)
