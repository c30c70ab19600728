"""A workload: the jobs of a trace as flat columns, one row per input job in file order.

Readers and generators in `trace/` build it, the simulator runs it, reports read it. It never knows
which policy ran it. A row that can never run (bad run time, bad size) stays in the table with a
rejection code, so that nothing of the user's file is silently lost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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
        """Rows in the order they are submitted: by submit time, ties in file order."""
        if len(self) < 2 or bool((self.submit_us[1:] >= self.submit_us[:-1]).all()):
            return np.arange(len(self), dtype=np.int64)
        return np.argsort(self.submit_us, kind="stable").astype(np.int64)

    def take(self, rows: NDArray[np.int64]) -> Workload:
        """The same workload with only these rows, in this order."""

        def pick(column: Any) -> Any:
            return None if column is None else column[rows]

        after = None if self.after is None else [self.after[int(row)] for row in rows]
        return Workload(
            job_id=self.job_id[rows], submit_us=self.submit_us[rows], run_us=self.run_us[rows],
            limit_us=self.limit_us[rows], processes=self.processes[rows], user=self.user[rows],
            program=self.program[rows], rejection=self.rejection[rows], user_names=self.user_names,
            program_names=self.program_names, memory_bytes=pick(self.memory_bytes),
            partition=pick(self.partition), partition_names=self.partition_names, after=after,
            extra={name: column[rows] for name, column in self.extra.items()}, max_nodes=self.max_nodes,
            max_procs=self.max_procs, header=self.header, defects=self.defects, source=self.source,
        )  # fmt: skip
