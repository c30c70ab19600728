"""Translate programs for the law: the load of a job (program, processes, scale) on one node, and its speed.

The only place that turns a `Program` into a `Load`. Answers are remembered: a trace has thousands of jobs but few
different loads, and a cluster thousands of nodes but few different mixes of them.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import NamedTuple

from cohabit.model.cluster import NodeGroup
from cohabit.model.errors import InputError
from cohabit.model.profile import DEMAND_CEILING, capped_gbs, stream_gbs
from cohabit.model.program import WAYS_EXPONENT, Program
from cohabit.sim.machine import law, phases
from cohabit.sim.machine.constants import CONSTANTS, Constants
from cohabit.sim.machine.law import Load, Mask, NodeState, Pool


class Shape(NamedTuple):
    """All that determines a job's load: two runs with equal shapes are interchangeable."""

    program: str
    density: float  # processes on a node of the compact run
    scale: int
    cores: int  # busy on each node


def shape_of(program: str, processes: int, nodes: int, scale: int, cores: int = 0) -> Shape:
    """Return the shape of a run on so many nodes; cores follow from the processes unless the command states them."""
    compact_nodes = max(nodes // scale, 1)
    return Shape(program, processes / compact_nodes, scale, cores or -(-processes // nodes))


Mix = tuple[tuple[int, int], ...]  # (load number, code of its mask) of every job on a node, sorted
UNMASKED = -1  # the code of no mask; a mask of its own is coded as the number of its ways
_POOLED = 1024  # codes from here on: a mask shared with others, its first way and its ways
_HELD = 2**32  # times this: percent of its cores' bandwidth it is held to


def mask_code(first: int, ways: int, shared: bool, percent: int = 0) -> int:
    """Return a mask as one number: its start matters only to jobs that share it. `percent` of bandwidth; 0: no cap."""
    assert 0 < ways < _POOLED
    return percent * _HELD + ((first + 1) * _POOLED + ways if shared else ways)


def mask_of(code: int) -> Mask:
    """Return the mask of a code."""
    if code == UNMASKED:
        return None
    code %= _HELD
    return code if code < _POOLED else Pool(code // _POOLED - 1, code % _POOLED)


def held_gbs(code: int, node: NodeGroup, cores: int) -> float:
    """Return what a code lets a job draw from the memory of a node; infinity: no limit."""
    percent = code // _HELD if code != UNMASKED else 0
    return percent / 100 * stream_gbs(node, cores) if percent else math.inf


MOST_REMEMBERED = 200_000  # mixes; beyond that all are dropped and computed again when needed


class Truth:
    """The programs on the machine's kinds of nodes. An undescribed program asks for nothing and runs at rate 1."""

    def __init__(
        self,
        programs: Mapping[str, Program],
        groups: Sequence[NodeGroup],
        contention: str = law.SHARE,
        q: float | None = None,
        constants: Constants = CONSTANTS,
    ) -> None:
        if contention not in law.CONTENTIONS:
            choices = " or ".join(f'"{name}"' for name in law.CONTENTIONS)
            raise InputError(f"contention = {contention!r}", "world.contention", f"use {choices}")
        self.programs, self.groups = dict(programs), tuple(groups)
        self.contention, self.constants = contention, constants
        self.q = constants.law.q if q is None else q
        self._numbers: dict[tuple[Shape, int, int], int] = {}
        self._loads: list[Load] = []
        self._states: dict[tuple[int, Mix], NodeState] = {}
        self._speeds: dict[tuple[Shape, int], float] = {}

    def load_number(self, shape: Shape, group: int, level: int = phases.AVERAGE) -> int:
        """Return the number of the load of such a run on a node of this group."""
        key = (shape, group, level)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._loads)
            self._loads.append(self._load(shape, group, level))
        return number

    def load(self, shape: Shape, group: int, level: int = phases.AVERAGE) -> Load:
        """Return the load with this number."""
        return self._loads[self.load_number(shape, group, level)]

    def state(self, group: int, mix: Mix) -> NodeState:
        """Evaluate the law for a node of this group with this mix of loads, in the order of the mix."""
        found = self._states.get((group, mix))
        if found is None:
            if len(self._states) >= MOST_REMEMBERED:
                self._states.clear()
            node = self.groups[group]
            loads = [self._loads[number] for number, _ in mix]
            masks = [mask_of(code) for _, code in mix]
            held = [held_gbs(code, node, load.cores) for (_, code), load in zip(mix, loads, strict=True)]
            found = self._states[group, mix] = law.node_state(
                loads,
                masks,
                node.ways,
                partial(stream_gbs, node),
                self.contention,
                self.q,
                self.constants.law,
                node.cores,
                held if min(held) < math.inf else (),
            )
        return found

    def speed(self, shape: Shape, group: int) -> float:
        """Return the progress of an exclusive run at its scale relative to the compact exclusive run: T_1(P) / T_k(P).

        T_k(P) is the time at scale k, stretched where P processes ask for more bandwidth than the cores can draw.
        """
        key = (shape, group)
        found = self._speeds.get(key)
        if found is None:
            found = self._speeds[key] = self._speed(shape, group)
        return found

    def _speed(self, shape: Shape, group: int) -> float:
        program = self.programs.get(shape.program)
        if program is None or shape.scale == 1:
            return 1.0
        compact = Shape(shape.program, shape.density, 1, math.ceil(shape.density))
        return (
            program.speedup_at(shape.scale)
            * self._stretch(program, compact, group)
            / self._stretch(program, shape, group)
        )

    def _stretch(self, program: Program, shape: Shape, group: int) -> float:
        node = self.groups[group]
        gbs = program.bandwidth_at(shape.scale, total_ways(program, node), node.ways)
        return capped_gbs(gbs, self._factor(program, shape, node), node, shape.cores)[1]

    @staticmethod
    def _factor(program: Program, shape: Shape, node: NodeGroup) -> float:
        """Return how many times the reference run's processes a node has at this scale (model/profile.load_factor)."""
        reference_nodes = -(-program.processes // node.cores)
        return shape.density / (program.processes / reference_nodes)

    def _load(self, shape: Shape, group: int, level: int) -> Load:
        program, node = self.programs.get(shape.program), self.groups[group]
        if program is None:
            return Load(shape.cores, 0.0, lambda ways: 1.0, lambda ways: 0.0, 1.0)
        most, ipc = total_ways(program, node), self._ipc(program, shape, node)
        demand = self._demand(program, shape, node)
        if level != phases.AVERAGE:
            ceiling = DEMAND_CEILING * stream_gbs(node, shape.cores)
            room = ceiling / demand(most) if demand(most) > 0 else 1.0
            times = phases.multipliers(level, room, ipc(0.0), self.constants.phases)
            demand, ipc = partial(_in_phase, demand, times.bandwidth, ceiling), partial(_felt, ipc, times.sensitivity)
        solo = law.solo_latency(shape.cores, demand(most), program.mu, partial(stream_gbs, node), self.constants.law)
        return Load(shape.cores, program.mu, ipc, demand, solo, program.cpu_fraction)

    def _ipc(self, program: Program, shape: Shape, node: NodeGroup) -> Quantity:
        if not node.ways:
            return lambda ways: 1.0
        places = kinks(program, shape.scale, node.ways)
        return Line(places, [program.ipc_at(shape.scale, place, node.ways) for place in places])

    def _demand(self, program: Program, shape: Shape, node: NodeGroup) -> Quantity:
        """Return its demand, no more than its cores can draw and never more than the node has."""
        factor = self._factor(program, shape, node)
        ceiling = stream_gbs(node, node.cores)
        if factor != 1.0:
            ceiling = min(ceiling, DEMAND_CEILING * stream_gbs(node, shape.cores))
        places = kinks(program, shape.scale, node.ways) if node.ways else (float(total_ways(program, node)),)
        gbs = [program.bandwidth_at(shape.scale, place, node.ways) * factor for place in places]
        return Line(places, gbs, ceiling)


def total_ways(program: Program, node: NodeGroup) -> int:
    """Return all ways of the node; if unknown, all the program was measured with (and every job has them)."""
    return node.ways or max(program.ipc.ways[-1], program.bandwidth_gbs.ways[-1])


Quantity = Callable[[float], float]


class Line:
    """A quantity against ways: linear between places, flat beyond them, cut off at a ceiling. Fast to evaluate."""

    __slots__ = ("ceiling", "places", "values")

    def __init__(self, places: Sequence[float], values: Sequence[float], ceiling: float = math.inf) -> None:
        self.places, self.values, self.ceiling = tuple(places), tuple(values), ceiling

    def __call__(self, ways: float) -> float:
        right = bisect.bisect_right(self.places, ways)
        if right == 0:
            value = self.values[0]
        elif right == len(self.places):
            value = self.values[-1]
        else:
            low, high, before = self.places[right - 1], self.places[right], self.values[right - 1]
            value = before + (ways - low) / (high - low) * (self.values[right] - before)
        return value if value < self.ceiling else self.ceiling


def kinks(program: Program, scale: int, ways: int) -> tuple[float, ...]:
    """Return where a program's curves at a scale may bend: between these numbers of ways they are straight lines."""
    points = {*program.ipc.ways, *program.bandwidth_gbs.ways}
    for stated in (program.per_scale[scale],) if scale in program.per_scale else ():
        for curve in (stated.ipc, stated.bandwidth_gbs):
            points.update(curve.ways if curve is not None else ())
    acting = {point / scale**WAYS_EXPONENT for point in (*points, ways)}
    return tuple(sorted({0.0, float(ways)} | {float(place) for place in points | acting if place < ways}))


def _in_phase(average: Quantity, times: float, ceiling: float, ways: float) -> float:
    """Return the demand in a phase: no more than the cores can draw, unless its average is more already."""
    steady = average(ways)
    return min(times * steady, max(steady, ceiling))


def _felt(average: Quantity, times: float, ways: float) -> float:
    """Return relative IPC with the effect of lost cache multiplied by this factor."""
    return 1.0 - times * (1.0 - average(ways))
