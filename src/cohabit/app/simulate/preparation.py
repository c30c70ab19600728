"""Load and check a scenario: jobs, machine, policies, and which jobs cannot run. Nothing runs here."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from cohabit.app.scenario import policies as policy_names
from cohabit.app.scenario.limits import bounds_of
from cohabit.app.scenario.programs import known_co_runs, known_profiles, load_programs, names_in, with_run_times
from cohabit.app.scenario.reading import cluster_of
from cohabit.app.scenario.tables import Scenario
from cohabit.app.scenario.workloads import load_workload, machine_size
from cohabit.core.protocols import PolicySet
from cohabit.model.cluster import Cluster
from cohabit.model.errors import InputError
from cohabit.model.profile import KnownCoRun, Profile
from cohabit.model.workload import ACCEPTED, NEVER_FREE, REJECTIONS, TOO_LARGE, Workload
from cohabit.sim.machine.constants import CONSTANTS, Constants
from cohabit.trace.programs import Programs


@dataclass(frozen=True)
class Prepared:
    """A scenario with everything loaded and checked, ready to run."""

    scenario: Scenario
    workload: Workload
    cluster: Cluster
    policies: PolicySet
    rows: NDArray[np.int64]  # workload rows that can run, in order of submission
    nodes: NDArray[np.int64]  # nodes each of those asks for
    rejection: NDArray[np.int8]  # per workload row
    notes: tuple[str, ...] = field(default=())
    programs: Programs = field(default_factory=lambda: Programs({}))  # the true behaviour, for the world only
    profiles: tuple[Profile, ...] = ()  # what the scheduler is told of them
    co_runs: tuple[KnownCoRun, ...] = ()  # and of runs beside others
    constants: Constants = CONSTANTS  # of the world; changed only to study sensitivity


def prepare(scenario: Scenario, workload: Workload | None = None, policies: PolicySet | None = None) -> Prepared:
    """Load the jobs, build the machine and the policies, and refuse what cannot run."""
    if policies is None:
        policies = policy_names.build(
            scenario.policy, scenario.cluster.sharing, scenario.cluster.oversubscribe is not False
        )
    policies = replace(policies, bounds=bounds_of(scenario.limit, policies)) if scenario.limit else policies
    workload = load_workload(scenario) if workload is None else workload
    cluster = cluster_of(scenario.cluster, machine_size(scenario, workload))
    programs = load_programs(scenario.programs, cluster)
    workload = with_run_times(workload, programs, cluster.groups[0])
    largest = max(group.cores for group in cluster.groups)  # the core checks the fit to a job's own kinds of nodes
    needed = -(-workload.processes // largest)
    rejection = workload.rejection.copy()
    rejection[(rejection == ACCEPTED) & (needed > cluster.nodes)] = TOO_LARGE
    _reject_followers(workload, rejection)
    accepted = rejection == ACCEPTED
    if not accepted.any():
        too_large = bool((rejection == TOO_LARGE).any())
        smallest = f" (the smallest asks for {int(needed[needed > 0].min())})" if too_large else ""
        machine = f"{cluster.nodes} node{'s' if cluster.nodes > 1 else ''}"
        what = f"none of the {len(workload)} jobs can run on {machine}{smallest}"
        raise InputError(what, workload.source, "give a larger machine" if too_large else "check the file")
    order = workload.order()
    rows = order[accepted[order]]
    notes = _notes(scenario, workload, rejection) + ((programs.warning,) if programs.warning else ())
    profiles = () if policies.placer.exclusive else tuple(known_profiles(scenario, programs, cluster))
    if scenario.cluster.sharing != "exclusive":  # the switch back to CE leaves the keys of sharing unchanged
        notes += tuple(policy_names.without_effect(scenario.policy, policies.names, scenario.world.progress_s > 0))
        notes += tuple(policy_names.nothing_known(scenario, policies, names_in(workload, rows), profiles))
    co_runs = known_co_runs(scenario.programs.co_runs, policies)
    return Prepared(
        scenario, workload, cluster, policies, rows, needed[rows], rejection, notes, programs, profiles, co_runs
    )


def _reject_followers(workload: Workload, rejection: NDArray[np.int8]) -> None:
    """Reject jobs that wait for a rejected job."""
    if workload.after is None:
        return
    rows = {str(name): row for row, name in enumerate(workload.job_id)}
    changed = True
    while changed:
        changed = False
        for row, names in enumerate(workload.after):
            if rejection[row] == ACCEPTED and any(rejection[rows[name]] != ACCEPTED for name in names if name in rows):
                rejection[row], changed = NEVER_FREE, True


def public(text: str, prepared: Prepared) -> str:
    """Return a sentence of the core with the trace's job ids instead of its own numbers."""
    ids = prepared.workload.job_id[prepared.rows]
    return re.sub(r"\bjob (\d+)\b", lambda found: f"job {ids[int(found[1])]}", text)


def _notes(scenario: Scenario, workload: Workload, rejection: NDArray[np.int8]) -> tuple[str, ...]:
    notes = [f"{count:,} {what}" for what, count in workload.defects.items()]
    simulated = workload.max_nodes * scenario.cluster.cores
    if not scenario.cluster.nodes and workload.max_procs > simulated > 0:
        each = workload.max_procs // workload.max_nodes
        notes.append(
            f"the header says {workload.max_nodes} nodes and {workload.max_procs} processors: simulating "
            f"{workload.max_nodes} nodes of {scenario.cluster.cores} core(s); for the whole machine give "
            f"--nodes {workload.max_procs}, or --cores {each}"
        )
    for code, why in REJECTIONS.items():
        if count := int((rejection == code).sum()):
            notes.append(f"{count:,} job{'s' if count > 1 else ''} rejected: {why}")
    return tuple(notes)
