"""Deflating text: table look-ups and branches in the first caches."""

from __future__ import annotations

import zlib

import numpy as np

from cohabit.exercise.catalogue import Exercise

BLOCK = 1 << 17
WORDS = 2000


class Compression(Exercise):
    """Text of random words with the unequal frequencies of a language."""

    def __init__(self, size_bytes: int) -> None:
        stream = np.random.default_rng(20193)
        lengths = stream.integers(2, 10, WORDS)
        words = [bytes(stream.integers(97, 123, int(length), dtype=np.uint8)) for length in lengths]
        places = np.minimum(stream.zipf(1.4, max(64, size_bytes // 6)), WORDS) - 1
        self.text = b" ".join(words[place] for place in places)[: max(BLOCK, size_bytes)]
        self.at = 0

    def work(self) -> int:
        """Compress the next block of the text."""
        block = self.text[self.at : self.at + BLOCK]
        self.sum = zlib.crc32(zlib.compress(block, 6), self.sum)
        self.at = (self.at + BLOCK) % max(1, len(self.text) - BLOCK)
        return len(block)
