"""Deflating text: table look-ups and branches in the first caches."""

from __future__ import annotations

import zlib

import numpy as np

BLOCK = 1 << 17
WORDS = 2000


class Compression:
    """Text of random words with the unequal frequencies of a language."""

    def __init__(self, size_bytes: int) -> None:
        stream = np.random.default_rng(20193)
        letters = [
            bytes(stream.integers(97, 123, int(length), dtype=np.uint8)) for length in stream.integers(2, 10, WORDS)
        ]
        places = np.minimum(stream.zipf(1.4, max(64, size_bytes // 6)), WORDS) - 1
        self.text = b" ".join(letters[place] for place in places)[: max(BLOCK, size_bytes)]
        self.at = self.sum = 0

    def work(self) -> int:
        """One block, the next of the text each time."""
        block = self.text[self.at : self.at + BLOCK]
        self.sum = zlib.crc32(zlib.compress(block, 6), self.sum)
        self.at = (self.at + BLOCK) % max(1, len(self.text) - BLOCK)
        return len(block)

    def checksum(self) -> int:
        """Of everything compressed."""
        return self.sum

    def close(self) -> None:
        """Nothing to give back."""
