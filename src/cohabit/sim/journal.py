"""The columnar journal of a run: every event given to the core and every start it commanded, in order.

Three flat columns (when, what, which job row), so that a million-job journal hashes in a tenth of a second. The same
scenario and seed give the same hash whichever engine ran it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

SUBMITTED, FINISHED, WOKEN, NODE_DOWN, NODE_UP, NODE_DRAINED, HELD, RELEASED, CANCELLED, LEARNED = range(1, 11)
START, CANCEL, REQUEUE, MOVE = 20, 21, 22, 23
KIND_NAMES = {
    SUBMITTED: "submitted", FINISHED: "finished", WOKEN: "woken", NODE_DOWN: "node down", NODE_UP: "node up",
    NODE_DRAINED: "node drained", HELD: "held", RELEASED: "released", CANCELLED: "cancelled", START: "start",
    CANCEL: "cancel", REQUEUE: "requeue", MOVE: "move", LEARNED: "profile learned",
}  # fmt: skip


@dataclass(frozen=True)
class Journal:
    """Events (kinds below 20) and commands (20 and above) in the order they happened."""

    time_us: NDArray[np.int64]
    kind: NDArray[np.int8]
    row: NDArray[np.int32]  # job row in order of submission, or node number for node facts, or -1
    attempt: NDArray[np.int32] | None = None  # which run; of a move the new node; None: everywhere 1
    learned: tuple[bytes, ...] = ()  # measurements, encoded; the row of a LEARNED line is a place in here

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
