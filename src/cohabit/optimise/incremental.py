"""Place jobs that come and go: the best node for a newcomer, with at most k moves of running jobs, without a search.

A move takes one job from a node to another (between L3 domains of a server, or in the plan of a job not yet started);
the caller says which jobs may move and which nodes are open. With k = 0 only caches are divided anew. With k > 0 a
newcomer may take the place of a job that is better off elsewhere, which may in turn displace another, k times; after
a departure up to k jobs may follow into the free room. Every step must gain more than LEAST_GAIN of weighted speedup.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.model.mix import Ints
from cohabit.optimise import arrivals
from cohabit.optimise.arrivals import EMPTY
from cohabit.optimise.division import WEIGHTED, Tables, make_work
from cohabit.optimise.estimates import Planes, make_planes
from cohabit.optimise.memo import Valuer, make_memo

LEAST_GAIN = 0.01
MEMO = 2**16
Flags = NDArray[np.bool_]


class State(NamedTuple):
    """Node by node, for the kernels."""

    kinds: Any  # nodes x seats
    count: Any
    value: Any
    load: Any
    price: Any
    estimate: Any
    spare: Any  # nodes x (seats + 1) x (buckets + 1): see estimates
    planes: Planes


@dataclass(frozen=True)
class Move:
    """A move of a job to another node."""

    job: int
    origin: int
    target: int


@dataclass(frozen=True)
class Decision:
    """The node of the newcomer (-1: there is no room), the moves of others, and what all of it gains."""

    node: int
    moves: tuple[Move, ...]
    gain: float


class Nodes:
    """Nodes that are all alike, and the jobs on them. A job is any number; its kind is a row of the tables."""

    def __init__(self, tables: Tables, nodes: int, room: int) -> None:
        buckets = tables.mpki.shape[1] - 1
        self.room = min(room, buckets)
        self.jobs: Ints = np.full((nodes, self.room), EMPTY, np.int64)
        self.movable: Flags = np.ones((nodes, self.room), np.bool_)
        self.open: Flags = np.ones(nodes, np.bool_)
        self.state = State(
            np.full((nodes, self.room), EMPTY, np.int64),
            np.zeros(nodes, np.int64),
            np.zeros(nodes),
            np.zeros(nodes),
            np.zeros(nodes),
            np.zeros(nodes),
            np.zeros((nodes, self.room + 1, buckets + 1)),
            make_planes(room, buckets),
        )
        self._seat: dict[int, tuple[int, int]] = {}
        self._valuer = Valuer(tables, WEIGHTED, make_work(self.room + 1, buckets), make_memo(MEMO))
        self._refresh(range(nodes))

    @property
    def value(self) -> float:
        """Value of all nodes together."""
        return float(self.state.value.sum())

    def node_of(self, job: int) -> int:
        return self._seat[job][0]

    def kind_of(self, job: int) -> int:
        node, seat = self._seat[job]
        return int(self.state.kinds[node, seat])

    def on(self, node: int) -> list[int]:
        return [job for job in self.jobs[node].tolist() if job != EMPTY]

    def put(self, job: int, kind: int, node: int, movable: bool = True) -> None:
        """Record that a job is on this node, whatever decided it."""
        assert job not in self._seat, f"job {job} has a node"
        free = np.flatnonzero(self.jobs[node] == EMPTY)
        assert len(free), f"node {node} is full"
        self._sit(job, kind, node, int(free[0]), movable)
        self._refresh([node])

    def remove(self, job: int) -> int:
        """Remove a job; return its node."""
        node, seat = self._seat.pop(job)
        self.jobs[node, seat] = EMPTY
        self.state.kinds[node, seat] = EMPTY
        self._refresh([node])
        return node

    def arrive(self, job: int, kind: int, moves: int = 0, movable: bool = True) -> Decision:
        """Decide on a newcomer and carry it out: its node, and at most `moves` moves of others."""
        done: list[Move] = []
        gained, first = 0.0, EMPTY
        placing, placing_kind, may_move, origin = job, kind, movable, EMPTY
        while True:
            node, gain, near = self._best_node(placing_kind)
            if node < 0:
                return Decision(-1, (), 0.0)  # no room anywhere: nothing was displaced either
            if len(done) < moves:
                at, seat, to, better = arrivals.best_displacement(
                    placing_kind, self.movable, self.open, near[: arrivals.VACANT], self.state, self._valuer
                )
                if at >= 0 and better > gain + LEAST_GAIN:
                    other, other_kind = int(self.jobs[at, seat]), int(self.state.kinds[at, seat])
                    other_moves = bool(self.movable[at, seat])
                    before = float(self.state.value[at])
                    del self._seat[other]
                    self._sit(placing, placing_kind, int(at), int(seat), may_move)
                    self._refresh([int(at)])
                    gained += float(self.state.value[at]) - before
                    first = int(at) if first < 0 else first
                    if origin >= 0:
                        done[-1] = Move(placing, origin, int(at))
                    done.append(Move(other, int(at), int(to)))
                    placing, placing_kind, may_move, origin = other, other_kind, other_moves, int(at)
                    continue
            self.put(placing, placing_kind, node, may_move)
            gained += gain
            if origin >= 0:
                done[-1] = Move(placing, origin, node)
            return Decision(node if first < 0 else first, tuple(done), gained)

    def leave(self, job: int, moves: int = 0) -> Decision:
        """Remove a job; at most `moves` jobs follow into the free room, one after another."""
        before = self.value
        to = self.remove(job)
        done: list[Move] = []
        while len(done) < moves and self.open[to]:
            node, seat, gain = arrivals.best_arrival_from(to, self.movable, self.open, self.state, self._valuer)
            if node < 0 or gain <= LEAST_GAIN:
                break
            other, kind = int(self.jobs[node, seat]), int(self.state.kinds[node, seat])
            self.remove(other)
            self.put(other, kind, to)
            done.append(Move(other, int(node), to))
            to = int(node)
        return Decision(-1, tuple(done), self.value - before)

    def _best_node(self, kind: int) -> tuple[int, float, Ints]:
        node, gain, near = arrivals.best_node(kind, self.open, self.state, self._valuer)
        return int(node), float(gain), near

    def _sit(self, job: int, kind: int, node: int, seat: int, movable: bool) -> None:
        self.jobs[node, seat], self.movable[node, seat] = job, movable
        self.state.kinds[node, seat] = kind
        self._seat[job] = (node, seat)

    def _refresh(self, nodes: Sequence[int] | range) -> None:
        arrivals.refresh(np.array(nodes, dtype=np.int64), self.state, self._valuer)
