"""The columnar journal of a run: every event given to the core and every start it commanded, in order.

Three flat columns (when, what, which job row), so that a million-job journal hashes in a tenth of a second. The same
scenario and seed give the same hash whichever engine ran it. Of a domain among others it also has every message and
every other command about mates.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SUBMITTED, FINISHED, WOKEN, NODE_DOWN, NODE_UP, NODE_DRAINED, HELD, RELEASED, CANCELLED, LEARNED = range(1, 11)
AGAIN = 11  # another step begins at the same instant: the one before gave no command that is written here
START, CANCEL, REQUEUE, MOVE, ABOUT_MATES = 20, 21, 22, 23, 24


@dataclass(frozen=True)
class Journal:
    """Events (kinds below 20) and commands (20 and above) in the order they happened."""

    time_us: NDArray[np.int64]
    kind: NDArray[np.int8]
    row: NDArray[np.int32]  # job row in order of submission, or node number for node facts, or -1
    attempt: NDArray[np.int32] | None = None  # which run; of a move the new node; None: everywhere 1
    learned: tuple[bytes, ...] = ()  # encoded measurements, messages and commands about mates; the row of a LEARNED
    # or ABOUT_MATES line is a place in here

    def hash(self) -> str:
        """Return a digest of the whole journal, independent of the machine's byte order."""
        digest = hashlib.blake2b(digest_size=16)
        columns = [(self.time_us, "<i8"), (self.kind, "<i1"), (self.row, "<i4")]
        if self.attempt is not None and bool(((self.attempt > 1) | (self.kind == MOVE)).any()):
            columns.append((self.attempt, "<i4"))
        for column, form in columns:
            digest.update(np.ascontiguousarray(column, form).data)
        for content in self.learned:
            digest.update(content)
        return digest.hexdigest()

    def learned_events(self) -> list[bytes]:
        """Return the encoded events that the core was told whole."""
        return [self.learned[row] for row in self.row[self.kind == LEARNED].tolist()]

    def steps(self) -> Iterator[tuple[int, range, range]]:
        """Return the instant of every step, and its lines: events, then commands."""
        kinds, times, at = self.kind.tolist(), self.time_us.tolist(), 0
        while at < len(kinds):
            begin, now_us = at, times[at]
            while at < len(kinds) and kinds[at] < AGAIN and times[at] == now_us:
                at += 1
            ordered = at
            while at < len(kinds) and kinds[at] >= START and times[at] == now_us:
                at += 1
            yield now_us, range(begin, ordered), range(ordered, at)
            at += at < len(kinds) and kinds[at] == AGAIN
