"""Contention on one node, as pure functions: cache per job, memory latency, and the speed of each job.

This is the reference law of the specification, formula by formula. A node has W ways and, with `a` active cores, a
memory capacity S(a). Job j has c_j cores, asks for d_j(w) GB/s with w ways, and waits for memory mu_j of its time.

    cap  = 0.985 * S(a)            u = sum d_j / cap
    L    = 1 + 0.25 * max(0, min(1, u) - 0.6), and where sum d_j > cap at least the root of
           sum d_j / (1 + mu_j (L - 1)) = cap
    rate = ipc_j(w_j) * (1 + mu_j (Lsolo_j - 1)) / (1 + mu_j (L - 1))

Lsolo_j is L with job j alone and all ways, so an exclusive run has rate 1. A job held to h_j GB/s asks for no more than
that: min(d_j, h_j) stands for d_j in u, its term of the root is at most h_j, and its rate at most h_j / d_j of ipc_j.
Nothing here knows programs or clusters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cohabit.sim.machine.constants import CONSTANTS, LawConstants

LAW = CONSTANTS.law
SHARE, OCCUPANCY = "share", "occupancy"
CONTENTIONS = (SHARE, OCCUPANCY)

_CLOSE_ENOUGH = 1e-12  # of the ways: where the division of an unpartitioned cache counts as settled
_MOST_ROUNDS = 20_000
_FIRST_STEP, _SMALLEST_STEP, _TURNED_TOO_FAR = 1.0, 2.0**-12, 0.4


class Load(NamedTuple):
    """One job on one node, as the law sees it."""

    cores: int
    mu: float
    ipc: Callable[[float], float]  # relative IPC with so many ways; 1 with all of them
    demand: Callable[[float], float]  # GB/s with so many ways
    solo_latency: float  # L with this job alone on the node and all ways
    busy: float = 1.0  # share of its cores it keeps busy when alone


class Pool(NamedTuple):
    """Ways that several jobs share under one mask."""

    first: int
    ways: int


Mask = int | Pool | None  # ways of its own, a mask shared with others, or what no mask covers


class NodeState(NamedTuple):
    """The result of the law for a node; the tuples follow the order of the loads."""

    ways: tuple[float, ...]
    rates: tuple[float, ...]  # against an exclusive run at the same scale
    latency: float
    drawn_gbs: float  # what memory really delivers


def latency(
    demands: Sequence[float], mus: Sequence[float], cap: float, law: LawConstants = LAW, held: Sequence[float] = ()
) -> float:
    """Return how much longer memory takes than on an idle node.

    Where programs with mu = 0 alone ask for more than the capacity, no latency brings the sum down to it;
    L is then the constant `latency_limit`. It does not slow them; their neighbours almost stop.
    """
    held = held or [math.inf] * len(demands)
    total = sum(map(min, demands, held))
    if not total > 0 or math.isinf(cap):
        return 1.0
    gentle = 1.0 + law.latency_slope * max(0.0, min(1.0, total / cap) - law.latency_knee)
    if total <= cap:
        return gentle
    return max(gentle, _saturated(demands, mus, cap, law.latency_limit, held))


def _saturated(
    demands: Sequence[float], mus: Sequence[float], cap: float, limit: float, held: Sequence[float]
) -> float:
    """Return the latency at which slowed jobs ask for exactly the capacity, by bisection to the last bit."""

    def excess(at: float) -> float:
        asked = (gbs / (1.0 + mu * (at - 1.0)) for gbs, mu in zip(demands, mus, strict=True))
        return sum(map(min, asked, held)) - cap

    low, high = 1.0, 2.0
    while excess(high) > 0:
        if high >= limit:
            return limit
        low, high = high, min(2.0 * high, limit)
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return high
        if excess(middle) > 0:
            low = middle
        else:
            high = middle


def solo_latency(cores: int, gbs: float, mu: float, capacity: Callable[[int], float], law: LawConstants = LAW) -> float:
    """Return L with one job alone that has this demand with all ways."""
    return latency((gbs,), (mu,), law.capacity_share * capacity(cores), law)


def divided_ways(loads: Sequence[Load], pool: float, contention: str = SHARE, q: float = LAW.q) -> list[float]:
    """Divide `pool` ways between jobs that share them without masks: in proportion to the pressure of each.

    "share": pressure p_j = q c_j + d_j(w_j). "occupancy": misses per second alone, d_j(w_j), because a full cache keeps
    of each job what it brings in, so that occupancy settles where it is proportional to misses. Either way the pressure
    depends on the ways and the ways on the pressure: an iteration from a division by cores, with half the step whenever
    it turns back too far. Where demand falls with ways, as it mostly does, there is one solution; where it rises
    steeply there may be several, and the one reached from the division by cores is the law.
    """
    if len(loads) == 1 or pool <= 0:
        return [pool] * len(loads)
    cores = [float(load.cores) for load in loads]
    ways = _in_proportion(cores, pool)
    per_core = q if contention == SHARE else 0.0
    step, last = _FIRST_STEP, [0.0] * len(loads)
    for _ in range(_MOST_ROUNDS):
        pressure = [per_core * load.cores + load.demand(own) for load, own in zip(loads, ways, strict=True)]
        goal = _in_proportion(pressure if sum(pressure) > 0 else cores, pool)
        moves = [to - own for to, own in zip(goal, ways, strict=True)]
        if max(map(abs, moves)) <= _CLOSE_ENOUGH * pool:
            return goal
        turned = sum(move * before for move, before in zip(moves, last, strict=True))
        if step > _SMALLEST_STEP and turned < -_TURNED_TOO_FAR * sum(before * before for before in last):
            step *= 0.5
        last = moves
        ways = [own + step * move for own, move in zip(ways, moves, strict=True)]
    return ways


def _in_proportion(weights: Sequence[float], pool: float) -> list[float]:
    total = sum(weights)
    return [pool * weight / total for weight in weights]


def node_state(
    loads: Sequence[Load],
    masks: Sequence[Mask],
    total_ways: float,
    capacity: Callable[[int], float],
    contention: str = SHARE,
    q: float = LAW.q,
    law: LawConstants = LAW,
    cores: int = 0,
    held: Sequence[float] = (),
) -> NodeState:
    """Return the state of one node; jobs that share ways divide them as in an undivided cache.

    `held`: GB/s each job is held to; infinity or no value: no limit.
    """
    ways = [float(mask) if isinstance(mask, int) else 0.0 for mask in masks]
    pools: dict[Pool | None, list[int]] = {}
    for index, mask in enumerate(masks):
        if not isinstance(mask, int):
            pools.setdefault(mask, []).append(index)
    covered = sum(ways) + sum(pool.ways for pool in pools if pool is not None)
    for pool, members in pools.items():
        room = total_ways - covered if pool is None else float(pool.ways)
        divided = divided_ways([loads[index] for index in members], room, contention, q)
        for index, own in zip(members, divided, strict=True):
            ways[index] = own
    share = time_share(loads, cores)
    demands = [share * load.demand(own) for load, own in zip(loads, ways, strict=True)]
    active = sum(load.cores for load in loads)
    cap = law.capacity_share * capacity(min(active, cores) if cores else active)
    waiting = latency(demands, [load.mu for load in loads], cap, law, held)
    slowed = [_slowed(load, waiting) for load in loads]
    if held:
        slowed = [
            min(factor, most / gbs) if gbs > most else factor
            for factor, gbs, most in zip(slowed, demands, held, strict=True)
        ]
    rates = [share * load.ipc(own) * factor for load, own, factor in zip(loads, ways, slowed, strict=True)]
    drawn = sum(gbs * factor for gbs, factor in zip(demands, slowed, strict=True))
    return NodeState(tuple(ways), tuple(rates), waiting, min(drawn, cap))


def time_share(loads: Sequence[Load], cores: int) -> float:
    """Return the share of its solo core time each job gets where there are more threads than cores.

    Cores go to jobs in proportion to their runnable threads, so it is the same for all; 1 where cores suffice.
    """
    if not cores or sum(load.cores for load in loads) <= cores:
        return 1.0
    runnable = sum(load.busy * load.cores for load in loads)
    return min(1.0, cores / runnable) if runnable > 0 else 1.0


def _slowed(load: Load, waiting: float) -> float:
    """Return the speed of the memory-bound part relative to the exclusive run, where memory may be slow already."""
    return (1.0 + load.mu * (load.solo_latency - 1.0)) / (1.0 + load.mu * (waiting - 1.0))
