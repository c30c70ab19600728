"""A scheduling decision: an ordered list of actions, and for every waiting job a reason with numbers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Placement:
    """The nodes of a job, as (first, count) ranges of node numbers, and its share of each."""

    ranges: Ranges
    scale: int = 1
    cores: int = 0  # on each node; 0: all of them
    ways: int = 0  # booked on each node
    bandwidth_mbs: int = 0  # booked on each node
    exclusive: bool = True
    purpose: str = "run"
    takes: tuple[tuple[int, ...], ...] = ()  # shared nodes: what it books on a node of each kind, by dimension
    run_us: int = 0  # shared nodes: how long it is expected to run; 0: as long as it requests

    @property
    def nodes(self) -> int:
        """The number of nodes."""
        return sum(count for _, count in self.ranges)


class Ask(NamedTuple):
    """One way a job could run on shared nodes; a placement policy lists them, the preferred one first."""

    scale: int
    nodes: int
    cores: int  # on each node
    ways: int  # booked on each node
    bandwidth_mbs: int  # booked on each node
    exclusive: bool
    purpose: str  # run, time or curve
    takes: tuple[tuple[int, ...], ...]  # whole units on a node of each kind, by dimension; (): not that kind
    run_us: int = 0  # how long it is expected to run like this; 0: as long as it requests
    share: float = 1.0  # the largest share of a node that it takes of any resource, where a placement weighs that


@dataclass(frozen=True)
class Start:
    """Start the job in this row now."""

    row: int
    placement: Placement


@dataclass(frozen=True)
class Move:
    """Re-bind the running job in this row to another node (an L3 domain) of its server."""

    row: int
    node: int
    gain: float = 0.0  # expected, in units of the solo speed


@dataclass(frozen=True)
class Reserve:
    """Promise the job in this row a start; `kinds` says how many nodes of each kind it counts on."""

    row: int
    start_us: int
    kinds: tuple[int, ...]


@dataclass(frozen=True)
class Promise:
    """Promise the job in this row a start on shared nodes, or change its promise."""

    row: int
    latest_us: int  # by requested times; it never moves later unless nodes are lost
    expected_us: int  # by expected run times; it may move
    ranges: Ranges  # the nodes it counts on
    ask: Ask  # how the job would run


@dataclass(frozen=True)
class Withdraw:
    """Take back the promise made to the job in this row."""

    row: int


@dataclass
class Plan:
    """Starts, moves and reservations in the order they were decided, and why the others wait."""

    actions: list[Start | Move | Reserve | Promise | Withdraw] = field(default_factory=list)
    waits: dict[int, str] = field(default_factory=dict)
    wake_us: int | None = None
    memory: dict[str, Any] = field(default_factory=dict)  # the state of policies, by their name; plain data
    late: bool = False  # a wake came too late for a promise: its job no longer fits before the next promise
