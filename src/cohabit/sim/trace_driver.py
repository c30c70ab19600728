"""The whole-trace driver: replays a plain trace through the core's compiled pass, a million jobs in seconds.

It owns what only the world may know (true run times, the heap of ends) and calls a kernel of core/kernels/ for every
decision, exactly as SchedulerCore does; it never decides anything itself. It serves traces in which jobs are only
submitted and finished, on interchangeable whole nodes; all other traces run in sim/world.py, one event at a time. The
loop is resumable: it returns to Python for more room, or to show progress.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core.columns import (
    AGE_LIMIT,
    AGE_RUNS,
    ARRIVAL,
    BACKFILL_SCORE,
    CORES,
    ELIGIBLE,
    GAUGES,
    JOB_COLUMNS,
    KEY_COLUMNS,
    LIMIT,
    NODES,
    PROMISED,
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
    SUBMIT,
    USER,
    WAKE,
    Columns,
    columns_of,
)
from cohabit.core.kernels import fair_share, ladder, profile, shortlist
from cohabit.core.kernels import nodes as idle_nodes
from cohabit.core.kernels.bundles import CONSERVATIVE, EASY, STRICT, Machine, Queue, Rule, make_workspace
from cohabit.core.kernels.changing import pass_by_scores
from cohabit.core.kernels.conservative import pass_with_promises
from cohabit.core.kernels.depth import pass_to_depth
from cohabit.core.kernels.easy import pass_by_ladder
from cohabit.core.kernels.moves import enqueue, finish
from cohabit.core.kernels.schedule import Pass, pass_of
from cohabit.core.protocols import PolicySet
from cohabit.core.scorer import make_scorer
from cohabit.model.units import FOREVER, SECOND
from cohabit.sim.journal import FINISHED, START, SUBMITTED, WOKEN, Journal

MANY_USERS = 2**20  # numbers above are not used as places of an array
NEVER = -(2**63)
# clock[...]: where the loop stands between two calls
NEXT, HEAP, COUNTER, EVENTS, LINES, RANGE_LINES, WAKES = range(7)
# why the loop returned
DONE, NEEDS_ROOM, PAUSED = 0, 1, 2
PAUSE_AFTER = 1_000_000  # events


class Trace(NamedTuple):
    """Data that only the world knows: when jobs end, and how far the replay is."""

    duration: NDArray[np.int64]
    start_us: NDArray[np.int64]
    end_us: NDArray[np.int64]
    heap: NDArray[np.int64]  # of ends: instant, order of start, row
    clock: NDArray[np.int64]
    half_life: int  # of usage; 0: usage is not counted


class Record(NamedTuple):
    """The recorded output."""

    when: NDArray[np.int64]
    lines: NDArray[np.int32]  # kind and row
    ranges: NDArray[np.int32]  # first node and count
    range_owner: NDArray[np.int32]
    of_nodes: bool  # whether ranges are written


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


@compiled_inline
def _write(clock, record, kind, row, now):
    record.when[clock[LINES]] = now
    record.lines[0, clock[LINES]], record.lines[1, clock[LINES]] = kind, row
    clock[LINES] += 1


@compiled_inline
def _write_event(clock, record, kind, row, now):
    _write(clock, record, kind, row, now)
    clock[EVENTS] += 1


@compiled_lean
def _write_ranges(clock, row, jobs, pool, record):
    """Record the nodes a job was given."""
    link = jobs[RANGES, row]
    while link >= 0:
        record.ranges[0, clock[RANGE_LINES]] = pool[RANGE_FIRST, link]
        record.ranges[1, clock[RANGE_LINES]] = pool[RANGE_COUNT, link]
        record.range_owner[clock[RANGE_LINES]] = row
        clock[RANGE_LINES] += 1
        link = pool[RANGE_NEXT, link]


@compiled_inline
def _next_instant(clock, heap, jobs, gauges):
    now = min(gauges[WAKE], FOREVER)
    if clock[HEAP] > 0:
        now = min(now, heap[0, 0])
    if clock[NEXT] < jobs.shape[1]:
        now = min(now, jobs[SUBMIT, clock[NEXT]])
    return now


@compiled_inline
def _end_jobs(now, rule, trace, queue, machine, usage, record):
    """End all jobs whose end time has come."""
    clock, heap, jobs, gauges = trace.clock, trace.heap, queue.jobs, machine.gauges
    while clock[HEAP] > 0 and heap[0, 0] == now:
        row = heap[2, 0]
        _pop(heap, clock[HEAP])
        clock[HEAP] -= 1
        finish(row, now, rule.depth, queue, machine)
        if trace.half_life > 0 and jobs[USER, row] >= 0:
            fair_share.charge(usage, jobs[USER, row], jobs[CORES, row], trace.start_us[row], now, trace.half_life)
        trace.end_us[row] = now
        gauges[RUN_US] += now - trace.start_us[row]
        gauges[RUNS] += 1
        _write_event(clock, record, FINISHED, row, now)


@compiled_inline
def _submit_jobs(now, rule, trace, queue, scorer, work, record):
    """Put all jobs submitted now into the queue; return how many."""
    clock, jobs, count = trace.clock, queue.jobs, 0
    while clock[NEXT] < jobs.shape[1] and jobs[SUBMIT, clock[NEXT]] == now:
        row = clock[NEXT]
        if rule.falling:
            shortlist.bound_arrival(row, now, queue, scorer, work)
        enqueue(row, rule, queue)
        work.arrivals[count] = row
        count += 1
        clock[NEXT] += 1
        _write_event(clock, record, SUBMITTED, row, now)
    return count


@compiled_inline
def _start_jobs(now, trace, queue, machine, started, record):
    """Record which jobs were started."""
    clock = trace.clock
    for index in range(machine.gauges[STARTED]):
        row = started[index]
        trace.start_us[row] = now
        _push(trace.heap, clock[HEAP], now + trace.duration[row], clock[COUNTER], row)
        clock[HEAP], clock[COUNTER] = clock[HEAP] + 1, clock[COUNTER] + 1
        _write(clock, record, START, row, now)
        if record.of_nodes:
            _write_ranges(clock, row, queue.jobs, machine.pool, record)


@compiled_inline
def _drive(decide, rule, world, queue, machine, scorer, work):
    """Run until the trace is finished or Python is needed; return why it stopped."""
    trace, record = world
    clock, gauges, total = trace.clock, machine.gauges, queue.jobs.shape[1]
    pause_at = clock[EVENTS] + PAUSE_AFTER
    while True:
        now = _next_instant(clock, trace.heap, queue.jobs, gauges)
        if now == FOREVER:
            return DONE
        if clock[EVENTS] >= pause_at:
            return PAUSED
        if gauges[WAKE] <= now:
            gauges[WAKE] = FOREVER
            _write_event(clock, record, WOKEN, -1, now)
            clock[WAKES] += 1
        _end_jobs(now, rule, trace, queue, machine, scorer.usage, record)
        arrived = _submit_jobs(now, rule, trace, queue, scorer, work, record)
        decide(now, rule, arrived, queue, machine, scorer, work)
        _start_jobs(now, trace, queue, machine, work.started, record)
        if len(record.when) - 3 * total - clock[WAKES] < 8:
            return NEEDS_ROOM
        if record.of_nodes and len(record.range_owner) - clock[RANGE_LINES] < machine.pool.shape[1]:
            return NEEDS_ROOM


# One per kernel of core/kernels/schedule.py, so that the others need not be compiled.


@compiled_lean
def drive_by_ladder(rule, world, queue, machine, scorer, work):
    return _drive(pass_by_ladder, rule, world, queue, machine, scorer, work)


@compiled_lean
def drive_to_depth(rule, world, queue, machine, scorer, work):
    return _drive(pass_to_depth, rule, world, queue, machine, scorer, work)


@compiled_lean
def drive_by_scores(rule, world, queue, machine, scorer, work):
    return _drive(pass_by_scores, rule, world, queue, machine, scorer, work)


@compiled_lean
def drive_with_promises(rule, world, queue, machine, scorer, work):
    return _drive(pass_with_promises, rule, world, queue, machine, scorer, work)


DRIVES: dict[Pass, Callable[..., int]] = {
    pass_by_ladder: drive_by_ladder,
    pass_to_depth: drive_to_depth,
    pass_by_scores: drive_by_scores,
    pass_with_promises: drive_with_promises,
}


@dataclass(frozen=True)
class Replay:
    """The result, by row in order of submission."""

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
    total = len(submit_us)
    usage = fair_share.make(int(_numbered(user).max(initial=-1)) + 1)
    queue, rule = _queue_of(submit_us, limit_us, nodes, cores, user, usage, policies)
    machine = _machine_of(total, cluster_nodes, policies)
    columns, work = columns_of(queue.jobs, usage), make_workspace(total + 1)
    failures: list[Exception] = []
    half_life = policies.fair_share_half_life_us
    short = shortlist.make(usage.shape[1], policies.order.entry is not None, half_life > 0)
    scorer = make_scorer(policies, columns, usage, work.waiting, work.fresh, short, failures)
    clock, heap = np.zeros(7, np.int64), np.empty((3, min(total, cluster_nodes) + 1), np.int64)
    trace = Trace(duration_us, np.full(total, NEVER), np.full(total, NEVER), heap, clock, half_life)
    room = total + 4 * cluster_nodes + 64 if record_ranges else 1
    record = Record(
        np.empty(3 * total + 64, np.int64),
        np.empty((2, 3 * total + 64), np.int32),
        np.empty((2, room), np.int32),
        np.empty(room, np.int32),
        record_ranges,
    )
    drive = DRIVES[pass_of(rule)]
    while True:
        why = drive(rule, (trace, record), queue, machine, scorer, work)
        if failures:
            raise failures[0]
        if why == NEEDS_ROOM:
            record = Record(
                _wider(record.when),
                _wider(record.lines),
                _wider(record.ranges),
                _wider(record.range_owner),
                record_ranges,
            )
        elif progress is not None:
            progress(int(clock[NEXT]), total)
        if why == DONE:
            break
    count, used = int(clock[LINES]), int(clock[RANGE_LINES])
    return Replay(
        start_us=trace.start_us,
        end_us=trace.end_us,
        promised_us=queue.jobs[PROMISED],
        journal=Journal(record.when[:count], record.lines[0, :count].astype(np.int8), record.lines[1, :count]),
        events=int(clock[EVENTS]),
        ranges=record.ranges[:, :used] if record_ranges else None,
        range_owner=record.range_owner[:used] if record_ranges else None,
        finished=int((trace.end_us > NEVER).sum()),
    )


def _queue_of(
    submit_us: NDArray[np.int64],
    limit_us: NDArray[np.int64],
    nodes: NDArray[np.int64],
    cores: NDArray[np.int64],
    user: NDArray[np.int64],
    usage: NDArray[np.float64],
    policies: PolicySet,
) -> tuple[Queue, Rule]:
    """Return the job table with an empty queue, and the settings of passes."""
    total, depth, second = len(submit_us), policies.backfill.depth, policies.backfill_order
    jobs, keys = np.zeros((JOB_COLUMNS, total), np.int64), np.zeros((KEY_COLUMNS, total))
    jobs[NODES], jobs[LIMIT], jobs[SUBMIT], jobs[ELIGIBLE] = nodes, limit_us, submit_us, submit_us
    jobs[SEQ], jobs[CORES], jobs[USER] = np.arange(total), cores, _numbered(user)
    jobs[RESERVED] = profile.UNRESERVED if depth > EASY else 0
    jobs[PROMISED] = profile.UNRESERVED if depth == CONSERVATIVE else 0
    falling = policies.falling and depth != CONSERVATIVE
    by_size = _set_keys(policies, falling, columns_of(jobs, usage), keys)
    rule = Rule(
        depth,
        policies.changing,
        falling=falling,
        alone=policies.alone,
        two_orders=second is not None,
        by_score=not policies.changing and depth != CONSERVATIVE,
        by_size=by_size,
    )
    return Queue(jobs, keys, ladder.make(total), ladder.make(total if second is not None or by_size else 0)), rule


def _machine_of(total: int, cluster_nodes: int, policies: PolicySet) -> Machine:
    """Return a machine with all nodes idle."""
    idle, pool = np.zeros((cluster_nodes + 63) // 64, np.uint64), np.zeros((3, cluster_nodes + 1), np.int64)
    gauges, reserving = np.zeros(GAUGES, np.int64), policies.backfill.depth > EASY
    idle_nodes.initialise(idle, pool, gauges, cluster_nodes)
    gauges[AGE_LIMIT], gauges[AGE_RUNS] = policies.age_limit_us, policies.age_limit_thousandths
    slots = profile.make(total, cluster_nodes) if reserving else profile.make(0, 0)
    profile.reset(slots, gauges, cluster_nodes)
    return Machine(ladder.make(min(total, cluster_nodes)), idle, pool, slots, gauges)


def _set_keys(policies: PolicySet, falling: bool, columns: Columns, keys: NDArray[np.float64]) -> bool:
    """Set constant scores, and sizes if a ladder is kept by them; return whether one is."""
    rows, second, depth = np.arange(keys.shape[1]), policies.backfill_order, policies.backfill.depth
    if not policies.changing:
        keys[SCORE] = policies.order.scores(columns, rows, 0)
        if second is not None:
            keys[BACKFILL_SCORE] = second.scores(columns, rows, 0)
    if depth == CONSERVATIVE and (policies.alone or not policies.changing):
        keys[ARRIVAL], exact = _by_size(columns.nodes, columns.limit_us)
        return exact
    if second is None and (depth != STRICT if falling else depth > EASY and not policies.changing):
        keys[BACKFILL_SCORE], exact = _by_size(columns.nodes, columns.limit_us)
        return exact or not falling
    return False


def _by_size(nodes: NDArray[np.int64], limit_us: NDArray[np.int64]) -> tuple[NDArray[np.float64], bool]:
    """Order narrow jobs first, then short ones; return whether that is exact where limits hardly differ."""
    unit = 1 if (limit_us % SECOND).any() else SECOND
    lengths = int(limit_us.max(initial=0)) // unit + 1
    if (int(nodes.max(initial=0)) + 1) * lengths < 2**53:
        return (nodes * lengths + limit_us // unit).astype(np.float64), True
    return nodes + limit_us / (lengths * unit), False


def _numbered(user: NDArray[np.int64]) -> NDArray[np.int64]:
    """Number users 0, 1, 2 ... by first appearance, as core/state.py does; -1 stays."""
    known = np.flatnonzero(user >= 0)
    if len(known) == 0:
        return user
    ids = user[known]
    if ids.max() >= MANY_USERS:
        ids = np.unique(ids, return_inverse=True)[1]
    first = np.full(int(ids.max()) + 1, len(ids))
    first[ids[::-1]] = np.arange(len(ids))[::-1]  # of several the last counts, which appears first
    numbers, place = np.full(len(user), -1), np.empty_like(first)
    place[np.argsort(first, kind="stable")] = np.arange(len(first))
    numbers[known] = place[ids]
    return numbers


def _wider(array: NDArray[Any]) -> NDArray[Any]:
    """Return an array with twice the columns, the old ones kept."""
    return np.concatenate([array, np.empty_like(array)], axis=-1)
