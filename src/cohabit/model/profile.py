"""Profiles of programs: exclusive time and curves at each scale, as measured, and what follows from them.

Policies read profiles and nothing else about a program; the ground truth of the simulator is model/program.py, which
no policy may import. A profile may be noisy, old or incomplete; every function here must cope with that.

A profile belongs to the user of the measured runs. The owner is the user's number (the uid, where users are accounts)
as decimal text, the same in events, checkpoints and the store; names exist only where people read them. An empty owner
means that the profile is shared: it holds for every user without a profile of the program. Profiles stay with a uid
that is given to another person later.
"""

from __future__ import annotations

import itertools
from typing import NamedTuple

import msgspec

from cohabit.model.cluster import NodeGroup
from cohabit.model.curve import Curve

JOINT = "\n"  # between the names of a group of programs: no name has one in it
SHARED = ""  # the owner of profiles that hold for every user
SCALING, COMPACT, NEUTRAL, UNKNOWN = "scaling", "compact", "neutral", "unknown"
NEUTRAL_BAND = 0.05  # exclusive times within this of each other at all scales: neutral (S19)
ROUNDING = 1e-9  # tolerance for an IPC that is exactly enough
BANDWIDTH_BOUND = 0.6  # of what its cores can draw: from here on latency grows
DEMAND_CEILING = 0.97  # of what the active cores can draw: a job cannot ask for more (laws.md)


def owner_of(user: int) -> str:
    """Return the owner of profiles from this user's runs; simulated users without a number share everything."""
    return str(user) if user >= 0 else SHARED


def run_key(profile: Profile) -> str:
    """Return the name under which the co-runs of a program are kept: one user's runs say nothing of another's."""
    return profile.program if profile.owner == SHARED else f"{profile.program}@{profile.owner}"


def key_parts(key: str) -> tuple[str, str]:
    """Return the program and the owner of a `run_key`."""
    program, _, owner = key.rpartition("@")
    return (program, owner) if program and owner.isascii() and owner.isdigit() else (key, SHARED)


class KnownCoRun(msgspec.Struct, frozen=True, array_like=True):
    """The slowdown that a program's runs beside others showed, in percent: the mean of so many runs."""

    program: str  # run_key
    beside: tuple[str, ...]  # run_keys, sorted
    percent: float
    count: int


class ScaleProfile(msgspec.Struct, frozen=True, omit_defaults=True):
    """Measurements of exclusive runs at one scale factor."""

    scale: int
    time_s: float = 0.0  # 0: not measured yet
    ipc: Curve | None = None
    bandwidth_gbs: Curve | None = None  # of one node
    miss_rate: Curve | None = None
    communication: float = -1.0  # share of the run time; -1: not measured
    counters: dict[str, float] = {}
    samples: int = 1  # runs that went into it
    time_variance: float = 0.0  # of the run time, in s^2
    measured_at_us: int = 0

    @property
    def complete(self) -> bool:
        """True if both the time and the curves are known."""
        return self.time_s > 0 and self.ipc is not None and self.bandwidth_gbs is not None

    @property
    def counted(self) -> bool:
        """True if the curves say something: ones that are level, without traffic, stand for what nothing counted."""
        if self.ipc is None or self.bandwidth_gbs is None:
            return False
        return len(set(self.ipc.values)) > 1 or max(self.bandwidth_gbs.values) > 0


class Profile(msgspec.Struct, frozen=True, omit_defaults=True):
    """The measurements of one program at one number of processes on one kind of hardware, from one user's runs."""

    program: str
    processes: int
    scales: tuple[ScaleProfile, ...] = ()  # by rising scale
    single_node: bool = False  # cannot span nodes: never spread
    hardware: str = ""
    provenance: str = "measured"  # or calibrated, imported
    owner: str = SHARED  # number of the user of the measured runs

    def at_scale(self, scale: int) -> ScaleProfile | None:
        """Return the measurements at one scale."""
        return next((one for one in self.scales if one.scale == scale), None)

    @property
    def usable_scales(self) -> int:
        """The number of scales with both time and curves."""
        return sum(one.complete for one in self.scales)

    def with_scale(self, measured: ScaleProfile) -> Profile:
        """Return the same profile with one scale replaced or added."""
        others = [one for one in self.scales if one.scale != measured.scale]
        return msgspec.structs.replace(self, scales=tuple(sorted([*others, measured], key=lambda one: one.scale)))


class Footprint(NamedTuple):
    """The spread of a job: the number of nodes and the cores on each (S3)."""

    nodes: int
    cores: int


