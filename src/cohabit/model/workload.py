"""A workload: the jobs of a trace as flat columns, one row per input job in file order.

Readers and generators in `trace/` build it, the simulator runs it, reports read it. It never knows
which policy ran it. A row that can never run (bad run time, bad size) stays in the table with a
rejection code, so that nothing of the user's file is silently lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

ACCEPTED, BAD_RUN, BAD_SIZE, TOO_LARGE, NEVER_FREE = 0, 1, 2, 3, 4
REJECTIONS = {
    BAD_RUN: "run time is missing or negative",
    BAD_SIZE: "asks for no processors",
    TOO_LARGE: "larger than the machine",
    NEVER_FREE: "waits for a job that was rejected",
}


@dataclass(frozen=True)
class Workload:
    """Columns of equal length; `order` is the stable sort by submit time that every scheduler pass follows."""

    job_id: NDArray[Any]  # int64, or str objects where the source has names such as "12_3"
    submit_us: Ints  # on the trace's own clock, unshifted
    run_us: Ints  # true run time; only the simulated world may read it
    limit_us: Ints  # requested time; equals run_us where the trace gives none
    processes: Ints  # processors asked for (SWF field 8, else field 5)
    user: NDArray[np.int32]  # index into user_names, -1 unknown
    program: NDArray[np.int32]  # index into program_names, -1 unknown
    rejection: NDArray[np.int8]  # ACCEPTED or one of REJECTIONS
    user_names: Sequence[str] = ()
    program_names: Sequence[str] = ()
    memory_bytes: Ints | None = None  # per process, 0 = not stated
    partition: NDArray[np.int32] | None = None  # index into partition_names, -1 any
    partition_names: Sequence[str] = ()
    after: Sequence[tuple[str, ...]] | None = None  # job ids that must have finished well first
    extra: dict[str, NDArray[Any]] = field(default_factory=dict)  # alpha, mate, group, ... for later policies
    max_nodes: int = 0  # machine size as the header states it, 0 = not stated
    max_procs: int = 0
    header: dict[str, str] = field(default_factory=dict)
    defects: dict[str, int] = field(default_factory=dict)  # tolerated oddities of the file, counted by sentence
    source: str = ""

    def __len__(self) -> int:
        return len(self.submit_us)

    def order(self) -> NDArray[np.int64]:
        """Return rows in the order they are submitted: by submit time, ties in file order."""
        if len(self) < 2 or bool((self.submit_us[1:] >= self.submit_us[:-1]).all()):
            return np.arange(len(self), dtype=np.int64)
        return np.argsort(self.submit_us, kind="stable").astype(np.int64)

    def take(self, rows: NDArray[np.int64]) -> Workload:
        """Return the same workload with only these rows, in this order."""
        aligned = ("job_id", "submit_us", "run_us", "limit_us", "processes", "user", "program", "rejection")
        columns = {name: getattr(self, name)[rows] for name in aligned}
        return replace(
            self,
            **columns,
            memory_bytes=None if self.memory_bytes is None else self.memory_bytes[rows],
            partition=None if self.partition is None else self.partition[rows],
            after=None if self.after is None else [self.after[int(row)] for row in rows],
            extra={name: column[rows] for name, column in self.extra.items()},
        )
