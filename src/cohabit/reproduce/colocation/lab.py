"""The simulated server of Intelligent Colocation: its programs, their mutual slowdowns, and one queue under one policy.

Everything an experiment may vary is in a `Bench`; what it does not vary is as calibrated. Degradations come from the
law of the world, makespans from the scheduler; nothing is computed outside them. Nothing here judges.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.app.scenario import policies as by_name
from cohabit.app.scenario.tables import ClusterConfig, JobsConfig, PolicyConfig, Scenario, WorldConfig
from cohabit.app.simulate import simulation
from cohabit.model.curve import Curve
from cohabit.model.mix import Floats, Ints
from cohabit.model.profile import Profile
from cohabit.model.program import Program, profile_of
from cohabit.model.records import DONE
from cohabit.model.units import SECOND
from cohabit.model.workload import Workload
from cohabit.policy.degradation import Degradations
from cohabit.policy.options import PlacementOptions
from cohabit.policy.registry import make_placement
from cohabit.reproduce.colocation.counters import measured
from cohabit.sim.machine.constants import CONSTANTS, Constants
from cohabit.sim.machine.truth import UNMASKED, Truth, shape_of
from cohabit.sim.streams import stream
from cohabit.trace.colocation_programs import (
    BLIND,
    Machine,
    Vector,
    catalogue_vectors,
    document,
    drawn_vectors,
    machine,
    programs_of,
)
from cohabit.trace.programs import Programs
from cohabit.trace.synthetic import synthetic_workload

CATALOGUE, HIDDEN = "catalogue", "hidden"
PLAIN, FREE, RUINOUS = "plain", "free", "ruinous"  # worlds: as calibrated, without contention, with total contention
RUNS = 3  # that are averaged where the paper ran something several times
TRUTH = ("q", "latency_slope", "latency_knee")  # assumed numbers of the law
OF_MACHINE = ("memory_cycles", "stream")
RUIN = Curve((19, 20), (0.01, 1.0))  # relative IPC: a program that loses a way almost stops


@dataclass(frozen=True)
class Bench:
    """Programs and world."""

    kind: str = CATALOGUE  # hidden: drawn from the priors; else: from other priors of that name
    seed: int = 0  # of hidden programs
    number: int = 0  # hidden programs differ in every set
    factors: tuple[tuple[str, float], ...] = ()  # assumed numbers multiplied, by name
    world: str = PLAIN
    contention: str = "share"

    def factor(self, name: str) -> float:
        """Return the factor of an assumption."""
        return dict(self.factors).get(name, 1.0)

    @cached_property
    def machine(self) -> Machine:
        """The server."""
        found = machine({name: self.factor(name) for name in OF_MACHINE})
        other = document().other_priors.get(self.kind)
        return found if other is None else msgspec.structs.replace(found, memory_cycles=other["memory_cycles"])

    @cached_property
    def vectors(self) -> tuple[Vector, ...]:
        """The programs as vectors, with assumptions varied."""
        priors = document().other_priors.get(self.kind, document().priors)
        drawn = catalogue_vectors()
        if self.kind != CATALOGUE:
            drawn = drawn_vectors(stream(self.seed, f"hidden programs {self.number}"), priors)
        return tuple(_varied(vector, dict(self.factors)) for vector in drawn)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names, by place in every matrix."""
        return tuple(vector.name for vector in self.vectors)

    @cached_property
    def blind(self) -> NDArray[np.bool_]:
        """Return the programs no model may learn from."""
        return np.array([vector.suite == BLIND for vector in self.vectors])

    @cached_property
    def programs(self) -> Programs:
        """Return the true programs, for the world only."""
        found = programs_of(self.vectors, self.machine)
        if self.world == RUINOUS:
            return Programs(
                {name: msgspec.structs.replace(one, cpu_fraction=1.0, ipc=RUIN) for name, one in found.items()}
            )
        return found

    @property
    def times_s(self) -> Floats:
        """Return the times alone."""
        return np.array([vector.solo_time_s for vector in self.vectors])

    @cached_property
    def constants(self) -> Constants:
        """Return the constants of the law, with assumptions varied."""
        law = msgspec.structs.replace(
            CONSTANTS.law, **{name: getattr(CONSTANTS.law, name) * self.factor(name) for name in TRUTH}
        )
        return msgspec.structs.replace(CONSTANTS, law=law)

    @cached_property
    def degradations(self) -> Floats:
        """Percent by which i slows beside j, which is restarted whenever it ends, by the law of the world (I2, I3)."""
        count = len(self.vectors)
        if self.world == FREE:
            return np.zeros((count, count))
        node = self.machine.node
        truth = Truth(self.programs, [node], self.contention, None, self.constants)
        loads = [truth.load_number(shape_of(name, node.cores, 1, 1, node.cores), 0) for name in self.names]
        found = np.zeros((count, count))
        for i in range(count):
            for j in range(i, count):
                state = truth.state(0, tuple(sorted(((loads[i], UNMASKED), (loads[j], UNMASKED)))))
                first, second = state.rates if loads[i] <= loads[j] else state.rates[::-1]
                found[i, j], found[j, i] = 100.0 * (1.0 / first - 1.0), 100.0 * (1.0 / second - 1.0)
        return found


