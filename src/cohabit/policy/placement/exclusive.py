"""CE: compact and exclusive. A job gets as few whole nodes as hold its processes, the lowest-numbered idle ones.

The way most sites run (Spread-n-Share, SC 2019, section 2); wastes whatever cores and bandwidth the job does not use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from cohabit.core.ledger import ranges_of
from cohabit.model.plan import Placement

if TYPE_CHECKING:
    from cohabit.core.view import View
    from cohabit.policy.options import PlacementOptions


class Exclusive:
    """Whole nodes, least capable kinds first, lowest numbers first."""

    exclusive = True
    lowest = True  # the compiled pass may place instead

    def __init__(self, options: PlacementOptions) -> None:
        """Make it; it has no options."""

    def place(self, row: int, allowed: NDArray[np.int64], idle: NDArray[np.bool_], view: View) -> Placement | None:
        """Return idle nodes within the allowed number of each kind."""
        counts = view.kinds.choose(np.where(view.usable(row), allowed, 0), view.need(row))
        if counts is None:
            return None
        free = np.flatnonzero(idle).astype(np.int32)
        if len(counts) == 1:
            nodes = free[: counts[0]]
        else:
            kind = view.kinds.of_node[free]
            nodes = np.sort(np.concatenate([free[kind == one][: counts[one]] for one in np.flatnonzero(counts)]))
        return Placement(ranges_of(nodes)) if len(nodes) >= view.need(row) else None
