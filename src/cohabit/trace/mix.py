"""Mixes of named programs: which program each job runs, on how many processes, submitted at once or over time.

The run time is normally left to the program catalogue (`run_us` = -1), because a mix exists to study how
programs share machines; a lognormal run time can be asked for instead. Such a mix is written as jobs.csv.

Sequences with a given scaling ratio (`generate_sequence`, `ratio_mix`) and traces whose jobs are given programs
(`label_with_programs`) need the programs themselves, and know every run time.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cohabit.model.cluster import NodeGroup
from cohabit.model.errors import InputError
from cohabit.model.profile import SCALING, classify
from cohabit.model.program import Program, profile_of
from cohabit.model.units import SECOND
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.trace.poisson import lognormal_run_times
from cohabit.trace.program_checks import Programs
from cohabit.trace.records import RUN_FROM_CATALOGUE_US
from cohabit.trace.synthetic import check_counts, request_times, synthetic_workload

LIMIT_FACTOR = 4.0  # requested time over exclusive run time: sharing must not get a job killed
MOST_DRAWS = 10_000


def generate_mix(
    rng: np.random.Generator,
    jobs: int,
    programs: Mapping[str, float],
    processes: Sequence[int],
    *,
    nodes: int = 0,
    mean_gap_s: float = 0.0,
    median_run_s: float | None = None,
    sigma: float = 0.5,
    longest_run_s: int = 172_800,
    requests: str = "exact",
    alpha: float | None = None,
) -> Workload:
    """Generate `jobs` jobs whose programs are drawn by weight and whose processes are drawn evenly from the choices.

    A `mean_gap_s` of 0 submits everything at 0, else arrivals are Poisson on whole seconds; `nodes` only
    states the machine in the result.
    """
    check_counts(jobs, max(nodes, 1), None)
    weights = np.array(list(programs.values()), np.float64)
    if not programs or not bool((weights >= 0).all()) or not 0 < weights.sum() < np.inf:
        raise InputError("a mix needs programs with weights that are not negative nor all 0", "programs")
    if not processes or min(processes) < 1:
        raise InputError("a mix needs numbers of processes of at least 1", "processes", "give for example 16,28")
    if mean_gap_s < 0:
        raise InputError("the mean gap between jobs cannot be negative", "mean_gap_s", "0 submits all at once")
    if alpha is not None and not 0 < alpha <= 1:
        raise InputError(f"alpha {alpha} is not above 0 and at most 1", "alpha", "0.9 tolerates a slowdown of 10 %")
    program = rng.choice(len(weights), jobs, p=weights / weights.sum()).astype(np.int32)
    chosen = rng.choice(np.array(processes, np.int64), jobs)
    submit_s = np.zeros(jobs)
    if mean_gap_s:
        submit_s[1:] = np.cumsum(rng.exponential(mean_gap_s, jobs - 1))
    run_us = np.full(jobs, RUN_FROM_CATALOGUE_US, np.int64)
    limit_us = run_us.copy()
    if median_run_s is not None:
        run_us = lognormal_run_times(rng, jobs, median_run_s, sigma, longest_run_s) * SECOND
        limit_us = request_times(rng, run_us, requests)
    return synthetic_workload(
        np.rint(submit_s).astype(np.int64) * SECOND,
        run_us,
        limit_us,
        chosen,
        nodes=nodes,
        source=f"mix of {', '.join(programs)}",
        program=program,
        program_names=tuple(programs),
        extra={} if alpha is None else {"alpha": np.full(jobs, alpha)},
    )


def generate_sequence(
    rng: np.random.Generator,
    programs: Mapping[str, Program],
    jobs: int = 20,
    processes: Sequence[int] = (16, 28),
    ratio: tuple[float, float] | None = (0.4, 0.8),
    *,
    node: NodeGroup | None = None,
    nodes: int = 0,
    alpha: float | None = None,
) -> Workload:
    """Generate jobs of programs drawn evenly, all submitted at 0, with a scaling ratio inside `ratio` (S53, S66).

    The whole sequence is drawn again until its ratio fits; None takes the first. A program that needs a power of two
    of processes runs with the first of `processes` that is one. Run times are the exclusive ones at scale 1 on `node`,
    which a catalogue brings along.
    """
    check_counts(jobs, max(nodes, 1), None)
    names, machine = _named(programs), machine_for(programs, node)
    if not processes or min(processes) < 1:
        raise InputError("a mix needs numbers of processes of at least 1", "processes", "give for example 16,28")
    powers = [index for index, count in enumerate(processes) if count & (count - 1) == 0]
    fussy = [name for name in names if programs[name].power_of_two_only]
    if fussy and not powers:
        raise InputError(f"{fussy[0]} needs a power of two of processes", "processes", "add one, such as 16")
    if ratio is not None and not 0 <= ratio[0] <= ratio[1] <= 1:
        raise InputError(
            f"a scaling ratio from {ratio[0]} to {ratio[1]} is impossible", "ratio", "give 0 <= low <= high <= 1"
        )
    wanted = "0 to 1" if ratio is None else f"{ratio[0]} to {ratio[1]}"
    needs = np.array([programs[name].power_of_two_only for name in names])
    gains = np.array([is_scaling(programs[name], machine) for name in names])
    choices = np.array(processes, np.int64)
    hours = np.array([[one.exclusive_time_s(int(p), machine) * p for p in choices] for one in programs.values()])
    for _ in range(MOST_DRAWS):
        program, choice = rng.integers(0, len(names), jobs), rng.integers(0, len(choices), jobs)
        choice = np.where(needs[program], powers[0] if powers else 0, choice)
        work = hours[program, choice]
        if ratio is None or ratio[0] <= work[gains[program]].sum() / work.sum() <= ratio[1]:
            return _sequence(program.astype(np.int32), choices[choice], names, programs, machine, nodes, alpha)
    raise InputError(
        f"{MOST_DRAWS:,} draws of {jobs} jobs gave no scaling ratio from {wanted}",
        "ratio",
        "widen the range or ask for more jobs",
    )


def ratio_mix(
    rng: np.random.Generator,
    programs: Mapping[str, Program],
    ratio: float,
    *,
    node: NodeGroup | None = None,
    scaling: str = "BW",
    other: str = "HC",
    jobs: int = 30,
    processes: int = 28,
) -> Workload:
    """Jobs of two programs, `ratio` of them (to the nearest job) of the scaling one, shuffled, all at 0 (S60)."""
    check_counts(jobs, 1, None)
    for name in (scaling, other):
        if name not in programs:
            raise InputError(f"there is no program called {name!r}", "programs", f"known: {', '.join(programs)}")
    if not 0 <= ratio <= 1:
        raise InputError(f"a share of {ratio} of the jobs is impossible", "ratio", "give a number from 0 to 1")
    program = np.zeros(jobs, np.int32)
    program[round(ratio * jobs) :] = 1
    rng.shuffle(program)
    counts = np.full(jobs, processes, np.int64)
    return _sequence(program, counts, [scaling, other], programs, machine_for(programs, node))


def label_with_programs(
    workload: Workload,
    programs: Mapping[str, Program],
    ratio: float,
    rng: np.random.Generator,
    *,
    node: NodeGroup | None = None,
) -> Workload:
    """Give each job a program: a scaling one with probability `ratio`, even within the group (S61).

    A trace's run time stays and counts as the exclusive run time at scale 1; only what a program does when it is spread
    or shares comes from the catalogue. One draw per row, so a longer trace begins with the same programs.
    """
    if not 0 <= ratio <= 1:
        raise InputError(f"a share of {ratio} of the jobs is impossible", "ratio", "give a number from 0 to 1")
    names, machine = _named(programs), machine_for(programs, node)
    gains = np.array([is_scaling(programs[name], machine) for name in names])
    for wanted, group, kind in ((ratio, gains, "scaling"), (1 - ratio, ~gains, "other")):
        if wanted > 0 and not group.any():
            raise InputError(f"there are no {kind} programs to give to jobs", "programs", f"known: {', '.join(names)}")
    draws = rng.random((len(workload), 2))
    program = np.empty(len(workload), np.int32)
    scaling = draws[:, 0] < ratio
    for chosen, group in ((scaling, gains), (~scaling, ~gains)):
        members = np.flatnonzero(group)
        if chosen.any():
            program[chosen] = members[(draws[chosen, 1] * len(members)).astype(np.int64)]
    return dataclasses.replace(workload, program=program, program_names=tuple(names))


def is_scaling(program: Program, node: NodeGroup) -> bool:
    """Return whether a perfect profile of the program on such nodes is classified as scaling (S19)."""
    return classify(profile_of(program, node)).kind == SCALING


def scaling_ratio(workload: Workload, programs: Mapping[str, Program], node: NodeGroup | None = None) -> float:
    """Return core-hours of jobs of scaling programs over those of all jobs, run exclusively at scale 1 (S66).

    The cores of a job are its processes; a job that cannot run, or whose program is not known, does not count.
    """
    machine = machine_for(programs, node)
    known = [name in programs and is_scaling(programs[name], machine) for name in workload.program_names]
    gains = np.array([*known, False])
    counted = (workload.rejection == ACCEPTED) & (workload.program >= 0) & (workload.run_us > 0)
    work = np.where(counted, workload.processes * (workload.run_us / SECOND), 0.0)
    total = float(work.sum())
    return float(work[gains[workload.program]].sum()) / total if total else 0.0


def machine_for(programs: Mapping[str, Program], node: NodeGroup | None) -> NodeGroup:
    """Return the node the run times are for: as given, else the one stated beside the programs."""
    if node is not None:
        return node
    if isinstance(programs, Programs) and programs.machine is not None:
        return programs.machine.node
    raise InputError("the programs do not say for which machine", "node", "say how many cores and ways a node has")


def _named(programs: Mapping[str, Program]) -> list[str]:
    if not programs:
        raise InputError("a mix needs programs", "programs", "give a catalogue or a file of programs")
    return list(programs)


def _sequence(
    program: NDArray[np.int32],
    processes: NDArray[np.int64],
    names: Sequence[str],
    programs: Mapping[str, Program],
    node: NodeGroup,
    nodes: int = 0,
    alpha: float | None = None,
) -> Workload:
    if alpha is not None and not 0 < alpha <= 1:
        raise InputError(f"alpha {alpha} is not above 0 and at most 1", "alpha", "0.9 tolerates a slowdown of 10 %")
    times = {
        (code, count): programs[names[code]].exclusive_time_s(count, node)
        for code, count in {(int(code), int(count)) for code, count in zip(program, processes, strict=True)}
    }
    run_s = np.array([times[int(code), int(count)] for code, count in zip(program, processes, strict=True)])
    run_us = np.rint(run_s * SECOND).astype(np.int64)
    limit_us = np.rint(np.ceil(run_s * LIMIT_FACTOR) * SECOND).astype(np.int64)
    return synthetic_workload(
        np.zeros(len(run_us), np.int64),
        run_us,
        limit_us,
        processes,
        nodes=nodes,
        program=program,
        program_names=tuple(names),
        source=f"sequence of {len(run_us)} jobs of {', '.join(names)}",
        extra={} if alpha is None else {"alpha": np.full(len(run_us), alpha)},
    )
