"""CS: compact, but nodes are shared. A job takes cores wherever they are free, at the lowest scale that fits now.

Spread-n-Share (SC 2019, section 3.2). It looks at cores and memory only, so jobs that compete for cache or bandwidth
end up side by side and slow each other down (the paper saw 3.5 times); no profile is used and the cache is not divided.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cohabit.model.plan import Ask
from cohabit.model.profile import footprint
from cohabit.model.resources import CORES, MEMORY, Dimension, Wish
from cohabit.policy.placement.wishes import SharedNodes, alone, ask_for, possible, stays_together, wants_whole_nodes

if TYPE_CHECKING:
    from cohabit.core.view import View
    from cohabit.policy.options import PlacementOptions


class Share(SharedNodes):
    """Cores side by side, lowest scale first."""

    def __init__(self, options: PlacementOptions) -> None:
        self.scales = options.scales
        self.dimensions: tuple[Dimension, ...] = (CORES, MEMORY)

    def asks(self, row: int, view: View) -> list[Ask]:
        """Return the footprints with which the job could run, the preferred one first."""
        job, compact = view.job(row), alone(row, view, self.dimensions)
        if wants_whole_nodes(job):
            return compact
        cores, least = view.smallest_node(row), view.need(row)
        found = []
        profile = view.profile(job.program, job.processes, job.profile_owner) if job.program else None
        for scale in (1,) if stays_together(job, profile) else self.scales:
            spread = footprint(job.processes, cores, scale, least)
            if possible(job, spread.nodes, scale, view):
                wish = Wish(job, None, scale, spread.nodes, spread.cores, 0, 0.0)
                found.append(ask_for(wish, self.dimensions, view, row))
        return found + compact  # last resort: a job that may use an empty node must not wait for ever
