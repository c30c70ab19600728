"""Products of square matrices: arithmetic at full speed, mostly from the first caches."""

from __future__ import annotations

import numpy as np

from cohabit.exercise.catalogue import Exercise


class Dense(Exercise):
    """Three matrices; the product is scaled so that numbers neither grow nor vanish."""

    def __init__(self, size_bytes: int) -> None:
        self.side = max(8, int((size_bytes / 24) ** 0.5))
        stream = np.random.default_rng(20190)
        self.left = stream.random((self.side, self.side))
        self.left /= self.left.sum(axis=1, keepdims=True)  # rows sum to one: powers of it stay bounded
        self.right = stream.random((self.side, self.side))
        self.product = np.empty_like(self.left)

    def work(self) -> int:
        """Compute one product."""
        np.matmul(self.left, self.right, out=self.product)
        self.right, self.product = self.product, self.right
        return 2 * self.side**3

    def checksum(self) -> int:
        """Return the sum to six digits: libraries add in different orders."""
        return round(float(self.right.sum()) * 1e6)
