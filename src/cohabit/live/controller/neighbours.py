"""The expected slowdown of a job beside given neighbours relative to running alone, from the profiles of all of them.

A forecast for people and records, under policies that make none themselves; no decision depends on it. Ways: as the
policy divides the cache, else in proportion to what each job draws from memory, as in an undivided cache the job with
the most misses gets most. Memory: where all together want more than it gives, each is slowed by the part of its time
that it waits for it, taken to be the share it draws of what its cores could.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cohabit.core.protocols import Partitioner
from cohabit.model.cluster import NodeGroup
from cohabit.model.curve import Curve
from cohabit.model.profile import Tenant, stream_gbs

ROUNDS = 50  # of the division by traffic: it converges within a few
CORE_GBS = 1.0  # weight of a core in it, so that a job that draws nothing keeps something


class _Curves(NamedTuple):
    """A tenant's profile at its scale."""

    cores: int
    load: float
    ipc: Curve
    bandwidth_gbs: Curve

    def draws(self, ways: float) -> float:
        """Return GB/s with this number of ways."""
        return self.bandwidth_gbs.at(ways) * self.load


def expected_slowdown(tenants: Sequence[Tenant], node: NodeGroup, partitioner: Partitioner | None) -> float | None:
    """Return the slowdown of the first tenant; None where the profile of any tenant is not known."""
    known = [_curves(one) for one in tenants]
    curves = [one for one in known if one is not None]
    if len(curves) < len(tenants):
        return None
    first, most = curves[0], node.ways or curves[0].ipc.ways[-1]
    if partitioner is None or not node.ways:
        ways = _undivided(curves, most)
    else:
        ways = [float(own) if own else float(most) for _, own in partitioner.split(list(tenants), node)]
    kept = first.ipc.at(ways[0])
    if kept <= 0:
        return None
    by_cache = max(1.0, first.ipc.at(most) / kept)
    active = sum(one.cores for one in curves)
    asked = sum(one.draws(own) for one, own in zip(curves, ways, strict=True))
    pressure = max(1.0, asked / stream_gbs(node, min(active, node.cores)))
    waits = min(1.0, first.draws(most) / stream_gbs(node, first.cores))
    crowd = max(1.0, active / node.cores)  # where jobs may share a core
    return by_cache * (1.0 + waits * (pressure - 1.0)) * crowd


def _curves(tenant: Tenant) -> _Curves | None:
    measured = None if tenant.profile is None else tenant.profile.at_scale(tenant.scale)
    if measured is None or measured.ipc is None or measured.bandwidth_gbs is None:
        return None
    return _Curves(tenant.cores, tenant.load, measured.ipc, measured.bandwidth_gbs)


def _undivided(curves: Sequence[_Curves], most: float) -> list[float]:
    """Divide the ways in proportion to the cores and to what each draws with its ways; half a step at a time."""
    total = sum(one.cores for one in curves)
    ways = [most * one.cores / total for one in curves]
    for _ in range(ROUNDS):
        weights = [CORE_GBS * one.cores + one.draws(own) for one, own in zip(curves, ways, strict=True)]
        ways = [0.5 * (own + most * weight / sum(weights)) for own, weight in zip(ways, weights, strict=True)]
    return ways
