"""Find the first job of the queue without scoring all of it, for orders whose scores only fall while a job waits.

Such an order (`FALLING`, see docs/policies.md) is bounded by its scores at the end of a window of time. Every job is
bounded once per window, and the queue is kept in order of the bounds (keys[BOUND]). A pass scores from the beginning of
the queue until the best score found is below all bounds that follow: that job is the first. Long windows are bounded
less often, but their bounds are loose, so more jobs must be scored. Windows grow and shrink until both cost the same.
Short queues, and orders that are not falling, have no bounds: all their jobs are scored at once.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core.columns import ARRIVAL, SEQ, Floats, Ints
from cohabit.core.kernels import ladder, scoring
from cohabit.core.kernels.bundles import Queue, Scorer, Shortlist, Workspace
from cohabit.core.kernels.ladder import ORDER, ROWS, RUNGS, SIZE
from cohabit.core.kernels.sorting import before, sort
from cohabit.model.units import FOREVER, SECOND

# marks[...]: whether no job is bounded; whether an order is called as machine code
UNBOUNDED, CHEAP_CALLS = 0, 1
# how many jobs have been scored in this pass, and where on the ladder the next one is
SCORED, PLACE, POSITION = 2, 3, 4
# of the jobs that may pass the head: how many are noted, and how many of these are scored
ABLE_COUNT, ABLE_SCORED = 5, 6
# when the window ends, how long it is, and how many jobs were bounded for it
UNTIL, WINDOW, BOUNDED = 7, 8, 9
# since the window began: rows scored, and passes
WINDOW_ROWS, WINDOW_PASSES = 10, 11
OF_USAGE = 12  # whether usage is counted, since scores may depend on it
MARKS = 13
# bounds[...]: the bounds hold while a unit of usage is worth at least this, and counts from this instant
WORTH, COUNTED_FROM = 0, 1
BOUNDS = 2
BOUND = ARRIVAL  # keys[BOUND]: no score of the row is below it before the window ends
# rows of `rows` and `scores`: jobs scored in this pass; jobs that may pass the head
LOOKED, ABLE = 0, 1

SHARE_LEFT = 0.98  # a share of usage may shrink to this fraction within a window
LONGEST_WINDOW = 2**50
SCORE_ALL_BELOW, BOUND_ABOVE = 16, 64  # jobs in the queue
FIRST_SCORED = 8  # jobs that are scored first in a pass
COST_OF_BOUND = 3  # bounding a row costs as much as scoring this many
LONGER, SHORTER = 1.25, 0.8  # from one window to the next
MUCH_LONGER, FEW_PASSES = 2.0, 4  # if a window has fewer passes than this
LATEST = 8  # bounds are renewed early if scoring cost this many times as much as bounding


def make(users: int, cheap_calls: bool = True, of_usage: bool = False) -> Shortlist:
    """The shortlist of an empty queue; cheap_calls: the order is machine code; of_usage: usage is counted."""
    marks = np.zeros(MARKS, np.int64)
    marks[UNBOUNDED], marks[CHEAP_CALLS], marks[OF_USAGE] = 1, cheap_calls, of_usage
    marks[UNTIL], marks[WINDOW] = FOREVER, 600 * SECOND
    return Shortlist(marks, np.zeros(BOUNDS), np.zeros(users))


@compiled_lean
def _bound(count: int, jobs: Ints, scorer: Scorer, work: Workspace) -> None:
    """Write into work.fresh[0] the bounds of the first `count` rows of work.waiting."""
    if scorer.shortlist.marks[OF_USAGE]:
        _exchange(scorer.usage, scorer.shortlist.least)
    scoring.score_rows(work.waiting[:count], scorer.shortlist.marks[UNTIL], jobs, scorer, work.fresh[0])
    if scorer.shortlist.marks[OF_USAGE]:
        _exchange(scorer.usage, scorer.shortlist.least)


@compiled_lean
def _exchange(usage: Floats, least: Floats) -> None:
    for user in range(usage.shape[1]):
        usage[1, user], least[user] = least[user], usage[1, user]


@compiled_lean
def bound_arrival(row: int, now: int, queue: Queue, scorer: Scorer, work: Workspace) -> None:
    """Bound a job that is about to enter the queue."""
    marks, key = scorer.shortlist.marks, queue.keys[BOUND]
    key[row] = -np.inf
    if not marks[UNBOUNDED] and now <= marks[UNTIL]:
        work.waiting[0] = row
        _bound(1, queue.jobs, scorer, work)
        key[row] = work.fresh[0, 0]


@compiled_inline
def _cost_of_looseness(marks: Ints) -> int:
    """Return the cost of loose bounds in this window, in rows bounded."""
    found: int = (marks[WINDOW_ROWS] - FIRST_SCORED * marks[WINDOW_PASSES]) // COST_OF_BOUND
    return found


@compiled_lean
def _set_window(marks: Ints) -> None:
    """Make the window longer if bounding cost more than loose bounds did, else shorter."""
    if not marks[UNBOUNDED] and marks[WINDOW_PASSES] > 0:
        growth = SHORTER
        if marks[BOUNDED] > _cost_of_looseness(marks):
            growth = LONGER if marks[WINDOW_PASSES] >= FEW_PASSES else MUCH_LONGER
        marks[WINDOW] = min(max(int(marks[WINDOW] * growth), 1), LONGEST_WINDOW)
    marks[WINDOW_PASSES], marks[WINDOW_ROWS] = 0, 0


@compiled_lean
def _begin_window(now: int, queue: Queue, scorer: Scorer, work: Workspace) -> None:
    """Bound all queued jobs and sort the queue by the bounds; the jobs of a short queue get none."""
    marks, bounds, usage = scorer.shortlist.marks, scorer.shortlist.bounds, scorer.usage
    waiting, fresh = work.waiting, work.fresh[0]
    _set_window(marks)
    count = ladder.rows_in_order(queue.order, waiting)
    marks[UNBOUNDED], marks[UNTIL], marks[BOUNDED] = count <= SCORE_ALL_BELOW, now + marks[WINDOW], count
    if marks[UNBOUNDED]:
        marks[UNTIL] = FOREVER
        for index in range(count):
            fresh[index] = -np.inf
    else:
        bounds[WORTH], bounds[COUNTED_FROM] = usage[1, -1] * SHARE_LEFT, usage[0, -1]
        for user in range(usage.shape[1]):  # less than any rounding of a share
            scorer.shortlist.least[user] = usage[1, user] * SHARE_LEFT * (1.0 - 2.0**-40)
        _bound(count, queue.jobs, scorer, work)
    sort(count, waiting, fresh, (work.rows[LOOKED], work.scores[LOOKED]), work.rows[ABLE], queue.jobs[SEQ])
    for index in range(count):
        queue.keys[BOUND, waiting[index]] = fresh[index]
    ladder.rebuild(queue.order, queue.jobs, queue.keys[BOUND], waiting[:count])


@compiled_inline
def _out_of_date(now: int, usage: Floats, queued: int, marks: Ints, bounds: Floats) -> bool:
    """Return whether a window must begin."""
    if marks[UNBOUNDED]:
        return queued > BOUND_ABOVE
    if queued <= SCORE_ALL_BELOW or now > marks[UNTIL] or _cost_of_looseness(marks) > LATEST * marks[BOUNDED]:
        return True
    found: bool = marks[OF_USAGE] and (usage[1, -1] < bounds[WORTH] or usage[0, -1] != bounds[COUNTED_FROM])
    return found


@compiled_inline
def begin_pass(now: int, falling: bool, queue: Queue, scorer: Scorer, work: Workspace) -> None:
    """Begin a pass with no job scored; renew the bounds if they are out of date."""
    marks = scorer.shortlist.marks
    if falling and _out_of_date(now, scorer.usage, queue.order.meta[ROWS], marks, scorer.shortlist.bounds):
        _begin_window(now, queue, scorer, work)
    marks[SCORED], marks[PLACE], marks[POSITION] = 0, 0, 0
    marks[ABLE_COUNT], marks[ABLE_SCORED] = 0, 0


@compiled_inline
def _score_more(now: int, best: int, queue: Queue, scorer: Scorer, work: Workspace) -> None:
    """Score the next few jobs of the ladder that could go before `best`."""
    marks, (items, info, meta), seq = scorer.shortlist.marks, queue.order, queue.jobs[SEQ]
    rows, scores, waiting = work.rows[LOOKED], work.scores[LOOKED], work.waiting
    scored, place, position, count = marks[SCORED], marks[PLACE], marks[POSITION], 0
    wanted = meta[ROWS] if marks[UNBOUNDED] else scored + FIRST_SCORED
    while count < wanted and place < meta[RUNGS]:
        rung = info[ORDER, place]
        end = min(info[SIZE, rung], position + wanted - count)
        for index in range(position, end):
            row = items[rung, index]
            if best >= 0 and before(scores[best], rows[best], queue.keys[BOUND, row], row, seq):
                wanted, end = count, index
                break
            waiting[count], rows[scored + count] = row, row
            count += 1
        place, position = (place + 1, 0) if end == info[SIZE, rung] else (place, end)
    if meta[ROWS] > 1 and count > 0:
        scoring.score_rows(waiting[:count], now, queue.jobs, scorer, work.fresh[0])
        for index in range(count):
            scores[scored + index] = work.fresh[0, index]
    else:
        scores[scored] = 0.0  # a single job needs no score
    marks[SCORED], marks[PLACE], marks[POSITION] = scored + count, place, position
    marks[WINDOW_ROWS] += count


@compiled_lean
def best_of(first: int, count: int, best: int, rows: Ints, scores: Floats, seq: Ints) -> int:
    """Return the index of the best score from `first` on, or `best` if better; a score of NaN: the job has left."""
    row, score = (rows[best], scores[best]) if best >= 0 else (-1, np.inf)
    for index in range(first, count):
        if scores[index] < score or (scores[index] == score and (row < 0 or seq[rows[index]] < seq[row])):
            best, row, score = index, rows[index], scores[index]
    return best


@compiled_inline
def first_of_queue(now: int, best: int, queue: Queue, scorer: Scorer, work: Workspace) -> int:
    """Return the index in work.rows[LOOKED] of the first job; `best`: the best of those scored before, -1: none."""
    marks, seq = scorer.shortlist.marks, queue.jobs[SEQ]
    while marks[PLACE] < queue.order.meta[RUNGS]:
        first = marks[SCORED]
        _score_more(now, best, queue, scorer, work)
        if marks[SCORED] == first:
            break
        best = best_of(first, marks[SCORED], best, work.rows[LOOKED], work.scores[LOOKED], seq)
    return best


@compiled_inline
def end_pass(scored: int, marks: Ints) -> None:
    """Add the cost of the pass: `scored` jobs in addition to those in work.rows[LOOKED]."""
    marks[WINDOW_PASSES] += 1
    marks[WINDOW_ROWS] += scored
