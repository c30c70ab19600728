"""Find the jobs on a node that can give another job ways or bandwidth, and how much: by profile, under a condition.

Pure and stateless: the caller's condition (`MayGive`) says whether a neighbour can spare it by its measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple, Protocol

from cohabit.model.cluster import NodeGroup
from cohabit.model.profile import ScaleProfile, Tenant, capped_gbs, stream_gbs
from cohabit.policy.partition.division import Division

STEP_WAYS, LARGE_STEP, FAR_BELOW = 2, 4, 0.15  # ways in one step; the large one for jobs so far below their bound
CROWDED = 0.4  # of the memory's bandwidth in all profiles' means: bursts may fill it from here on
WORTH_HOLDING = 0.1  # of it: a job that draws less is not worth holding
LEAST_PERCENT, STEP_PERCENT = 10, 10  # of bandwidth control, as Intel has it
THROTTLED = 0.8  # of what it may draw now, in one step


class Place(NamedTuple):
    """One class of the job's nodes: its jobs, what each booked, and how its cache is divided now."""

    rows: tuple[int, ...]
    tenants: list[Tenant]
    booked_gbs: list[float]
    node: NodeGroup
    division: Division


class MayGive(Protocol):
    """Whether a job keeps its own bound at this share of its speed; `untold`: also if it was not measured."""

    def __call__(self, row: int, kept: float, untold: bool = False) -> bool: ...


def giver_of_ways(own: int, step: int, place: Place, may_give: MayGive) -> int | None:
    """Return the neighbour (its place in the list) that can give so many ways and loses least."""
    best: tuple[float, int] | None = None
    for other, row in enumerate(place.rows):
        part, ways = place.division.part_of(other), place.division.ways_of(other)
        if part == place.division.part_of(own) and not place.division.can_leave(own):
            continue
        if ways - step < place.division.least or other == own:
            continue
        kept = speed_kept(place.tenants[other], ways, step)
        spare = ways - step >= place.tenants[other].booked_ways > 0  # these ways were lent only until they are needed
        if may_give(row, 1.0 if spare else kept, untold=spare) and (best is None or 1 - kept < best[0]):
            best = (1 - kept, other)
    return None if best is None else best[1]


def giver_of_bandwidth(
    own: int, throttle: bool, place: Place, holds: Mapping[int, int], may_give: MayGive
) -> tuple[int, int] | None:
    """Return the neighbour that draws most and can draw less, and the percentage of its cores' bandwidth it keeps.

    It is held to what it booked, or throttled further; `holds` are the percentages by row already in force.
    """
    node, peak = place.node, stream_gbs(place.node, place.node.cores)
    draws = [drawn_gbs(one, place.division.ways_of(at), node) for at, one in enumerate(place.tenants)]
    if peak == float("inf") or sum(draws) < CROWDED * peak:
        return None
    for other in sorted(range(len(draws)), key=lambda one: (-draws[one], one)):
        row, reach = place.rows[other], stream_gbs(node, place.tenants[other].cores)
        if other == own or draws[other] < WORTH_HOLDING * peak:
            continue
        held, drawn = holds.get(row, 0), min(100.0, 100 * draws[other] / reach)
        booked = place.booked_gbs[other]
        if throttle:
            percent = _percent(THROTTLED * (held or drawn))
        else:
            percent = _percent(100 * booked / reach, up=True) if booked and not held else 100
        if LEAST_PERCENT <= percent < 100 and may_give(row, min(1.0, percent / (held or drawn))):
            return other, percent
    return None


def speed_kept(tenant: Tenant, ways: int, fewer: int) -> float:
    """Return the speed a tenant keeps with fewer ways, by profile; without one it loses half of what it gives."""
    measured = _measured(tenant)
    if measured is None or measured.ipc is None:
        return 1.0 - 0.5 * fewer / max(ways, 1)
    return measured.ipc.at(ways - fewer) / max(measured.ipc.at(ways), 1e-9)


def drawn_gbs(tenant: Tenant, ways: int, node: NodeGroup) -> float:
    """Return what a tenant draws on average, by profile; without one, half of what its cores can draw."""
    measured = _measured(tenant)
    if measured is None or measured.bandwidth_gbs is None:
        return 0.5 * stream_gbs(node, tenant.cores)
    return capped_gbs(measured.bandwidth_gbs.at(ways), tenant.load, node, tenant.cores)[0]


def _measured(tenant: Tenant) -> ScaleProfile | None:
    return None if tenant.profile is None else tenant.profile.at_scale(tenant.scale)


def _percent(value: float, up: bool = False) -> int:
    """Round to a step of the hardware."""
    steps = value / STEP_PERCENT
    return STEP_PERCENT * (math.ceil(steps - 1e-9) if up else math.floor(steps + 1e-9))
