"""Who could be first: the queue in order of how low scores can go, for orders of which that is known.

policy/bounds.py gives such bounds; an order whose scores only fall while jobs wait (`FALLING`, see policy/registry.py)
is bounded by its scores at the end of a window of time. So everybody is bounded once per window, and the queue ladder
is kept in order of the bounds (keys[BOUND]). A pass scores from its beginning in a few steps until the best found is
below all bounds that follow; then it is the first of the queue. Long windows bound the queue seldom, but so loosely
that more must be scored: they are made as long as the two cost the same. In a long queue there are several levels:
within a long window for everybody, those who could come near the first are bounded again in shorter ones, and those
nearer in still shorter ones. The bounds of a level are all below its fence, beyond which everybody else stands. Where
nobody may pass the first, `look_ahead` notes for how long it stays before all who could start in its place. Where
bounds cost more than they save, sim/fast.py goes on without. It never guesses; core/few_scores.py has the passes that
use it.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core import given_numbers, ladder, scoring
from cohabit.core.columns import ARRIVAL, NODES
from cohabit.core.given_numbers import LEVELS
from cohabit.core.kernels import FOREVER
from cohabit.core.ladder import ORDER, ROWS, RUNGS, SIZE
from cohabit.core.overrunning import SECOND
from cohabit.core.sorting import before, below, sort

# marks[...] (int64): whether the queue is so short that nobody is bounded; whether calls are cheap
UNBOUNDED, CHEAP_CALLS = 0, 1
# how many have been looked at in this pass, from the beginning of the ladder, and where that goes on
LOOKED_AT, PLACE, POSITION = 2, 3, 4
# what the nearest level has cost of late: rows scored and passes
SCORED_ROWS, PASSES = 5, 6
# how many rows bounds have cost of late beyond those they saved, whether that is too much
SPENT, GIVEN_UP = 7, 8
NEAR = 9  # so many are on the nearest level, or more
LAST = 10  # the level that has everybody; 0 is the nearest
# from here on one for each level: the instant its bounds are good until, the length of a window; how many were bounded
# when it began, and since the level behind it began how many times that was and how many rows it took
UNTIL, WINDOW, COST, TIMES, ROWS_OF = 11, 11 + LEVELS, 11 + 2 * LEVELS, 11 + 3 * LEVELS, 11 + 4 * LEVELS
OF_USAGE = 11 + 5 * LEVELS  # whether scores depend on shares of usage
# until when who was first stays before all who need less than it, as far as CALM_SCORE says; how far that is looked at
CALM_UNTIL, AHEAD = OF_USAGE + 1, OF_USAGE + 2
MARKS = AHEAD + 1
# bounds[...] (float64): the bounds hold as long as a unit of usage is worth so much, and is reckoned to this instant
WORTH, RECKONED = 0, 1
FIRST_SCORE = 2  # the score of who was first in the last pass
FENCE = 3  # from here on one for each level: whoever is on it has a bound below that
CALM_SCORE = FENCE + LEVELS  # nobody who needs less than who was first scores below this until marks[CALM_UNTIL]
BOUNDS = CALM_SCORE + 1
LOOKED = 0  # row of `listed`: who has been looked at in this pass; of `scores`: with what result
SPARE = 1  # row of `listed`: free until somebody is looked at
BOUND = ARRIVAL  # keys[BOUND] is what a score does not undercut while the bounds are good
SHARE_LEFT = 0.98  # a share of usage may shrink to this part within a window
LONGEST_WINDOW = 2**50
FEW, MANY = 16, 64  # so short a queue is not bounded until it is as long as that
STEP = 8  # so many are scored first
AT_LEAST = 8  # so many are scored in a pass with the best of bounds
A_BOUND = 3  # bounding a row costs as much as scoring so many
LONGER, SHORTER = 1.25, 0.8  # windows, from one to the next
MUCH_LONGER, TOO_SHORT = 2.0, 4  # where there are so few passes in one, or windows of the next nearer level
WIDER = 3  # a level holds two to the power of this times as many as the next nearer one
A_WINDOW = 6  # bounding a row costs as much as it saves in so many passes
FURTHER, NEARER = 1.1, 0.7  # ahead, where that was not far enough, and where somebody came too near
TOO_MUCH, MANY_ROWS = 400, 1024  # so many passes over the queue may be lost before they are given up, or over so many


@compiled_lean
def initialise(marks, cheap_calls, of_usage):
    """An empty queue."""
    marks[UNBOUNDED], marks[CHEAP_CALLS], marks[NEAR], marks[UNTIL] = 1, cheap_calls, 64, FOREVER
    marks[WINDOW], marks[OF_USAGE], marks[AHEAD] = 600 * SECOND, of_usage, 60 * SECOND
    marks[CALM_UNTIL] = -FOREVER


@compiled_lean
def _bound(
    count, now, until, level, entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, least, waiting,
    fresh, marks, spans,
):  # fmt: skip
    """Write into `fresh` what the scores of so many in `waiting` do not undercut until then, within the window."""
    if marks[OF_USAGE]:
        _exchange(usage, least)
    if bounded:
        bound_parameters[-1] = until
        given_numbers.give_bounds(level, spans, bound_parameters)
        scoring.score(bound_entry, bound_parameters, jobs, usage, waiting[:count], now, fresh)
    else:
        scoring.score(entry, parameters, jobs, usage, waiting[:count], until, fresh)
    if marks[OF_USAGE]:
        _exchange(usage, least)


@compiled_lean
def _exchange(usage, least):
    for user in range(usage.shape[1]):
        usage[1, user], least[user] = least[user], usage[1, user]


@compiled_lean
def bound_arrival(
    row, now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, waiting, fresh,
    marks, bounds, spans,
):  # fmt: skip
    """A job is about to come into the queue."""
    keys[BOUND, row] = -np.inf
    if marks[UNBOUNDED] or now > marks[UNTIL]:
        marks[CALM_UNTIL] = now - 1
        return
    waiting[0], level, least_score = row, marks[LAST], np.inf
    while True:
        _bound(
            1, now, marks[UNTIL + level], level, entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage,
            least, waiting, fresh, marks, spans,
        )  # fmt: skip
        least_score = min(fresh[0], np.nextafter(bounds[FENCE + level], -np.inf)) if level < marks[LAST] else fresh[0]
        if level == 0 or least_score >= bounds[FENCE + level - 1]:
            break
        level -= 1
    keys[BOUND, row] = least_score
    bounds[CALM_SCORE] = min(bounds[CALM_SCORE], least_score)


@compiled_inline
def _so_many(level, marks):
    """How many are on a level, or more."""
    return marks[NEAR] << (WIDER * level)


@compiled_inline
def _asked_for(level, marks):
    """What it has cost that the bounds of a level are not better: rows bounded on the next nearer one, or scored."""
    if level == 0:
        return (marks[SCORED_ROWS] - AT_LEAST * marks[PASSES]) // A_BOUND
    return marks[ROWS_OF + level - 1] - marks[TIMES + level - 1] * _so_many(level - 1, marks)


@compiled_lean
def _set_window(level, now, by_numbers, marks):
    """A longer window where bounding a level cost more than that its bounds are not better, else a shorter one.

    One that ended before its time is not made longer for that.
    """
    times = marks[PASSES] if level == 0 else marks[TIMES + level - 1]
    if marks[UNBOUNDED] or times == 0 or marks[WINDOW + level] == 0:
        return
    growth = SHORTER
    if marks[COST + level] > _asked_for(level, marks):
        growth = LONGER if times >= TOO_SHORT else MUCH_LONGER
        if now <= marks[UNTIL + level] and by_numbers:
            growth = 1.0
    marks[WINDOW + level] = min(max(int(marks[WINDOW + level] * growth), 1), LONGEST_WINDOW)


@compiled_lean
def _begin_window(level, now, count, marks, bounds, spans):
    """So many are bounded on this level; all nearer ones are out of date."""
    for nearer in range(level + 1):
        _set_window(nearer, now, spans.shape[1] > 0, marks)
    for nearer in range(level):
        marks[UNTIL + nearer], marks[TIMES + nearer], marks[ROWS_OF + nearer] = now - 1, 0, 0
        bounds[FENCE + nearer] = -np.inf
    marks[PASSES], marks[SCORED_ROWS], marks[CALM_UNTIL] = 0, 0, now - 1
    given_numbers.begin_window(level, spans)
    if marks[WINDOW + level] == 0:  # its first: no shorter than those of nearer levels
        for nearer in range(level):
            marks[WINDOW + level] = max(marks[WINDOW + level], marks[WINDOW + nearer])
    marks[UNTIL + level], marks[COST + level] = now + marks[WINDOW + level], count
    marks[TIMES + level] += 1
    marks[ROWS_OF + level] += count


@compiled_lean
def _bound_queue(
    now, summarised, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items,
    q_info, q_meta, waiting, fresh, listed, scores, marks, bounds, spans,
):  # fmt: skip
    """Begin a window of everybody: put the queue into the order of new bounds; in a short one nobody is bounded."""
    count, level = ladder.rows_in_order(q_items, q_info, q_meta, waiting), 0
    while level + 1 < LEVELS and count > 4 * _so_many(level, marks):
        level += 1
    _begin_window(level, now, count, marks, bounds, spans)
    marks[UNBOUNDED], marks[LAST] = count <= FEW, level
    if marks[UNBOUNDED]:
        marks[UNTIL] = FOREVER
        for index in range(count):
            fresh[index] = -np.inf
    else:
        marks[SPENT] += A_WINDOW * count
        bounds[WORTH], bounds[RECKONED] = usage[1, -1] * SHARE_LEFT, usage[0, -1]
        for user in range(usage.shape[1]):
            least[user] = usage[1, user] * SHARE_LEFT * (1.0 - 2.0**-40)  # less than any rounding of a share
        _bound(
            count, now, marks[UNTIL + level], level, entry, parameters, bounded, bound_entry, bound_parameters, jobs,
            usage, least, waiting, fresh, marks, spans,
        )  # fmt: skip
    sort(count, waiting, fresh, listed[LOOKED], scores[LOOKED], listed[SPARE])
    for index in range(count):
        keys[BOUND, waiting[index]] = fresh[index]
    ladder.rebuild(q_items, q_info, q_meta, jobs, keys[BOUND], waiting[:count], summarised)


@compiled_lean
def _set_apart(count, fence, rows, bounds, spare):
    """Put those behind whose bounds are not below the fence; how many are before them?

    They are all bounded by what is next below it, each a little differently: so they need not be sorted.
    """
    lowest, near = below(fence, count), 0
    for index in range(count):  # no branches: which way they go is hard to foresee
        row, bound = rows[index], bounds[index]
        rows[near], bounds[near], spare[index - near] = row, bound, row
        near += bound < lowest
    for index in range(near, count):
        rows[index], bounds[index] = spare[index - near], below(fence, count - index)
    return near


@compiled_lean
def _bound_level(
    level, now, summarised, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least,
    q_items, q_info, q_meta, waiting, fresh, listed, scores, marks, bounds, spans,
):  # fmt: skip
    """Begin a window of a nearer level: all who were on it, and whoever could come before who was first of late."""
    count, rungs, last = 0, 0, -np.inf
    while rungs < q_meta[RUNGS] and (
        count < _so_many(level, marks) or last < bounds[FENCE + level] or last <= bounds[FIRST_SCORE] or last == -np.inf
    ):
        rung = q_info[ORDER, rungs]
        count += scoring.copy_rows(q_items[rung, : q_info[SIZE, rung]], waiting[count:])
        last, rungs = keys[BOUND, waiting[count - 1]], rungs + 1
    marks[SPENT] += A_WINDOW * count
    _begin_window(level, now, count, marks, bounds, spans)
    marks[UNTIL + level] = min(marks[UNTIL + level], marks[UNTIL + level + 1])
    marks[WINDOW + level] = min(marks[WINDOW + level], marks[WINDOW + level + 1])
    fence = np.inf if rungs == q_meta[RUNGS] else keys[BOUND, q_items[q_info[ORDER, rungs], 0]]
    bounds[FENCE + level] = fence
    for behind in range(level + 1, marks[LAST]):
        bounds[FENCE + behind] = max(bounds[FENCE + behind], fence)
    _bound(
        count, now, marks[UNTIL + level], level, entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage,
        least, waiting, fresh, marks, spans,
    )  # fmt: skip
    near = _set_apart(count, fence, waiting, fresh, listed[LOOKED])
    sort(near, waiting, fresh, listed[LOOKED], scores[LOOKED], listed[SPARE])
    for index in range(count):
        keys[BOUND, waiting[index]] = fresh[index]
    ladder.put_back(q_items, q_info, jobs, keys[BOUND], waiting[:count], rungs, summarised)


@compiled_inline
def _out_of_date(level, now, marks, spans):
    if now > marks[UNTIL + level] or _asked_for(level, marks) > 8 * marks[COST + level]:
        return True
    return given_numbers.are_beyond(level, spans)


@compiled_inline
def _all_out_of_date(now, usage, q_meta, marks, bounds, spans):
    if marks[UNBOUNDED]:
        return q_meta[ROWS] > MANY
    if q_meta[ROWS] <= FEW or _out_of_date(marks[LAST], now, marks, spans):
        return True
    return marks[OF_USAGE] and (usage[1, -1] < bounds[WORTH] or usage[0, -1] != bounds[RECKONED])


@compiled_inline
def begin_pass(
    now, summarised, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items,
    q_info, q_meta, waiting, fresh, listed, scores, marks, bounds, spans,
):  # fmt: skip
    """New bounds where they are out of date; nobody has been looked at. Not `summarised`: see core/ladder.py."""
    if _all_out_of_date(now, usage, q_meta, marks, bounds, spans):
        _bound_queue(
            now, summarised, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least,
            q_items, q_info, q_meta, waiting, fresh, listed, scores, marks, bounds, spans,
        )  # fmt: skip
    for level in range(marks[LAST] - 1, -1, -1):
        if _out_of_date(level, now, marks, spans):
            _bound_level(
                level, now, summarised, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage,
                least, q_items, q_info, q_meta, waiting, fresh, listed, scores, marks, bounds, spans,
            )  # fmt: skip
    marks[LOOKED_AT], marks[PLACE], marks[POSITION] = 0, 0, 0


@compiled_inline
def _look_at_more(
    now, best, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, scores, marks
):  # fmt: skip
    """Score the next few of the ladder who could come before `best`."""
    looked_at, place, position, count = marks[LOOKED_AT], marks[PLACE], marks[POSITION], 0
    wanted = q_meta[ROWS] if marks[UNBOUNDED] else looked_at + STEP
    while count < wanted and place < q_meta[RUNGS]:
        rung = q_info[ORDER, place]
        end = min(q_info[SIZE, rung], position + wanted - count)
        for index in range(position, end):
            row = q_items[rung, index]
            if best >= 0 and comes_before(best, LOOKED, keys[BOUND, row], row, listed, scores):
                wanted, end = count, index
                break
            waiting[count], listed[LOOKED, looked_at + count] = row, row
            count += 1
        place, position = (place + 1, 0) if end == q_info[SIZE, rung] else (place, end)
    if q_meta[ROWS] > 1 and count > 0:
        scoring.score(entry, parameters, jobs, usage, waiting[:count], now, fresh)
        for index in range(count):
            scores[LOOKED, looked_at + index] = fresh[index]
    else:
        scores[LOOKED, looked_at] = 0.0  # one alone needs no score
    marks[LOOKED_AT], marks[PLACE], marks[POSITION] = looked_at + count, place, position
    marks[SCORED_ROWS] += count


@compiled_inline
def comes_before(index, which, score, row, listed, scores):
    """Whether who is noted there comes before somebody of this score."""
    return before(scores[which, index], listed[which, index], score, row)


@compiled_inline
def best_noted(first, count, best, which, listed, scores):
    """Where the first by score is noted, from the place `first` on, or `best`, if any; no score: that one is gone."""
    rows, values = listed[which], scores[which]
    row, score = (rows[best], values[best]) if best >= 0 else (FOREVER, np.inf)
    for index in range(first, count):
        if before(values[index], rows[index], score, row):
            best, row, score = index, rows[index], values[index]
    return best


@compiled_inline
def first_of_queue(
    now, best, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, scores, marks
):  # fmt: skip
    """Where who is first is noted; `best` is that of those looked at before, -1 for none."""
    while marks[PLACE] < q_meta[RUNGS]:
        first = marks[LOOKED_AT]
        _look_at_more(
            now, best, entry, parameters, jobs, keys, usage, q_items, q_info, q_meta, waiting, fresh, listed, scores,
            marks,
        )  # fmt: skip
        if marks[LOOKED_AT] == first:
            break
        best = best_noted(first, marks[LOOKED_AT], best, LOOKED, listed, scores)
    return best


@compiled_inline
def look_ahead(
    head, now, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage, least, q_items, q_info,
    q_meta, waiting, fresh, listed, scores, marks, bounds, spans,
):  # fmt: skip
    """Note for some time ahead what nobody undercuts who needs less than the first, who does not fit.

    All who could come before it now have been looked at; whoever has started has no score any more.
    """
    if marks[UNBOUNDED]:
        return
    until, count, needed = min(now + marks[AHEAD], marks[UNTIL]), 0, jobs[NODES, head]
    for index in range(marks[LOOKED_AT]):  # no branches: which way they go is hard to foresee
        waiting[count], score = listed[LOOKED, index], scores[LOOKED, index]
        count += (jobs[NODES, waiting[count]] < needed) & (score == score)
    _bound(
        count, now, until, 0, entry, parameters, bounded, bound_entry, bound_parameters, jobs, usage, least, waiting,
        fresh, marks, spans,
    )  # fmt: skip
    calm = np.inf
    if marks[PLACE] < q_meta[RUNGS]:
        calm = keys[BOUND, q_items[q_info[ORDER, marks[PLACE]], marks[POSITION]]]
    for index in range(count):
        calm = min(calm, fresh[index])
    marks[CALM_UNTIL], bounds[CALM_SCORE] = until, calm
    marks[SCORED_ROWS] += count


@compiled_inline
def still_first(head, now, entry, parameters, jobs, usage, waiting, fresh, marks, bounds):
    """Whether who was first is still before all who need less than it, as far as was looked ahead."""
    if marks[UNBOUNDED]:
        return False
    if now > marks[CALM_UNTIL]:
        marks[AHEAD] = min(int(marks[AHEAD] * FURTHER) + 1, LONGEST_WINDOW)
        return False
    waiting[0] = head
    scoring.score(entry, parameters, jobs, usage, waiting[:1], now, fresh)
    if fresh[0] >= bounds[CALM_SCORE]:
        marks[AHEAD] = int(marks[AHEAD] * NEARER)
        return False
    return True


@compiled_inline
def end_pass(scored, q_meta, marks):
    """Count what it cost; `scored` more than those looked at have been scored."""
    marks[PASSES] += 1
    marks[SCORED_ROWS] += scored
    lost = 2 * marks[LOOKED_AT] - q_meta[ROWS]
    if lost < 0 or q_meta[ROWS] > MANY:
        marks[SPENT] = max(marks[SPENT] + lost, 0)
    marks[GIVEN_UP] = marks[SPENT] > TOO_MUCH * max(q_meta[ROWS], MANY_ROWS)
