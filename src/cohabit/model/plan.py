"""What a decision says: an ordered list of actions, and for every job left waiting a reason with numbers."""

from __future__ import annotations

from dataclasses import dataclass, field

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Placement:
    """Which nodes, as (first, count) ranges of node numbers."""

    ranges: Ranges

    @property
    def nodes(self) -> int:
        """How many nodes."""
        return sum(count for _, count in self.ranges)


@dataclass(frozen=True)
class Start:
    """Start the job in this row now."""

    row: int
    placement: Placement


@dataclass(frozen=True)
class Reserve:
    """Promise the job in this row a start; `kinds` says how many nodes of each kind it counts on."""

    row: int
    start_us: int
    kinds: tuple[int, ...]


@dataclass
class Plan:
    """Starts and reservations in the order they were decided, and why the others wait."""

    actions: list[Start | Reserve] = field(default_factory=list)
    waits: dict[int, str] = field(default_factory=dict)
    wake_us: int | None = None
