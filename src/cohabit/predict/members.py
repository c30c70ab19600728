"""Groups of neighbours: `b+c` is one neighbour of two members. Pure."""

from __future__ import annotations

from collections.abc import Collection

JOINT = "+"


def members_of(other: str, programs: Collection[str]) -> tuple[str, ...]:
    """Return the programs of a neighbour: its parts if all are known by themselves, else the name as it is."""
    parts = tuple(other.split(JOINT))
    return parts if len(parts) > 1 and all(one in programs for one in parts) else (other,)
