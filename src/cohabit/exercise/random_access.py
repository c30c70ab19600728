"""Updates at random places of a large table: many misses under way at once, hardly any use of a cache line."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled
from cohabit.exercise.catalogue import Exercise

UPDATES = 1 << 20


@compiled
def update(table: NDArray[np.uint64], state: np.uint64, updates: int) -> np.uint64:
    """Change `updates` entries, chosen by a xorshift sequence; return its new state."""
    mask = np.uint64(len(table) - 1)
    for _ in range(updates):
        state ^= state << np.uint64(13)
        state ^= state >> np.uint64(7)
        state ^= state << np.uint64(17)
        table[state & mask] ^= state
    return state


class RandomAccess(Exercise):
    """A table of a power of two of entries, not more than the size."""

    def __init__(self, size_bytes: int) -> None:
        self.table = np.arange(1 << ((size_bytes // 8).bit_length() - 1), dtype=np.uint64)
        self.state = update(self.table, np.uint64(88172645463325252), 1)

    def work(self) -> int:
        """Make a million updates."""
        self.state = update(self.table, np.uint64(self.state), UPDATES)
        return UPDATES

    def checksum(self) -> int:
        """Return the checksum of the whole table."""
        return int(np.bitwise_xor.reduce(self.table))
