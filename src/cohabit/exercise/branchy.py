"""Decisions by random bits: a processor that guesses the next branch is wrong every other time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from cohabit.compiled import compiled
from cohabit.exercise.catalogue import Exercise

DECISIONS = 1 << 20


@compiled
def decide(bits: NDArray[np.uint8], start: int, decisions: int, total: int) -> int:
    """Go through the bytes; every one sends the sum down one of several branches with different work."""
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


class Branchy(Exercise):
    """Random bytes, gone through again and again from shifting places."""

    def __init__(self, size_bytes: int) -> None:
        self.bits = np.random.default_rng(20194).integers(0, 256, size_bytes, dtype=np.uint8)
        self.rounds, self.sum = 0, int(decide(self.bits, 0, 1, 1))

    def work(self) -> int:
        """Take a million decisions."""
        self.rounds += 1
        self.sum = int(decide(self.bits, self.rounds * 7919, DECISIONS, self.sum))
        return DECISIONS
