"""a = b + s * c over vectors larger than the caches: what the memory bus can carry."""

from __future__ import annotations

import numpy as np

from cohabit.exercise.catalogue import Exercise


class Stream(Exercise):
    """Three vectors; the roles go round, so every sweep depends on the one before."""

    def __init__(self, size_bytes: int) -> None:
        length = max(1, size_bytes // 24)
        self.a, self.b, self.c = (np.full(length, value) for value in (1.0, 2.0, 0.5))

    def work(self) -> int:
        """Sweep once: the product and the sum move five vectors."""
        np.multiply(self.c, 0.25, out=self.a)
        np.add(self.a, self.b, out=self.a)
        self.a, self.b, self.c = self.b, self.c, self.a
        return 5 * 8 * len(self.a)

    def checksum(self) -> int:
        """Return the bits of one element: all are alike."""
        return int(self.c.view(np.uint64)[-1])
