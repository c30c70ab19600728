"""The machine: groups of nodes, partitions, maintenance windows. Contradictory settings are refused here.

A *hardware key* is a short text for a kind of node: profiles of different kinds never mix.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cohabit.model.errors import InputError

_KEY = re.compile(r"(\d+)c(?:-(\d+)w)?(?:-([\d.]+)g)?")


@dataclass(frozen=True)
class NodeGroup:
    """Identical nodes. Ways, bandwidth and closids are for policies that share nodes."""

    count: int
    cores: int = 1
    memory_bytes: int = 0  # 0: not stated, never a constraint
    ways: int = 0  # last-level cache ways; 0: not stated
    min_ways: int = 1
    closids: int = 0
    bandwidth_gbs: tuple[tuple[int, float], ...] = ()  # (active cores, GB/s), linear between
    domains: int = 1  # L3 domains per server: this many consecutive nodes are one server
    partitions: tuple[str, ...] = ()  # none: open to every job that names no partition
    name: str = "node"

    def __post_init__(self) -> None:
        if self.count < 1:
            raise InputError(f"a group of {self.count} nodes", "cluster.nodes", "give a positive number")
        if self.cores < 1:
            raise InputError(f"nodes of {self.cores} cores", "cluster.cores", "give a positive number")
        if self.domains < 1 or self.count % self.domains:
            what = f"{self.count} nodes are not servers of {self.domains} L3 domains each"
            raise InputError(what, "cluster.domains", "give a number that divides the nodes")
        if self.memory_bytes < 0:
            raise InputError("negative memory", "cluster.memory_gb", "give a positive number")
        if self.ways and self.min_ways > self.ways:
            raise InputError(
                f"min_ways = {self.min_ways} but the cache has {self.ways} ways", "cluster.min_ways", "lower it"
            )
        cores = [point[0] for point in self.bandwidth_gbs]
        if cores != sorted(set(cores)) or any(value <= 0 for _, value in self.bandwidth_gbs):
            raise InputError(
                "the bandwidth curve needs rising core counts and positive values", "cluster.bandwidth_gbs"
            )


@dataclass(frozen=True)
class Window:
    """A maintenance window or a reservation of others: no job starts that could run on these nodes between begin and
    end."""

    begin_us: int
    end_us: int
    first: int
    count: int
    name: str = ""

    def __post_init__(self) -> None:
        if self.end_us <= self.begin_us:
            raise InputError("a maintenance window ends before it begins", "cluster.maintenance")


@dataclass(frozen=True)
class Cluster:
    """All nodes, numbered from 0 in the order of the groups."""

    groups: tuple[NodeGroup, ...]
    sharing: str = "exclusive"  # or "shared"
    oversubscribe: bool = False
    windows: tuple[Window, ...] = ()
    on_node_loss: str = "requeue"  # or "fail": what happens to the jobs of a node that goes down
    names: tuple[str, ...] = ()  # of the nodes, as a resource manager calls them; none: they have numbers only
    partitions: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        if not self.groups:
            raise InputError("the cluster has no nodes", "cluster", "set nodes or add a [[cluster.group]]")
        if self.sharing not in ("exclusive", "shared"):
            raise InputError(f"sharing = {self.sharing!r}", "cluster.sharing", 'use "exclusive" or "shared"')
        if self.oversubscribe and self.sharing == "exclusive":
            raise InputError(
                'sharing = "exclusive" contradicts oversubscribe = true', "cluster", "drop one of the two settings"
            )
        if self.on_node_loss not in ("requeue", "fail"):
            raise InputError(f"on_node_loss = {self.on_node_loss!r}", "cluster", 'use "requeue" or "fail"')
        for window in self.windows:
            if window.first < 0 or window.first + window.count > self.nodes or window.count < 1:
                what = f"a maintenance window names nodes {window.first} to {window.first + window.count - 1}"
                raise InputError(what, "cluster.maintenance", f"the cluster has nodes 0 to {self.nodes - 1}")
        if self.names and len(self.names) != self.nodes:
            raise InputError(f"{len(self.names)} names for {self.nodes} nodes", "cluster.names", "name every node")
        names = sorted({name for group in self.groups for name in group.partitions})
        object.__setattr__(self, "partitions", tuple(names))

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(group.count for group in self.groups)

    def called(self, node: int) -> str:
        """Return the name of a node; its number if it has none."""
        return self.names[node] if self.names else str(node)

    @property
    def cores(self) -> int:
        """The number of cores of all nodes."""
        return sum(group.count * group.cores for group in self.groups)


def uniform_cluster(nodes: int, cores: int = 1) -> Cluster:
    """Return the plain machine of a trace: this many equal nodes."""
    return Cluster((NodeGroup(nodes, cores),))


def hardware_key(node: NodeGroup) -> str:
    """Return cores, cache ways and peak bandwidth of a node: "28c-20w-118.26g"; what is not stated is left out."""
    ways = f"-{node.ways}w" if node.ways else ""
    peak = f"-{round(node.bandwidth_gbs[-1][1], 2):.12g}g" if node.bandwidth_gbs else ""
    return f"{node.cores}c{ways}{peak}"


def node_of_key(key: str, min_ways: int = 1) -> NodeGroup | None:
    """Return the node that a key describes, with bandwidth at full cores only; None: the key has another format."""
    found = _KEY.fullmatch(key)
    if found is None or int(found[1]) < 1:
        return None
    cores, ways, peak = int(found[1]), int(found[2] or 0), found[3]
    return NodeGroup(
        1,
        cores,
        ways=ways,
        min_ways=min(min_ways, ways) if ways else 1,
        bandwidth_gbs=((cores, float(peak)),) if peak else (),
    )
