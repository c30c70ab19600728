"""The ground truth of a program: its true speed with given ways at a given scale. For the simulated world only.

Policies and the core may not import this module (import-linter enforces it): they read profiles, which may be noisy,
old or missing. `profile_of` is what a perfect profiler would have recorded. Laws: scales, more processes than measured
and the capped bandwidth follow docs/programs.md; there is no exception by a program's name.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

from cohabit.model.cluster import NodeGroup, hardware_key
from cohabit.model.curve import Curve
from cohabit.model.profile import Profile, ScaleProfile, capped_gbs, footprint, load_factor

WAYS_EXPONENT = 0.7  # spread over k times the nodes, w ways serve a program like w * k^0.7
SAMPLED_WAYS = (2, 4, 8)  # besides all ways (S12)
CALIBRATED = "calibrated"


class ScaleTruth(msgspec.Struct, frozen=True, omit_defaults=True):
    """The data at one scale; what is missing follows from scale 1 by the rule."""

    ipc: Curve | None = None  # relative
    bandwidth_gbs: Curve | None = None  # of one node
    time_s: float = 0.0  # exclusive; 0: not stated


class Program(msgspec.Struct, frozen=True, omit_defaults=True):
    """One program, as `processes` processes on as few nodes as possible unless a scale is given."""

    name: str
    ce_time_s: float  # exclusive at scale 1
    mu: float  # share of the run time that waits for memory, 0..1
    ipc: Curve  # relative, scale 1
    bandwidth_gbs: Curve  # of one node, scale 1
    title: str = ""
    processes: int = 16
    cpu_fraction: float = 1.0  # of its cores it keeps busy when alone; matters where threads outnumber cores
    single_node: bool = False
    power_of_two_only: bool = False
    speedup: dict[int, float] = msgspec.field(default_factory=lambda: {1: 1.0})  # by scale, against scale 1
    per_scale: dict[int, ScaleTruth] = {}
    miss_rate: Curve | None = None  # misses per 1000 instructions, scale 1
    ipc_full: float = 0.0  # absolute IPC with all ways; 0: not known
    communication: float = -1.0  # share of the run time at scale 1; -1: not known
    declared_class: str = ""
    declared_constraint: str = ""
    framework: str = ""
    provenance: dict[str, str] = {}  # where each number comes from, in the words of the file
    counters: dict[str, float] = {}

    @property
    def scales(self) -> tuple[int, ...]:
        """The scales with data: always 1, and only 1 for a program that cannot span nodes."""
        return (1,) if self.single_node else tuple(sorted({1, *self.speedup, *self.per_scale}))

    def speedup_at(self, scale: int) -> float:
        """Return the speed against scale 1; if not stated, linear in log2(scale) between neighbours, then flat."""
        if scale in self.speedup:
            return self.speedup[scale]
        known = {1: 1.0} | {k: self.ce_time_s / one.time_s for k, one in self.per_scale.items() if one.time_s > 0}
        known |= self.speedup
        if scale in known:
            return known[scale]
        below, above = [k for k in known if k < scale], [k for k in known if k > scale]
        if not above:
            return known[max(below)]
        low, high = max(below), min(above)
        share = math.log2(scale / low) / math.log2(high / low)
        return known[low] + share * (known[high] - known[low])

    def time_s(self, scale: int = 1) -> float:
        """Return the exclusive run time of the reference number of processes."""
        stated = self.per_scale.get(scale)
        if stated is not None and stated.time_s > 0:
            return stated.time_s
        return self.ce_time_s / self.speedup_at(scale)

    def ipc_at(self, scale: int, ways: float, total_ways: int = 0) -> float:
        """Return the relative IPC with `ways` of `total_ways` ways on each node; 1 with all of them."""
        stated = self.per_scale.get(scale)
        if stated is not None and stated.ipc is not None:
            return stated.ipc.at(ways) / stated.ipc.at(total_ways or stated.ipc.ways[-1])
        most = total_ways or self.ipc.ways[-1]
        return self.ipc.at(effective_ways(ways, scale, most)) / self.ipc.at(most)

    def bandwidth_at(self, scale: int, ways: float, total_ways: int = 0) -> float:
        """Return the GB/s that the reference number of processes asks of each node with `ways` of `total_ways` ways."""
        stated = self.per_scale.get(scale)
        if stated is not None and stated.bandwidth_gbs is not None:
            return stated.bandwidth_gbs.at(ways)
        most = total_ways or self.bandwidth_gbs.ways[-1]
        return self.bandwidth_gbs.at(effective_ways(ways, scale, most)) * self.speedup_at(scale) / scale

    def exclusive_time_s(self, processes: int, node: NodeGroup, scale: int = 1) -> float:
        """Return the exclusive time of any number of processes, stretched by the share of demand memory cannot meet."""
        factor = load_factor(processes, node.cores, self.processes, -(-self.processes // node.cores))
        cores = footprint(processes, node.cores, scale).cores
        _, stretch = capped_gbs(self.bandwidth_at(scale, node.ways or math.inf, node.ways), factor, node, cores)
        return self.time_s(scale) * stretch


def effective_ways(ways: float, scale: int, total_ways: int) -> float:
    """Return the effective ways: fewer processes per node share the same ways, which act as more, up to all of them."""
    return min(float(total_ways), ways * math.pow(scale, WAYS_EXPONENT))


def profile_of(
    program: Program, node: NodeGroup, sampled_ways: Sequence[int] | None = None, processes: int | None = None
) -> Profile:
    """Return what a perfect profiler would record on such nodes at these ways (by default 2, 4, 8 and all)."""
    count = processes or program.processes
    most = node.ways or program.ipc.ways[-1]
    asked = SAMPLED_WAYS if sampled_ways is None else sampled_ways
    points = tuple(sorted({ways for ways in asked if 1 <= ways < most} | {most})) if most > 2 else (1, 2)[:most]
    scales = tuple(_measured(program, scale, node, points, count) for scale in program.scales)
    return Profile(program.name, count, scales, program.single_node, hardware_key(node), CALIBRATED)


def _measured(program: Program, scale: int, node: NodeGroup, points: tuple[int, ...], processes: int) -> ScaleProfile:
    most, full = points[-1], program.ipc_full or 1.0
    factor = load_factor(processes, node.cores, program.processes, -(-program.processes // node.cores))
    cores = footprint(processes, node.cores, scale).cores

    def drawn(ways: int) -> float:
        return capped_gbs(program.bandwidth_at(scale, ways, most), factor, node, cores)[0]

    misses = program.miss_rate.sampled(points) if program.miss_rate is not None and scale == 1 else None
    return ScaleProfile(
        scale=scale,
        time_s=program.exclusive_time_s(processes, node, scale),
        ipc=Curve(points, tuple(full * program.ipc_at(scale, ways, most) for ways in points)),
        bandwidth_gbs=Curve(points, tuple(drawn(ways) for ways in points)),
        miss_rate=misses,
        communication=program.communication if scale == 1 else -1.0,
        counters=program.counters if scale == 1 else {},
    )
