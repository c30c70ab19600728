"""What a policy needs of a site, said beside its definition; app/doctor/needs.py compares it with what is there.

A need is *essential* if without it the policy is another one than its name says. All others are told, never refused.
"""

from __future__ import annotations

from typing import NamedTuple

PROFILES, COUNTERS, RESCTRL, MODEL = "profiles", "counters", "resctrl", "model"
TELEMETRY, OVERSUBSCRIPTION, CHANNEL, CURVES = "telemetry", "oversubscription", "channel", "curves"
NAMES = (PROFILES, COUNTERS, CURVES, RESCTRL, MODEL, TELEMETRY, OVERSUBSCRIPTION, CHANNEL)


class Need(NamedTuple):
    """One need of a policy."""

    name: str  # of NAMES
    without: str  # what happens without it, in words
    essential: bool = True
    columns: tuple[str, ...] = ()  # counters: the features that are asked for (model/features.py)
    trained: bool = False  # whether a model asks for them


DIVIDED = Need(
    RESCTRL, "jobs share the caches; they are kept apart by cores, and by the ways and bandwidth they book", False
)
CURVED = Need(
    CURVES, "what is not counted of a program's curves is taken as level: it books no cache or bandwidth for it", False
)
ALL_ALONE = Need(PROFILES, "every job of a program without a profile has its nodes to itself, for ever")
SHARED_CORES = Need(OVERSUBSCRIPTION, "two jobs that both want all cores of a node run one after the other", False)
