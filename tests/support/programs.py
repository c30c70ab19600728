"""Made-up programs of every class, as profiles on the shared machines of clusters.py (8 cores, 10 ways, 40 GB/s).

Curves are chosen so that demands come out as round numbers at alpha 0.9; no real program behaves like these.
"""

from __future__ import annotations

from collections.abc import Mapping

from cohabit.model.curve import Curve
from cohabit.model.profile import Profile, ScaleProfile

PROCESSES = 8  # of every reference run: one full node at scale 1
FLAT = {2: 1.0, 10: 1.0}  # any number of ways will do
STEEP = {2: 0.6, 8: 0.9, 10: 1.0}  # nine tenths need eight ways


def curve(points: Mapping[int, float]) -> Curve:
    """A curve from ways and values."""
    return Curve(tuple(points), tuple(points.values()))


def measured(scale: int, time_s: float, ipc: Mapping[int, float], gbs: Mapping[int, float] | float) -> ScaleProfile:
    """One scale of a profile; a number for `gbs` is the same with any number of ways."""
    drawn = {2: gbs, 10: gbs} if isinstance(gbs, int | float) else gbs
    return ScaleProfile(scale, time_s, curve(ipc), curve(drawn))


def profile(name: str, *scales: ScaleProfile, single_node: bool = False, processes: int = PROCESSES) -> Profile:
    """A profile of so many processes."""
    return Profile(name, processes, scales, single_node)


STREAM = profile(  # scaling: bound by bandwidth, best at scale 4
    "stream", measured(1, 100.0, FLAT, 36.0), measured(2, 70.0, FLAT, 24.0), measured(4, 60.0, FLAT, 14.0)
)
CACHED = profile(  # scaling: bound by cache, best at scale 2
    "cached", measured(1, 100.0, STEEP, {2: 9.0, 10: 3.0}), measured(2, 80.0, {2: 0.8, 4: 0.9, 10: 1.0}, 2.0),
    measured(4, 85.0, FLAT, 1.0),
)  # fmt: skip
COMPACT = profile("compact", measured(1, 100.0, STEEP, 4.0), measured(2, 108.0, FLAT, 2.0))
NEUTRAL = profile(
    "neutral", measured(1, 100.0, FLAT, 1.0), measured(2, 98.0, FLAT, 0.5), measured(4, 97.0, FLAT, 0.25),
    measured(8, 99.0, FLAT, 0.125),
)  # fmt: skip
SINGLE = profile("single", measured(1, 50.0, FLAT, 8.0), single_node=True)
HUNGRY = profile("hungry", measured(1, 100.0, FLAT, 50.0), measured(2, 95.0, FLAT, 45.0))  # beyond the node's bandwidth
BRIM = profile("brim", measured(1, 100.0, FLAT, 33.33325), measured(2, 90.0, FLAT, 39.9999))  # within a rounding of it
HALF = profile("half", ScaleProfile(1, 100.0))  # its time is known, its curves are not
PROFILES = (STREAM, CACHED, COMPACT, NEUTRAL, SINGLE, HUNGRY, BRIM, HALF)
KNOWN = {one.program: one for one in PROFILES}
PROGRAMS = ("", *KNOWN, "unknown", "newcomer")
