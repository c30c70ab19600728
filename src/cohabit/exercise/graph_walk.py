"""A walk through a random graph: each step reads a node to learn the next, so every miss is waited for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled
from cohabit.exercise.catalogue import Exercise

STEPS = 200_000


@compiled
def follow(neighbours: NDArray[np.uint32], at: np.int64, state: np.uint64, steps: int) -> tuple[np.int64, np.uint64]:
    """Follow one of four edges, chosen by a sequence mixed with the node's number; return node and sequence."""
    for _ in range(steps):
        state = state * np.uint64(6364136223846793005) + np.uint64(1442695040888963407) + np.uint64(at)
        at = np.int64(neighbours[at, np.int64(state >> np.uint64(62))])
    return at, state


class GraphWalk(Exercise):
    """Four edges of 4 bytes to each node."""

    def __init__(self, size_bytes: int) -> None:
        nodes = max(16, size_bytes // 16)
        self.neighbours = np.random.default_rng(20191).integers(0, nodes, (nodes, 4), dtype=np.uint32)
        self.at, self.state = follow(self.neighbours, np.int64(0), np.uint64(1), 1)

    def work(self) -> int:
        """Take STEPS steps."""
        self.at, self.state = follow(self.neighbours, np.int64(self.at), np.uint64(self.state), STEPS)
        return STEPS

    def checksum(self) -> int:
        """Return the state of the sequence, which depends on every node."""
        return int(self.state)
