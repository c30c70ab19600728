"""Curves without counters or cache control: the program inside valgrind, in a simulated cache of fewer and fewer ways.

The result is an estimate, and must be called one. Misses are counted exactly, but in a simulation without prefetcher
and kernel, for one process at a time. The cost of a miss is assumed: STALL_S of processor time, an access of 80 ns with
four in flight at once. Time with w ways is then the measured time, plus that cost for every miss more than with all
ways; traffic is a line per miss, without write-backs. Programs with prefetched misses lose less than this says.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cohabit.agent.launch.process import Request
from cohabit.agent.observing import observe_inside
from cohabit.agent.profiling.episodes import Curves, tour_of
from cohabit.agent.sensors.valgrind import Valgrind, cache_geometry
from cohabit.model.curve import Curve, never_falling

STALL_S = 20e-9
GIGA = 1e9
Caches = dict[str, tuple[int, int, int]]


@dataclass(frozen=True)
class Counted:
    """One run in a cache of this many ways."""

    ways: int
    references: float
    misses: float


def allocations(caches: Caches | None = None) -> tuple[int, ...]:
    """Return the numbers of ways to try, as on a real machine."""
    return tour_of((caches or cache_geometry())["LL"][1]).ways


def with_ways(caches: Caches, ways: int) -> Caches:
    """Return the same sets and lines, with this many ways in the last level."""
    size, most, line = caches["LL"]
    return caches | {"LL": (size // most * ways, ways, line)}


def count_misses(
    request: Request,
    alone_s: float,
    limit_s: float,
    folder: Path,
    caches: Caches | None = None,
    advance: Callable[[int, int], None] | None = None,
) -> list[Counted]:
    """Run the program inside valgrind once per allocation; `alone_s` is the time of the same work outside it."""
    host = caches or cache_geometry()
    tried, found = allocations(host), []
    for number, ways in enumerate(tried):
        if advance is not None:
            advance(number, len(tried))
        with tempfile.TemporaryDirectory(dir=folder) as own:
            source = Valgrind(with_ways(host, ways))
            read = observe_inside(request, source, Path(own), limit_s, alone_s)
        amounts = (read[name].mean * alone_s for name in ("cache_references", "cache_misses"))
        found.append(Counted(ways, *amounts))
    return found


def estimated(counted: Sequence[Counted], busy_s: float, processes: int, line_bytes: int = 64) -> Curves:
    """Return IPC relative to all ways, and traffic, by ways; `busy_s` is the computing time with all ways."""
    most = counted[-1]
    times = [busy_s + STALL_S * max(one.misses - most.misses, 0.0) / max(processes, 1) for one in counted]
    ways = tuple(one.ways for one in counted)
    ipc = never_falling(tuple(busy_s / time_s for time_s in times))
    gbs = tuple(one.misses * line_bytes / time_s / GIGA for one, time_s in zip(counted, times, strict=True))
    rates = tuple(one.misses / one.references if one.references > 0 else 0.0 for one in counted)
    return Curves(Curve(ways, ipc), Curve(ways, gbs), Curve(ways, rates))
