"""Every job has the ways it booked; unbooked ways go to the jobs that gain most speed by them, by profile (ours).

Ways are given in steps of any size: the step with the most relative gain per way comes first, so that a working set
that fits only at once is seen. Jobs without curves gain nothing by forecast; ways that help no job are given in equal
shares. Masks are contiguous and disjoint, in the order the jobs came.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from cohabit.model.cluster import NodeGroup
from cohabit.model.curve import Curve
from cohabit.model.profile import Tenant
from cohabit.policy.options import PlacementOptions
from cohabit.policy.partition.equal import divided

LEAST_GAIN = 1e-6  # of speed per way: less is nothing


class Spare:
    """Spare ways by forecast gain."""

    def __init__(self, options: PlacementOptions) -> None:
        """Make it; it has no options."""

    def split(self, tenants: Sequence[Tenant], node: NodeGroup) -> list[tuple[int, int]]:
        """Return (first way, ways) of each job on a node, in the order given."""
        sizes = [tenant.booked_ways for tenant in tenants]
        spare = node.ways - sum(sizes)
        assert spare >= 0, f"{sum(sizes)} of {node.ways} ways booked"
        while spare:
            gain, place, step = max(
                (_best_step(tenants[place], size, spare, place) for place, size in enumerate(sizes)),
                key=lambda one: (one[0], -one[1]),
            )
            if gain < LEAST_GAIN:
                break
            sizes[place] += step
            spare -= step
        return divided(sizes, node.ways)


def _best_step(tenant: Tenant, ways: int, spare: int, place: int) -> tuple[float, int, int]:
    """Return the most relative speed per way that a tenant gains from more ways, and with how many."""
    measured = None if tenant.profile is None else tenant.profile.at_scale(tenant.scale)
    if measured is None or measured.ipc is None:
        return 0.0, place, 1
    gain, step = _gain(measured.ipc, ways, spare)
    return gain, place, step


@lru_cache(maxsize=4096)
def _gain(ipc: Curve, ways: int, spare: int) -> tuple[float, int]:
    """Return the most relative speed per way that more ways bring, and how many bring it."""
    full, now = ipc.values[-1], ipc.at(ways)
    gains = [((ipc.at(ways + step) - now) / (step * max(full, 1e-9)), -step) for step in range(1, spare + 1)]
    gain, step = max(gains)
    return gain, -step
