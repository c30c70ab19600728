"""Jobs that run past their request and are not killed: each is expected to end one second from now.

Every pass begins with this step, compiled or readable. It decides nothing.
"""

from __future__ import annotations

from cohabit.compiled import compiled_inline, compiled_lean
from cohabit.core.columns import ENDS, EXPECTED, LIMIT, RELEASED, START, STARTED, VOID, Floats, Ints
from cohabit.core.kernels import ladder
from cohabit.core.kernels.bundles import Machine, Queue
from cohabit.core.kernels.ladder import ORDER, RUNGS, SIZE, Ladder
from cohabit.model.units import SECOND


@compiled_lean
def _next_overrunning(now: int, jobs: Ints, running: Ladder, gauges: Ints) -> int:
    """Return a job that is past its request but not yet expected to end one second from now; -1 if there is none.

    If any job is past its request, the promises are void, also in a second pass of the same instant.
    """
    items, info, meta = running
    for place in range(meta[RUNGS]):
        rung = info[ORDER, place]
        for position in range(info[SIZE, rung]):
            row = items[rung, position]
            if jobs[EXPECTED, row] > now + SECOND:
                return -1
            if jobs[START, row] + jobs[LIMIT, row] <= now:
                gauges[VOID] = 1
                if jobs[EXPECTED, row] != now + SECOND:
                    return int(row)
    return -1


@compiled_inline
def open_pass(now: int, queue: Queue, machine: Machine) -> None:
    """Begin a pass, in which no job has been started yet."""
    machine.gauges[STARTED] = 0
    extend_overrunning(now, queue.jobs, queue.keys, machine.running, machine.gauges)


@compiled_lean
def extend_overrunning(now: int, jobs: Ints, keys: Floats, running: Ladder, gauges: Ints) -> None:
    """Expect every job past its request to end one second from now."""
    row = _next_overrunning(now, jobs, running, gauges)
    while row >= 0:
        ladder.remove(running, jobs, keys[ENDS], row)
        jobs[EXPECTED, row] = now + SECOND
        keys[ENDS, row] = jobs[EXPECTED, row]
        ladder.insert(running, jobs, keys[ENDS], row)
        gauges[RELEASED] = 1  # the whole queue is looked at again
        row = _next_overrunning(now, jobs, running, gauges)
