"""Conservative backfilling in the profile of free nodes, compiled: who is promised what, and who may start before.

Every job keeps the start it was promised when it came; when nodes are released, whoever could start at once with all
promises to the others in place starts, in order. A promise never moves later (planning anew from nothing would break
that), and nothing but an immediate start moves it earlier. core/promises.py has the promises by time.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core import ladder, scoring
from cohabit.core.columns import FREE, LIMIT, NODES, PROMISED, PROMISES, RESERVED, SCORE, VOID
from cohabit.core.ladder import LEAST_SCORE, MIN_LIMIT, MIN_NODES, ORDER, RUNGS, SIZE, SOONEST, rows_in_order
from cohabit.core.profile import (
    FOREVER,
    LASTING,
    SECOND,
    UNRESERVED,
    forget_past,
    occupy,
    rebuild,
    reserve,
    vacate,
)
from cohabit.core.promises import make_room, note_promise
from cohabit.core.reservations import fits_now, free_until, note_lasting, planned

STALE = -1  # in place of the first number of nodes that last: they must be counted anew


@compiled_lean
def _reserve(row, now, jobs, slots, gauges):
    start = reserve(slots, gauges, now, jobs[NODES, row], planned(jobs[LIMIT, row]))
    if start < FOREVER:
        make_room(slots.shape[1], jobs, slots, gauges)
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


@compiled_inline
def _lasts_now(now, nodes, length, slots, gauges):
    """Whether so many nodes are free from now on for so long."""
    if slots[LASTING + 1, 0] == STALE:
        note_lasting(slots, gauges, now)
    return fits_now(now, nodes, length, slots)


@compiled_inline
def could_start_early(row, now, left, jobs, slots, gauges):
    """Whether it finds nodes from now on for all its time; from its own promise on, those it was promised last."""
    start, nodes = jobs[RESERVED, row], jobs[NODES, row]
    if start <= now or nodes > left:
        return False
    return _lasts_now(now, nodes, min(planned(jobs[LIMIT, row]), start - now), slots, gauges)


@compiled_inline
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


@compiled_inline
def _one_may_fit(rung, now, left, q_info, slots, gauges):
    """Whether somebody on the rung might start early, by its summary."""
    fewest = q_info[MIN_NODES, rung]
    shortest = min(q_info[MIN_LIMIT, rung], q_info[SOONEST, rung] - now)  # who asked for 0 holds a second, others less
    return fewest <= left and _lasts_now(now, fewest, shortest, slots, gauges)


@compiled_inline
def rounded_down(score):
    return np.int64(np.floor(min(max(score, -1.0 * FOREVER), 1.0 * FOREVER)))


@compiled_inline
def _may_start_early(rung, now, left, latest, jobs, q_items, q_info, out):
    """Who on the rung might start early where its narrowest find nodes until `latest`: written into `out`, how many?

    And whether that is certain: all on the rung are as narrow.
    """
    rows, count, soonest, widest = q_items[rung], 0, FOREVER, 0
    for position in range(q_info[SIZE, rung]):  # no branches: which way they go is hard to foresee
        row = np.int64(rows[position])
        nodes, limit, promised = jobs[NODES, row], jobs[LIMIT, row], jobs[RESERVED, row]
        soonest, widest = min(soonest, promised), max(widest, nodes)
        out[count] = row
        count += (nodes <= left) & (promised > now) & (min(now + planned(limit), promised) <= latest)
    q_info[SOONEST, rung] = soonest
    return count, widest == q_info[MIN_NODES, rung]


@compiled_inline
def _equals_who_start_early(rung, now, latest, jobs, q_items, q_info, out):
    """Who of a rung by size, all as wide, finds nodes that are free until `latest`; from then on one has its own."""
    rows, count, soonest = q_items[rung], 0, FOREVER
    short = ladder.not_longer(rung, latest - now, q_items, q_info, jobs)
    for position in range(q_info[SIZE, rung]):
        row = np.int64(rows[position])
        promised = jobs[RESERVED, row]
        soonest = min(soonest, promised)
        out[count] = row
        count += (promised > now) & ((position < short) | (promised <= latest))
    q_info[SOONEST, rung] = soonest
    return count


@compiled_inline
def _look_along(
    rung, now, left, last, best, changing, by_size, count, jobs, score, q_items, q_info, slots, gauges, rows
):  # fmt: skip
    """Who of the rung could start early: all are written into `rows`, or, where scores are known, the first is told."""
    if not changing:
        least = np.inf
        for row in q_items[rung, : q_info[SIZE, rung]]:
            least = min(least, score[row])
        q_info[LEAST_SCORE, rung] = rounded_down(least)
    latest = free_until(now, q_info[MIN_NODES, rung], slots)
    if by_size and latest - now >= SECOND and ladder.all_as_wide(rung, q_items, q_info, jobs):
        found, certain = _equals_who_start_early(rung, now, latest, jobs, q_items, q_info, rows[count:]), True
    else:
        found, certain = _may_start_early(rung, now, left, latest, jobs, q_items, q_info, rows[count:])
    if changing and certain:
        return best, count + found
    for row in rows[count : count + found]:
        if certain or could_start_early(row, now, left, jobs, slots, gauges):
            if changing:
                rows[count] = row
                count += 1
            elif (last < 0 or scoring.goes_before(last, row, score, jobs)) and (
                best < 0 or scoring.goes_before(row, best, score, jobs)
            ):
                best = row
    return best, count


@compiled_inline
def _find_concerned(
    now, released, left, last, changing, by_size, must, jobs, score, q_items, q_info, q_meta, slots, gauges, rows
):  # fmt: skip
    """Write into `rows` who must be looked at and, after a release, who could start early; how many are there?

    Where scores do not change, of those who could start early only the first after `last` is needed.
    """
    count, best = 0, np.int64(-1)
    for row in must:
        rows[count] = row
        count += jobs[RESERVED, row] <= now  # else it has had its turn
    for place in range(q_meta[RUNGS] if released else 0):
        rung = q_info[ORDER, place]
        if by_size and q_info[MIN_NODES, rung] > left:
            break
        behind = best >= 0 and q_info[LEAST_SCORE, rung] > score[best]
        if not behind and _one_may_fit(rung, now, left, q_info, slots, gauges):
            best, count = _look_along(
                rung, now, left, last, best, changing, by_size, count, jobs, score, q_items, q_info, slots, gauges, rows
            )  # fmt: skip
    rows[count] = best
    return count + (best >= 0)


@compiled_inline
def _score_concerned(
    now, alone, found, last, entry, parameters, usage, waiting, fresh, rows, jobs, score, q_items, q_info, q_meta
):  # fmt: skip
    """Scores of those found and of the last who had its turn, if any, or of the whole queue if not `alone`."""
    asked = found + (last >= 0)
    if not alone:
        asked = rows_in_order(q_items, q_info, q_meta, waiting)
    else:
        waiting[scoring.copy_rows(rows[:found], waiting)] = last
    scoring.score(entry, parameters, jobs, usage, waiting[:asked], now, fresh)
    for index in range(asked):
        score[waiting[index]] = fresh[index]


@compiled_inline
def _those_after(last, rows, score, jobs):
    """Leave who comes after the last who had its turn, if any, with the first to go in front; how many?"""
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
    now, released, changing, alone, by_size, must, entry, parameters, usage, waiting, fresh, rows, jobs, keys, q_items,
    q_info, q_meta, slots, gauges, ready,
):  # fmt: skip
    """In order of score those who must be looked at and, after a release, those who could start early; how many start.

    Only where there are two of them the order matters. One who starts early gives up its promise, which may let others
    do so: they are looked for again. alone: such scores may be asked for some rows alone; else for the whole queue.
    """
    count, left, last, found, turns, score = 0, gauges[FREE], np.int64(-1), 0, 0, keys[SCORE]
    known, search = not changing, True
    while search or found > 0:
        if search:
            found = _find_concerned(
                now, released, left, last, changing, by_size, must, jobs, score, q_items, q_info, q_meta, slots,
                gauges, rows,
            )  # fmt: skip
            if not known and found + (last >= 0) > 1:
                known = not alone
                _score_concerned(
                    now, alone, found, last, entry, parameters, usage, waiting, fresh, rows, jobs, score, q_items,
                    q_info, q_meta,
                )  # fmt: skip
            found, search, turns = _those_after(last, rows[:found], score, jobs), False, 0
            continue
        if turns == 1:  # mostly one has its turn
            scoring.make_heap(rows[:found], score, jobs)
        row, found, turns = rows[0], found - 1, turns + 1
        rows[0] = rows[found]
        if turns > 1:
            scoring.sink(rows, 0, found, score, jobs)
        early = jobs[RESERVED, row] > now
        if early and not could_start_early(row, now, left, jobs, slots, gauges):  # somebody took what it found
            if not changing:  # the next one has not been looked for
                search, last = True, row
            continue
        if _settle(row, now, released, left, jobs, slots, gauges):
            ready[count] = row
            count += 1
            left -= jobs[NODES, row]
            search, last = released and (early or jobs[LIMIT, row] == 0), row
    return count


@compiled_lean
def _plan_anew(
    now, changing, entry, parameters, usage, waiting, fresh, jobs, keys, q_items, q_info, q_meta, r_items, r_info,
    r_meta, slots, gauges, ready,
):  # fmt: skip
    """A job overran its request or nodes were lost: nobody is promised anything any more."""
    rebuild(now, jobs, r_items, r_info, r_meta, gauges[FREE], slots, gauges)
    gauges[VOID], gauges[PROMISES] = 0, 0
    for place in range(q_meta[RUNGS]):
        q_info[SOONEST, q_info[ORDER, place]] = -1
    if changing:
        count = scoring.score_queue(entry, parameters, jobs, usage, q_items, q_info, q_meta, now, waiting, fresh)
        for index in range(count):
            keys[SCORE, waiting[index]] = fresh[index]
    rows = waiting[: rows_in_order(q_items, q_info, q_meta, waiting)]
    scoring.sort_rows(rows, keys[SCORE], jobs)
    for row in rows:
        jobs[RESERVED, row] = UNRESERVED
    return _settle_rows(now, False, rows, jobs, slots, gauges, ready)


@compiled_inline
def plan_conservatively(
    now, released, changing, alone, by_size, must, entry, parameters, usage, waiting, fresh, rows, jobs, keys, q_items,
    q_info, q_meta, r_items, r_info, r_meta, slots, gauges, ready,
):  # fmt: skip
    """Promise arrivals a start, find who may start now; their rows go into `ready`: how many?

    must: arrivals and those whose time has come; the others stand on the ladder, by_size: narrow ones first and of
    these the short, else in any order. changing: scores are asked for, else keys[SCORE] has them.
    waiting, fresh and rows are room to work in.
    """
    forget_past(slots, gauges, now)
    slots[LASTING + 1, 0] = STALE
    if gauges[VOID] == 1:
        return _plan_anew(
            now, changing, entry, parameters, usage, waiting, fresh, jobs, keys, q_items, q_info, q_meta, r_items,
            r_info, r_meta, slots, gauges, ready,
        )  # fmt: skip
    return _settle_in_turn(
        now, released, changing, alone, by_size, must, entry, parameters, usage, waiting, fresh, rows, jobs, keys,
        q_items, q_info, q_meta, slots, gauges, ready,
    )  # fmt: skip
