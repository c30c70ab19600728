"""Jobs and scheduler, common to the control jobs and the experiments. Nothing here judges."""

from __future__ import annotations

from dataclasses import replace

from cohabit.app.scenario import policies as by_name
from cohabit.app.scenario.reading import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import Gate
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from cohabit.sim.runs import Outcome, TracedJob
from cohabit.trace.rush_programs import Temper

CORES = 32  # used on each node: 512 processes on 16 nodes
BASELINE = "ce-easy"  # FCFS with EASY backfilling


def core_of(nodes: int, gates: tuple[Gate, ...] = ()) -> SchedulerCore:
    """FCFS and EASY, with gates or without."""
    policies = by_name.build(PolicyConfig(name=BASELINE))
    return SchedulerCore(Cluster((NodeGroup(nodes, CORES),)), replace(policies, gates=gates))


def traced(job_id: str, one: Temper, submit_us: int, limit_us: int) -> TracedJob:
    """One run of a program."""
    job = Job(job_id, limit_us, one.nodes * CORES, program=one.name, workload_type=one.workload_type)
    return TracedJob(job, submit_us, round(one.run_s * SECOND))


def run_seconds(outcome: Outcome, job: TracedJob, canary_s: float) -> float:
    """The program's own time; its canary ran before it, as slowed as the rest."""
    assert outcome.start_us is not None and outcome.end_us is not None, f"job {job.job.job_id} did not run"
    elapsed_s, work_s = (outcome.end_us - outcome.start_us) / SECOND, job.work_us / SECOND
    return elapsed_s * work_s / (work_s + canary_s)
