"""The scheduling pass in compiled form, for machines whose nodes are interchangeable and given out whole.

`schedule_pass` starts what the order and the reservation depth allow; it knows requested times only, never
true ends. The live core and the simulator's whole-trace driver both call it. Its readable twin is the loop
in core/decide.py over core/timeline.py; property tests hold the two together on random traces.

Rules (design/cli.md): the head's shadow is the earliest instant at which, by requested times, enough nodes are
free; extra = nodes free then, after all jobs expected to end by then, minus the head's; a later job starts now
if it fits and either ends by the shadow (inclusive) or needs no more than extra, which it then reduces.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled, compiled_inline, compiled_lean
from cohabit.core import conservative, ladder, overrunning, passing, profile, promises, reservations, scoring
from cohabit.core.columns import (
    AGE_LIMIT,
    AGE_RUNS,
    ARRIVAL,
    BACKFILL_SCORE,
    ELIGIBLE,
    ENDS,
    EXPECTED,
    EXTRA,
    FREE,
    HEAD,
    LIMIT,
    NODES,
    QUEUED,
    RELEASED,
    RESERVED,
    RUN_US,
    RUNNING,
    RUNS,
    SCORE,
    SEQ,
    SHADOW,
    START,
    STARTED,
    STATE,
    VOID,
    WAKE,
)
from cohabit.core.idle_nodes import release_nodes, take_nodes
from cohabit.core.ladder import MIN_LIMIT, MIN_NODES, ORDER, ROWS, RUNGS, SIZE

FOREVER = 2**62
FIRST_FIT, STRICT, EASY = -1, 0, 1  # reservation depths with a meaning of their own
CONSERVATIVE = 2**31  # every queued job keeps a reservation
FEW = 8  # so many starts in a pass are found one by one, the rest by sorting


# ---- one job in, one job out -----------------------------------------------------------------------------------


@compiled_lean
def enqueue(row, by_score, two_ladders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta):
    """Put a job into the queue: by score, or, where scores change, as keys[ARRIVAL] says.

    A second order whose scores do not change has its own ladder, or the queue stands on it by size.
    """
    jobs[STATE, row] = QUEUED
    key = keys[SCORE] if by_score else keys[ARRIVAL]
    ladder.insert(q_items, q_info, q_meta, jobs, key, jobs[SEQ], row)
    if two_ladders and by_score:
        ladder.insert(b_items, b_info, b_meta, jobs, keys[BACKFILL_SCORE], jobs[SEQ], row)


@compiled_lean
def dequeue(row, by_score, two_ladders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta):
    """Take a job out of the queue."""
    key = keys[SCORE] if by_score else keys[ARRIVAL]
    ladder.remove(q_items, q_info, q_meta, jobs, key, jobs[SEQ], row)
    if two_ladders and by_score:
        ladder.remove(b_items, b_info, b_meta, jobs, keys[BACKFILL_SCORE], jobs[SEQ], row)


@compiled_lean
def begin(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started):
    """Mark a job running from now until its requested end, on nodes of its own."""
    take_nodes(row, jobs, idle, pool, gauges)
    jobs[STATE, row], jobs[START, row], jobs[EXPECTED, row] = RUNNING, now, now + jobs[LIMIT, row]
    keys[ENDS, row] = jobs[EXPECTED, row]
    ladder.insert(r_items, r_info, r_meta, jobs, keys[ENDS], jobs[SEQ], row)
    started[gauges[STARTED]] = row
    gauges[STARTED] += 1


@compiled_lean
def finish(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, slots, depth):
    """A running job ended: its nodes are idle again."""
    ladder.remove(r_items, r_info, r_meta, jobs, keys[ENDS], jobs[SEQ], row)
    release_nodes(row, jobs, idle, pool, gauges)
    gauges[RELEASED] = 1
    if depth == CONSERVATIVE:
        if now > jobs[START, row] + jobs[LIMIT, row]:
            gauges[VOID] = 1
        else:
            profile.give_back(slots, gauges, now, jobs[EXPECTED, row], jobs[NODES, row])


@compiled_lean
def age_limit(gauges):
    """After which wait nobody may overtake a job any more: fixed, or so many thousandths of the mean run so far."""
    if gauges[AGE_LIMIT] > 0:
        return gauges[AGE_LIMIT]
    if gauges[AGE_RUNS] > 0 and gauges[RUNS] > 0:
        return np.int64(gauges[AGE_RUNS] / 1000.0 * gauges[RUN_US] / gauges[RUNS])
    return FOREVER


# ---- the pass -----------------------------------------------------------------------------------------------------


@compiled_lean
def backfill(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started):
    """Start a job that may pass the head."""
    if now + jobs[LIMIT, row] > gauges[SHADOW]:
        gauges[EXTRA] -= jobs[NODES, row]
    begin(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)


@compiled_inline
def _pass_in_ladder_order(
    now, depth, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, two_orders,
    r_items, r_info, r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Scores that do not change: the ladder is the order, and only the head and fitting rungs are looked at."""
    while q_meta[ROWS] > 0:
        head = q_items[q_info[ORDER, 0], 0]
        if jobs[NODES, head] > gauges[FREE]:
            break
        dequeue(head, True, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
        begin(head, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
    if q_meta[ROWS] < 2 or depth == STRICT or gauges[FREE] == 0:
        gauges[HEAD] = -1
        return
    head = q_items[q_info[ORDER, 0], 0]
    if now - jobs[ELIGIBLE, head] >= age_limit(gauges):  # in order of age the head is the oldest
        gauges[HEAD] = -1
        return
    gauges[SHADOW], gauges[EXTRA] = FOREVER, 0
    if depth == EASY:
        gauges[SHADOW], gauges[EXTRA] = passing.shadow_of(
            jobs[NODES, head], jobs, r_items, r_info, r_meta, gauges[FREE]
        )
    gauges[HEAD] = head
    first_started = gauges[STARTED]
    items, info, meta = (b_items, b_info, b_meta) if two_orders else (q_items, q_info, q_meta)
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        fewest = info[MIN_NODES, rung]
        if fewest > gauges[FREE] or (fewest > gauges[EXTRA] and now + info[MIN_LIMIT, rung] > gauges[SHADOW]):
            continue
        for position in range(info[SIZE, rung]):
            row = items[rung, position]
            if row != head and passing.may_backfill(row, now, jobs, gauges):
                backfill(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
                if gauges[FREE] == 0:
                    break
        if gauges[FREE] == 0:
            break
    for index in range(first_started, gauges[STARTED]):
        dequeue(started[index], True, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)


@compiled_inline
def _pass_over_arrivals(
    now, arrivals, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, two_orders,
    r_items, r_info, r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Nothing was released and the head is the same: those refused before stay refused, only arrivals can start."""
    if now - jobs[ELIGIBLE, gauges[HEAD]] >= age_limit(gauges):
        return
    scoring.sort_rows(arrivals, keys[BACKFILL_SCORE if two_orders else SCORE], jobs)
    for row in arrivals:
        if passing.may_backfill(row, now, jobs, gauges):
            dequeue(row, True, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
            backfill(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)


@compiled
def _backfill_sorted(now, waiting, scores, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started):
    """Start who may pass the head, in order of score."""
    for row in waiting[np.argsort(scores, kind="mergesort")]:
        if passing.may_backfill(row, now, jobs, gauges):
            backfill(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)


@compiled_lean
def _pass_in_score_order(
    now, depth, waiting, scores, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, two_orders,
    r_items, r_info, r_meta, idle, pool, gauges, started,
):  # fmt: skip
    """Scores that change with time, just computed for `waiting` (in order of submission)."""
    first_started, head, left = gauges[STARTED], np.int64(-1), len(waiting)
    while left > 0:
        best = passing.least(waiting, scores[0])
        head = waiting[best]
        if jobs[NODES, head] > gauges[FREE]:
            break
        begin(head, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
        waiting[best], scores[0, best] = -1, np.inf
        left -= 1
    if left > 1 and depth != STRICT and gauges[FREE] > 0:
        gauges[SHADOW], gauges[EXTRA] = FOREVER, 0
        if depth == EASY:
            gauges[SHADOW], gauges[EXTRA] = passing.shadow_of(
                jobs[NODES, head], jobs, r_items, r_info, r_meta, gauges[FREE]
            )
        second = scores[1 if two_orders else 0]
        able = passing.able_to_pass(head, now, waiting, second, jobs, q_info, q_meta, gauges)
        most = gauges[STARTED] + FEW
        while able > 0 and gauges[STARTED] < most:  # mostly one or two start: no need to sort everybody
            best = passing.least(waiting[:able], second)
            backfill(waiting[best], now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
            able = passing.still_able(able, best, now, waiting, second, jobs, gauges)
        if able > 0:
            _backfill_sorted(
                now, waiting[:able], second[:able], jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started
            )  # fmt: skip
    for index in range(first_started, gauges[STARTED]):
        dequeue(started[index], False, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)


@compiled_lean
def _who_matters(depth, jobs, q_items, q_info, q_meta, gauges, waiting):
    """The queue in order up to the `depth`-th who does not fit the idle nodes, and those of the rest who fit; how many.

    Behind that one nobody gets a reservation.
    """
    count, blocked = 0, 0
    for place in range(q_meta[RUNGS]):
        rung = q_info[ORDER, place]
        if blocked < depth or q_info[MIN_NODES, rung] <= gauges[FREE]:
            for position in range(q_info[SIZE, rung]):
                row = q_items[rung, position]
                fits = jobs[NODES, row] <= gauges[FREE]
                waiting[count] = row
                count += fits or blocked < depth
                blocked += not fits
    return count


@compiled_lean
def _all_behind(row, arrivals, jobs, keys):
    """Whether a queued job comes before all of these."""
    for other in arrivals:
        if not scoring.goes_before(row, other, keys[SCORE], jobs):
            return False
    return True


@compiled
def _pass_to_depth(
    now, depth, released, waiting, scores, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, two_orders,
    by_size, changing, rows, r_items, r_info, r_meta, idle, pool, gauges, started, slots,
):  # fmt: skip
    """A finite depth of two and more: a profile of free nodes over time that holds the reservations.

    As long as nothing is released and no instant of the profile has passed, the reservations would come out the same,
    and those refused before stay refused; only arrivals that come behind the reservations can start.
    """
    second, count = keys[BACKFILL_SCORE if two_orders else SCORE], 0
    stand = not changing and not released and gauges[HEAD] >= 0 and profile.still_holds(now, slots, gauges)
    rungs, info = (1, b_info) if by_size and b_meta[RUNGS] > 0 else (q_meta[RUNGS], q_info)
    if stand and _all_behind(gauges[HEAD], waiting, jobs, keys):
        scoring.sort_rows(waiting, second, jobs)
        count = reservations.plan_arrivals(now, waiting, jobs, slots, gauges, started)
    elif none_can_start(rungs, info, gauges) or (
        by_size
        and passing.first_keeps_all_back(
            q_items[q_info[ORDER, 0], 0], now, jobs, b_items, b_info, b_meta, r_items, r_info, r_meta, gauges
        )
    ):
        gauges[HEAD] = -1
    else:
        profile.rebuild(now, jobs, r_items, r_info, r_meta, gauges[FREE], slots, gauges)
        if changing or two_orders:
            if changing:
                for index in range(len(waiting)):
                    keys[BACKFILL_SCORE, waiting[index]] = scores[1 if two_orders else 0, index]
                waiting = waiting[np.argsort(scores[0, : len(waiting)], kind="mergesort")]
            else:
                waiting = rows[0, : _who_matters(depth, jobs, q_items, q_info, q_meta, gauges, rows[0])]
            count = reservations.plan_to_depth(now, depth, waiting, second, two_orders, jobs, slots, gauges, started)
        else:
            count = reservations.plan_along_ladder(
                now, depth, by_size, second, jobs, q_items, q_info, q_meta, b_items, b_info, b_meta, slots, gauges,
                started, rows[1], rows[2],
            )  # fmt: skip
    for index in range(count):
        row, two_ladders = started[index], two_orders or by_size  # where `begin` puts it again
        dequeue(row, not changing, two_ladders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
        begin(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)


@compiled_inline
def _pass_with_promises(
    now, released, changing, by_score, by_size, alone, two_orders, arrived, entry, parameters, usage, waiting, fresh,
    rows, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges,
    slots, started,
):  # fmt: skip
    """Conservative: everybody keeps the start it was promised, or starts before."""
    concerned = arrived
    if promises.first(jobs, slots, gauges) <= now:
        concerned = promises.take_due(now, jobs, slots, gauges, waiting, arrived)
    must = rows[0, : scoring.copy_rows(waiting[:concerned], rows[0])]
    count = conservative.plan_conservatively(
        now, released, changing, alone, by_size, must, entry, parameters, usage, waiting, fresh, rows[1], jobs, keys,
        q_items, q_info, q_meta, r_items, r_info, r_meta, slots, gauges, started,
    )  # fmt: skip
    for index in range(count):
        row = started[index]  # where `begin` puts it again
        dequeue(row, by_score, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
        begin(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
    for row in must[:arrived]:
        if jobs[STATE, row] == QUEUED:
            key, least = keys[SCORE if by_score else ARRIVAL], conservative.rounded_down(keys[SCORE, row])
            ladder.lower(q_items, q_info, q_meta, key, jobs[SEQ], row, jobs[RESERVED, row], least)
    promises.note_again(must[arrived:], jobs, slots, gauges)
    promises.make_room(4 * q_meta[ROWS] + 1024, jobs, slots, gauges)
    gauges[WAKE] = promises.next_wake(now, jobs, slots, gauges)


@compiled_lean
def schedule_pass(
    now, depth, changing, by_score, by_size, alone, two_orders, arrived, entry, parameters, second_entry,
    second_parameters, usage, waiting, fresh, rows, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta,
    r_items, r_info, r_meta, idle, pool, gauges, slots, started,
):  # fmt: skip
    """Start every job that may start at `now`; the rows are in started[:gauges[STARTED]].

    waiting[:arrived]: rows enqueued since the last pass. changing: scores depend on time and are asked for here; the
    queue ladder is then kept in order of submission. Conservative: it is kept by_size, or in any order. by_size with
    another depth: the b ladder has the queue by size. waiting, fresh [order, backfill order] and rows [3] have room
    for the whole queue.
    """
    gauges[STARTED] = 0
    overrunning.extend_overrunning(now, jobs, keys, r_items, r_info, r_meta, gauges)
    released, gauges[RELEASED] = gauges[RELEASED], 0
    if depth == CONSERVATIVE:
        _pass_with_promises(
            now, released, changing, by_score, by_size, alone, two_orders, arrived, entry, parameters, usage, waiting,
            fresh[0], rows, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle,
            pool, gauges, slots, started,
        )  # fmt: skip
        return
    if changing and depth in (FIRST_FIT, EASY):
        sure = passing.sure_to_start(now, depth == EASY, jobs, q_items, q_info, q_meta, r_items, r_info, r_meta, gauges)
        if sure >= 0:
            dequeue(sure, False, two_orders, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta)
            begin(sure, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, started)
            return
    if changing:
        arrived = scoring.score_queue(
            entry, parameters, jobs, usage, q_items, q_info, q_meta, now, waiting, fresh[0]
        )  # fmt: skip
        if two_orders and arrived > 1:
            scoring.score(second_entry, second_parameters, jobs, usage, waiting[:arrived], now, fresh[1])
    if depth > EASY and gauges[FREE] > 0:
        _pass_to_depth(
            now, depth, released, waiting[:arrived], fresh, jobs, keys, q_items, q_info, q_meta, b_items, b_info,
            b_meta, two_orders, by_size, changing, rows, r_items, r_info, r_meta, idle, pool, gauges, started, slots,
        )  # fmt: skip
    elif q_meta[ROWS] == 0 or gauges[FREE] == 0:
        gauges[HEAD] = -1
    elif changing:
        _pass_in_score_order(
            now, depth, waiting[:arrived], fresh, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta,
            two_orders, r_items, r_info, r_meta, idle, pool, gauges, started,
        )  # fmt: skip
    elif not released and gauges[HEAD] >= 0 and q_items[q_info[ORDER, 0], 0] == gauges[HEAD]:
        _pass_over_arrivals(
            now, waiting[:arrived], jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, two_orders,
            r_items, r_info, r_meta, idle, pool, gauges, started,
        )  # fmt: skip
    else:
        _pass_in_ladder_order(
            now, depth, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta, two_orders,
            r_items, r_info, r_meta, idle, pool, gauges, started,
        )  # fmt: skip


@compiled_lean
def none_can_start(rungs, q_info, gauges):
    """Whether nobody on the first so many rungs fits the idle nodes at all, so that no score needs computing."""
    for place in range(rungs):
        if q_info[MIN_NODES, q_info[ORDER, place]] <= gauges[FREE]:
            return False
    return True
