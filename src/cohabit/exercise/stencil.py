"""Heat on a grid, each cell the mean of its four neighbours: fast as long as the grid stays in the last-level cache."""

from __future__ import annotations

import numpy as np

from cohabit.exercise.catalogue import Exercise


class Stencil(Exercise):
    """Two square grids of 8-byte numbers; one hot edge."""

    def __init__(self, size_bytes: int) -> None:
        self.side = max(8, int((size_bytes / 16) ** 0.5))
        self.now, self.after = np.zeros((self.side, self.side)), np.zeros((self.side, self.side))
        self.now[0] = self.after[0] = 100.0

    def work(self) -> int:
        """Sweep over the grid once."""
        now, inside = self.now, self.after[1:-1, 1:-1]
        np.add(now[:-2, 1:-1], now[2:, 1:-1], out=inside)
        inside += now[1:-1, :-2]
        inside += now[1:-1, 2:]
        inside *= 0.25
        self.now, self.after = self.after, now
        return inside.size

    def checksum(self) -> int:
        """Return the bits of all cells, added up."""
        return int(np.add.reduce(self.now.view(np.uint64), axis=None))
