"""What flat models have in common: arrays by name, and trees that are checked before a kernel follows them. Pure."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from cohabit.predict.features import Floats

NODES = ("feature", "threshold", "left", "right", "value", "roots")  # arrays of trees, as kernels take them
Arrays = dict[str, NDArray[np.generic]]


def floats(arrays: Mapping[str, NDArray[np.generic]], name: str) -> Floats:
    """Return one array of a file as numbers."""
    return np.asarray(arrays[name], np.float64)


def check_nodes(
    feature: NDArray[np.generic], left: NDArray[np.generic], right: NDArray[np.generic], columns: int
) -> int:
    """Return the number of nodes, if all test an existing column and lead further down, never in a circle."""
    feature, left, right = (np.asarray(part, np.int64) for part in (feature, left, right))
    inner = left > np.arange(len(left)) if len(left) == len(right) == len(feature) else None
    if inner is None:
        raise ValueError("its trees do not fit together")
    asks = feature >= 0
    down = inner & (right > np.arange(len(right))) & (left < len(left)) & (right < len(right))
    if (asks & ~(down & (feature < columns))).any():
        raise ValueError("a tree leads nowhere")
    return len(feature)
