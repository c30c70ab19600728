"""Turn short episodes at different numbers of cache ways into the curves of a profile (S12, S13). Pure.

During one run the allocation changes every few seconds, in turn. The first part of an episode is not counted: the cache
still holds what the previous allocation left in it. What the host cannot count is not made up: without counters of
instructions there is no IPC, without counters of traffic no bandwidth.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cohabit.agent.profiling.drift import LINE_BYTES
from cohabit.model.curve import Curve, never_falling

EPISODE_S, SETTLE_S = 5.0, 2.0
SHORTEST_S = 1.0  # an episode; shorter ones are unreliable
SAMPLED_WAYS = (2, 4, 8)  # and all there are (S12)
GIGA = 1e9


@dataclass(frozen=True)
class Episode:
    """Amounts counted in `seconds` with this many ways."""

    ways: int
    seconds: float
    amounts: Mapping[str, float]


@dataclass(frozen=True)
class Tour:
    """The allocations to try in turn, the time for each, and the part of it that is not counted."""

    ways: tuple[int, ...]
    episode_s: float = EPISODE_S
    settle_s: float = SETTLE_S


def tour_of(ways: int, min_ways: int = 1, expected_s: float = 0.0) -> Tour:
    """Return a tour with all allocations at least once in a run of the expected length; 0: not known."""
    tried = tuple(sorted({one for one in SAMPLED_WAYS if max(min_ways, 1) <= one < ways} | {ways}))
    episode_s = EPISODE_S
    if expected_s > 0:
        episode_s = min(EPISODE_S, max(SHORTEST_S, expected_s / len(tried)))
    return Tour(tried, episode_s, SETTLE_S * episode_s / EPISODE_S)


@dataclass(frozen=True)
class Curves:
    """The curves of a run; None: it could not be counted, or with fewer than two allocations."""

    ipc: Curve | None
    bandwidth_gbs: Curve | None
    miss_rate: Curve | None


def curves_of(episodes: Sequence[Episode]) -> Curves:
    """Return averages over the episodes of each allocation; IPC never falls with more cache (S22)."""
    ipc = _by_ways(episodes, "instructions", "cycles") or _by_ways(episodes, "instructions", "task_clock", 1 / GIGA)
    counted = None
    if ipc is not None:
        rounds = [sum(one.ways == ways for one in episodes) for ways in ipc.ways]
        counted = Curve(ipc.ways, never_falling(ipc.values, rounds))
    return Curves(
        counted,
        _by_ways(episodes, "memory_total_bytes", "", 1 / GIGA)
        or _by_ways(episodes, "cache_misses", "", LINE_BYTES / GIGA),
        _by_ways(episodes, "cache_misses", "cache_references"),
    )


def _by_ways(episodes: Sequence[Episode], above: str, below: str, unit: float = 1.0) -> Curve | None:
    """Return the sum of `above` divided by the sum of `below` ("": seconds), by allocation."""
    points: dict[int, tuple[float, float]] = {}
    for one in episodes:
        base = one.seconds if not below else one.amounts.get(below)
        amount = one.amounts.get(above)
        if amount is not None and base is not None:
            had = points.get(one.ways, (0.0, 0.0))
            points[one.ways] = (had[0] + amount, had[1] + base)
    found = {ways: unit * amount / base for ways, (amount, base) in sorted(points.items()) if base > 0}
    return Curve(tuple(found), tuple(found.values())) if len(found) > 1 else None


def flat(value: float, ways: int) -> Curve:
    """Return a curve for a cache that cannot be divided: the same value for any number of ways."""
    most = max(ways, 2)
    return Curve((1, most), (value, value))


@dataclass(frozen=True)
class Finding:
    """The curves of a run, if it gave any, and what could not be measured, in words."""

    curves: Curves | None
    lacks: str = ""


NOT_COUNTED = "instructions are not counted there, so what more cache would bring is not known"
NO_TRAFFIC = "memory traffic is not counted there, so no bandwidth is booked"
TOO_SHORT = "the run was too short to try two allocations of the cache"


def find_curves(
    episodes: Sequence[Episode], amounts: Mapping[str, float], seconds: float, ways: int, divided: bool
) -> Finding:
    """Return what a run started for its curves says: the curves of its episodes, or where the cache is not divided or
    instructions are not counted, the same values for any number of ways. `amounts`: of the whole run."""
    traffic = {"memory_total_bytes", "cache_misses"} & amounts.keys()
    lacks = "" if traffic else NO_TRAFFIC
    if not divided:
        return Finding(level_curves(amounts, seconds, ways), lacks)
    if not amounts:
        return Finding(None, TOO_SHORT)
    if "instructions" not in amounts:
        level = level_curves(amounts, seconds, ways)
        return Finding(level, "; ".join(filter(None, (NOT_COUNTED, lacks))))
    found = curves_of(episodes)
    if found.ipc is None:
        return Finding(None, TOO_SHORT)
    if found.bandwidth_gbs is None:
        level = level_curves(amounts, seconds, ways)
        found = Curves(found.ipc, level.bandwidth_gbs, found.miss_rate)
    return Finding(found, lacks)


def level_curves(amounts: Mapping[str, float], seconds: float, ways: int) -> Curves:
    """Return constant curves; what was not counted is 1 instruction per cycle, and books no bandwidth."""
    cycles, done = amounts.get("cycles", 0.0), amounts.get("instructions", 0.0)
    moved = amounts.get("memory_total_bytes", LINE_BYTES * amounts.get("cache_misses", 0.0))
    gbs = moved / seconds / GIGA if seconds > 0 else 0.0
    return Curves(flat(done / cycles if cycles > 0 else 1.0, ways), flat(gbs, ways), None)
