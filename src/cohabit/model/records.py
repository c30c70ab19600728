"""The results of a run: one row per input job, and the facts of the machine it ran on.

The simulator and the live system both fill a RunTable; `report/` reads nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.model.workload import Workload

NEVER = -(2**63)  # start_us or end_us of a job that never ran

WAITING, DONE, KILLED, FAILED, CANCELLED, REJECTED = 0, 1, 2, 3, 4, 5
STATUS_NAMES = ("waiting", "done", "killed", "failed", "cancelled", "rejected")


@dataclass(frozen=True)
class NodeRanges:
    """The nodes of each job, as runs of consecutive node numbers: job i owns ranges offsets[i]:offsets[i+1]."""

    offsets: NDArray[np.int64]  # length jobs + 1
    first: NDArray[np.int32]
    count: NDArray[np.int32]


@dataclass(frozen=True)
class Slowdowns:
    """Run times against running alone at the same scale, job by job; NaN: not known."""

    predicted: NDArray[np.float64]  # by what the policy knew when the job started
    measured: NDArray[np.float64]  # of runs that ended well and could have been slowed


@dataclass(frozen=True)
class RunTable:
    """Results aligned row by row with `workload` (file order), plus what is needed to judge them."""

    workload: Workload
    start_us: NDArray[np.int64]  # NEVER if it never ran
    end_us: NDArray[np.int64]
    nodes: NDArray[np.int32]  # how many nodes it had (0 if it never ran)
    cores: NDArray[np.int64]  # cores its processes use, over all its nodes
    scale: NDArray[np.int32]  # scale factor k, 1 under exclusive compact placement
    status: NDArray[np.int8]  # index into STATUS_NAMES
    reason: NDArray[np.int32]  # index into reasons; 0 is the empty reason
    reasons: tuple[str, ...]  # e.g. ("", "larger than the machine: 64 of 32 nodes", ...)
    cluster_nodes: int
    cluster_cores: int  # all cores of the machine
    policy: str  # the name of this run for readers, e.g. "fcfs + easy + exclusive"
    seed: int
    events: int  # heap events processed
    node_ranges: NodeRanges | None = None
    shares: list[str] | None = None  # how each job ran on shared nodes, as JSON; "" if it never ran
    settings: dict[str, Any] = field(default_factory=dict)  # the scenario as plain data, for summary.json
    gates: dict[str, Any] = field(default_factory=dict)  # questions to each gate and its answers, by its name
    slowdowns: Slowdowns | None = None  # None: the policy predicted none
    canary_us: int = 0  # work of the canary that ran before every job, in its run time
    journal_hash: str = ""
    scenario_hash: str = ""

    def __len__(self) -> int:
        return len(self.start_us)
