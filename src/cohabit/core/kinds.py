"""Kinds of nodes: nodes that no job can tell apart (same group, same partitions, same maintenance windows).

Counting free nodes per kind is exact: a job that fits by count can be given fixed nodes for its whole run. A job may
use several kinds; it takes the least capable first, so that large-memory nodes stay free for jobs that need them.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from cohabit.model.cluster import Cluster, NodeGroup, Window
from cohabit.model.job import Job


class Kinds:
    """The kinds of a cluster and which job may use which."""

    def __init__(self, cluster: Cluster, announced: tuple[Window, ...] = ()) -> None:
        """`announced`: windows that became known later than the cluster's own."""
        self.of_node = np.zeros(cluster.nodes, np.int32)
        self.server_of = np.zeros(cluster.nodes, np.int32)  # nodes with the same number are L3 domains of one server
        self.windows: tuple[Window, ...] = cluster.windows + announced
        self.groups: list[NodeGroup] = []
        self.windows_of: list[tuple[Window, ...]] = []
        self._any_open = any(not group.partitions for group in cluster.groups)
        known: dict[tuple[int, tuple[Window, ...]], int] = {}
        first = servers = 0
        edges = {edge for window in self.windows for edge in (window.first, window.first + window.count)}
        for number, group in enumerate(cluster.groups):
            end = first + group.count
            self.server_of[first:end] = servers + np.arange(group.count) // group.domains
            servers += group.count // group.domains
            for begin, until in pairwise(sorted({first, end, *(edge for edge in edges if first < edge < end)})):
                closed = tuple(w for w in self.windows if w.first <= begin < w.first + w.count)
                kind = known.setdefault((number, closed), len(known))
                if kind == len(self.groups):
                    self.groups.append(group)
                    self.windows_of.append(closed)
                self.of_node[begin:until] = kind
            first = end
        self.count = len(self.groups)
        self.size = np.bincount(self.of_node, minlength=self.count).astype(np.int64)
        self.preference = sorted(
            range(self.count),
            key=lambda k: (self.groups[k].memory_bytes, self.groups[k].cores, -len(self.windows_of[k]), k),
        )

    def eligible(self, job: Job) -> tuple[NDArray[np.bool_], int]:
        """Return which kinds the job may use, and how many nodes it needs there."""
        open_to = np.array([self._open(group, job.partition) for group in self.groups])
        usable = [group.cores for group, fits in zip(self.groups, open_to, strict=True) if fits]
        if not usable:
            return open_to, max(job.nodes, 1)
        need = job.nodes or -(-job.processes // min(usable))
        per_node = -(-job.processes // need)
        for kind, group in enumerate(self.groups):
            too_little = group.memory_bytes and job.memory_bytes * per_node > group.memory_bytes
            if too_little or per_node > group.cores:
                open_to[kind] = False
        return open_to, need

    def _open(self, group: NodeGroup, partition: str) -> bool:
        if partition:
            return partition in group.partitions
        return not group.partitions or not self._any_open

    def choose(self, available: NDArray[np.int64], need: int) -> NDArray[np.int64] | None:
        """Take `need` nodes, least capable kinds first; None if there are not enough."""
        offered, chosen = available.tolist(), [0] * self.count
        for kind in self.preference:
            chosen[kind] = min(need, max(offered[kind], 0))
            need -= chosen[kind]
            if need == 0:
                return np.array(chosen, np.int64)
        return None
