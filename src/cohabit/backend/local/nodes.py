"""Map this machine's cores to nodes (the machine, its L3 domains or virtual nodes) and record which job has which core.

`VirtualNodes` says what the core is told of the machine. `CoreBook` gives every job cores of its own on each of its
nodes and remembers nothing that a run's folder does not say as well.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping

from cohabit.agent import local_nodes, topology
from cohabit.agent.local_nodes import LocalNode
from cohabit.agent.resctrl.files import HostFiles, Mount, find_mount
from cohabit.agent.resctrl.offer import ResctrlOffer, read_offer
from cohabit.agent.topology import Core, Topology
from cohabit.backend.protocol import BackendError
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError

Ranges = tuple[tuple[int, int], ...]
Run = tuple[str, int]


class VirtualNodes:
    """Nodes by number ("machine", "l3" or a count); more nodes than cores share all cores without binding."""

    def __init__(
        self,
        by: int | str,
        cores: tuple[int, ...] | None = None,
        mount: Callable[[], Mount | None] = find_mount,
        machine: Topology | None = None,
    ) -> None:
        if isinstance(by, int) and by < 1:
            raise InputError(f"{by} nodes", "--nodes", "give a positive number")
        there = machine or (_discovered() if cores is None else _plain(cores))
        if isinstance(by, int) and by > len(there.cores):
            self.local: tuple[LocalNode, ...] = ()
            self.count = by
        else:
            self.local = local_nodes.divide(there, by, _offer(mount))
            self.count = len(self.local)

    def cluster(self, sharing: str = "exclusive", oversubscribe: bool = False) -> Cluster:
        """Return what the core is told of the nodes: cores, memory, and cache ways where they can be divided."""
        groups = local_nodes.node_groups(self.local) if self.local else (NodeGroup(self.count, 1),)
        return Cluster(groups, sharing, oversubscribe)

    def node_cores(self, number: int) -> tuple[Core, ...]:
        """Return the cores of one node; empty: jobs are not bound."""
        return self.local[number].cores if self.local else ()

    def cores(self, nodes: Ranges) -> list[int]:
        """Return all CPUs of these nodes (ranges); empty: no binding, as there are more nodes than cores."""
        return sorted(cpu for number in numbers(nodes) for core in self.node_cores(number) for cpu in core.cpus)


class CoreBook:
    """The jobs on each core. Jobs share a core only where the site oversubscribes, and then on the idlest cores."""

    def __init__(self, nodes: VirtualNodes, oversubscribe: bool = False) -> None:
        self.nodes, self.oversubscribe = nodes, oversubscribe
        self._users: dict[int, list[set[Run]]] = {}

    def take(self, run: Run, ranges: Ranges, cores: int, whole: bool) -> dict[int, tuple[Core, ...]]:
        """Book this many cores on each node (`whole` or 0: all of them); BackendError if they are not free."""
        chosen: dict[int, list[int]] = {}
        for number in numbers(ranges):
            if not 0 <= number < self.nodes.count:
                raise BackendError(f"this machine has nodes 0 to {self.nodes.count - 1}, and no node {number}")
            there = self.nodes.node_cores(number)
            count = len(there) if whole or cores == 0 else cores
            chosen[number] = self._choose(run, number, count) if there else []
        for number, indices in chosen.items():
            for index in indices:
                self._node(number)[index].add(run)
        return {number: tuple(self.nodes.node_cores(number)[at] for at in own) for number, own in chosen.items()}

    def restore(self, run: Run, cpus: Mapping[int, Iterable[int]]) -> None:
        """Book these CPUs for a run that is older than this controller."""
        for number, own in cpus.items():
            if 0 <= number < self.nodes.count:
                mine = set(own)
                for index, core in enumerate(self.nodes.node_cores(number)):
                    if mine & set(core.cpus):
                        self._node(number)[index].add(run)

    def free(self, run: Run) -> None:
        """Free the cores of a run that is over."""
        for node in self._users.values():
            for users in node:
                users.discard(run)

    def users(self, number: int) -> list[set[Run]]:
        """Return the runs on each core of a node."""
        return [set(one) for one in self._node(number)]

    def _choose(self, run: Run, number: int, count: int) -> list[int]:
        """Choose cores behind one cache if possible, and there where the fewest cores would be left over."""
        there = self.nodes.node_cores(number)
        loads = [len(users - {run}) for users in self._node(number)]
        if count > len(there):
            raise BackendError(f"node {number} has {len(there)} cores, and the job is to have {count}")
        if self.oversubscribe:
            return sorted(sorted(range(len(there)), key=lambda at: (loads[at], at))[:count])
        by_cache: dict[int | None, list[int]] = {}
        for at in (at for at, load in enumerate(loads) if load == 0):
            by_cache.setdefault(there[at].domain, []).append(at)
        free = sorted(by_cache.values(), key=len)
        if sum(map(len, free)) < count:
            raise BackendError(f"node {number} has {sum(map(len, free))} free cores, and the job is to have {count}")
        fitting = [own for own in free if len(own) >= count]
        return sorted((fitting[0] if fitting else [at for own in reversed(free) for at in own])[:count])

    def _node(self, number: int) -> list[set[Run]]:
        return self._users.setdefault(number, [set() for _ in self.nodes.node_cores(number)])


def numbers(ranges: Ranges) -> list[int]:
    """Return the node numbers one by one."""
    return [node for first, count in ranges for node in range(first, first + count)]


def cpus_of(cores: Iterable[Core]) -> list[int]:
    """Return all threads of these cores."""
    return sorted(cpu for core in cores for cpu in core.cpus)


def _discovered() -> Topology:
    try:
        return topology.discover()
    except InputError:  # a host without sysfs: only the CPUs that the kernel lets us run on are known
        return _plain(tuple(sorted(os.sched_getaffinity(0))))


def _plain(cpus: tuple[int, ...]) -> Topology:
    return Topology(tuple(Core((cpu,), 0, 0, None) for cpu in cpus), (), (), cpus, (), (), None)


def _offer(mount: Callable[[], Mount | None]) -> ResctrlOffer | None:
    found = mount()
    if found is None:
        return None
    try:
        return read_offer(HostFiles(), found)
    except OSError:
        return None
