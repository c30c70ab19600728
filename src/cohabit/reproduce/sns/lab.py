"""The simulated test bed of Spread-n-Share: its programs, its eight nodes, and one workload under one strategy.

Everything an experiment may vary is a `Conditions`; what it does not vary is as calibrated. Nothing here judges.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.app.scenario.programs import known_profiles
from cohabit.app.scenario.tables import ClusterConfig, JobsConfig, PolicyConfig, ProgramsConfig, Scenario, WorldConfig
from cohabit.app.simulate import simulation
from cohabit.app.simulate.simulation import Observer
from cohabit.model.cluster import NodeGroup
from cohabit.model.curve import Curve
from cohabit.model.profile import Profile
from cohabit.model.program import Program, ScaleTruth
from cohabit.model.records import DONE, RunTable
from cohabit.model.units import SECOND
from cohabit.model.workload import Workload
from cohabit.reproduce.sns.hidden import hidden_programs
from cohabit.sim.machine.constants import CONSTANTS, Constants
from cohabit.sim.machine.recorder import BandwidthRecorder
from cohabit.trace.programs import Programs, catalogue

CATALOGUE, HIDDEN = "catalogue", "hidden"
NODES = 8  # S42
PROFILE_ERROR = 0.05  # of every number of a profile where profile error is on: the level of S19
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Conditions:
    """The world and the parameters of one run; factors multiply what is calibrated."""

    contention: str = "share"
    phases: bool = False
    profile_noise: float = 0.0
    factors: tuple[tuple[str, float], ...] = ()  # assumed parameters varied, by name; see sensitivity.py
    policy: tuple[tuple[str, Any], ...] = ()  # keys of [policy] beside the bundle
    progress_s: float = 0.0  # period in which the speed of jobs is measured; 0: never


PLAIN = Conditions()
ROUGH = Conditions(phases=True, profile_noise=PROFILE_ERROR)


@dataclass(frozen=True)
class Strategy:
    """A bundle with keys of [policy] of its own, under the name its results have."""

    name: str
    bundle: str
    keys: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True)
class Bench:
    """The programs of an experiment."""

    kind: str = CATALOGUE
    seed: int = 0  # of hidden programs
    processes: int = 0  # the number their profiles are taken to be for; 0: the one they state

    @property
    def programs(self) -> Programs:
        """The programs, with their machine."""
        return _programs(self.kind, self.seed, self.processes)

    @property
    def node(self) -> NodeGroup:
        """One node of the test bed."""
        return _machine_node()


@cache
def _programs(kind: str, seed: int, processes: int) -> Programs:
    known = catalogue("sns12")
    programs = dict(known.programs) if kind == CATALOGUE else hidden_programs(seed)
    if processes:
        programs = {name: msgspec.structs.replace(one, processes=processes) for name, one in programs.items()}
    found = Programs(programs)
    found.machine = known.machine
    return found


@cache
def _machine_node() -> NodeGroup:
    return catalogue("sns12").machine.node


@dataclass(frozen=True)
class Times:
    """The results of the jobs of one workload, row by row, in seconds."""

    wait_s: Floats
    run_s: Floats
    turnaround_s: Floats
    scale: NDArray[np.int32]
    finished: bool  # every job ran to its end


def times_of(table: RunTable) -> Times:
    """The times of a run; a job that did not finish is reported as an error of the experiment."""
    submit, start, end = table.workload.submit_us, table.start_us, table.end_us
    return Times(
        (start - submit) / SECOND,
        (end - start) / SECOND,
        (end - submit) / SECOND,
        table.scale,
        bool((table.status == DONE).all()),
    )


def simulate(
    bench: Bench,
    policy: str | Strategy,
    workload: Workload,
    conditions: Conditions = PLAIN,
    *,
    seed: int,
    nodes: int = NODES,
    recorder: BandwidthRecorder | None = None,
    profiles: tuple[Profile, ...] | None = None,
    observe: Observer | None = None,
    record_nodes: bool = False,
) -> RunTable:
    """Simulate one workload under one strategy; `profiles`: the scheduler's, if not the programs' own."""
    factors = dict(conditions.factors)
    programs = varied_programs(bench, conditions.factors)
    node = bench.node
    noise = conditions.profile_noise * factors.get("profile_noise", 1.0)
    scenario = Scenario(
        seed=seed,
        cluster=ClusterConfig(
            nodes=nodes,
            cores=node.cores,
            ways=node.ways,
            min_ways=node.min_ways,
            closids=node.closids,
            bandwidth_gbs={str(cores): gbs for cores, gbs in node.bandwidth_gbs},
        ),
        programs=ProgramsConfig(profiles="known" if profiles is None else "none"),
        jobs=JobsConfig(generator="mix"),
        policy=_policy(policy, conditions, factors),
        world=WorldConfig(
            kill=False,
            contention=conditions.contention,
            q=CONSTANTS.law.q * factors.get("q", 1.0),
            profile_noise=noise,
            phases=conditions.phases,
            progress_s=conditions.progress_s,
        ),
    )
    prepared = simulation.prepare(scenario, workload)
    told = tuple(known_profiles(scenario, programs, prepared.cluster)) if profiles is None else profiles
    prepared = replace(
        prepared,
        programs=programs,
        profiles=() if prepared.policies.placer.exclusive else told,
        constants=varied_constants(conditions.factors),
    )
    table, _ = simulation.run(prepared, record_nodes=record_nodes, recorder=recorder, observe=observe)
    return table


def _policy(policy: str | Strategy, conditions: Conditions, factors: dict[str, float]) -> PolicyConfig:
    strategy = policy if isinstance(policy, Strategy) else Strategy(policy, policy)
    keys = dict(conditions.policy) | dict(strategy.keys)
    if "age_limit_runs" in factors and strategy.bundle != "ce-easy":
        keys["age_limit_runs"] = 4.0 * factors["age_limit_runs"]
    return PolicyConfig(name=strategy.bundle, **keys)


@cache
def varied_constants(factors: tuple[tuple[str, float], ...]) -> Constants:
    """The frozen constants with some of them multiplied."""
    law, phases, profiler = CONSTANTS.law, CONSTANTS.phases, CONSTANTS.profiler
    for name, factor in factors:
        if name in ("latency_slope", "latency_knee"):
            law = msgspec.structs.replace(law, **{name: getattr(law, name) * factor})
        elif name == "phase_amplitude":
            phases = msgspec.structs.replace(
                phases,
                bandwidth_amplitude=phases.bandwidth_amplitude * factor,
                sensitivity_amplitude=phases.sensitivity_amplitude * factor,
            )
        elif name == "curve_run_cost":
            profiler = msgspec.structs.replace(profiler, curve_run_cost=1 + (profiler.curve_run_cost - 1) * factor)
    return msgspec.structs.replace(CONSTANTS, law=law, phases=phases, profiler=profiler)


def varied_programs(bench: Bench, factors: tuple[tuple[str, float], ...]) -> Programs:
    """The programs with their assumed parameters multiplied: mu of all, or the exponent of ways at a scale."""
    return _varied_programs(bench, tuple(one for one in factors if one[0] in ("mu", "ways_exponent")))


@cache
def _varied_programs(bench: Bench, factors: tuple[tuple[str, float], ...]) -> Programs:
    programs = bench.programs
    for name, factor in factors:
        changed = {}
        for key, program in programs.items():
            if name == "mu":
                changed[key] = msgspec.structs.replace(program, mu=min(1.0, program.mu * factor))
            else:
                changed[key] = _with_exponent(program, 0.7 * factor, bench.node.ways)
        machine = programs.machine
        programs = Programs(changed)
        programs.machine = machine
    return programs


def _with_exponent(program: Program, exponent: float, ways: int) -> Program:
    """The same program where w ways at scale k act as w * k^exponent; the curves of scale 1 decide."""
    points = tuple(range(1, ways + 1))
    stated = {}
    for scale in program.scales:
        own = program.per_scale.get(scale, ScaleTruth())
        effective = [min(float(ways), one * scale**exponent) for one in points]
        full = program.bandwidth_at(scale, ways, ways)  # what is known with all ways stays
        base = program.bandwidth_gbs.at(ways)
        stated[scale] = ScaleTruth(
            ipc=Curve(points, tuple(program.ipc.at(one) / program.ipc.at(ways) for one in effective)),
            bandwidth_gbs=Curve(points, tuple(full * program.bandwidth_gbs.at(one) / base for one in effective)),
            time_s=own.time_s,
        )
    return msgspec.structs.replace(program, per_scale=stated)
