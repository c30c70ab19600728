"""Track the jobs of every shared node and their resources, one account per node, from the commands alone.

Every step of a rehearsal is checked against it: nothing is booked twice, no job shares nodes that must not, and the
whole cache of every node with a job on it is divided. Profiles are read here only to know what must never be spread.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import MoveJob, SetShares, StartJob
from cohabit.model.curve import Curve
from cohabit.model.event import ProfileLearned
from cohabit.model.job import Job
from cohabit.model.profile import ScaleProfile, stream_gbs
from cohabit.model.resources import Dimension
from tests.support.clusters import MIB
from tests.support.programs import KNOWN, PROGRAMS


class Tenancy:
    """One cluster; `divided`: the cache is divided among the jobs on a node; dimensions: what may be taken of it.

    `corrected`: by what is measured, jobs may have fewer ways than they booked, but never fewer than the node allows.
    """

    def __init__(
        self, cluster: Cluster, divided: bool, dimensions: Sequence[Dimension], corrected: bool = False
    ) -> None:
        self.corrected = corrected
        self.most = {dimension.name: dimension.capacity for dimension in dimensions}
        self.groups = [group for group in cluster.groups for _ in range(group.count)]
        self.servers = [
            (number, place // group.domains)
            for number, group in enumerate(cluster.groups)
            for place in range(group.count)
        ]
        self.divided = divided
        self.tenants: list[dict[str, StartJob]] = [{} for _ in self.groups]
        self.masks: list[dict[str, tuple[int, int]]] = [{} for _ in self.groups]
        self.jobs: dict[str, Job] = {}
        self.crowded: set[int] = set()  # nodes with jobs that earlier policies put together

    def move_in(self, start: StartJob, job: Job, least_nodes: int) -> None:
        """Record the start of a job; `least_nodes` is its footprint at scale 1."""
        nodes = nodes_in(start.nodes)
        assert len(nodes) == start.scale * least_nodes, f"{start}: {least_nodes} nodes at scale 1"
        assert start.cores == -(-job.processes // len(nodes)), f"{start}: {job.processes} processes (S3)"
        if start.scale > 1:
            assert not job.single_node, f"{start}: it cannot span nodes"
            assert len(nodes) <= job.processes, f"{start}: a node without a process"
        if job.exclusive or start.purpose != "run":
            assert start.exclusive, f"{start}: must be alone"
        if start.purpose != "run":
            same = [
                name
                for tenants in self.tenants
                for name, other in tenants.items()
                if (self.jobs[name].program, other.scale, other.purpose) == (job.program, start.scale, start.purpose)
            ]
            assert not same, f"{start}: {same} measures the same"
        self.jobs[start.job_id] = job
        for node in nodes:
            self.tenants[node][start.job_id] = start

    def stay(self, start: StartJob, job: Job) -> None:
        """Record a job that runs already."""
        self.jobs[start.job_id] = job
        for node in nodes_in(start.nodes):
            self.tenants[node][start.job_id] = start

    def move(self, order: MoveJob) -> None:
        """Record that a running job changes its node."""
        here = [node for node, tenants in enumerate(self.tenants) if order.job_id in tenants]
        target = nodes_in(order.nodes)
        assert len(here) == len(target) == 1, f"{order}: it is on {here}"
        assert self.jobs[order.job_id].movable, f"{order}: its owner does not allow it"
        assert self.servers[here[0]] == self.servers[target[0]], f"{order}: from {here[0]}, another server"
        assert here != target, f"{order}: it is there"
        self.tenants[target[0]][order.job_id] = self.tenants[here[0]].pop(order.job_id)
        self.masks[here[0]].pop(order.job_id, None)

    def move_out(self, name: str) -> None:
        """Record the end of a run."""
        for tenants in self.tenants:
            tenants.pop(name, None)

    def divide(self, shares: SetShares) -> None:
        """Record a new division of the cache of these nodes."""
        for node in nodes_in(shares.nodes):
            if node in self.crowded:
                continue
            assert self.tenants[node], f"{shares}: no job is on node {node}"
            self.masks[node] = {name: (first, ways) for name, first, ways in shares.shares}
        named = {name for name, _, _ in shares.shares}
        assert not shares.caps or self.corrected, f"{shares}: no job is held back here"
        for name, percent in shares.caps:
            assert name in named, f"{shares}: {name} is not named"
            assert 10 <= percent < 100, f"{shares}: {name} is held to {percent} %"

    def check(self) -> None:
        """Check the accounts after a step."""
        for node, (group, tenants) in enumerate(zip(self.groups, self.tenants, strict=True)):
            if not tenants or node in self.crowded:
                self.masks[node] = {}
                continue
            self._check_bookings(f"node {node}", group, tenants, len(set(self.masks[node].values())))
            if self.divided and group.ways:
                least = group.min_ways if self.corrected else 0
                _check_masks(f"node {node}", group.ways, tenants, self.masks[node], least)
            else:
                assert not self.masks[node], f"node {node} has no cache to divide"

    def _check_bookings(self, where: str, group: NodeGroup, tenants: dict[str, StartJob], masks: int) -> None:
        memory = sum(self.jobs[name].memory_bytes * start.cores for name, start in tenants.items())
        has_gbs = bool(group.bandwidth_gbs)
        peak_mbs = 1000 * stream_gbs(group, group.cores) if has_gbs else math.inf
        for what, taken, most in (
            ("cores", sum(start.cores for start in tenants.values()), self.most["cores"](group)),
            ("places", len(tenants), self.most["places"](group) if "places" in self.most else math.inf),
            ("ways", sum(start.ways for start in tenants.values()), group.ways or math.inf),
            ("MB/s", sum(start.bandwidth_mbs for start in tenants.values()), peak_mbs),
            ("bytes", memory, group.memory_bytes or math.inf),
            ("partitions", masks, group.closids or math.inf),
        ):
            assert taken <= most, f"{where}: {taken} of {most} {what} booked by {list(tenants.values())}"
        alone = [name for name, start in tenants.items() if start.exclusive]
        assert not alone or len(tenants) == 1, f"{where}: {alone} must be alone, there are {list(tenants)}"


def _check_masks(
    where: str, ways: int, tenants: dict[str, StartJob], masks: dict[str, tuple[int, int]], corrected_to: int
) -> None:
    """Check that masks are contiguous, disjoint or shared, cover all ways, and meet every booking (S25, S35, S80).

    Where divisions are corrected by measurements, no job has less than `corrected_to`.
    """
    assert masks.keys() == tenants.keys(), f"{where}: masks for {list(masks)}, there are {list(tenants)}"
    end = 0
    for first, own in sorted(set(masks.values())):
        assert first == end, f"{where}: a gap or an overlap at way {end}: {masks}"
        end = first + own
    assert end == ways, f"{where}: {end} of {ways} ways are given to jobs: {masks}"
    for name, (_, own) in masks.items():
        least = corrected_to or max(tenants[name].ways, 1)
        assert own >= least, f"{where}: {name} has {own} ways, booked {tenants[name].ways}, at least {least}"


def nodes_in(ranges: tuple[tuple[int, int], ...]) -> list[int]:
    """Node numbers of ranges."""
    return [node for first, count in ranges for node in range(first, first + count)]


class Salt:
    """A number read digit by digit."""

    def __init__(self, value: int) -> None:
        self.value = self.origin = value

    def again(self) -> Salt:
        """More digits of the same number, once the first are used up."""
        return Salt(self.origin * 6364136223846793005 % 2**61)

    def below(self, count: int) -> int:
        """The next digit, in base `count`."""
        self.value, digit = divmod(self.value, count)
        return digit


def with_program(asked: Job, salt: Salt, cores: int) -> Job:
    """The same job as a program that may share nodes; now and then it keeps the whole nodes it asked for."""
    salt = salt.again()
    if salt.below(8) < 7:
        few = (cores, cores // 2, cores, 1, 2, 3, 2 * cores, 3 * cores - 1, 4 * cores)
        asked = msgspec.structs.replace(asked, processes=few[salt.below(len(few))], nodes=0)
    if salt.below(10) == 9:
        asked = msgspec.structs.replace(asked, nodes=1 + salt.below(3), processes=1 + salt.below(2 * cores))
    return msgspec.structs.replace(
        asked,
        program=PROGRAMS[salt.below(len(PROGRAMS))],
        alpha=(0.0, 0.0, 0.7, 1.0)[salt.below(4)],
        exclusive=salt.below(12) == 11,
        single_node=salt.below(12) == 11,
        reprofile=salt.below(30) == 29,
        memory_bytes=(0, MIB, 4 * MIB + 1, 8 * MIB)[salt.below(4)] if asked.memory_bytes else 0,
        movable=salt.below(2) == 1,
    )


def measurement(salt: Salt) -> ProfileLearned:
    """A measurement of a program: its time or its curves, as known, slightly off, or quite different."""
    name = PROGRAMS[1 + salt.below(len(PROGRAMS) - 1)]
    scale, off = (1, 2, 4, 8)[salt.below(4)], (1.0, 1.0, 1.03, 1.0, 0.96, 1.5)[salt.below(6)]
    known = KNOWN.get(name)
    old = known.at_scale(scale) if known is not None else None
    if salt.below(2):
        taken = ScaleProfile(scale, off * (old.time_s if old is not None and old.time_s else 100.0 / scale))
    elif old is not None and old.complete and salt.below(2):
        taken = msgspec.structs.replace(old, time_s=0.0)
    else:
        gbs = off * (1 + salt.below(60)) / scale
        taken = ScaleProfile(
            scale, ipc=Curve((2, 10), ((0.5, 1.0)[salt.below(2)], 1.0)), bandwidth_gbs=Curve((2, 10), (gbs, gbs / 2))
        )
    return ProfileLearned(name, (8, 8, 16, 3)[salt.below(4)], taken)
