"""Reservations in the profile of free nodes, compiled: who is promised what, and who may start now.

Finite depth: planned anew in every pass. Conservative: every job keeps the start it was promised when it came; when
nodes are released, whoever could start at once with all promises to the others in place starts, in order. A promise
never moves later (planning anew from nothing would break that), and nothing but an immediate start moves it earlier.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_lean
from cohabit.core import scoring
from cohabit.core.columns import (
    FREE,
    HEAD,
    LIMIT,
    NODES,
    PROFILE_BLOCKS,
    PROMISED,
    PROMISES,
    RESERVED,
    SCORE,
    SEQ,
    VOID,
)
from cohabit.core.ladder import MIN_LIMIT, MIN_NODES, ORDER, RUNGS, SIZE, SOONEST, rows_in_order
from cohabit.core.profile import (
    FOREVER,
    IDLE,
    LASTING,
    SECOND,
    SHIFT,
    TIME,
    UNRESERVED,
    earliest,
    find,
    forget_past,
    occupy,
    point_after,
    rebuild,
    vacate,
)
from cohabit.core.promises import make_room, note_promise

STALE = -1  # in place of the first number of nodes that last: they must be counted anew


@compiled_lean
def planned(limit):
    """How long a reservation lasts: a job that asked for no time at all still holds its second."""
    return limit if limit > 0 else SECOND


# ---- conservative ---------------------------------------------------------------------------------------------------


@compiled_lean
def _reserve(row, now, jobs, slots, gauges):
    length = planned(jobs[LIMIT, row])
    start = earliest(slots, gauges, now, jobs[NODES, row], length)
    if start < FOREVER:
        occupy(slots, gauges, start, start + length, jobs[NODES, row])
        make_room(jobs, slots, gauges)
        note_promise(slots, gauges, start, row)
    jobs[RESERVED, row] = start
    if jobs[PROMISED, row] == UNRESERVED:
        jobs[PROMISED, row] = start


@compiled_lean
def cancel_reservation(row, jobs, slots, gauges):
    """A queued job left."""
    start = jobs[RESERVED, row]
    if start != UNRESERVED and start < FOREVER:
        vacate(slots, gauges, start, start + planned(jobs[LIMIT, row]), jobs[NODES, row])
    jobs[RESERVED, row] = UNRESERVED


@compiled_lean
def _lasts_now(now, nodes, length, slots, gauges):
    """Whether so many nodes are free from now on for so long."""
    if slots[LASTING + 1, 0] == STALE:
        _note_lasting(slots, gauges, now)
    return _fits_now(now, nodes, length, slots)


@compiled_lean
def could_start_early(row, now, left, jobs, slots, gauges):
    """Whether it finds nodes from now on for all its time; from its own promise on, those it was promised last."""
    start, nodes = jobs[RESERVED, row], jobs[NODES, row]
    if start <= now or nodes > left:
        return False
    return _lasts_now(now, nodes, min(planned(jobs[LIMIT, row]), start - now), slots, gauges)


@compiled_lean
def _settle(row, now, released, left, jobs, slots, gauges):
    """Promise an arrival its start, move one up who could start now; whether it starts."""
    nodes, length = jobs[NODES, row], planned(jobs[LIMIT, row])
    if jobs[RESERVED, row] == UNRESERVED:
        _reserve(row, now, jobs, slots, gauges)
        slots[LASTING + 1, 0] = STALE
    elif released and could_start_early(row, now, left, jobs, slots, gauges):
        if jobs[RESERVED, row] < FOREVER:
            vacate(slots, gauges, jobs[RESERVED, row], jobs[RESERVED, row] + length, nodes)
        occupy(slots, gauges, now, now + length, nodes)
        jobs[RESERVED, row] = now
        slots[LASTING + 1, 0] = STALE
    if jobs[RESERVED, row] > now or nodes > left:  # not left: a job of request 0 is still there
        return False
    jobs[RESERVED, row] = UNRESERVED
    if jobs[LIMIT, row] == 0:  # it ends within this instant: once started it holds nothing ahead
        vacate(slots, gauges, now, now + SECOND, nodes)
        slots[LASTING + 1, 0] = STALE
    return True


@compiled_lean
def _settle_rows(now, released, rows, jobs, slots, gauges, ready):
    """All of these in turn; how many start."""
    count, left = 0, gauges[FREE]
    for row in rows:
        if _settle(row, now, released, left, jobs, slots, gauges):
            ready[count] = row
            count += 1
            left -= jobs[NODES, row]
    return count


@compiled_lean
def _one_may_fit(rung, now, left, q_info, slots, gauges):
    """Whether somebody on the rung might start early, by its summary."""
    fewest, shortest = q_info[MIN_NODES, rung], planned(q_info[MIN_LIMIT, rung])
    shortest = min(shortest, q_info[SOONEST, rung] - now)  # unknown: no time at all
    return fewest <= left and _lasts_now(now, fewest, shortest, slots, gauges)


@compiled_lean
def _settle_queue(now, must, jobs, score, q_items, q_info, q_meta, slots, gauges, ready):
    """Nodes were released: the whole queue in turn, without rungs of whom nobody fits and nobody must be looked at."""
    count, left, next_must = 0, gauges[FREE], 0
    for place in range(q_meta[RUNGS]):
        rung = q_info[ORDER, place]
        size, due = q_info[SIZE, rung], False
        if next_must < len(must):
            row, last = must[next_must], q_items[rung, size - 1]
            due = score[row] < score[last] or (score[row] == score[last] and jobs[SEQ, row] <= jobs[SEQ, last])
        elif left == 0:
            break
        if not due and not _one_may_fit(rung, now, left, q_info, slots, gauges):
            continue
        soonest = FOREVER
        for position in range(size):
            row = q_items[rung, position]
            start = jobs[RESERVED, row]
            if start > now and jobs[NODES, row] > left:  # most of them, without a call
                soonest = min(soonest, start)
                continue
            next_must += next_must < len(must) and must[next_must] == row
            if _settle(row, now, True, left, jobs, slots, gauges):
                ready[count] = row
                count += 1
                left -= jobs[NODES, row]
            else:
                soonest = min(soonest, jobs[RESERVED, row])
        q_info[SOONEST, rung] = soonest
    return count


@compiled_lean
def _find_concerned(now, released, left, must, jobs, q_items, q_info, q_meta, slots, gauges, rows):
    """Write into `rows` who must be looked at and, after a release, who could start early; how many are there?"""
    count = 0
    for row in must:
        rows[count] = row
        count += jobs[RESERVED, row] <= now  # else it has had its turn
    for place in range(q_meta[RUNGS] if released else 0):
        rung = q_info[ORDER, place]
        if not _one_may_fit(rung, now, left, q_info, slots, gauges):
            continue
        soonest = FOREVER
        for position in range(q_info[SIZE, rung]):
            row = q_items[rung, position]
            soonest = min(soonest, jobs[RESERVED, row])
            if jobs[NODES, row] <= left and could_start_early(row, now, left, jobs, slots, gauges):
                rows[count] = row
                count += 1
        q_info[SOONEST, rung] = soonest
    return count


@compiled_lean
def _next_in_turn(now, rows, last, left, score, jobs, slots, gauges):
    """Who of these is the next after `last`, and must be looked at or could start early; -1 if nobody is."""
    best = np.int64(-1)
    for row in rows:
        if (last >= 0 and not scoring.goes_before(last, row, score, jobs)) or (
            best >= 0 and scoring.goes_before(best, row, score, jobs)
        ):
            continue
        if jobs[RESERVED, row] <= now or could_start_early(row, now, left, jobs, slots, gauges):
            best = row
    return best


@compiled_lean
def _settle_by_score(
    now, released, alone, must, entry, parameters, usage, waiting, fresh, rows, jobs, keys, q_items, q_info, q_meta,
    slots, gauges, ready,
):  # fmt: skip
    """In order of score those who must be looked at and, after a release, those who could start early; how many start.

    Only where there are two of them the order matters. One who starts early gives up its promise, which may let others
    do so: they are looked for again. alone: such scores may be asked for some rows alone; else for the whole queue.
    """
    count, left, last, found, score = 0, gauges[FREE], np.int64(-1), 0, keys[SCORE]
    scored, changed = False, True
    while changed or last >= 0:
        if changed:
            found = _find_concerned(now, released, left, must, jobs, q_items, q_info, q_meta, slots, gauges, rows)
        if changed and not scored and found + (last >= 0) > 1:
            scored = not alone
            if alone:
                waiting[scoring.copy_rows(rows[:found], waiting)] = last
            asked = found + (last >= 0) if alone else rows_in_order(q_items, q_info, q_meta, waiting)
            scoring.score(entry, parameters, jobs, usage, waiting[:asked], now, fresh)
            for index in range(asked):
                score[waiting[index]] = fresh[index]
        last = _next_in_turn(now, rows[:found], last, left, score, jobs, slots, gauges)
        changed = False
        if last >= 0:
            early = jobs[RESERVED, last] > now
            if _settle(last, now, released, left, jobs, slots, gauges):
                ready[count] = last
                count += 1
                left -= jobs[NODES, last]
                changed = released and (early or jobs[LIMIT, last] == 0)
    return count


@compiled
def _plan_anew(
    now, changing, entry, parameters, usage, waiting, fresh, jobs, q_items, q_info, q_meta, r_items, r_info, r_meta,
    slots, gauges, ready,
):  # fmt: skip
    """A job overran its request or nodes were lost: nobody is promised anything any more."""
    rebuild(now, jobs, r_items, r_info, r_meta, gauges[FREE], slots, gauges)
    gauges[VOID], gauges[PROMISES] = 0, 0
    for place in range(q_meta[RUNGS]):
        q_info[SOONEST, q_info[ORDER, place]] = -1
    if changing:
        count = scoring.score_queue(entry, parameters, jobs, usage, q_items, q_info, q_meta, now, waiting, fresh)
        by_age = np.argsort(jobs[SEQ][waiting[:count]], kind="mergesort")
        rows = waiting[:count][by_age][np.argsort(fresh[:count][by_age], kind="mergesort")]
    else:
        rows = waiting[: rows_in_order(q_items, q_info, q_meta, waiting)]
    for row in rows:
        jobs[RESERVED, row] = UNRESERVED
    return _settle_rows(now, False, rows, jobs, slots, gauges, ready)


@compiled_lean
def plan_conservatively(
    now, released, changing, alone, must, entry, parameters, usage, waiting, fresh, rows, jobs, keys, q_items, q_info,
    q_meta, r_items, r_info, r_meta, slots, gauges, ready,
):  # fmt: skip
    """Promise arrivals a start, find who may start now; their rows go into `ready`: how many?

    must: arrivals and those whose time has come; the others stand on the ladder, which is in order unless `changing`.
    waiting, fresh and rows are room to work in.
    """
    forget_past(slots, gauges, now)
    slots[LASTING + 1, 0] = STALE
    if gauges[VOID] == 1:
        return _plan_anew(
            now, changing, entry, parameters, usage, waiting, fresh, jobs, q_items, q_info, q_meta, r_items, r_info,
            r_meta, slots, gauges, ready,
        )  # fmt: skip
    if changing:
        return _settle_by_score(
            now, released, alone, must, entry, parameters, usage, waiting, fresh, rows, jobs, keys, q_items, q_info,
            q_meta, slots, gauges, ready,
        )  # fmt: skip
    in_turn = rows[: scoring.copy_rows(must, rows)]
    scoring.sort_rows(in_turn, keys[SCORE], jobs)
    if released:
        return _settle_queue(now, in_turn, jobs, keys[SCORE], q_items, q_info, q_meta, slots, gauges, ready)
    return _settle_rows(now, released, in_turn, jobs, slots, gauges, ready)


# ---- who fits now ---------------------------------------------------------------------------------------------------


@compiled_lean
def _note_lasting(slots, gauges, now):
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


@compiled_lean
def _fits_now(now, nodes, limit, slots):
    step = 0
    while slots[LASTING, step] < now + limit:
        step += 1
    return nodes <= slots[LASTING + 1, step]


@compiled_lean
def _start_rows(now, rows, begin, end, left, jobs, slots, gauges, ready, count):
    """Start those of rows[begin:end] who find nodes from now on for all their time; nodes left, how many ready."""
    for index in range(begin, end):
        row = rows[index]
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        if nodes <= left and (limit == 0 or _fits_now(now, nodes, limit, slots)):
            occupy(slots, gauges, now, now + limit, nodes)
            _note_lasting(slots, gauges, now)
            ready[count] = row
            count += 1
            left -= nodes
    return left, count


@compiled_lean
def _start_from_ladder(
    now, left, jobs, q_items, q_info, q_meta, place, position, slots, gauges, ready, count
):  # fmt: skip
    while place < q_meta[RUNGS] and left > 0:
        rung = q_info[ORDER, place]
        fewest, shortest = q_info[MIN_NODES, rung], q_info[MIN_LIMIT, rung]
        if fewest <= left and (shortest == 0 or _fits_now(now, fewest, shortest, slots)):
            left, count = _start_rows(
                now, q_items[rung], position, q_info[SIZE, rung], left, jobs, slots, gauges, ready, count
            )  # fmt: skip
        place, position = place + 1, 0
    return count


@compiled
def _start_what_fits(
    now, rest, left, jobs, q_items, q_info, q_meta, place, position, slots, gauges, ready, count
):  # fmt: skip
    """Whoever finds nodes free from now on for all its time may start; it disturbs no reservation."""
    _note_lasting(slots, gauges, now)
    left, count = _start_rows(now, rest, 0, len(rest), left, jobs, slots, gauges, ready, count)
    return _start_from_ladder(
        now, left, jobs, q_items, q_info, q_meta, place, position, slots, gauges, ready, count
    )  # fmt: skip


@compiled_lean
def _reserve_to_depth(now, depth, waiting, jobs, slots, gauges, ready):
    """Start or reserve in order until `depth` reservations stand; how many are ready, nodes left, how far it went."""
    count, left, reserved, index = 0, gauges[FREE], 0, 0
    while index < len(waiting) and reserved < depth:
        row = waiting[index]
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        start = earliest(slots, gauges, now, nodes, limit) if limit > 0 else now
        if start == now and nodes <= left:
            occupy(slots, gauges, now, now + limit, nodes)
            ready[count] = row
            count += 1
            left -= nodes
        else:
            if limit == 0:
                start = earliest(slots, gauges, now, nodes, SECOND)
            if start < FOREVER:
                occupy(slots, gauges, start, start + planned(limit), nodes)
            reserved += 1
        index += 1
    gauges[HEAD] = waiting[index - 1] if reserved == depth else -1  # the last one with a reservation
    return count, left, index


@compiled
def plan_to_depth(
    now, depth, waiting, second, two_orders, jobs, q_items, q_info, q_meta, place, position, slots, gauges, ready
):  # fmt: skip
    """Start or reserve in order until `depth` reservations stand; after that start only what disturbs none.

    waiting: the queue in order as far as needed for that; the rest is on the ladder from this place and position on.
    """
    count, left, index = _reserve_to_depth(now, depth, waiting, jobs, slots, gauges, ready)
    rest = waiting[index:]
    if two_orders:
        rest = rest[np.argsort(jobs[SEQ][rest], kind="mergesort")]
        rest = rest[np.argsort(second[rest], kind="mergesort")]
    return _start_what_fits(
        now, rest, left, jobs, q_items, q_info, q_meta, place, position, slots, gauges, ready, count
    )  # fmt: skip


@compiled
def plan_arrivals(now, arrivals, jobs, q_items, q_info, q_meta, slots, gauges, ready):
    """The reservations stand: start the arrivals that disturb none."""
    place = q_meta[RUNGS]  # nobody else
    return _start_what_fits(
        now, arrivals, gauges[FREE], jobs, q_items, q_info, q_meta, place, 0, slots, gauges, ready, 0
    )  # fmt: skip
