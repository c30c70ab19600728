"""This machine's cores as nodes: split into so many equal virtual nodes, or one node without binding."""

from __future__ import annotations

import os

from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError


class VirtualNodes:
    """So many nodes; each has cores of its own where there are enough, otherwise all of them share all cores."""

    def __init__(self, count: int, cores: tuple[int, ...] | None = None) -> None:
        if count < 1:
            raise InputError(f"{count} nodes", "--nodes", "give a positive number")
        there = tuple(sorted(os.sched_getaffinity(0))) if cores is None else cores
        self.count, self.each = count, len(there) // count
        self._cores = there

    def cluster(self) -> Cluster:
        """What the core is told of them."""
        return Cluster((NodeGroup(self.count, max(self.each, 1)),))

    def cores(self, nodes: tuple[tuple[int, int], ...]) -> list[int]:
        """The cores of these nodes (ranges); empty: no binding, as there are more nodes than cores."""
        if self.each == 0:
            return []
        numbers = [node for first, count in nodes for node in range(first, first + count)]
        return sorted(core for node in numbers for core in self._cores[node * self.each : (node + 1) * self.each])
