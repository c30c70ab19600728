"""A node's cache as a list of parts that can give ways to each other: the arithmetic of corrections, and nothing else.

A part has members (places in the list of tenants) and ways. Parts keep their order, so masks stay contiguous; no part
is left with fewer ways than the hardware allows, and there are never more parts than it has classes of service.
"""

from __future__ import annotations

from collections.abc import Sequence

from cohabit.model.cluster import NodeGroup

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
