"""A pass over orders whose scores change with time: EASY, first-fit, strict order and a finite depth.

Scores come from the shortlist: of a few jobs if the order only falls, else of the whole queue at once. The first jobs
of the queue are found one by one. Jobs that may pass them are then looked for in order of their bounds, and only as far
as one could go before the best found. Jobs that start stay on the queue's ladders until the pass ends.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core.columns import (
    EXTRA,
    FREE,
    HEAD,
    LIMIT,
    NODES,
    QUEUED,
    RELEASED,
    RESERVED,
    SEQ,
    SHADOW,
    STARTED,
    STATE,
    Ints,
)
from cohabit.core.kernels import ladder, profile, scoring, shortlist
from cohabit.core.kernels.bundles import EASY, STRICT, Machine, Queue, Rule, Scorer, Workspace
from cohabit.core.kernels.depth import (
    disturbs_no_promise,
    free_until,
    none_fits,
    note_lasting,
    places_that_may_fit,
    starts_or_is_promised,
)
from cohabit.core.kernels.easy import backfill, first_keeps_all_back, may_backfill, set_head, sure_to_start
from cohabit.core.kernels.ladder import MIN_LIMIT, MIN_NODES, ORDER, ROWS, RUNGS, SIZE
from cohabit.core.kernels.moves import begin, dequeue
from cohabit.core.kernels.overrunning import open_pass
from cohabit.core.kernels.shortlist import (
    ABLE,
    ABLE_COUNT,
    ABLE_SCORED,
    BOUND,
    CHEAP_CALLS,
    LOOKED,
    PLACE,
    POSITION,
    SCORED,
    UNBOUNDED,
    best_of,
)
from cohabit.core.kernels.sorting import before, sort
from cohabit.model.units import FOREVER

PROMISED = 2  # row of work.rows: jobs promised a start in the last pass, in order
FIRST_FOUND, MOST_FOUND = 4, 64  # jobs looked for at once: at first, and at most
NOTE_AT_MOST = 128  # jobs found by size; where there are more, the queue is scanned
SORT_AFTER = 8  # starts in a pass that are found one by one; the rest by sorting
PLANNED, STANDS, KEPT_BACK = 0, 1, 2  # the state of the promises


# ---- the first of the queue -----------------------------------------------------------------------------------------


@compiled_inline
def _take_out(index: int, work: Workspace) -> None:
    """Take out a job that was the first of the queue and has started or been promised a start."""
    work.scores[LOOKED, index] = np.nan


@compiled_inline
def _best_left(queue: Queue, work: Workspace, marks: Ints) -> int:
    return best_of(0, marks[SCORED], -1, work.rows[LOOKED], work.scores[LOOKED], queue.jobs[SEQ])


@compiled_inline
def _start_heads(now: int, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace) -> int:
    """Start the first job as long as it fits; return the first that does not fit, or -1."""
    best, gauges = -1, machine.gauges
    while gauges[STARTED] < queue.order.meta[ROWS]:
        best = shortlist.first_of_queue(now, best, queue, scorer, work)
        head = work.rows[LOOKED, best]
        if queue.jobs[NODES, head] > gauges[FREE]:
            return int(head)
        begin(head, now, queue, machine, work.started)
        _take_out(best, work)
        best = _best_left(queue, work, scorer.shortlist.marks)
    return -1


@compiled_inline
def _plan_again(now: int, promised: Ints, jobs: Ints, machine: Machine) -> None:
    """Make the profile anew with these promises, in order."""
    profile.rebuild(now, jobs, machine)
    for row in promised:
        starts_or_is_promised(row, now, jobs, machine)


@compiled_lean
def _start_or_promise(
    now: int, rule: Rule, stands: bool, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace
) -> int:
    """Start or promise in order until `depth` promises stand; return whether the old ones do, or no job can start."""
    jobs, gauges, promised = queue.jobs, machine.gauges, work.rows[PROMISED]
    best, reserved, begun = -1, 0, False
    while reserved < rule.depth and gauges[STARTED] + reserved < queue.order.meta[ROWS]:
        best = shortlist.first_of_queue(now, best, queue, scorer, work)
        row = work.rows[LOOKED, best]
        if not begun and rule.by_size and first_keeps_all_back(row, now, queue, machine):
            if not stands or row != promised[0]:  # else arrivals are refused by the old promises, too
                gauges[HEAD] = -1
            return KEPT_BACK
        if (not begun and not stands) or (stands and row != promised[reserved]):
            stands = False
            _plan_again(now, promised[:reserved], jobs, machine)
        begun = True
        if not stands and starts_or_is_promised(row, now, jobs, machine):
            begin(row, now, queue, machine, work.started)
        else:
            promised[reserved] = row
            if rule.falling:
                jobs[RESERVED, row] = now
            reserved += 1
        _take_out(best, work)
        best = _best_left(queue, work, scorer.shortlist.marks)
    gauges[HEAD] = promised[rule.depth - 1] if reserved == rule.depth else -1
    return STANDS if stands else PLANNED


# ---- jobs that may pass the head ------------------------------------------------------------------------------------


@compiled_inline
def _may_pass(row: int, now: int, rule: Rule, jobs: Ints, machine: Machine) -> bool:
    """Return whether a job may start now without breaking a promise."""
    if rule.depth > EASY:
        nodes, limit = jobs[NODES, row], jobs[LIMIT, row]
        promised = rule.falling and jobs[RESERVED, row] == now
        return disturbs_no_promise(now, nodes, limit, machine.gauges[FREE], machine.slots) and not promised
    return may_backfill(row, now, jobs, machine.gauges)


@compiled_inline
def _waits(row: int, jobs: Ints, gauges: Ints) -> bool:
    """Return whether a job is neither the head nor started in this pass."""
    found: bool = row != gauges[HEAD] and (gauges[STARTED] == 0 or jobs[STATE, row] == QUEUED)
    return found


@compiled_inline
def _able_on(rung: int, now: int, rule: Rule, queue: Queue, machine: Machine) -> int:
    """Return how many jobs of a rung by size may pass the head by their sizes, or more; they come first on the rung."""
    info, gauges = queue.second.info, machine.gauges
    nodes = info[MIN_NODES, rung]
    if rule.depth > EASY:
        longest = free_until(now, nodes, machine.slots) - now
    else:
        longest = FOREVER if nodes <= gauges[EXTRA] else gauges[SHADOW] - now
    if info[MIN_LIMIT, rung] > longest:
        return 0
    if ladder.all_as_wide(rung, queue.second, queue.jobs):
        return ladder.not_longer(rung, longest, queue.second, queue.jobs)
    found: int = info[SIZE, rung]
    return found


@compiled_lean
def _note_by_size(now: int, rule: Rule, queue: Queue, machine: Machine, work: Workspace, marks: Ints) -> bool:
    """Note all jobs that may pass the head, found by their sizes; False: there are too many."""
    (items, info, meta), jobs, gauges, able = queue.second, queue.jobs, machine.gauges, 0
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        if info[MIN_NODES, rung] > gauges[FREE]:
            break
        for position in range(_able_on(rung, now, rule, queue, machine)):
            row = items[rung, position]
            if _may_pass(row, now, rule, jobs, machine) and _waits(row, jobs, gauges):
                if able == NOTE_AT_MOST:
                    return False
                work.rows[ABLE, able] = row
                able += 1
    marks[ABLE_COUNT] = able
    return True


@compiled_inline
def _note_scored(now: int, rule: Rule, queue: Queue, machine: Machine, work: Workspace, marks: Ints) -> None:
    """Note all jobs that may pass the head, with their scores, where the whole queue has been scored."""
    rows, scores, able = work.rows, work.scores, 0
    for index in range(marks[SCORED]):
        row, score = rows[LOOKED, index], scores[LOOKED, index]
        rows[ABLE, able], scores[ABLE, able] = row, score
        able += score == score and row != machine.gauges[HEAD] and _may_pass(row, now, rule, queue.jobs, machine)
    marks[ABLE_COUNT] = marks[ABLE_SCORED] = able


@compiled_inline
def _score_all_by_second_order(
    now: int, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace, marks: Ints
) -> None:
    """Score the noted jobs by the second order, which needs the whole queue."""
    jobs, count, able = queue.jobs, marks[SCORED], 0
    for index in range(count):
        work.waiting[index] = work.rows[LOOKED, index]
    scoring.score_rows_second(work.waiting[:count], now, jobs, scorer, work.fresh[1])
    for index in range(count):
        if able < marks[ABLE_COUNT] and work.rows[ABLE, able] == work.waiting[index]:
            work.scores[ABLE, able] = work.fresh[1, index]
            able += 1


@compiled_inline
def _fitting(first: int, rows: Ints, now: int, jobs: Ints, gauges: Ints, out: Ints) -> int:
    """Write into `out` the places from `first` on whose jobs may pass the head under EASY; return how many."""
    free, extra, longest, count = gauges[FREE], gauges[EXTRA], gauges[SHADOW] - now, 0
    for place in range(first, len(rows)):  # no branches: they are hard to predict
        nodes = jobs[NODES, rows[place]]
        out[count] = place
        count += (nodes <= free) & ((nodes <= extra) | (jobs[LIMIT, rows[place]] <= longest))
    return count


@compiled_inline
def _places_on(rung: int, position: int, now: int, rule: Rule, queue: Queue, machine: Machine, out: Ints) -> int:
    """Write into `out` the places of a rung whose jobs may pass the head, or more; return how many."""
    (items, info, _), gauges = queue.order, machine.gauges
    rows, fewest, shortest = items[rung, : info[SIZE, rung]], info[MIN_NODES, rung], info[MIN_LIMIT, rung]
    if rule.depth > EASY:
        if disturbs_no_promise(now, fewest, shortest, gauges[FREE], machine.slots):
            return places_that_may_fit(now, position, rows, queue.jobs, machine, out)
    elif fewest <= gauges[FREE] and (fewest <= gauges[EXTRA] or shortest <= gauges[SHADOW] - now):
        return _fitting(position, rows, now, queue.jobs, gauges, out)
    return 0


@compiled_lean
def _note_more(
    wanted: int, best: int, now: int, rule: Rule, queue: Queue, machine: Machine, work: Workspace, marks: Ints
) -> None:
    """Note `wanted` more jobs that may pass the head, as long as they could go before `best`."""
    (items, info, meta), jobs, seq = queue.order, queue.jobs, queue.jobs[SEQ]
    rows, scores, able = work.rows[ABLE], work.scores[ABLE], marks[ABLE_COUNT]
    enough, place, position = able + wanted, marks[PLACE], marks[POSITION]
    while place < meta[RUNGS] and able < enough:
        rung, end = info[ORDER, place], info[SIZE, info[ORDER, place]]
        for index in range(_places_on(rung, position, now, rule, queue, machine, work.waiting)):
            row = items[rung, work.waiting[index]]
            if rule.depth > EASY and not _may_pass(row, now, rule, jobs, machine):
                continue
            if not _waits(row, jobs, machine.gauges):
                continue
            if able == enough or (best >= 0 and before(scores[best], rows[best], queue.keys[BOUND, row], row, seq)):
                enough, end = able, work.waiting[index]
                break
            rows[able] = row
            able += 1
        place, position = (place + 1, 0) if end == info[SIZE, rung] else (place, end)
    marks[PLACE], marks[POSITION], marks[ABLE_COUNT] = place, position, able


@compiled_lean
def _score_noted(now: int, rule: Rule, jobs: Ints, scorer: Scorer, work: Workspace, marks: Ints) -> int:
    """Score the noted jobs that have no score yet; return how many."""
    first, count = marks[ABLE_SCORED], marks[ABLE_COUNT] - marks[ABLE_SCORED]
    for index in range(count):
        work.waiting[index] = work.rows[ABLE, first + index]
    if rule.two_orders:
        scoring.score_rows_second(work.waiting[:count], now, jobs, scorer, work.fresh[1])
    else:
        scoring.score_rows(work.waiting[:count], now, jobs, scorer, work.fresh[0])
    for index in range(count):
        work.scores[ABLE, first + index] = work.fresh[1 if rule.two_orders else 0, index]
    marks[ABLE_SCORED] = marks[ABLE_COUNT]
    return int(count)


@compiled_lean
def _start(row: int, now: int, rule: Rule, queue: Queue, machine: Machine, started: Ints) -> None:
    """Start a job that may pass the head."""
    if rule.depth > EASY:
        slots, gauges = machine.slots, machine.gauges
        profile.occupy(slots, gauges, now, now + queue.jobs[LIMIT, row], queue.jobs[NODES, row])
        note_lasting(slots, gauges, now)
        begin(row, now, queue, machine, started)
    else:
        backfill(row, now, queue, machine, started)


@compiled_lean
def _drop_unable(now: int, rule: Rule, queue: Queue, machine: Machine, work: Workspace, marks: Ints) -> None:
    """Drop noted jobs that have started or may not pass the head any more."""
    left, rows, scores = 0, work.rows[ABLE], work.scores[ABLE]
    for index in range(marks[ABLE_COUNT]):
        row = rows[index]
        rows[left], scores[left] = row, scores[index]
        left += queue.jobs[STATE, row] == QUEUED and _may_pass(row, now, rule, queue.jobs, machine)
    marks[ABLE_COUNT] = marks[ABLE_SCORED] = left


@compiled_lean
def _start_sorted(now: int, rule: Rule, queue: Queue, machine: Machine, work: Workspace, marks: Ints) -> None:
    """Start the noted jobs, all of them scored, in order."""
    rows, scores, spare = work.rows[ABLE], work.scores[ABLE], (work.rows[LOOKED], work.scores[LOOKED])
    sort(marks[ABLE_COUNT], rows, scores, spare, work.waiting, queue.jobs[SEQ])
    for index in range(marks[ABLE_COUNT]):
        if _may_pass(rows[index], now, rule, queue.jobs, machine):
            _start(rows[index], now, rule, queue, machine, work.started)


@compiled_inline
def _start_noted(
    now: int, rule: Rule, at_once: bool, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace
) -> int:
    """Start jobs that may pass the head, in order, noting more as needed; return how many were scored for it."""
    marks, jobs, gauges, meta = scorer.shortlist.marks, queue.jobs, machine.gauges, queue.order.meta
    rows, scores, seq, first = work.rows[ABLE], work.scores[ABLE], jobs[SEQ], gauges[STARTED]
    best, scored, wanted = -1, 0, meta[ROWS] if at_once else FIRST_FOUND
    if marks[ABLE_SCORED] > 0:
        best = best_of(0, marks[ABLE_SCORED], -1, rows, scores, seq)
    while gauges[FREE] > 0:
        known = marks[ABLE_SCORED]
        if known == marks[ABLE_COUNT]:
            _note_more(wanted, best, now, rule, queue, machine, work, marks)
            wanted = max(wanted, min(4 * wanted, MOST_FOUND))
        if known < marks[ABLE_COUNT]:
            if marks[ABLE_COUNT] > 1 or not at_once:
                scored += _score_noted(now, rule, jobs, scorer, work, marks)
            else:
                scores[known], marks[ABLE_SCORED] = 0.0, 1  # a single job needs no score
            best = best_of(known, marks[ABLE_COUNT], best, rows, scores, seq)
        elif best >= 0:
            _start(rows[best], now, rule, queue, machine, work.started)
            _drop_unable(now, rule, queue, machine, work, marks)
            best = best_of(0, marks[ABLE_COUNT], -1, rows, scores, seq)
            if gauges[STARTED] - first >= SORT_AFTER and marks[PLACE] == meta[RUNGS]:
                _start_sorted(now, rule, queue, machine, work, marks)
                break
        else:
            break
    return scored


@compiled_inline
def _pass_the_head(
    now: int, rule: Rule, arrived: int, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace
) -> int:
    """Start jobs that may pass the head; arrived: only this many arrivals can, -1: any. Return how many were scored."""
    marks, whole = scorer.shortlist.marks, queue.order.meta[RUNGS]
    at_once = rule.two_orders or not marks[CHEAP_CALLS]
    marks[PLACE], marks[POSITION] = 0, 0
    if arrived >= 0:
        for index in range(arrived):
            work.rows[ABLE, index] = work.arrivals[index]
        marks[ABLE_COUNT] = arrived
        _drop_unable(now, rule, queue, machine, work, marks)
        marks[PLACE], marks[ABLE_SCORED] = whole, 0
    elif marks[UNBOUNDED]:
        _note_scored(now, rule, queue, machine, work, marks)
        if rule.two_orders and marks[ABLE_COUNT] > 1:
            _score_all_by_second_order(now, queue, machine, scorer, work, marks)
        marks[PLACE] = whole
    elif rule.by_size and _note_by_size(now, rule, queue, machine, work, marks):
        marks[PLACE], at_once = whole, True
    return _start_noted(now, rule, at_once, queue, machine, scorer, work)


# ---- the pass -------------------------------------------------------------------------------------------------------


@compiled_lean
def pass_by_scores(
    now: int, rule: Rule, arrived: int, queue: Queue, machine: Machine, scorer: Scorer, work: Workspace
) -> None:
    """Start every job that may start, where scores change with time."""
    open_pass(now, queue, machine)
    gauges, meta, started = machine.gauges, queue.order.meta, work.started
    if meta[ROWS] == 0 or gauges[FREE] == 0:
        return
    if rule.depth != STRICT and none_fits(queue.second if rule.by_size else queue.order, rule.by_size, gauges):
        return
    if not rule.falling and rule.depth <= EASY and rule.depth != STRICT:
        sure = sure_to_start(now, rule.depth == EASY, queue, machine)
        if sure >= 0:
            dequeue(sure, rule, queue)
            begin(sure, now, queue, machine, started)
            return
    released, gauges[RELEASED] = gauges[RELEASED], 0
    shortlist.begin_pass(now, rule.falling, queue, scorer, work)
    stands, scored = rule.falling and not released, 0
    if rule.depth > EASY:
        stands = stands and gauges[HEAD] >= 0 and profile.still_holds(now, machine.slots, gauges)
        outcome = _start_or_promise(now, rule, stands, queue, machine, scorer, work)
        stands = outcome == STANDS
        if outcome != KEPT_BACK:
            note_lasting(machine.slots, gauges, now)
    else:
        outcome, head = PLANNED, _start_heads(now, queue, machine, scorer, work)
        stands = stands and gauges[STARTED] == 0 and gauges[HEAD] == head
    if outcome != KEPT_BACK:
        if meta[ROWS] - gauges[STARTED] < 2 or rule.depth == STRICT or gauges[FREE] == 0:
            gauges[HEAD] = -1
        else:
            if rule.depth <= EASY and not stands:
                set_head(head, rule.depth, queue.jobs, machine)
            scored = _pass_the_head(now, rule, arrived if stands else -1, queue, machine, scorer, work)
    for index in range(gauges[STARTED]):
        dequeue(started[index], rule, queue)
    if not rule.falling:
        gauges[HEAD] = -1  # it means nothing in the next pass
    shortlist.end_pass(scored - rule.depth if rule.depth > EASY else scored, scorer.shortlist.marks)
