"""The jobs on every node and how fast each of them runs there. Ground truth: only the world uses it.

Nodes with the same residents and the same cache masks are one class, and the law is evaluated once per class. A start,
an end or a new division of the cache costs in proportion to the nodes it names and the classes of these, never to
the cluster. Rates are computed once per instant, for jobs on touched nodes only.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from cohabit.model.command import SetShares, StartJob
from cohabit.sim.machine import phases
from cohabit.sim.machine.recorder import BandwidthRecorder
from cohabit.sim.machine.truth import UNMASKED, Shape, Truth, mask_code, shape_of

Nodes = NDArray[np.int32]
Ranges = tuple[tuple[int, int], ...]
Members = tuple[tuple[int, int], ...]  # (number of the resident, code of its mask), by rising number
Segment = tuple[int, float, float]  # from this instant on: progress relative to the CE run, fewest ways on any node


@dataclass(slots=True, eq=False)
class _Resident:
    """A job on the machine."""

    number: int
    job_id: str
    shape: Shape
    cores: int  # taken on each node; 0: all of them
    exclusive: bool
    nodes: Nodes
    level: int
    loads: dict[int, tuple[int, float]] = field(default_factory=dict)  # by group of nodes: load number, speed at scale
    rates: dict[int, float] = field(default_factory=dict)  # progress by class of its nodes
    ways: dict[int, float] = field(default_factory=dict)
    rate: float = 0.0  # the least of the rates; not known yet


@dataclass(slots=True, eq=False)
class _NodeClass:
    """Nodes that are in the same state."""

    group: int
    members: Members
    count: int
    gbs: float = 0.0


class Machine:
    """The nodes of a cluster under the law."""

    def __init__(
        self,
        truth: Truth,
        keep_segments: bool = False,
        recorder: BandwidthRecorder | None = None,
        oversubscribed: bool = False,
    ) -> None:
        self.truth, self.recorder = truth, recorder
        self.oversubscribed = oversubscribed  # jobs may have more threads on a node than it has cores
        self.segments: dict[str, list[Segment]] | None = {} if keep_segments else None
        counts = [group.count for group in truth.groups]
        self.class_of_node = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
        self._classes: list[_NodeClass | None] = [_NodeClass(group, (), count) for group, count in enumerate(counts)]
        self._known: dict[tuple[int, Members], int] = {(group, ()): group for group in range(len(counts))}
        self._spare: list[int] = []  # numbers of classes that are gone
        self._residents: dict[int, _Resident] = {}
        self._numbers: dict[str, int] = {}
        self._arrived = 0
        self._unsettled: dict[int, None] = {}  # residents to update, in the order they were touched
        self._stale: dict[int, None] = {}  # classes for which the law must be evaluated again

    # ---- orders -----------------------------------------------------------------------------------------------------

    def start(self, job_id: str, program: str, processes: int, command: StartJob, level: int = phases.AVERAGE) -> None:
        """Start the job on the nodes of the command."""
        assert job_id not in self._numbers, f"job {job_id} is on the machine already"
        nodes = _expanded(command.nodes)
        shape = shape_of(program, processes, len(nodes), command.scale, command.cores)
        number, self._arrived = self._arrived, self._arrived + 1
        resident = _Resident(number, job_id, shape, command.cores, command.exclusive, nodes, level)
        self._residents[number], self._numbers[job_id] = resident, number
        if self.segments is not None:
            self.segments[job_id] = []
        self._move(nodes, lambda group, members: (*members, (number, UNMASKED)))
        for index in resident.rates:
            self._check_room(index)

    def stop(self, job_id: str) -> None:
        """End the job; masks of its neighbours stay as they are, those of an empty node are dropped."""
        number = self._numbers.pop(job_id)
        resident = self._residents[number]
        self._move(resident.nodes, lambda group, members: tuple(one for one in members if one[0] != number))
        assert not resident.rates
        del self._residents[number]

    def set_shares(self, command: SetShares) -> None:
        """Divide the cache of these nodes like this from now on; jobs that are not named share the rest.

        A job that is not on the node is skipped: it may have ended here before its end was reported.
        """
        there = [share for share in command.shares if share[0] in self._numbers]
        users, caps = Counter((first, ways) for _, first, ways in there), dict(command.caps)
        masks = {
            self._numbers[name]: mask_code(first, ways, users[first, ways] > 1, caps.get(name, 0))
            for name, first, ways in there
        }

        def masked(group: int, members: Members) -> Members:
            self._check_masks(group, command)
            return tuple((number, masks.get(number, UNMASKED)) for number, _ in members)

        self._move(_expanded(command.nodes), masked)

    def move(self, job_id: str, ranges: Ranges) -> None:
        """Move the job to the same number of other nodes."""
        number, nodes = self._numbers[job_id], _expanded(ranges)
        resident = self._residents[number]
        assert len(nodes) == len(resident.nodes), f"job {job_id} moves from {len(resident.nodes)} nodes to {len(nodes)}"
        self._move(resident.nodes, lambda group, members: tuple(one for one in members if one[0] != number))
        resident.nodes = nodes
        resident.loads.clear()
        self._move(nodes, lambda group, members: tuple(sorted((*members, (number, UNMASKED)))))
        for index in resident.rates:
            self._check_room(index)

    def set_phase(self, job_id: str, level: int) -> None:
        """Put the job into another stage of its run."""
        resident = self._residents[self._numbers[job_id]]
        if resident.level == level:
            return
        resident.level = level
        resident.loads.clear()
        for index in resident.rates:
            self._stale[index] = None
            self._touch(self._class(index).members)

    # ---- answers ----------------------------------------------------------------------------------------------------

    def rates_changed(self, now_us: int = 0) -> dict[str, float]:
        """Return the progress, relative to the CE run, of the jobs whose rate has changed; once per instant."""
        changed: dict[str, float] = {}
        self._ask_the_law()
        for number in self._unsettled:
            resident = self._residents.get(number)
            if resident is None:
                continue
            rate = min(resident.rates.values())
            if rate != resident.rate:
                resident.rate = changed[resident.job_id] = rate
            if self.segments is not None:
                _note(self.segments[resident.job_id], (now_us, rate, min(resident.ways.values())))
        if self.recorder is not None and self._unsettled:
            self.recorder.record(now_us, self.bandwidth_by_node())
        self._unsettled.clear()
        return changed

    def rate(self, job_id: str) -> float:
        """Return the progress of a job relative to its CE run, as of the last settling."""
        return self._residents[self._numbers[job_id]].rate

    def ways(self, job_id: str) -> float:
        """Return the fewest ways the job has on any of its nodes, as of the last settling."""
        return min(self._residents[self._numbers[job_id]].ways.values())

    def bandwidth_by_node(self) -> NDArray[np.float64]:
        """Return the GB/s drawn from the memory of every node."""
        self._ask_the_law()
        drawn = np.array([node_class.gbs if node_class is not None else 0.0 for node_class in self._classes])
        by_node: NDArray[np.float64] = drawn[self.class_of_node]
        return by_node

    def group_of(self, node: int) -> int:
        """Return the group a node belongs to."""
        return self._class(int(self.class_of_node[node])).group

    @property
    def class_count(self) -> int:
        """Return how many node classes there are now."""
        return len(self._classes) - len(self._spare)

    # ---- classes ----------------------------------------------------------------------------------------------------

    def _move(self, nodes: Nodes, change: Callable[[int, Members], Members]) -> None:
        """Give each of these nodes other members; whole classes are renamed, parts of one become another."""
        labels = self.class_of_node[nodes]
        counts = np.bincount(labels, minlength=1)
        renumbered = np.arange(len(counts), dtype=np.int32)
        moved = False
        for index in np.flatnonzero(counts).tolist():
            old, count = self._class(index), int(counts[index])
            members = change(old.group, old.members)
            if members == old.members:
                continue
            goal = self._known.get((old.group, members))
            if goal is None and count == old.count:
                self._rename(index, old, members)
                continue
            moved = True
            renumbered[index] = self._found(old.group, members, count) if goal is None else self._joined(goal, count)
            self._left(index, old, count)
        if moved:
            self.class_of_node[nodes] = renumbered[labels]

    def _rename(self, index: int, old: _NodeClass, members: Members) -> None:
        """Change all nodes of a class alike: it keeps its number, and no node is written."""
        self._touch(old.members)
        self._touch(members)
        del self._known[old.group, old.members]
        self._known[old.group, members] = index
        self._leave(index, old.members)
        old.members = members
        self._enter(index, members)

    def _found(self, group: int, members: Members, count: int) -> int:
        """Create a class."""
        node_class = _NodeClass(group, members, count)
        if self._spare:
            index = self._spare.pop()
            self._classes[index] = node_class
        else:
            index = len(self._classes)
            self._classes.append(node_class)
        self._known[group, members] = index
        self._enter(index, members)
        self._touch(members)
        return index

    def _joined(self, index: int, count: int) -> int:
        """Add nodes to a class; nothing changes for the jobs in it."""
        node_class = self._class(index)
        node_class.count += count
        self._touch(node_class.members)
        return index

    def _left(self, index: int, old: _NodeClass, count: int) -> None:
        """Remove nodes from a class; it is deleted with its last node."""
        self._touch(old.members)
        old.count -= count
        if old.count == 0:
            self._leave(index, old.members)
            del self._known[old.group, old.members]
            self._classes[index] = None
            self._stale.pop(index, None)
            self._spare.append(index)

    def _class(self, index: int) -> _NodeClass:
        found = self._classes[index]
        assert found is not None
        return found

    def _enter(self, index: int, members: Members) -> None:
        self._stale[index] = None
        for number, _ in members:
            self._residents[number].rates[index] = math.inf

    def _leave(self, index: int, members: Members) -> None:
        for number, _ in members:
            resident = self._residents[number]
            del resident.rates[index]
            resident.ways.pop(index, None)

    def _touch(self, members: Members) -> None:
        for number, _ in members:
            self._unsettled[number] = None

    # ---- the law ----------------------------------------------------------------------------------------------------

    def _ask_the_law(self) -> None:
        """Compute progress and ways of every resident on the nodes of classes that changed."""
        for index in self._stale:
            node_class = self._class(index)
            group, node_class.gbs = node_class.group, 0.0
            if not node_class.members:
                continue
            loads = [self._load(number, group) for number, _ in node_class.members]
            mix = [(load, ways) for (load, _), (_, ways) in zip(loads, node_class.members, strict=True)]
            ordered = tuple(sorted(mix))
            state = self.truth.state(group, ordered)
            found = dict(zip(ordered, zip(state.rates, state.ways, strict=True), strict=True))
            node_class.gbs = state.drawn_gbs
            for (number, _), (_, speed), one in zip(node_class.members, loads, mix, strict=True):
                resident, (rate, ways) = self._residents[number], found[one]
                resident.rates[index], resident.ways[index] = rate * speed, ways
        self._stale.clear()

    def _load(self, number: int, group: int) -> tuple[int, float]:
        resident = self._residents[number]
        found = resident.loads.get(group)
        if found is None:
            load = self.truth.load_number(resident.shape, group, resident.level)
            found = resident.loads[group] = (load, self.truth.speed(resident.shape, group))
        return found

    # ---- what must never happen -------------------------------------------------------------------------------------

    def _check_room(self, index: int) -> None:
        """Check that an exclusive job is alone and that no more cores are used than exist."""
        node_class = self._class(index)
        there = [self._residents[number] for number, _ in node_class.members]
        names = ", ".join(one.job_id for one in there)
        assert len(there) == 1 or not any(one.exclusive for one in there), f"an exclusive job among {names}"
        cores = self.truth.groups[node_class.group].cores
        taken = sum(one.cores or cores for one in there)
        busy = sum(one.shape.cores for one in there)
        assert self.oversubscribed or max(taken, busy) <= cores, f"{names} take {max(taken, busy)} of {cores} cores"

    def _check_masks(self, group: int, command: SetShares) -> None:
        """Check that masks are inside the cache, disjoint or equal, not too many; their form makes them contiguous."""
        node, end = self.truth.groups[group], 0
        masks = sorted({(first, ways) for _, first, ways in command.shares})
        for first, ways in masks:
            assert ways >= 1, f"a mask of {ways} ways at {first}"
            assert first >= end, f"the mask from way {first} overlaps the one before it: {command.shares}"
            end = first + ways
        assert end <= node.ways, f"masks reach to way {end} of {node.ways}"
        assert not node.closids or len(masks) <= node.closids, f"{len(masks)} masks"


def _expanded(ranges: Ranges) -> Nodes:
    """Return the node numbers of (first, count) ranges, as an array."""
    if len(ranges) == 1:
        return np.arange(ranges[0][0], ranges[0][0] + ranges[0][1], dtype=np.int32)
    pairs = np.array(ranges, np.int64)
    counts = pairs[:, 1]
    before = np.cumsum(counts) - counts
    return (np.repeat(pairs[:, 0] - before, counts) + np.arange(int(counts.sum()))).astype(np.int32)


def _note(segments: list[Segment], segment: Segment) -> None:
    """Add a segment if it differs from the last; a segment of zero length is replaced."""
    if segments and segments[-1][0] == segment[0]:
        segments.pop()
    if not segments or segments[-1][1:] != segment[1:]:
        segments.append(segment)
