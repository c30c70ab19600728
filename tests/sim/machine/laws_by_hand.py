"""The reference laws written out a second time, from the specification's text alone; no code shared with the product.

Programs are plain dictionaries as in programs.json; a node is (cores, ways, {active cores: GB/s}). Slow and naive.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np

Program = dict[str, Any]


@dataclass(frozen=True)
class HandNode:
    cores: int
    ways: int
    stream: tuple[tuple[int, float], ...]

    def capacity(self, active: float) -> float:
        """S(a), linear between the given points and from nothing at no core."""
        return between([(0, 0.0), *self.stream], active)


@dataclass(frozen=True)
class HandJob:
    program: Program
    processes: int
    scale: int
    ways: float | None = None  # None: not partitioned

    def least_nodes(self, node: HandNode) -> int:
        return -(-self.processes // node.cores)

    def cores(self, node: HandNode) -> int:
        return -(-self.processes // (self.scale * self.least_nodes(node)))


def between(points: list[tuple[int, float]], at: float) -> float:
    """Linear between the points, flat beyond them."""
    if at <= points[0][0]:
        return points[0][1]
    for (left, low), (right, high) in itertools.pairwise(points):
        if at <= right:
            return low + (high - low) * (at - left) / (right - left)
    return points[-1][1]


def curve(points: dict[int, float], ways: float) -> float:
    return between(sorted(points.items()), ways)


def ipc(job: HandJob, ways: float, node: HandNode) -> float:
    own = job.program["per_scale"].get(job.scale)
    if own is not None:
        return curve(own["ipc"], ways) / curve(own["ipc"], node.ways)
    effective = min(node.ways, ways * job.scale**0.7)
    return curve(job.program["ipc"], effective) / curve(job.program["ipc"], node.ways)


def reference_gbs(job: HandJob, ways: float, node: HandNode) -> float:
    own = job.program["per_scale"].get(job.scale)
    if own is not None:
        return curve(own["bw"], ways)
    effective = min(node.ways, ways * job.scale**0.7)
    return curve(job.program["bw"], effective) * job.program["speedup"][job.scale] / job.scale


def wanted_gbs(job: HandJob, ways: float, node: HandNode) -> tuple[float, float]:
    """Demand before and after the cap that goes with another number of processes than 16."""
    per_node = job.processes / job.least_nodes(node)
    wanted = reference_gbs(job, ways, node) * per_node / 16
    if per_node == 16:
        return wanted, wanted
    return wanted, min(wanted, 0.97 * node.capacity(job.cores(node)))


def demand(job: HandJob, ways: float, node: HandNode) -> float:
    return min(wanted_gbs(job, ways, node)[1], node.capacity(node.cores))


def latency(pairs: list[tuple[float, float]], cap: float) -> float:
    total = sum(gbs for gbs, _ in pairs)
    use = total / cap
    gentle = 1 + 0.25 * max(0.0, min(1.0, use) - 0.6)
    if total <= cap:
        return gentle
    waiting = 1.0  # Newton's method from below: the sum is convex and falls, so it never oversteps
    for _ in range(500):
        value = sum(gbs / (1 + mu * (waiting - 1)) for gbs, mu in pairs) - cap
        slope = sum(-gbs * mu / (1 + mu * (waiting - 1)) ** 2 for gbs, mu in pairs)
        if slope == 0 or waiting > 1000:
            return 1000.0
        step = -value / slope
        waiting += step
        if abs(step) < 1e-15 * waiting:
            break
    return max(gentle, min(waiting, 1000.0))


def solo_latency(job: HandJob, node: HandNode) -> float:
    return latency([(demand(job, node.ways, node), job.program["mu"])], 0.985 * node.capacity(job.cores(node)))


def unpartitioned_ways(jobs: list[HandJob], node: HandNode, q: float, occupancy: bool) -> list[float]:
    """Small steps towards w_j = W p_j / sum p from a division by cores."""
    cores = np.array([job.cores(node) for job in jobs], float)
    ways = node.ways * cores / cores.sum()
    for _ in range(6000):
        wanted = np.array([demand(job, own, node) for job, own in zip(jobs, ways, strict=True)])
        pressure = wanted if occupancy else q * cores + wanted
        if pressure.sum() <= 0:
            pressure = cores
        move = node.ways * pressure / pressure.sum() - ways
        ways = ways + 0.04 * move
        if np.abs(move).max() < 1e-12:
            break
    return [float(own) for own in ways]


def rates(jobs: list[HandJob], node: HandNode, q: float = 1.0, occupancy: bool = False) -> list[float]:
    """Of each job on one node, against its exclusive run at the same scale."""
    ways = [job.ways for job in jobs]
    if all(own is None for own in ways):
        ways = list(unpartitioned_ways(jobs, node, q, occupancy))
    given = [float(own) for own in ways if own is not None]
    asked = [demand(job, own, node) for job, own in zip(jobs, given, strict=True)]
    cap = 0.985 * node.capacity(sum(job.cores(node) for job in jobs))
    waiting = latency([(gbs, job.program["mu"]) for gbs, job in zip(asked, jobs, strict=True)], cap)
    found = []
    for job, own in zip(jobs, given, strict=True):
        mu = job.program["mu"]
        found.append(ipc(job, own, node) * (1 + mu * (solo_latency(job, node) - 1)) / (1 + mu * (waiting - 1)))
    return found


def ce_time(job: HandJob, node: HandNode) -> float:
    """Exclusive time at its scale, relative to 16 processes at scale 1: stretched by the unmet share."""
    wanted, met = wanted_gbs(job, node.ways, node)
    return float(wanted / met if met > 0 else 1.0) / float(job.program["speedup"][job.scale])


def progress(job: HandJob, node: HandNode) -> float:
    """Speed at this scale against the compact run of the same job."""
    compact = HandJob(job.program, job.processes, 1)
    return ce_time(compact, node) / ce_time(job, node)
