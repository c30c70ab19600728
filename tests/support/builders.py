"""Small clusters, jobs, policies and traces in one call each, for tests. Arguments in seconds, values in microseconds.

A test should read as `core.step(10 * SECOND, [submitted("a", nodes=2)]) == [StartJob("a", 1, ((0, 2),), ...)]`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from cohabit.app.scenario import policies as policy_names
from cohabit.app.scenario.tables import ClusterConfig, FaultsConfig, JobsConfig, PolicyConfig, Scenario, WorldConfig
from cohabit.app.simulate.simulation import Prepared, prepare
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import PolicySet, SharedPlacer
from cohabit.model.cluster import Cluster, uniform_cluster
from cohabit.model.event import JobSubmitted
from cohabit.model.job import Job
from cohabit.model.profile import Profile
from cohabit.model.units import microseconds
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.policy.gate.variability import RandomJudge, VariabilityGate
from tests.support.clusters import SHARED
from tests.support.programs import PROFILES


class TraceRow(NamedTuple):
    """One job of a trace, in microseconds."""

    submit_us: int
    run_us: int
    limit_us: int
    size: int
    user: int = -1


class Choice(NamedTuple):
    """A choice of policies: the names as given on the command line."""

    order: str = "fcfs"
    backfill: str = "easy"
    backfill_order: str | None = None
    placement: str = "exclusive"
    age_limit_s: float = 0.0  # first-fit only; 0: none
    moves: int = 0  # shepherd only
    skip_rate: float = 0.0  # a gate that delays at random this often; 0: no gate
    partition: str | None = None  # how the cache is divided; None: as usual for the placement

    def config(self) -> PolicyConfig:
        """The same as a [policy] section."""
        return PolicyConfig(
            order=self.order,
            backfill=self.backfill,
            backfill_order=self.backfill_order,
            placement=self.placement,
            age_limit_s=self.age_limit_s or None,
            moves=self.moves,
            partition=self.partition,
        )


@cache
def policies(
    order: str = "fcfs",
    backfill: str = "easy",
    backfill_order: str | None = None,
    placement: str = "exclusive",
    age_limit_s: float = 0.0,
    moves: int = 0,
    skip_rate: float = 0.0,
    partition: str | None = None,
) -> PolicySet:
    """Policies by name; built once, since compiling an order takes a moment."""
    chosen = Choice(order, str(backfill), backfill_order, placement, age_limit_s, moves, partition=partition)
    built = policy_names.build(chosen.config())
    gates = (VariabilityGate(RandomJudge(skip_rate, seed=1), skip_threshold=3),) if skip_rate > 0 else ()
    return replace(built, gates=gates)


def scheduler(
    machine: int | Cluster = 4,
    order: str = "fcfs",
    backfill: str | int = "easy",
    backfill_order: str | None = None,
    readable: bool = False,
) -> SchedulerCore:
    """A core on a machine of so many equal nodes, or on the cluster given."""
    cluster = uniform_cluster(machine) if isinstance(machine, int) else machine
    return SchedulerCore(cluster, policies(order, str(backfill), backfill_order), readable)


def sharing_scheduler(
    cluster: Cluster = SHARED,
    placement: str = "spread",
    profiles: Sequence[Profile] = PROFILES,
    backfill: str = "first-fit",
    age_limit_s: float = 0.0,
    placer: SharedPlacer | None = None,
) -> SchedulerCore:
    """A core whose jobs share nodes; `placer` in place of the one of that name."""
    chosen = policies("age", backfill, None, placement, age_limit_s)
    return SchedulerCore(cluster, replace(chosen, placer=placer) if placer else chosen, profiles=profiles)


def job(job_id: str, nodes: int = 1, limit_s: float = 100.0, **asked: Any) -> Job:
    """A job that asks for whole nodes, or for `processes` if those are given."""
    if "processes" in asked:
        nodes = 0
    return Job(job_id, microseconds(limit_s), nodes=nodes, **asked)


def submitted(job_id: str, nodes: int = 1, limit_s: float = 100.0, **asked: Any) -> JobSubmitted:
    """Return the event of the submission of such a job."""
    return JobSubmitted(job(job_id, nodes, limit_s, **asked))


def workload_of(rows: Sequence[TraceRow]) -> Workload:
    """A trace in memory, in the order given (its "file order"), with jobs numbered from 1."""
    columns = np.array([tuple(row) for row in rows], np.int64).reshape(-1, 5).T
    users = int(columns[4].max(initial=-1)) + 1
    return Workload(
        job_id=np.arange(1, len(rows) + 1),
        submit_us=columns[0].copy(),
        run_us=columns[1].copy(),
        limit_us=columns[2].copy(),
        processes=columns[3].copy(),
        user=columns[4].astype(np.int32),
        program=np.full(len(rows), -1, np.int32),
        rejection=np.full(len(rows), ACCEPTED, np.int8),
        user_names=[f"user{number}" for number in range(users)],
        source="rows in memory",
    )


def prepared_trace(
    rows: Sequence[TraceRow],
    nodes: int,
    choice: Choice | None = None,
    *,
    kill: bool = True,
    seed: int = 1,
    faults: FaultsConfig | None = None,
    cluster: ClusterConfig | None = None,
) -> Prepared:
    """A trace in memory, ready for `app.simulation.run`."""
    scenario = Scenario(
        seed=seed,
        cluster=cluster or ClusterConfig(nodes=nodes),
        jobs=JobsConfig(trace="rows in memory"),
        policy=(choice or Choice()).config(),
        world=WorldConfig(kill=kill),
        faults=faults or FaultsConfig(),
    )
    return prepare(scenario, workload_of(rows))


def swf_text(rows: Sequence[TraceRow], nodes: int) -> str:
    """The trace as a Standard Workload Format file in whole seconds; a request of 0 cannot be written in it."""
    lines = [f"; MaxNodes: {nodes}", f"; MaxProcs: {nodes}"]
    for number, row in enumerate(rows, 1):
        submit, run, limit = (value // 1_000_000 for value in (row.submit_us, row.run_us, row.limit_us))
        user = row.user if row.user > 0 else -1
        lines.append(f"{number} {submit} -1 {run} {row.size} -1 -1 {row.size} {limit} -1 1 {user} -1 -1 -1 -1 -1 -1")
    return "\n".join(lines) + "\n"
