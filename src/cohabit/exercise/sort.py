"""Sorting whole numbers: comparisons that cannot be foreseen, over a block that just fits a middle cache."""

from __future__ import annotations

import numpy as np

from cohabit.exercise.catalogue import Exercise


class Sort(Exercise):
    """Shuffled numbers, and room to sort a copy."""

    def __init__(self, size_bytes: int) -> None:
        self.shuffled = np.random.default_rng(20192).integers(0, 2**62, max(16, size_bytes // 16))
        self.sorted = np.empty_like(self.shuffled)

    def work(self) -> int:
        """Sort a fresh copy."""
        np.copyto(self.sorted, self.shuffled)
        self.sorted.sort()
        self.sum = (self.sum * 31 + int(self.sorted[len(self.sorted) // 2])) % 2**62
        return len(self.sorted)
