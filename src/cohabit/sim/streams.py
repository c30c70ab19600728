"""Named random streams: every use of chance has its own, derived from the seed and its name."""

from __future__ import annotations

import zlib

import numpy as np


def stream(seed: int, name: str) -> np.random.Generator:
    """Return the generator of this name; adding another stream never changes it."""
    return np.random.default_rng([seed, zlib.crc32(name.encode())])
