"""The programs of a scenario: their true behaviour (for the world) and the scheduler's knowledge (profiles)."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from cohabit.app.scenario.tables import ProgramsConfig, Scenario
from cohabit.core.protocols import CoRunLearner, PolicySet
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError, unknown
from cohabit.model.profile import KnownCoRun, Profile
from cohabit.model.program import Program, profile_of
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.sim.machine.profiler import noisy_profile
from cohabit.sim.streams import stream
from cohabit.trace.programs import Programs, catalogue, check_ways, read_curves, read_programs

RUN_FROM_CATALOGUE = -1


def load_programs(config: ProgramsConfig, cluster: Cluster) -> Programs:
    """Read the programs and check them against the machine; none if the scenario names none."""
    if config.catalogue:
        programs, where = catalogue(config.catalogue).programs, f"catalogue {config.catalogue}"
    elif config.file:
        programs, where = read_programs(Path(config.file)), config.file
    elif config.curves:
        programs, where = read_curves(Path(config.curves)), config.curves
    else:
        return Programs({})
    for group in cluster.groups:
        check_ways(programs, group.ways, where)
    return programs


def known_profiles(scenario: Scenario, programs: Programs, cluster: Cluster) -> list[Profile]:
    """Return what the scheduler knows beforehand: exclusive runs of every program, with the scenario's error."""
    if scenario.programs.profiles == "none":
        return []
    exact = [profile_of(program, cluster.groups[0]) for program in programs.values()]
    if scenario.world.profile_noise <= 0:
        return exact
    rng = stream(scenario.seed, "profile noise")
    return [noisy_profile(profile, scenario.world.profile_noise, rng) for profile in exact]


def names_in(workload: Workload, rows: NDArray[np.int64]) -> list[str]:
    """Return the programs these jobs run, in order of appearance; "" for jobs that name none."""
    programs = workload.program[rows]
    same = bool((programs == programs[:1]).all())  # the common case: no job names a program
    numbers = dict.fromkeys(programs[:1].tolist() if same else programs.tolist())
    return [workload.program_names[number] if number >= 0 else "" for number in numbers]


def with_run_times(workload: Workload, programs: Programs, node: NodeGroup) -> Workload:
    """Give jobs without a run time that of their program's compact exclusive run with that many processes."""
    open_rows = np.flatnonzero((workload.run_us == RUN_FROM_CATALOGUE) & (workload.rejection == ACCEPTED))
    if not len(open_rows):
        return workload
    run_us, limit_us = workload.run_us.copy(), workload.limit_us.copy()
    for row in open_rows.tolist():
        program = _program_of(workload, row, programs)
        run_us[row] = round(program.exclusive_time_s(int(workload.processes[row]), node) * 1e6)
        if limit_us[row] <= 0:
            limit_us[row] = run_us[row]
    return replace(workload, run_us=run_us, limit_us=limit_us)


def _program_of(workload: Workload, row: int, programs: Programs) -> Program:
    number = int(workload.program[row])
    name = workload.program_names[number] if number >= 0 else ""
    if not programs:
        raise InputError(
            f"job {workload.job_id[row]} states no run time (run_s) and the scenario names no programs",
            workload.source,
            "add run_s, or [programs] with a catalogue or a file",
        )
    if name not in programs:
        error = unknown("program", name, programs)
        what = f"job {workload.job_id[row]} states no run time and {error.what}"
        raise InputError(what, workload.source, f"add run_s, or {error.fix}")
    return programs[name]


def known_co_runs(store: str, policies: PolicySet) -> tuple[KnownCoRun, ...]:
    """Return the co-runs of a profile store that the placement begins with; refuse one that learns nothing."""
    if not store:
        return ()
    if not (isinstance(policies.placer, CoRunLearner) and policies.placer.learns):
        what = "nothing is learned from co-runs: the policy has no model that learns (policy.model)"
        raise InputError(what, "programs.co_runs", "name a model of `cohabit train degradation`, or leave it out")
    from cohabit.store.co_runs import summaries
    from cohabit.store.profiles import open_store

    with open_store(store, create=False) as opened:
        found = summaries(opened.co_runs())
    if not found:
        raise InputError("has no runs beside others", store, "see docs/colocation.md, or leave it out")
    return found
