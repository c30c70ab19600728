"""Between which limits the scores of those on the short list lie, where a call of the order is dear.

For orders whose scores only fall while jobs wait (see core/shortlist.py): a score found before is an upper limit now, a
score at the end of a window a lower limit until then, also of jobs that come within the window. As long as the upper
limit of one is below the lower limits of all others, it is the first, and nobody is asked. It never guesses.
"""

from __future__ import annotations

import numpy as np

from cohabit.compiled import compiled_lean
from cohabit.core import scoring
from cohabit.core.columns import SUBMIT

# span[...] (int64): whether limits are kept; until when the lower limits hold, and the instant they were scored for;
# the length of a window; how often in this window they did not tell who is first; the row up to which they are known
KEPT, HOLDS, SCORED_FOR, WINDOW, FAILS, FORESEEN = 0, 1, 2, 3, 4, 5
UPPER, LOWER = 0, 1  # rows of `limits`, one column per job
MOST_TO_COME = 64  # jobs to come that are scored with the others
MOST_FAILS = 2  # after so many the window was too long
SECOND, LONGEST_WINDOW = 1_000_000, 2**50


@compiled_lean
def initialise(kept, span, limits):
    """Nothing is known. kept: calls are dear, and scores depend on nothing but the time."""
    span[KEPT], span[HOLDS], span[SCORED_FOR], span[WINDOW], span[FAILS] = kept, -1, -1, 600 * SECOND, 0
    span[FORESEEN] = 0
    for row in range(limits.shape[1]):
        limits[UPPER, row], limits[LOWER, row] = np.inf, -np.inf


@compiled_lean
def forget(rows, span, limits):
    """The list is made anew from all these: no lower limits are known, and those who leave it get none."""
    if span[KEPT]:
        span[HOLDS] = -1
        for row in rows:
            limits[LOWER, row] = -np.inf


@compiled_lean
def _end_of_window(now, until, coming, jobs, span):
    """When the window ends: longer than the last one if that told all, shorter if it did not."""
    if span[FAILS] == 0:
        span[WINDOW] = min(span[WINDOW] * 3 // 2, LONGEST_WINDOW)
    elif span[FAILS] >= MOST_FAILS:
        span[WINDOW] = max(span[WINDOW] * 2 // 3, SECOND)
    end, most = min(now + span[WINDOW], until), coming + MOST_TO_COME
    return max(min(end, jobs[SUBMIT, most] - 1), now) if most < jobs.shape[1] else end


@compiled_lean
def begin_window(now, until, coming, rows, entry, parameters, usage, waiting, fresh, jobs, span, limits):
    """Score these, and those from row `coming` on who come within it, for the end of a new window, at most `until`."""
    if span[SCORED_FOR] <= now:
        for row in rows:
            if limits[LOWER, row] > -np.inf:
                limits[UPPER, row] = min(limits[UPPER, row], limits[LOWER, row])
    end, count, row = _end_of_window(now, until, coming, jobs, span), scoring.copy_rows(rows, waiting), coming
    while row < jobs.shape[1] and jobs[SUBMIT, row] <= end:
        waiting[count] = row
        count += 1
        row += 1
    scoring.score(entry, parameters, jobs, usage, waiting[:count], end, fresh)
    for index in range(count):
        limits[LOWER, waiting[index]] = fresh[index]
    for beyond in range(row, span[FORESEEN]):
        limits[LOWER, beyond] = -np.inf
    span[HOLDS], span[SCORED_FOR], span[FAILS], span[FORESEEN] = end, end, 0, row


@compiled_lean
def take_upper_limits(rows, waiting, fresh, limits):
    """As if these were the scores: who is first by them is the first if `is_certain`."""
    for index in range(len(rows)):
        waiting[index], fresh[index] = rows[index], limits[UPPER, rows[index]]


@compiled_lean
def is_certain(best, rows, fresh, limits):
    """Whether no other of these rows (-1: gone) can come before the one at `best`."""
    for index in range(len(rows)):
        row = rows[index]
        if (
            index != best
            and row >= 0
            and (fresh[best] == np.inf or scoring.is_less(limits[LOWER, row], row, fresh[best], rows[best]))
        ):
            return False
    return True


@compiled_lean
def note_scores(rows, fresh, span, limits):
    """These were scored: they will not score higher."""
    if span[KEPT]:
        for index in range(len(rows)):
            limits[UPPER, rows[index]] = fresh[index]


@compiled_lean
def note_failure(now, span):
    """The limits did not tell who is first."""
    span[FAILS] += 1
    if span[FAILS] >= MOST_FAILS:
        span[HOLDS] = min(span[HOLDS], now)