def footprint(processes: int, cores_per_node: int, scale: int, least_nodes: int = 0) -> Footprint:
    """Return n = k * ceil(P / T) nodes with ceil(P / n) cores on each; `least_nodes` where the owner asked for more."""
    nodes = scale * max(-(-processes // cores_per_node), least_nodes)
    return Footprint(nodes, -(-processes // nodes))


def stream_gbs(node: NodeGroup, cores: float) -> float:
    """Return the memory bandwidth of this many active cores together; infinity if the machine does not state it."""
    points = node.bandwidth_gbs
    if not points:
        return float("inf")
    if cores <= points[0][0]:
        return points[0][1] * cores / points[0][0]
    for (low, low_gbs), (high, high_gbs) in itertools.pairwise(points):
        if cores <= high:
            return low_gbs + (cores - low) / (high - low) * (high_gbs - low_gbs)
    return points[-1][1]


def load_factor(
    processes: int, cores_per_node: int, reference: int, reference_nodes: int = 1, least_nodes: int = 0
) -> float:
    """Return how many times the reference run's processes a node carries at the same scale."""
    nodes = footprint(processes, cores_per_node, 1, least_nodes).nodes
    return (processes / nodes) / (reference / reference_nodes)


class Tenant(NamedTuple):
    """A job on a node as its neighbours see it, as far as it is known."""

    program: str
    cores: int  # on the node
    scale: int
    booked_ways: int
    alpha: float  # share of its solo speed that it must keep; 0: none in particular
    load: float  # how many times the processes of its profile the node carries
    profile: Profile | None  # None: nothing is known of the program


class Demand(NamedTuple):
    """The needs of a job at one scale on each node to keep alpha of its speed, with intermediate results (S23)."""

    scale: int
    nodes: int
    cores: int
    ways: int
    bandwidth_gbs: float
    time_s: float  # exclusive, at this scale and number of processes
    full_ipc: float  # 1: IPC with all ways
    tolerable_ipc: float  # 2: alpha times that
    alone: bool = False  # it asks for more bandwidth than the node has: it gets its nodes to itself


def capped_gbs(gbs: float, factor: float, node: NodeGroup, cores: int) -> tuple[float, float]:
    """Return the bandwidth of `factor` times the measured processes, capped, and by how much the run stretches."""
    wanted = gbs * factor
    ceiling = DEMAND_CEILING * stream_gbs(node, cores)
    if factor == 1.0 or wanted <= ceiling:
        return wanted, 1.0
    return ceiling, wanted / ceiling


def demand(
    profile: Profile, scale: int, processes: int, alpha: float, node: NodeGroup, least_nodes: int = 0
) -> Demand | None:
    """Estimate the demand at a scale; None: that scale has not been profiled."""
    measured = profile.at_scale(scale)
    if measured is None or not measured.complete:
        return None
    assert measured.ipc is not None
    assert measured.bandwidth_gbs is not None
    spread = footprint(processes, node.cores, scale, least_nodes)
    factor = load_factor(processes, node.cores, profile.processes, -(-profile.processes // node.cores), least_nodes)
    most = node.ways or measured.ipc.ways[-1]
    full = measured.ipc.at(most)
    tolerable = alpha * full
    ways = next((w for w in range(max(node.min_ways, 1), most) if measured.ipc.at(w) >= tolerable - ROUNDING), most)
    gbs, _ = capped_gbs(measured.bandwidth_gbs.at(ways), factor, node, spread.cores)
    _, stretch = capped_gbs(measured.bandwidth_gbs.at(most), factor, node, spread.cores)
    limit = stream_gbs(node, node.cores)
    return Demand(
        scale,
        spread.nodes,
        spread.cores,
        ways,
        min(gbs, limit),
        measured.time_s * stretch,
        full,
        tolerable,
        alone=gbs > limit,
    )


class Classification(NamedTuple):
    """The class of a program and the reason, for people."""

    kind: str
    ideal_scale: int
    constraint: str  # bandwidth, cache, both or nothing
    why: str


def classify(profile: Profile, node: NodeGroup | None = None) -> Classification:
    """Classify as scaling, compact or neutral by exclusive times (S19); single-node is compact by definition (S9)."""
    times = {one.scale: one.time_s for one in profile.scales if one.time_s > 0}
    if profile.single_node:
        return Classification(COMPACT, 1, "", "it cannot run on more than one node")
    if 1 not in times:
        return Classification(UNKNOWN, 1, "", "no run alone on the fewest nodes has been measured yet")
    gains = {scale: times[1] / time - 1 for scale, time in times.items()}
    ideal = min(times, key=lambda scale: (times[scale], scale))
    shown = ", ".join(f"{100 * gain:+.1f} % at scale {scale}" for scale, gain in sorted(gains.items()) if scale > 1)
    if len(times) == 1:
        return Classification(UNKNOWN, 1, "", "only scale 1 has been measured")
    if max(times.values()) / min(times.values()) <= 1 + NEUTRAL_BAND:
        return Classification(NEUTRAL, ideal, "", f"its time stays within 5 %: {shown}")
    if gains[ideal] > NEUTRAL_BAND:
        constraint = _constraint(profile, node)
        because = {"bandwidth": "more memory bandwidth", "cache": "more cache", "both": "more bandwidth and cache"}
        reason = f"; it gains from {because[constraint]}" if constraint else ""
        return Classification(SCALING, ideal, constraint, f"spreading makes it faster: {shown}{reason}")
    return Classification(COMPACT, 1, "", f"spreading makes it slower: {shown}")


def _constraint(profile: Profile, node: NodeGroup | None) -> str:
    """Return the limit on one footprint: bandwidth near what its cores can draw, or too little cache for its IPC."""
    one = profile.at_scale(1)
    if one is None or one.bandwidth_gbs is None or one.ipc is None:
        return ""
    peak = stream_gbs(node, profile.processes) if node is not None and node.bandwidth_gbs else 100.0
    hungry = one.bandwidth_gbs.values[-1] >= BANDWIDTH_BOUND * peak
    starved = one.ipc.at(0.4 * one.ipc.ways[-1]) < 0.9 * one.ipc.values[-1]
    return {(True, True): "both", (True, False): "bandwidth", (False, True): "cache"}.get((hungry, starved), "")
