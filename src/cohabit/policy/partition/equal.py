"""Every job has the ways it booked; unbooked ways are given away in equal shares until the next job comes (S35).

Masks are contiguous and disjoint, in the order the jobs came, and the same on every socket (S25). A remainder
goes to the jobs that came first, so that every way of the cache is always in use.
"""

from __future__ import annotations

from collections.abc import Sequence

from cohabit.model.cluster import NodeGroup
from cohabit.model.profile import Tenant
from cohabit.policy.options import PlacementOptions


class Equal:
    """Spare ways in equal shares."""

    def __init__(self, options: PlacementOptions) -> None:
        """Make it; it has no options."""

    def split(self, tenants: Sequence[Tenant], node: NodeGroup) -> list[tuple[int, int]]:
        """Return (first way, ways) of each job on a node, in the order given."""
        return divided([tenant.booked_ways for tenant in tenants], node.ways)


def divided(booked: Sequence[int], ways: int) -> list[tuple[int, int]]:
    """Return (first way, ways) of each job: what it booked, and an equal share of the rest."""
    spare = ways - sum(booked)
    assert spare >= 0, f"{sum(booked)} of {ways} ways booked"
    each, left = divmod(spare, len(booked))
    shares, first = [], 0
    for number, own in enumerate(booked):
        size = own + each + (1 if number < left else 0)
        shares.append((first, size))
        first += size
    return shares
