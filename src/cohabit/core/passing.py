"""Who may pass the head of the queue, and who is first by scores just computed. It only looks: kernels.py starts them.

The head is the first who does not fit. Its shadow is when enough nodes are free for it by requested times; extra is
what it leaves over then (core/kernels.py has the rule).
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_lean, least_in_eights
from cohabit.core.columns import EXPECTED, EXTRA, FREE, LIMIT, NODES, SHADOW
from cohabit.core.ladder import MIN_LIMIT, MIN_NODES, ORDER, RUNGS, SIZE, SUM_NODES

FOREVER = 2**62
BLOCK = 64  # scores among which the smallest is looked for at once


@compiled_lean
def shadow_of(need, jobs, r_items, r_info, r_meta, free_now):
    """When enough nodes are free for the head by requested times, and how many it leaves over then."""
    total, shadow, place = free_now, FOREVER, 0
    while place < r_meta[RUNGS] and total + r_info[SUM_NODES, r_info[ORDER, place]] < need:
        total += r_info[SUM_NODES, r_info[ORDER, place]]
        place += 1
    while place < r_meta[RUNGS]:
        rung = r_info[ORDER, place]
        for position in range(r_info[SIZE, rung]):
            row = r_items[rung, position]
            if total >= need and jobs[EXPECTED, row] > shadow:
                return shadow, total - need
            total += jobs[NODES, row]
            if total >= need and shadow == FOREVER:
                shadow = jobs[EXPECTED, row]
        place += 1
    return shadow, max(total - need, 0)


@compiled_lean
def first_keeps_all_back(first, now, jobs, s_items, s_info, s_meta, r_items, r_info, r_meta, gauges):
    """Whether the first does not fit, and nobody may pass it: with more reservations nobody starts either.

    s: the queue by size. It costs little beside planning, and half of all plans start nobody.
    """
    free = gauges[FREE]
    if jobs[NODES, first] <= free:
        return False
    shadow, extra = shadow_of(jobs[NODES, first], jobs, r_items, r_info, r_meta, free)
    for place in range(s_meta[RUNGS]):
        rung = s_info[ORDER, place]
        fewest = s_info[MIN_NODES, rung]
        if fewest > free:
            return True
        if fewest <= extra or now + s_info[MIN_LIMIT, rung] <= shadow:
            for position in range(s_info[SIZE, rung]):
                nodes, limit = jobs[NODES, s_items[rung, position]], jobs[LIMIT, s_items[rung, position]]
                if nodes <= free and (nodes <= extra or now + limit <= shadow):
                    return False
    return True


@compiled_lean
def may_backfill(row, now, jobs, gauges):
    """Whether it fits now without delaying the head."""
    nodes = jobs[NODES, row]
    if nodes > gauges[FREE]:
        return False
    return now + jobs[LIMIT, row] <= gauges[SHADOW] or nodes <= gauges[EXTRA]


@compiled_lean
def sure_to_start(now, promised, jobs, q_items, q_info, q_meta, r_items, r_info, r_meta, gauges):
    """The only job that fits, if it starts whoever is first by score; -1: scores decide, or nobody fits.

    promised: the head is promised a start, as in EASY.
    """
    free, found, fewest = gauges[FREE], np.int64(-1), FOREVER
    for place in range(q_meta[RUNGS]):
        rung = q_info[ORDER, place]
        if q_info[MIN_NODES, rung] > free:
            fewest = min(fewest, q_info[MIN_NODES, rung])
            continue
        for position in range(q_info[SIZE, rung]):
            row = np.int64(q_items[rung, position])
            if jobs[NODES, row] > free:
                fewest = min(fewest, jobs[NODES, row])
            elif found >= 0:
                return np.int64(-1)
            else:
                found = row
    if found < 0 or fewest == FOREVER or not promised:
        return found
    shadow, _ = shadow_of(fewest, jobs, r_items, r_info, r_meta, free)  # with any other head it would not be earlier
    return found if now + jobs[LIMIT, found] <= shadow else np.int64(-1)


@compiled_lean
def least(waiting, scores):
    """Where the smallest score stands, of equal ones the first; rows below zero have been started and score `inf`."""
    least, best, many = np.inf, 0, len(waiting) - len(waiting) % 8
    for first in range(0, many, BLOCK):
        found = least_in_eights(scores, first, min(BLOCK, many - first))
        if found < least:
            least, best = found, first
    for index in range(many, len(waiting)):
        if scores[index] < least:
            least, best = scores[index], index
    while scores[best] != least or waiting[best] < 0:
        best += 1
    return best


@compiled_lean
def able_to_pass(head, now, waiting, scores, jobs, q_info, q_meta, gauges):
    """Move those who may pass the head to the beginning of `waiting` and `scores`; how many?"""
    free, extra, longest = gauges[FREE], gauges[EXTRA], gauges[SHADOW] - now
    able, index = 0, 0
    for place in range(q_meta[RUNGS]):  # the ladder still holds everybody in `waiting`, rung by rung
        rung = q_info[ORDER, place]
        fewest, end = q_info[MIN_NODES, rung], index + q_info[SIZE, rung]
        if fewest > free or (fewest > extra and q_info[MIN_LIMIT, rung] > longest):
            index = end
        while index < end:
            row = waiting[index]
            if row >= 0 and row != head:
                nodes = jobs[NODES, row]
                if nodes <= free and (nodes <= extra or jobs[LIMIT, row] <= longest):
                    waiting[able], scores[able] = row, scores[index]
                    able += 1
            index += 1
    return able


@compiled_lean
def still_able(able, but, now, waiting, scores, jobs, gauges):
    """Drop one who started and those who may not pass the head any more, keeping the order; how many are left?"""
    left = 0
    for index in range(able):
        row = waiting[index]
        if index != but and may_backfill(row, now, jobs, gauges):
            waiting[left], scores[left] = row, scores[index]
            left += 1
    return left
