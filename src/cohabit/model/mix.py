"""Programs that share nodes, as curves of cache misses: the input of the optimiser. Checked where it is read.

A size is a number of *buckets*, equal slices of a node's last-level cache. `mpki[i, s]` is what program i misses per
thousand instructions with s buckets; index 0 is no cache at all. Laws: docs/partitioning.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Mix:
    """Identical nodes, and the programs for them, one core each."""

    nodes: int
    cores_per_node: int
    buckets: int
    bandwidth_cap_gbs: float
    freq_ghz: float
    names: tuple[str, ...]
    mpki: Floats  # one row per program, buckets + 1 columns
    cpi0: Floats  # cycles per instruction if nothing missed
    cycles_per_miss: Floats  # with idle memory
    alpha: Floats | None = None  # share of its solo speed that each must keep; None: no bounds

    def __post_init__(self) -> None:
        assert self.mpki.shape == (len(self.names), self.buckets + 1)
        assert len(self.cpi0) == len(self.cycles_per_miss) == len(self.names)

    def __len__(self) -> int:
        return len(self.names)

    @property
    def room(self) -> int:
        """Programs that fit on a node: one core and at least one bucket each."""
        return min(self.cores_per_node, self.buckets)

    def only(self, rows: Sequence[int] | Ints, nodes: int | None = None) -> Mix:
        """Return a mix of these programs only."""
        chosen = np.asarray(rows, dtype=np.int64)
        return replace(
            self,
            nodes=self.nodes if nodes is None else nodes,
            names=tuple(self.names[row] for row in chosen.tolist()),
            mpki=self.mpki[chosen],
            cpi0=self.cpi0[chosen],
            cycles_per_miss=self.cycles_per_miss[chosen],
            alpha=None if self.alpha is None else self.alpha[chosen],
        )

    def with_buckets(self, buckets: int) -> Mix:
        """Return the same cache cut into another number of slices; misses between the old points are linear."""
        if buckets == self.buckets:
            return self
        points = np.linspace(0.0, self.buckets, buckets + 1)
        known = np.arange(self.buckets + 1)
        curves = np.array([np.interp(points, known, row) for row in self.mpki]).reshape(len(self), buckets + 1)
        return replace(self, buckets=buckets, mpki=curves)
