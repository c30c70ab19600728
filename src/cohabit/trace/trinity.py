"""Spread-n-Share's trace: the jobs of LANL Trinity, resized to its 28-core nodes (S61, S63).

The paper keeps 7,044 parallel jobs of Trinity (32 cores per node), resized to nodes of 28 cores, without those of more
than 4,096 nodes; how it resized them is not written. Two readings are here, to be compared, never mixed:

- `cores`: a job of p tasks becomes one of p * 28 // 32 processes, kept if that fits one node or fills whole nodes;
- `nodes`: a job of p tasks had ceil(p / 32) whole nodes and gets as many, each with 28 processes.

In both, jobs of one task are not parallel and go; with `multi_node`, so do jobs that fit one node of Trinity. Submit
times, run times and requests stay as they are. What was dropped, and why, is counted.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.workload import ACCEPTED, Workload

TRINITY_CORES, NODE_CORES, MOST_NODES = 32, 28, 4096


class Filtered(NamedTuple):
    """The jobs that are left, and how many were read, dropped for each reason, and kept."""

    workload: Workload
    counts: dict[str, int]


def trinity_filter(workload: Workload, by: str = "cores", *, multi_node: bool = False) -> Filtered:
    """Keep parallel jobs of up to 4,096 nodes, resized to 28-core nodes by cores or by nodes; see the module."""
    if by not in ("cores", "nodes"):
        raise InputError(f"jobs cannot be resized by {by!r}", "by", "use cores or nodes")
    tasks = workload.processes
    counts, kept = {"read": len(workload)}, np.ones(len(workload), np.bool_)

    def drop(reason: str, bad: np.ndarray) -> None:
        counts[reason] = int((kept & bad).sum())
        kept[bad] = False

    drop("never ran or asks for nothing", workload.rejection != ACCEPTED)
    drop("one task", tasks <= 1)
    if multi_node:
        drop("one node", tasks <= TRINITY_CORES)
    if by == "cores":
        processes = tasks * NODE_CORES // TRINITY_CORES
        drop("neither within a node nor whole nodes", (processes > NODE_CORES) & (processes % NODE_CORES != 0))
    else:
        processes = -(-tasks // TRINITY_CORES) * NODE_CORES
    drop("more than 4,096 nodes", processes > MOST_NODES * NODE_CORES)
    counts["kept"] = int(kept.sum())
    resized = dataclasses.replace(
        workload, processes=processes.astype(np.int64), max_procs=workload.max_nodes * NODE_CORES
    )
    return Filtered(resized.take(np.flatnonzero(kept)), counts)
