"""The nodes of a scheduler on one machine: the whole machine, each L3 domain, or cores split into virtual nodes.

A node of the scheduler is a contention domain (its cores, its ways). Virtual nodes that share an L3 domain get a fixed
part of its ways, in proportion to their cores; if there are too few ways for that, they have none to divide, and that
is reported. Pure: it uses only what `topology` and `resctrl.offer` found.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

from cohabit.agent.resctrl.offer import ResctrlOffer
from cohabit.agent.topology import Core, Topology, format_cpus
from cohabit.model.cluster import NodeGroup
from cohabit.model.errors import InputError

MACHINE, DOMAINS = "machine", "l3"


@dataclass(frozen=True)
class LocalNode:
    """One node: its cores, their L3 domains, and which ways it may give to jobs (0: none)."""

    name: str
    cores: tuple[Core, ...]
    domains: tuple[int, ...]
    memory_bytes: int
    first_way: int = 0
    ways: int = 0
    min_ways: int = 1
    classes: int = 0

    @property
    def cpus(self) -> tuple[int, ...]:
        """All threads of all its cores."""
        return tuple(sorted(cpu for core in self.cores for cpu in core.cpus))


def divide(topology: Topology, by: str | int = MACHINE, offer: ResctrlOffer | None = None) -> tuple[LocalNode, ...]:
    """Divide the machine into nodes: `by` is "machine", "l3", or a number of virtual nodes."""
    if by == MACHINE:
        parts = [list(topology.cores)]
    elif by == DOMAINS:
        if not topology.domains:
            raise InputError("the kernel reports no L3 caches on this machine", "nodes", "use a number, or the machine")
        parts = [list(cores) for _, cores in groupby(topology.cores, lambda one: one.domain)]
    elif isinstance(by, int):
        parts = _split(topology.cores, by)
    else:
        raise InputError(f"nodes = {by!r}", "nodes", 'use "machine", "l3" or a number')
    total = len(topology.cores)
    nodes = tuple(
        LocalNode(
            name=f"node{number}",
            cores=tuple(cores),
            memory_bytes=topology.memory_bytes * len(cores) // total,
            domains=tuple(sorted({core.domain for core in cores if core.domain is not None})),
        )
        for number, cores in enumerate(parts)
    )
    return _with_ways(nodes, offer) if offer is not None and offer.cache is not None else nodes


def node_groups(nodes: Sequence[LocalNode]) -> tuple[NodeGroup, ...]:
    """Return the same nodes as groups of a cluster: runs of equal nodes, numbered in the same order."""
    alone = [NodeGroup(1, len(one.cores), one.memory_bytes, one.ways, one.min_ways, one.classes) for one in nodes]
    runs = [(group, len(list(run))) for group, run in groupby(alone)]
    # Nodes of one machine are domains of one server: jobs can move between them.
    return tuple(replace(group, count=count, domains=count) for group, count in runs)


def describe(nodes: Sequence[LocalNode]) -> list[str]:
    """Return one line per node: its CPUs, memory and ways."""
    return [
        f"{one.name}: {len(one.cores)} cores (CPUs {format_cpus(one.cpus)}), {one.memory_bytes / 2**30:.1f} GiB, "
        + (f"ways {one.first_way} to {one.first_way + one.ways - 1}" if one.ways else "cache not divided")
        for one in nodes
    ]


def _split(cores: tuple[Core, ...], count: int) -> list[list[Core]]:
    """Split into consecutive cores, so that a part is in as few L3 domains as possible; first parts have one more."""
    if count < 1 or count > len(cores):
        raise InputError(
            f"{count} virtual nodes of {len(cores)} cores", "nodes", f"give a number from 1 to {len(cores)}"
        )
    each, more = divmod(len(cores), count)
    edges = [number * each + min(number, more) for number in range(count + 1)]
    return [list(cores[first:last]) for first, last in pairwise(edges)]


def _with_ways(nodes: tuple[LocalNode, ...], offer: ResctrlOffer) -> tuple[LocalNode, ...]:
    """Give all ways to nodes with domains of their own; other nodes get a run of ways each, the same in all domains."""
    cache = offer.cache
    assert cache is not None
    known = set(cache.domains)
    able = [one for one in nodes if one.domains and set(one.domains) <= known]
    sharing = any(set(a.domains) & set(b.domains) for a in able for b in able if a is not b)
    if not sharing:
        given = {one.name: (cache.private.first, cache.private.ways, offer.classes) for one in able}
    else:
        given = _runs(able, cache.private.first, cache.private.ways, offer.classes)
    found = []
    for one in nodes:
        first, ways, classes = given.get(one.name, (0, 0, 0))
        usable = ways >= cache.min_ways and classes > 0
        found.append(
            replace(one, first_way=first, ways=ways, min_ways=cache.min_ways, classes=classes) if usable else one
        )
    return tuple(found)


def _runs(nodes: list[LocalNode], first: int, ways: int, classes: int) -> dict[str, tuple[int, int, int]]:
    """Return (first way, ways, classes) by node. Every domain's ways are split in proportion to the cores behind it.
    Nodes without a common domain may have the same classes, so the busiest domain determines the split of classes."""
    behind: dict[int, list[LocalNode]] = {}
    for one in nodes:
        for domain in one.domains:
            behind.setdefault(domain, []).append(one)
    most = max(len(found) for found in behind.values())
    given: dict[str, tuple[int, int, int]] = {}
    for domain, found in behind.items():
        sizes = {one.name: sum(core.domain == domain for core in one.cores) for one in found}
        cores, begin = sum(sizes.values()), 0
        for one in found:
            end = begin + sizes[one.name]
            low, high = first + ways * begin // cores, first + ways * end // cores
            begin = end
            if one.name in given:  # behind several domains: only the ways it has in all of them
                was_low, was_ways, _ = given[one.name]
                low, high = max(low, was_low), min(high, was_low + was_ways)
            given[one.name] = low, max(high - low, 0), classes // most
    return given
