"""Move one job: into and out of the queue, onto and off its nodes."""

from __future__ import annotations

from cohabit.compiled import compiled_lean
from cohabit.core.columns import (
    AGE_LIMIT,
    AGE_RUNS,
    ARRIVAL,
    BACKFILL_SCORE,
    ENDS,
    EXPECTED,
    LIMIT,
    NODES,
    QUEUED,
    RELEASED,
    RUN_US,
    RUNNING,
    RUNS,
    SCORE,
    START,
    STARTED,
    STATE,
    VOID,
    Ints,
)
from cohabit.core.kernels import ladder, profile
from cohabit.core.kernels.bundles import CONSERVATIVE, Machine, Queue, Rule
from cohabit.core.kernels.nodes import release_nodes, take_nodes
from cohabit.model.units import FOREVER


@compiled_lean
def uses_second(rule: Rule) -> bool:
    """Return whether queued jobs are on the second ladder, too."""
    if rule.by_size:
        return rule.depth != CONSERVATIVE
    return rule.two_orders and rule.by_score


@compiled_lean
def enqueue(row: int, rule: Rule, queue: Queue) -> None:
    """Put a job into the queue."""
    jobs, keys = queue.jobs, queue.keys
    jobs[STATE, row] = QUEUED
    ladder.insert(queue.order, jobs, keys[SCORE if rule.by_score else ARRIVAL], row)
    if uses_second(rule):
        ladder.insert(queue.second, jobs, keys[BACKFILL_SCORE], row)


@compiled_lean
def dequeue(row: int, rule: Rule, queue: Queue) -> None:
    """Take a job out of the queue."""
    jobs, keys = queue.jobs, queue.keys
    ladder.remove(queue.order, jobs, keys[SCORE if rule.by_score else ARRIVAL], row)
    if uses_second(rule):
        ladder.remove(queue.second, jobs, keys[BACKFILL_SCORE], row)


@compiled_lean
def begin(row: int, now: int, queue: Queue, machine: Machine, started: Ints) -> None:
    """Mark a job running from now until its requested end, on nodes of its own."""
    jobs, keys, gauges = queue.jobs, queue.keys, machine.gauges
    take_nodes(row, jobs, machine)
    jobs[STATE, row], jobs[START, row], jobs[EXPECTED, row] = RUNNING, now, now + jobs[LIMIT, row]
    keys[ENDS, row] = jobs[EXPECTED, row]
    ladder.insert(machine.running, jobs, keys[ENDS], row)
    started[gauges[STARTED]] = row
    gauges[STARTED] += 1


@compiled_lean
def finish(row: int, now: int, depth: int, queue: Queue, machine: Machine) -> None:
    """End a running job: its nodes are idle again."""
    jobs, gauges = queue.jobs, machine.gauges
    ladder.remove(machine.running, jobs, queue.keys[ENDS], row)
    release_nodes(row, jobs, machine)
    gauges[RELEASED] = 1
    if depth == CONSERVATIVE:
        if now > jobs[START, row] + jobs[LIMIT, row]:
            gauges[VOID] = 1
        else:
            profile.give_back(machine.slots, gauges, now, jobs[EXPECTED, row], jobs[NODES, row])


@compiled_lean
def age_limit(gauges: Ints) -> int:
    """Return the wait after which no other job may overtake: fixed, or in thousandths of the mean run so far."""
    if gauges[AGE_LIMIT] > 0:
        found: int = gauges[AGE_LIMIT]
        return found
    if gauges[AGE_RUNS] > 0 and gauges[RUNS] > 0:
        return int(gauges[AGE_RUNS] / 1000.0 * gauges[RUN_US] / gauges[RUNS])
    return FOREVER
