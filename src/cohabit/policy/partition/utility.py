"""Every job has the ways that are worth most to all on the node together, by its profile (Shepherd, P2 to P4).

Jobs are gathered into at most as many groups as the hardware has, and each group shares its ways: the sum of speeds
relative to running alone is largest, and no job falls below its bound if that is possible. Jobs without a profile have
nodes to themselves under the matching placement; if a node has one nevertheless, nothing is divided.
"""

from __future__ import annotations

from collections.abc import Sequence

from cohabit.model.cluster import NodeGroup
from cohabit.model.profile import Tenant
from cohabit.policy.forecast import Forecasts
from cohabit.policy.options import PlacementOptions


class Utility:
    """Ways by forecast."""

    def __init__(self, options: PlacementOptions) -> None:
        self.alpha = options.bound
        self.forecasts = Forecasts()

    def split(self, tenants: Sequence[Tenant], node: NodeGroup) -> list[tuple[int, int]]:
        """Return (first way, ways) of each job on a node, in the order given; jobs with equal values share them."""
        forecast = self.forecasts.of(node)
        bounded = [one if one.alpha else one._replace(alpha=self.alpha) for one in tenants]
        if len(bounded) == 1 or not all(forecast.knows(one) for one in bounded):
            return [(0, node.ways)] * len(bounded)
        return forecast.divide([forecast.kind_of(one) for one in bounded])
