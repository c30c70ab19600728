"""What Slurm did and what the policy would have done with the same jobs, as report.html draws runs side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.core.ledger import ranges_of
from cohabit.model.job import Job
from cohabit.model.plan import Ranges
from cohabit.model.records import DONE, NodeRanges, RunTable
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.sim.runs import Outcome

Watched = Sequence[tuple[str, Job, int]]  # name, job and the instant (us) from which it could have started
SOURCE = "Slurm, watched from submission to end"


def write_shadow_report(
    path: Path, cases: Mapping[str, Mapping[str, Outcome]], jobs: Watched, users: Sequence[str], cpus: Sequence[int]
) -> None:
    """Write the page; `cases`: by title, every job's outcome, Slurm's own first; `cpus` of each node."""
    from cohabit.report.html import write_report

    first = next(iter(cases.values()))
    alone = np.array([(first[name].end_us or 0) - (first[name].start_us or 0) for name, _, _ in jobs], np.int64)
    tables = [_table(title, case, jobs, users, cpus, alone) for title, case in cases.items()]
    write_report(tables, path, title=f"Shadow: {next(iter(cases))} and {list(cases)[1]}")


def ranges_by_name(names: Sequence[str], number: Mapping[str, int]) -> Ranges:
    """Return nodes by name as (first, count)."""
    return tuple(ranges_of(np.array(sorted(number[name] for name in names if name in number), np.int64)))


def _table(
    title: str,
    case: Mapping[str, Outcome],
    jobs: Watched,
    users: Sequence[str],
    cpus: Sequence[int],
    alone_us: NDArray[np.int64],
) -> RunTable:
    found = [case[name] for name, _, _ in jobs]
    start = np.array([one.start_us or 0 for one in found], np.int64)
    end = np.array([one.end_us or 0 for one in found], np.int64)
    nodes = np.array([sum(count for _, count in one.nodes) for one in found], np.int32)
    known = sorted(set(users))
    programs = sorted({job.program for _, job, _ in jobs})
    workload = Workload(
        job_id=np.array([name for name, _, _ in jobs], object),
        submit_us=np.array([ready_us for _, _, ready_us in jobs], np.int64),
        run_us=alone_us,  # as Slurm ran it, which is all that is known of a job's time alone
        limit_us=np.array([job.limit_us for _, job, _ in jobs], np.int64),
        processes=np.array([job.processes for _, job, _ in jobs], np.int64),
        user=np.array([known.index(user) for user in users], np.int32),
        program=np.array([programs.index(job.program) if job.program else -1 for _, job, _ in jobs], np.int32),
        rejection=np.full(len(jobs), ACCEPTED, np.int8),
        user_names=known,
        program_names=programs,
        source=SOURCE,
    )
    return RunTable(
        workload=workload,
        start_us=start,
        end_us=end,
        nodes=nodes,
        cores=_cores([job for _, job, _ in jobs], found, cpus),
        scale=np.array([one.scale for one in found], np.int32),
        status=np.full(len(jobs), DONE, np.int8),
        reason=np.zeros(len(jobs), np.int32),
        reasons=("",),
        cluster_nodes=len(cpus),
        cluster_cores=sum(cpus),
        policy=title,
        seed=0,
        events=0,
        node_ranges=_node_ranges([one.nodes for one in found]),
        shares=[msgspec.json.encode({"cores": one.cores, "ways": one.ways}).decode() for one in found],
    )


def _cores(jobs: Sequence[Job], found: Sequence[Outcome], cpus: Sequence[int]) -> NDArray[np.int64]:
    """The cores each job had: whole nodes have all of theirs."""
    total = []
    for job, one in zip(jobs, found, strict=True):
        there = [cpus[node] for first, count in one.nodes for node in range(first, first + count)]
        each = one.cores or (-(-job.processes // len(there)) if there and not job.nodes and not one.exclusive else 0)
        total.append(sum(min(each, cores) if each else cores for cores in there))
    return np.array(total, np.int64)


def _node_ranges(nodes: Sequence[Ranges]) -> NodeRanges:
    offsets = np.concatenate(([0], np.cumsum([len(one) for one in nodes]))).astype(np.int64)
    flat = np.array([part for one in nodes for part in one], np.int32).reshape(-1, 2)
    return NodeRanges(offsets, flat[:, 0], flat[:, 1])
