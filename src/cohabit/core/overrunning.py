"""Jobs that run past their request, where nobody kills them: from now on they are expected to end one second from now.

Every pass begins with it, compiled or readable. It decides nothing.
"""

from __future__ import annotations

from cohabit.compiled import compiled_lean
from cohabit.core import ladder
from cohabit.core.columns import ENDS, EXPECTED, LIMIT, RELEASED, SEQ, START, VOID
from cohabit.core.ladder import ORDER, RUNGS, SIZE

SECOND = 1_000_000


@compiled_lean
def _next_overrunning(now, jobs, r_items, r_info, r_meta, gauges):
    """A job that is past its request but not yet expected one second from now; -1 if there is none.

    Where any job is past its request the promises are void, also in a second pass of the same instant.
    """
    for place in range(r_meta[RUNGS]):
        rung = r_info[ORDER, place]
        for position in range(r_info[SIZE, rung]):
            row = r_items[rung, position]
            if jobs[EXPECTED, row] > now + SECOND:
                return -1
            if jobs[START, row] + jobs[LIMIT, row] <= now:
                gauges[VOID] = 1
                if jobs[EXPECTED, row] != now + SECOND:
                    return row
    return -1


@compiled_lean
def extend_overrunning(now, jobs, keys, r_items, r_info, r_meta, gauges):
    """A job past its request (no-kill mode) is expected to end one second from now, whenever now is."""
    row = _next_overrunning(now, jobs, r_items, r_info, r_meta, gauges)
    while row >= 0:
        ladder.remove(r_items, r_info, r_meta, jobs, keys[ENDS], jobs[SEQ], row)
        jobs[EXPECTED, row] = now + SECOND
        keys[ENDS, row] = jobs[EXPECTED, row]
        ladder.insert(r_items, r_info, r_meta, jobs, keys[ENDS], jobs[SEQ], row)
        gauges[RELEASED] = 1  # the whole queue is looked at again
        row = _next_overrunning(now, jobs, r_items, r_info, r_meta, gauges)