def _varied(vector: Vector, factors: Mapping[str, float]) -> Vector:
    changed = {
        name: getattr(vector, name) * factor for name, factor in factors.items() if name in Vector.__struct_fields__
    }
    if "cpu_fraction" in changed:
        changed["cpu_fraction"] = min(1.0, changed["cpu_fraction"])
    return msgspec.structs.replace(vector, **changed)


@dataclass(frozen=True)
class Measured:
    """An operator's measurements of the programs: times and counters alone, and degradations in co-runs, with noise."""

    times_s: Floats
    counters: tuple[Mapping[str, float], ...]
    degradations: Floats  # percent, ordered pairs


def measure(bench: Bench, seed: int) -> Measured:
    """Solo runs and co-runs of all programs; deviation between runs as the paper has it (0.2 to 4.5 %)."""
    rng, error = stream(seed, "measured"), bench.factor("error")
    own = error * np.array([vector.noise for vector in bench.vectors]) / np.sqrt(RUNS)
    count = len(own)
    times = bench.times_s * np.exp(own * rng.standard_normal(count))
    counters = tuple(measured(vector, bench.machine, rng, error) for vector in bench.vectors)
    beside = bench.times_s[:, None] * (1.0 + bench.degradations / 100.0)
    beside = beside * np.exp(own[:, None] * rng.standard_normal((count, count)))
    return Measured(times, counters, 100.0 * (beside / times[:, None] - 1.0))


def profiles(bench: Bench, known: Measured) -> tuple[Profile, ...]:
    """Return the measurements as profiles of the scheduler."""
    found = []
    for name, time_s, counters in zip(bench.names, known.times_s.tolist(), known.counters, strict=True):
        program: Program = msgspec.structs.replace(bench.programs[name], counters=dict(counters))
        one = profile_of(program, bench.machine.node)
        scale = one.at_scale(1)
        assert scale is not None
        found.append(one.with_scale(msgspec.structs.replace(scale, time_s=time_s)))
    return tuple(found)


def queue_of(bench: Bench, places: Ints) -> Workload:
    """Jobs of these programs, all there from the beginning, in this order."""
    run_us = np.rint(bench.times_s[places] * SECOND).astype(np.int64)
    return synthetic_workload(
        np.zeros(len(places), np.int64),
        run_us,
        run_us,
        np.full(len(places), bench.machine.node.cores, np.int64),
        nodes=1,
        source="a queue of programs",
        program=places.astype(np.int32),
        program_names=bench.names,
    )


@dataclass(frozen=True)
class Outcome:
    """One queue under one policy."""

    makespan_s: float
    turnaround_s: Floats
    together: int  # pairs that began in the same instant
    slowed_pct: float  # by how much the slower of each of them truly slows, on average; 0 without pairs
    finished: bool


@dataclass(frozen=True)
class Policy:
    """A bundle by name; if it uses degradations, how it knows them, its threshold, whether jobs join others."""

    bundle: str
    degradations: Degradations | None = None
    threshold_pct: float = 100.0
    refill: bool = False
    keys: tuple[tuple[str, Any], ...] = ()  # further keys of [policy]


def run_queue(bench: Bench, places: Ints, policy: Policy, told: Sequence[Profile]) -> Outcome:
    """The scheduler with this policy in the simulated world."""
    node = bench.machine.node
    scenario = Scenario(
        seed=1,
        cluster=ClusterConfig(
            nodes=1,
            cores=node.cores,
            ways=node.ways,
            bandwidth_gbs={str(cores): gbs for cores, gbs in node.bandwidth_gbs},
        ),
        jobs=JobsConfig(generator="mix"),
        policy=PolicyConfig(name=policy.bundle, threshold_pct=policy.threshold_pct, **dict(policy.keys)),
        world=WorldConfig(
            kill=False, contention="none" if bench.world == FREE else bench.contention, q=bench.constants.law.q
        ),
    )
    policies = by_name.build(scenario.policy)
    if policy.degradations is not None:
        options = PlacementOptions(
            pairing=policies.names["pairing"],
            degradations=policy.degradations,
            threshold_pct=policy.threshold_pct,
            refill=policy.refill,
        )
        policies = replace(policies, placer=make_placement("pair", options))
    prepared = simulation.prepare(scenario, queue_of(bench, places), policies)
    known = () if policies.placer.exclusive else tuple(told)
    table, _ = simulation.run(replace(prepared, programs=bench.programs, profiles=known, constants=bench.constants))
    begun = [np.flatnonzero(table.start_us == at) for at in np.unique(table.start_us)]
    pairs = [places[rows] for rows in begun if len(rows) == 2]
    slowed = [max(bench.degradations[one, other], bench.degradations[other, one]) for one, other in pairs]
    return Outcome(
        float(table.end_us.max() - table.start_us.min()) / SECOND,
        table.end_us / SECOND,
        len(pairs),
        float(np.mean(slowed)) if slowed else 0.0,
        bool((table.status == DONE).all()),
    )


@cache
def bench_of(bench: Bench) -> Bench:
    """The same object for equal ones, so that programs and degradations are computed once in a process."""
    return bench
