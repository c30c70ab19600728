"""A node's cache as parts that can give ways to each other, and the jobs that can give others ways or bandwidth.

A part has members (places in the list of tenants) and ways. Parts keep their order, so masks stay contiguous; no part
is left with fewer ways than the hardware allows, and there are never more parts than it has classes of service. Nothing
is remembered here: the caller's condition (`MayGive`) says whether a neighbour can spare something by its measurements.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from cohabit.model.cluster import NodeGroup
from cohabit.model.profile import ScaleProfile, Tenant, capped_gbs, stream_gbs

STEP_WAYS, LARGE_STEP, FAR_BELOW = 2, 4, 0.15  # ways in one step; the large one for jobs so far below their bound
CROWDED = 0.4  # of the memory's bandwidth in all profiles' means: bursts may fill it from here on
WORTH_HOLDING = 0.1  # of it: a job that draws less is not worth holding
LEAST_PERCENT, STEP_PERCENT = 10, 10  # of bandwidth control, as Intel has it
THROTTLED = 0.8  # of what it may draw now, in one step
Shares = list[tuple[int, int]]  # (first way, ways); jobs that share a mask share the ways


class Division:
    """The changeable division of one node."""

    def __init__(self, shares: Shares, node: NodeGroup) -> None:
        self.least = max(node.min_ways, 1)
        self.most_parts = node.closids or len(shares)
        self.members: list[list[int]] = []
        self.ways: list[int] = []
        for first, ways in sorted(set(shares)):
            self.members.append([place for place, share in enumerate(shares) if share == (first, ways)])
            self.ways.append(ways)

    def part_of(self, place: int) -> int:
        """Return the part a tenant is in."""
        return next(part for part, members in enumerate(self.members) if place in members)

    def ways_of(self, place: int) -> int:
        """Return the ways a tenant may use, alone or shared."""
        return self.ways[self.part_of(place)]

    def can_leave(self, place: int) -> bool:
        """Return whether a tenant could have a part of its own."""
        part = self.part_of(place)
        return len(self.members[part]) > 1 and self.ways[part] >= 2 * self.least and len(self.ways) < self.most_parts

    def leave(self, place: int, cores: Sequence[int]) -> None:
        """Give the tenant a part of its own out of the one it shared, by its share of the cores there."""
        part = self.part_of(place)
        whole, members = self.ways[part], self.members[part]
        own = round(whole * cores[place] / max(sum(cores[one] for one in members), 1))
        own = min(max(own, self.least), whole - self.least)
        members.remove(place)
        self.ways[part] = whole - own
        self.members.insert(part + 1, [place])
        self.ways.insert(part + 1, own)

    def give(self, giver: int, taker: int, ways: int) -> int:
        """Move ways from one tenant's part to another's, as many as it can spare; return how many."""
        source, goal = self.part_of(giver), self.part_of(taker)
        moved = min(ways, self.ways[source] - self.least) if source != goal else 0
        if moved <= 0:
            return 0
        self.ways[source] -= moved
        self.ways[goal] += moved
        return moved

    def shares(self) -> Shares:
        """Return (first way, ways) of each tenant."""
        found: Shares = [(0, 0)] * sum(map(len, self.members))
        first = 0
        for members, ways in zip(self.members, self.ways, strict=True):
            for place in members:
                found[place] = (first, ways)
            first += ways
        return found


class Place(NamedTuple):
    """One class of the job's nodes: its jobs, what each booked, and how its cache is divided now."""

    rows: tuple[int, ...]
    tenants: list[Tenant]
    booked_gbs: list[float]
    node: NodeGroup
    division: Division


class MayGive(Protocol):
    """A check that a job keeps its own bound at this share of its speed; `untold`: also if it was not measured."""

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
