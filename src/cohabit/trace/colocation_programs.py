"""Programs for Intelligent Colocation (SBAC-PAD 2019): the 32 of the catalogue, and others drawn from the same priors.

The paper publishes no profile, so every number is an assumption; the catalogue states the priors, what they are
anchored on, and the 32 vectors that were drawn from them once. A *vector* describes a program: how busy it keeps its
cores, how often it uses the last-level cache, how much it reuses, how well it hides a miss. `program_of` turns it into
what the world's law needs, and the counters of reproduce/colocation are made from the same vector. Nothing here knows a
policy or a result, but the authors of the priors had seen some: they are the third version, chosen after results with
the first two. `other_priors` keeps those ("independent" was the first, "guessed" the second), and the reproduction runs
them beside this one. They must not be changed again to make a row hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

import msgspec
import numpy as np

from cohabit.model.cluster import NodeGroup
from cohabit.model.curve import Curve
from cohabit.model.profile import DEMAND_CEILING, stream_gbs
from cohabit.model.program import Program
from cohabit.trace.programs import Programs

NAME = "colocation32"
BLIND = "splash"  # the suite no model is trained on
LINE_BYTES = 64


class Vector(msgspec.Struct, frozen=True):
    """One program; the fields after `write_back` never reach the world, only the counters."""

    name: str
    suite: str
    cpu_fraction: float  # of its cores it keeps busy when alone
    solo_time_s: float
    cpi_core: float  # cycles per instruction without the last-level cache and memory
    refs_per_ki: float  # of the last-level cache, per thousand instructions
    footprint_mb: float  # what it uses again and again
    reuse: float  # exponent of its miss curve; 1: all of the footprint is used alike
    streaming: float  # share of references that miss however large the cache is
    overlap: float  # misses it has under way at once
    write_back: float  # bytes written per byte read
    branches: float  # per instruction
    mispredicted: float  # per branch
    loads: float  # per instruction
    stores: float  # per instruction
    l2_reuse: float  # references of the second level per reference of the last
    frontend: float  # share of cycles
    backend: float  # share of cycles, apart from memory
    resident: float  # memory it touches once per byte of footprint
    switching: float  # context switches per second and idle core
    variation: float  # of its rates over the run
    noise: float  # of its times from run to run

    def misses(self, ways_mb: float) -> float:
        """Share of references that miss with so much cache."""
        cold = 1.0 - min(1.0, ways_mb / self.footprint_mb)
        return self.streaming + (1.0 - self.streaming) * math.pow(cold, self.reuse)


class Machine(msgspec.Struct, frozen=True):
    """The server and what a reference costs on it."""

    node: NodeGroup
    freq_ghz: float
    mb_per_way: float
    hit_cycles: float
    memory_cycles: float  # the calibrated number

    def stalls(self, vector: Vector, ways: float) -> tuple[float, float]:
        """Cycles per instruction spent on hits of the last-level cache and on memory."""
        missing = vector.misses(ways * self.mb_per_way)
        per_reference = vector.refs_per_ki / 1000.0 / vector.overlap
        return per_reference * (1.0 - missing) * self.hit_cycles, per_reference * missing * self.memory_cycles

    def cpi(self, vector: Vector, ways: float) -> float:
        """Cycles per instruction alone with so many ways."""
        return vector.cpi_core + sum(self.stalls(vector, ways))

    def demand_gbs(self, vector: Vector, ways: float) -> float:
        """Return its memory demand, no more than its cores can draw."""
        cores = self.node.cores * vector.cpu_fraction
        lines = vector.refs_per_ki / 1000.0 * vector.misses(ways * self.mb_per_way) / self.cpi(vector, ways)
        asked = cores * self.freq_ghz * lines * LINE_BYTES * (1.0 + vector.write_back)
        return min(asked, DEMAND_CEILING * stream_gbs(self.node, self.node.cores))


class Document(msgspec.Struct, frozen=True):
    """The catalogue: machine, priors, and the vectors that were drawn."""

    about: str
    platform: dict[str, Any]
    stream_curve_gbs: dict[str, float]
    calibration: dict[str, Any]
    priors: dict[str, Any]
    other_priors: dict[str, Any]  # abandoned versions, by name; the result of each is a row
    programs: tuple[Vector, ...]


@cache
def document() -> Document:
    """Return the catalogue as it is in its file."""
    text = (resources.files("cohabit.trace") / "catalogues" / f"{NAME}.json").read_bytes()
    return msgspec.json.decode(text, type=Document)


def machine(changed: Mapping[str, float] | None = None) -> Machine:
    """The server of the paper; `changed` multiplies what is assumed of it: memory_cycles, stream."""
    factors = changed or {}
    stated = document()
    points = {int(cores): gbs * factors.get("stream", 1.0) for cores, gbs in stated.stream_curve_gbs.items()}
    platform = stated.platform
    node = NodeGroup(
        count=1, cores=platform["cores"], ways=platform["llc_ways"], bandwidth_gbs=tuple(sorted(points.items()))
    )
    cycles = stated.calibration["memory_cycles"] * factors.get("memory_cycles", 1.0)
    return Machine(
        node, platform["freq_ghz"], platform["llc_mb"] / platform["llc_ways"], platform["hit_cycles"], cycles
    )


def catalogue_vectors() -> tuple[Vector, ...]:
    """The 32 programs of the catalogue."""
    return document().programs


def drawn_vectors(rng: np.random.Generator, priors: Mapping[str, Any] | None = None) -> tuple[Vector, ...]:
    """As many programs from the priors, of each pattern its number, dealt to suites of the same sizes.

    Every quantity is drawn once from each of n equal parts of its prior (a Latin hypercube): the paper chose programs
    to cover a variety of computational patterns. Which parts meet in a program, and which suite it is in, is random.
    """
    known = priors or document().priors
    suites = [suite for suite, count in known["suites"].items() for _ in range(count)]
    common = {name: _column(rng, prior, len(suites)) for name, prior in known["quantities"].items()}
    drawn: list[dict[str, float]] = []
    for pattern in known["patterns"].values():
        columns = {name: _column(rng, prior, pattern["count"]) for name, prior in pattern["quantities"].items()}
        drawn += [{name: values[place] for name, values in columns.items()} for place in range(pattern["count"])]
    assert len(drawn) == len(suites), "patterns and suites have the same number of programs"
    seen: dict[str, int] = {}
    found = []
    for place, at in enumerate(rng.permutation(len(suites)).tolist()):
        suite = suites[at]
        seen[suite] = seen.get(suite, 0) + 1
        own = drawn[place] | {name: values[place] for name, values in common.items()}
        rounded = {name: _rounded(value) for name, value in own.items()}
        found.append(Vector(f"{suite}-{seen[suite]:02d}", suite, **rounded))
    order = {suite: place for place, suite in enumerate(known["suites"])}
    return tuple(sorted(found, key=lambda one: (order[one.suite], one.name)))


def _column(rng: np.random.Generator, prior: Mapping[str, Any], count: int) -> list[float]:
    """One quantity of all programs: [share, low, high] ranges, each uniform or uniform in the logarithm."""
    places = (rng.permutation(count) + rng.random(count)) / count
    return [_from_ranges(prior["ranges"], place, prior["scale"] == "log") for place in places.tolist()]


def _from_ranges(ranges: Sequence[Sequence[float]], place: float, logarithmic: bool) -> float:
    before = 0.0
    for share, low, high in ranges:
        if place < before + share or before + share >= 1.0 - 1e-9:
            within = (place - before) / share
            return low * math.pow(high / low, within) if logarithmic else low + (high - low) * within
        before += share
    raise AssertionError("the shares of a prior make up 1")


def _rounded(value: float) -> float:
    """Four digits: the vectors are assumptions, and the file stays readable."""
    return float(f"{value:.4g}")


def program_of(vector: Vector, on: Machine) -> Program:
    """Return the program for the world's law: curves at every number of ways."""
    ways = tuple(range(1, on.node.ways + 1))
    most = ways[-1]
    full = on.cpi(vector, most)
    return Program(
        name=vector.name,
        ce_time_s=vector.solo_time_s,
        mu=on.stalls(vector, most)[1] / full,
        ipc=Curve(ways, tuple(full / on.cpi(vector, one) for one in ways)),
        bandwidth_gbs=Curve(ways, tuple(on.demand_gbs(vector, one) for one in ways)),
        processes=on.node.cores,
        cpu_fraction=vector.cpu_fraction,
        single_node=True,
        ipc_full=1.0 / full,
    )


def programs_of(vectors: Sequence[Vector], on: Machine) -> Programs:
    """Return all programs by name."""
    return Programs({vector.name: program_of(vector, on) for vector in vectors})
