"""Decisions by random bits: a processor that guesses the next branch is wrong every other time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled

DECISIONS = 1 << 20


@compiled
def decide(bits: NDArray[np.uint8], start: int, decisions: int, total: int) -> int:
    """Walk over the bytes; every one sends the sum down one of several ways that call for different work."""
    at = start % len(bits)
    for _ in range(decisions):
        byte = bits[at]
        if byte & 1:
            if byte & 2:
                total = total * 3 + 1
            else:
                total ^= total >> 3
        elif byte & 4:
            total += at
        elif total & 1:
            total -= byte
        else:
            total = total // 2 + byte
        total &= 0xFFFFFFFFFFFF
        at += 1
        if at == len(bits):
            at = 0
    return total


class Branchy:
    """Random bytes, gone through again and again from shifting places."""

    def __init__(self, size_bytes: int) -> None:
        self.bits = np.random.default_rng(20194).integers(0, 256, size_bytes, dtype=np.uint8)
        self.rounds, self.total = 0, decide(self.bits, 0, 1, 1)

    def work(self) -> int:
        """A million decisions."""
        self.rounds += 1
        self.total = decide(self.bits, self.rounds * 7919, DECISIONS, self.total)
        return DECISIONS

    def checksum(self) -> int:
        """Where the decisions led."""
        return int(self.total)

    def close(self) -> None:
        """Nothing to give back."""
