"""The promised starts of jobs under conservative backfilling, by time: a heap in two rows of the profile, compiled.

Entries of jobs that have left or have another promise now stay until they reach the top. It knows no nodes.
"""

from __future__ import annotations

from cohabit.compiled import compiled_lean
from cohabit.core.columns import PROMISES, QUEUED, RESERVED, STATE, Ints
from cohabit.core.kernels.profile import PROMISED_AT, PROMISED_TO
from cohabit.model.units import FOREVER, SECOND


@compiled_lean
def note_promise(slots: Ints, gauges: Ints, instant: int, row: int) -> None:
    """Add a promise to the heap."""
    place = gauges[PROMISES]
    gauges[PROMISES] += 1
    while place > 0 and slots[PROMISED_AT, (place - 1) >> 1] > instant:
        slots[PROMISED_AT, place] = slots[PROMISED_AT, (place - 1) >> 1]
        slots[PROMISED_TO, place] = slots[PROMISED_TO, (place - 1) >> 1]
        place = (place - 1) >> 1
    slots[PROMISED_AT, place], slots[PROMISED_TO, place] = instant, row


@compiled_lean
def _is_kept(place: int, jobs: Ints, slots: Ints) -> bool:
    """Return whether an entry is the job's promise; entries of jobs that have left stay until they reach the top."""
    row = slots[PROMISED_TO, place]
    found: bool = jobs[STATE, row] == QUEUED and jobs[RESERVED, row] == slots[PROMISED_AT, place]
    return found


@compiled_lean
def make_room(most: int, jobs: Ints, slots: Ints, gauges: Ints) -> None:
    """Remove all entries of jobs that have left, if the heap has this many entries."""
    if gauges[PROMISES] < most:
        return
    count, gauges[PROMISES] = gauges[PROMISES], 0
    for place in range(count):
        if _is_kept(place, jobs, slots):
            note_promise(slots, gauges, slots[PROMISED_AT, place], slots[PROMISED_TO, place])


@compiled_lean
def _drop_first(slots: Ints, gauges: Ints) -> None:
    gauges[PROMISES] -= 1
    count = gauges[PROMISES]
    instant, row, place, child = slots[PROMISED_AT, count], slots[PROMISED_TO, count], 0, 1
    while child < count:
        if child + 1 < count and slots[PROMISED_AT, child + 1] < slots[PROMISED_AT, child]:
            child += 1
        if slots[PROMISED_AT, child] >= instant:
            break
        slots[PROMISED_AT, place], slots[PROMISED_TO, place] = slots[PROMISED_AT, child], slots[PROMISED_TO, child]
        place, child = child, 2 * child + 1
    slots[PROMISED_AT, place], slots[PROMISED_TO, place] = instant, row


@compiled_lean
def first(jobs: Ints, slots: Ints, gauges: Ints) -> int:
    """Return the earliest promised instant; FOREVER if there is none."""
    while gauges[PROMISES] > 0:
        if _is_kept(0, jobs, slots):
            found: int = slots[PROMISED_AT, 0]
            return found
        _drop_first(slots, gauges)
    return FOREVER


@compiled_lean
def take_due(now: int, jobs: Ints, slots: Ints, gauges: Ints, rows: Ints, count: int) -> int:
    """Add jobs with a due promise to rows[:count]; return the new count. Jobs that do not start must be noted again."""
    while first(jobs, slots, gauges) <= now:
        row = slots[PROMISED_TO, 0]
        _drop_first(slots, gauges)
        known = False
        for index in range(count):
            known = known or rows[index] == row
        if not known:
            rows[count] = row
            count += 1
    return count


@compiled_lean
def note_again(rows: Ints, jobs: Ints, slots: Ints, gauges: Ints) -> None:
    """Note again the jobs of `take_due` that did not start, because a job of request 0 is still on their nodes."""
    for row in rows:
        if jobs[STATE, row] == QUEUED and jobs[RESERVED, row] < FOREVER:
            make_room(slots.shape[1], jobs, slots, gauges)
            note_promise(slots, gauges, jobs[RESERVED, row], row)


@compiled_lean
def next_wake(now: int, jobs: Ints, slots: Ints, gauges: Ints) -> int:
    """Return when the next promise is due; one due now waits for a job of request 0: if that runs on, for a second."""
    soonest = first(jobs, slots, gauges)
    return soonest if soonest > now else now + SECOND
