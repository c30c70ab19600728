"""The whole-trace driver: replays a plain trace through the core's compiled pass, a million jobs in seconds.

It owns what only the world may know (true run times, the heap of ends) and calls `kernels.schedule_pass` for every
decision, exactly as SchedulerCore does; it must never decide anything itself. It serves traces in which jobs are only
submitted and finished, on interchangeable whole nodes; everything else runs in sim/world.py, one event at a time.
The loop is resumable: it stops to ask Python for more room, to show progress, or to give up a short list.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import ScoreEntry, compiled_lean, no_scores
from cohabit.core import fair_share, few_scores, given_numbers, idle_nodes, kernels, ladder, profile, scoring, shortlist
from cohabit.core.columns import (
    AGE_LIMIT,
    AGE_RUNS,
    ARRIVAL,
    BACKFILL_SCORE,
    CORES,
    ELIGIBLE,
    FREE,
    GAUGES,
    JOB_COLUMNS,
    KEY_COLUMNS,
    LIMIT,
    NODES,
    PROMISED,
    QUEUED,
    RANGE_COUNT,
    RANGE_FIRST,
    RANGE_NEXT,
    RANGES,
    RESERVED,
    RUN_US,
    RUNS,
    SCORE,
    SEQ,
    STARTED,
    STATE,
    SUBMIT,
    USER,
    WAKE,
    Columns,
    columns_of,
)
from cohabit.core.ladder import ROWS, RUNGS
from cohabit.core.profile import SECOND
from cohabit.core.protocols import Given, Order, PolicySet
from cohabit.sim.journal import FINISHED, START, SUBMITTED, WOKEN, Journal

FOREVER = 2**62
MANY_USERS = 2**20  # numbers above are not used as places of an array
# clock[...]: where the loop stands between two calls
NEXT, HEAP, COUNTER, EVENTS, LINES, RANGE_LINES, ARRIVED, WAKES = range(8)
# why the loop returned
DONE, NEEDS_ROOM, PAUSED, NEEDS_NO_LIST = 0, 1, 2, 3


@compiled_lean
def _push(heap, size, time, counter, row):
    index = size
    while index > 0:
        parent = (index - 1) // 2
        if heap[0, parent] < time or (heap[0, parent] == time and heap[1, parent] < counter):
            break
        heap[0, index], heap[1, index], heap[2, index] = heap[0, parent], heap[1, parent], heap[2, parent]
        index = parent
    heap[0, index], heap[1, index], heap[2, index] = time, counter, row


@compiled_lean
def _pop(heap, size):
    """Remove the top of a heap of `size` entries."""
    time, counter, row = heap[0, size - 1], heap[1, size - 1], heap[2, size - 1]
    index, size = 0, size - 1
    while True:
        child = 2 * index + 1
        if child >= size:
            break
        right = child + 1
        if right < size and (
            heap[0, right] < heap[0, child] or (heap[0, right] == heap[0, child] and heap[1, right] < heap[1, child])
        ):
            child = right
        if time < heap[0, child] or (time == heap[0, child] and counter < heap[1, child]):
            break
        heap[0, index], heap[1, index], heap[2, index] = heap[0, child], heap[1, child], heap[2, child]
        index = child
    heap[0, index], heap[1, index], heap[2, index] = time, counter, row


@compiled_lean
def _write(clock, lines, when, kind, row, now):
    when[clock[LINES]] = now
    lines[0, clock[LINES]], lines[1, clock[LINES]] = kind, row
    clock[LINES] += 1


@compiled_lean
def _write_event(clock, lines, when, kind, row, now):
    _write(clock, lines, when, kind, row, now)
    clock[EVENTS] += 1


@compiled_lean
def _write_ranges(clock, row, jobs, pool, ranges, range_owner):
    """The nodes a job was given."""
    link = jobs[RANGES, row]
    while link >= 0:
        ranges[0, clock[RANGE_LINES]] = pool[RANGE_FIRST, link]
        ranges[1, clock[RANGE_LINES]] = pool[RANGE_COUNT, link]
        range_owner[clock[RANGE_LINES]] = row
        clock[RANGE_LINES] += 1
        link = pool[RANGE_NEXT, link]


@compiled_lean
def _next_instant(clock, heap, jobs, gauges):
    now = min(gauges[WAKE], FOREVER)
    if clock[HEAP] > 0:
        now = min(now, heap[0, 0])
    if clock[NEXT] < jobs.shape[1]:
        now = min(now, jobs[SUBMIT, clock[NEXT]])
    return now


@compiled_lean
def _none_can_start(looks_first, by_size, q_info, q_meta, b_info, b_meta, gauges):
    """Whether no pass is needed; the first rung by size has the narrowest."""
    if gauges[FREE] == 0 or q_meta[ROWS] == 0:
        return True
    if by_size:
        return kernels.none_can_start(1, b_info, gauges)
    return not looks_first and kernels.none_can_start(q_meta[RUNGS], q_info, gauges)


@compiled_lean
def drive(
    depth, changing, by_size, alone, two_orders, half_life, pause_after, jobs, keys, q_items, q_info, q_meta, b_items,
    b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges, slots, started, usage, duration, heap, clock, start_us,
    end_us, when, lines, ranges, range_owner, record_ranges, waiting, fresh, second_entry, second_parameters, entry,
    parameters, bounded, bound_entry, bound_parameters, gather_entry, gather_numbers, queued, spans, listed, scores,
    marks, bounds, least,
):  # fmt: skip
    """Run until the trace is finished or Python is needed; returns why it stopped."""
    total, pause_at = duration.shape[0], clock[EVENTS] + pause_after
    by_score = not changing and depth != kernels.CONSERVATIVE
    shortlisted = alone and depth != kernels.CONSERVATIVE and not marks[shortlist.GIVEN_UP]
    while True:
        now = _next_instant(clock, heap, jobs, gauges)
        if now == FOREVER:
            return DONE
        if clock[EVENTS] >= pause_at:
            return PAUSED
        if gauges[WAKE] <= now:
            gauges[WAKE] = FOREVER
            _write_event(clock, lines, when, WOKEN, -1, now)
            clock[WAKES] += 1
        while clock[HEAP] > 0 and heap[0, 0] == now:
            row = heap[2, 0]
            _pop(heap, clock[HEAP])
            clock[HEAP] -= 1
            kernels.finish(row, now, jobs, keys, r_items, r_info, r_meta, idle, pool, gauges, slots, depth)
            if half_life > 0 and jobs[USER, row] >= 0:
                fair_share.charge(usage, jobs[USER, row], jobs[CORES, row], start_us[row], now, half_life)
            end_us[row] = now
            gauges[RUN_US] += now - start_us[row]
            gauges[RUNS] += 1
            _write_event(clock, lines, when, FINISHED, row, now)
        clock[ARRIVED] = clock[NEXT]
        while clock[NEXT] < total and jobs[SUBMIT, clock[NEXT]] == now:
            row = clock[NEXT]
            if shortlisted:
                few_scores.enqueue(
                    row, now, by_size, entry, parameters, bounded, bound_entry, bound_parameters, jobs, keys, usage,
                    least, waiting, fresh[0], marks, bounds, queued, spans, q_items, q_info, q_meta, b_items, b_info,
                    b_meta,
                )  # fmt: skip
            else:
                kernels.enqueue(
                    row, by_score, two_orders or by_size, jobs, keys, q_items, q_info, q_meta, b_items, b_info, b_meta
                )
            clock[NEXT] += 1
            _write_event(clock, lines, when, SUBMITTED, row, now)
        if changing and depth != kernels.CONSERVATIVE:
            looks_first = shortlisted and depth == kernels.STRICT  # which is sooner done than asking all rungs
            if _none_can_start(looks_first, by_size, q_info, q_meta, b_info, b_meta, gauges):
                continue
        if shortlisted:
            few_scores.schedule_pass(
                now, depth, clock[ARRIVED], clock[NEXT], two_orders, by_size, entry, parameters, bounded, bound_entry,
                bound_parameters, second_entry, second_parameters, usage, least, waiting, fresh, listed, scores, marks,
                bounds, gather_entry, gather_numbers, queued, spans, jobs, keys, q_items, q_info, q_meta, b_items,
                b_info, b_meta, r_items, r_info, r_meta, idle, pool, slots, gauges, started,
            )  # fmt: skip
        else:
            for row in range(clock[ARRIVED], clock[NEXT]):
                waiting[row - clock[ARRIVED]] = row
            kernels.schedule_pass(
                now, depth, changing, by_score, by_size, alone, two_orders, clock[NEXT] - clock[ARRIVED], entry,
                parameters, second_entry, second_parameters, usage, waiting, fresh, listed, jobs, keys, q_items, q_info,
                q_meta, b_items, b_info, b_meta, r_items, r_info, r_meta, idle, pool, gauges, slots, started,
            )  # fmt: skip
        for index in range(gauges[STARTED]):
            row = started[index]
            start_us[row] = now
            _push(heap, clock[HEAP], now + duration[row], clock[COUNTER], row)
            clock[HEAP], clock[COUNTER] = clock[HEAP] + 1, clock[COUNTER] + 1
            _write(clock, lines, when, START, row, now)
            if record_ranges:
                _write_ranges(clock, row, jobs, pool, ranges, range_owner)
        if shortlisted and marks[shortlist.GIVEN_UP]:
            return NEEDS_NO_LIST
        if len(when) - 3 * total - clock[WAKES] < 8:
            return NEEDS_ROOM
        if record_ranges and len(range_owner) - clock[RANGE_LINES] < pool.shape[1]:
            return NEEDS_ROOM


@dataclass(frozen=True)
class Replay:
    """What came out, by row in order of submission."""

    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    promised_us: NDArray[np.int64]  # first reservation under conservative backfilling, -1 where none was made
    journal: Journal
    events: int
    ranges: NDArray[np.int32] | None  # [first node, count] of every range
    range_owner: NDArray[np.int32] | None  # the row each range belongs to
    finished: int


def replay(
    submit_us: NDArray[np.int64],
    duration_us: NDArray[np.int64],
    limit_us: NDArray[np.int64],
    nodes: NDArray[np.int64],
    cores: NDArray[np.int64],
    user: NDArray[np.int64],
    cluster_nodes: int,
    policies: PolicySet,
    *,
    record_ranges: bool = True,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Replay jobs that are sorted by submission; `duration_us` is how long each occupies its nodes once started."""
    total, depth = len(submit_us), policies.backfill.depth
    jobs = np.zeros((JOB_COLUMNS, total), np.int64)
    jobs[NODES], jobs[LIMIT], jobs[SUBMIT], jobs[ELIGIBLE] = nodes, limit_us, submit_us, submit_us
    jobs[SEQ], jobs[CORES], jobs[USER] = np.arange(total), cores, _numbered(user)
    jobs[RESERVED] = profile.UNRESERVED if depth > kernels.EASY else 0
    jobs[PROMISED] = profile.UNRESERVED if depth == kernels.CONSERVATIVE else 0
    usage = fair_share.make(int(jobs[USER].max(initial=-1)) + 1)
    keys = np.zeros((KEY_COLUMNS, total))
    columns, second = columns_of(jobs, usage), policies.backfill_order
    given = policies.given if depth != kernels.CONSERVATIVE else None
    alone = policies.alone or given is not None
    by_size = _set_keys(policies, alone, columns, keys)
    queue, backfill = ladder.make(total), ladder.make(total if second is not None or by_size else 0)
    running = ladder.make(min(total, cluster_nodes))
    idle, pool = np.zeros((cluster_nodes + 63) // 64, np.uint64), np.zeros((3, cluster_nodes + 1), np.int64)
    gauges = np.zeros(GAUGES, np.int64)
    idle_nodes.initialise(idle, pool, gauges, cluster_nodes)
    gauges[AGE_LIMIT], gauges[AGE_RUNS] = policies.age_limit_us, policies.age_limit_thousandths
    slots = profile.make(total, cluster_nodes) if depth > kernels.EASY else profile.make(0, 0)
    profile.reset(slots, gauges, cluster_nodes)
    started, waiting = np.empty(total, np.int64), np.empty(total + 1, np.int64)
    heap, clock = np.empty((3, min(total, cluster_nodes) + 1), np.int64), np.zeros(8, np.int64)
    start_us, end_us = np.full(total, -(2**63)), np.full(total, -(2**63))
    when, lines = np.empty(3 * total + 64, np.int64), np.empty((2, 3 * total + 64), np.int32)
    order, lists = policies.order, _lists(policies, alone, total, usage.shape[1])
    fresh = np.zeros((2, total + 1 if policies.changing else 1))
    failures: list[Exception] = []
    (entry, parameters), (second_entry, second_parameters) = (
        scoring.entry_of(order, policies.changing, columns, waiting, fresh[index], failures, remember=True)
        for index, order in enumerate((policies.order, second))
    )
    steps = _steps(order, given, entry, parameters, total)
    room = total + 4 * cluster_nodes + 64 if record_ranges else 1
    ranges, owner = np.empty((2, room), np.int32), np.empty(room, np.int32)
    while True:
        why = drive(
            depth, policies.changing, by_size, alone, second is not None, policies.fair_share_half_life_us, 1_000_000,
            jobs, keys, *queue, *backfill, *running, idle, pool, gauges, slots, started, usage, duration_us, heap,
            clock, start_us, end_us, when, lines, ranges, owner, record_ranges, waiting, fresh, second_entry,
            second_parameters, *steps, *lists,
        )  # fmt: skip
        if failures:
            raise failures[0]
        if why == NEEDS_NO_LIST:
            queue, by_size, alone = _queue_by_arrival(jobs, keys, int(clock[NEXT])), False, policies.alone
            steps = _steps(order, None, entry, parameters, total)
        if why in (NEEDS_ROOM, NEEDS_NO_LIST):
            if len(when) - 3 * total - clock[WAKES] < 8:
                when, lines = np.concatenate([when, np.empty_like(when)]), _wider(lines)
            if record_ranges and len(owner) - clock[RANGE_LINES] < pool.shape[1]:
                ranges, owner = _wider(ranges), np.concatenate([owner, np.empty_like(owner)])
        elif progress is not None:
            progress(int(clock[NEXT]), total)
        if why == DONE:
            break
    count, used = int(clock[LINES]), int(clock[RANGE_LINES])
    return Replay(
        start_us=start_us,
        end_us=end_us,
        promised_us=jobs[PROMISED],
        journal=Journal(when[:count], lines[0, :count].astype(np.int8), lines[1, :count]),
        events=int(clock[EVENTS]),
        ranges=ranges[:, :used] if record_ranges else None,
        range_owner=owner[:used] if record_ranges else None,
        finished=int((end_us > -(2**63)).sum()),
    )


def _steps(
    order: Order, given: Given | None, entry: ScoreEntry, parameters: NDArray[np.float64], total: int
) -> tuple[Any, ...]:
    """How the order is asked for scores, for bounds, and for numbers of the queue, if it goes by such."""
    numbers = given.numbers if given is not None else 0
    spans, queued = np.zeros((given_numbers.SPANS, numbers)), np.zeros(total + 1 if numbers else 1, np.int64)
    bound = given.bound if given is not None else order.bound
    ends = np.zeros(len(order.parameters) + 2 * numbers + 1)
    ends[: len(order.parameters)] = order.parameters
    if given is None:
        return entry, parameters, bound is not None, bound or no_scores(), ends, no_scores(), np.zeros(1), queued, spans
    memory = given.gather.numbers(order.parameters, total, rising=True)
    score_parameters = np.array([*order.parameters, *np.zeros(numbers)])
    return given.score, score_parameters, True, given.bound, ends, given.gather, memory, queued, spans


def _set_keys(policies: PolicySet, alone: bool, columns: Columns, keys: NDArray[np.float64]) -> bool:
    """Scores that stay the same, and sizes where a ladder is kept by them: whether one is."""
    everyone, second = np.arange(keys.shape[1]), policies.backfill_order
    if not policies.changing:
        keys[SCORE] = policies.order.scores(columns, everyone, 0)
        if second is not None:
            keys[BACKFILL_SCORE] = second.scores(columns, everyone, 0)
    if policies.backfill.depth == kernels.CONSERVATIVE and (alone or not policies.changing):
        keys[ARRIVAL], exact = _by_size(columns.nodes, columns.limit_us)
        return exact
    depth, reserving = policies.backfill.depth, policies.backfill.depth > kernels.EASY
    if second is None and (depth != kernels.STRICT if alone else reserving and not policies.changing):
        keys[BACKFILL_SCORE], exact = _by_size(columns.nodes, columns.limit_us)
        return exact or not alone
    return False


def _by_size(nodes: NDArray[np.int64], limit_us: NDArray[np.int64]) -> tuple[NDArray[np.float64], bool]:
    """Narrow jobs first, of these the short ones; whether that is exact where limits hardly differ."""
    unit = 1 if (limit_us % SECOND).any() else SECOND
    lengths = int(limit_us.max(initial=0)) // unit + 1
    if (int(nodes.max(initial=0)) + 1) * lengths < 2**53:
        return (nodes * lengths + limit_us // unit).astype(np.float64), True
    return nodes + limit_us / (lengths * unit), False


def _lists(policies: PolicySet, alone: bool, total: int, users: int) -> tuple[NDArray[Any], ...]:
    """What core/shortlist.py keeps, empty; passes with reservations work in the first of them."""
    order, reserving = policies.order, policies.backfill.depth > kernels.EASY
    listed = np.empty((3, total + 1 if alone or reserving else 1), np.int64)
    marks, bounds = np.zeros(shortlist.MARKS, np.int64), np.zeros(shortlist.BOUNDS)
    of_usage = order.falling or (order.bound is not None and order.bound.of_usage)
    shortlist.initialise(marks, order.entry is not None, of_usage)
    return listed, np.empty((2, listed.shape[1])), marks, bounds, np.zeros(users)


def _queue_by_arrival(jobs: NDArray[np.int64], keys: NDArray[np.float64], arrived: int) -> ladder.Ladder:
    """The queue as passes take it that score everybody."""
    keys[ARRIVAL], queue = 0.0, ladder.make(jobs.shape[1])
    for row in np.flatnonzero(jobs[STATE, :arrived] == QUEUED):
        ladder.insert(*queue, jobs, keys[ARRIVAL], jobs[SEQ], row)
    return queue


def _numbered(user: NDArray[np.int64]) -> NDArray[np.int64]:
    """Users as 0, 1, 2 ... in the order they come, as core/state.py numbers them; -1 stays."""
    known = np.flatnonzero(user >= 0)
    if len(known) == 0:
        return user
    ids = user[known]
    if ids.max() >= MANY_USERS:
        ids = np.unique(ids, return_inverse=True)[1]
    first = np.full(int(ids.max()) + 1, len(ids))
    first[ids[::-1]] = np.arange(len(ids))[::-1]  # of several the last counts, which is the first to come
    numbers, place = np.full(len(user), -1), np.empty_like(first)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    numbers[known] = place[ids]
    return numbers


def _wider(array: NDArray[np.int32]) -> NDArray[np.int32]:
    """Twice the columns, the old ones kept."""
    return np.concatenate([array, np.empty_like(array)], axis=1)
