"""Run a scenario: choose the engine, run it, and put what happened into a RunTable.

Plain traces on interchangeable whole nodes go through the whole-trace driver; dependencies, partitions, memory, windows
and faults through the event-by-event world. Both ask the same core, and both leave the same journal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.app import policies as policy_names
from cohabit.app.scenario import Scenario, cluster_of
from cohabit.app.workloads import load_workload, machine_size
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import PolicySet
from cohabit.model import event as fact
from cohabit.model.cluster import Cluster
from cohabit.model.command import CancelJob, Command, StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event
from cohabit.model.job import Job
from cohabit.model.records import CANCELLED, DONE, FAILED, KILLED, NEVER, REJECTED, NodeRanges, RunTable
from cohabit.model.units import HOUR, SECOND
from cohabit.model.workload import ACCEPTED, NEVER_FREE, REJECTIONS, TOO_LARGE, Workload
from cohabit.sim import journal as lines
from cohabit.sim.fast import replay
from cohabit.sim.faults import late_reports, node_failures
from cohabit.sim.journal import Journal
from cohabit.sim.streams import stream
from cohabit.sim.world import TracedJob, World

Progress = Callable[[int, int], None]  # jobs submitted so far, jobs in all
Observer = Callable[[int, list[Event], list[Command], SchedulerCore], None]


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


def prepare(scenario: Scenario, workload: Workload | None = None, policies: PolicySet | None = None) -> Prepared:
    """Load the jobs, build the machine and the policies, and refuse what cannot run."""
    policies = policy_names.build(scenario.policy) if policies is None else policies
    workload = load_workload(scenario) if workload is None else workload
    cluster = cluster_of(scenario.cluster, machine_size(scenario, workload))
    largest = max(group.cores for group in cluster.groups)  # whether a job fits its own kinds the core decides
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
    if (workload.run_us[accepted] == -1).any():
        raise InputError(
            "some jobs state no run time (run_s)", workload.source, "add run_s: program catalogues are not known yet"
        )
    order = workload.order()
    rows = order[accepted[order]]
    return Prepared(
        scenario, workload, cluster, policies, rows, needed[rows], rejection, _notes(scenario, workload, rejection)
    )


def _reject_followers(workload: Workload, rejection: NDArray[np.int8]) -> None:
    """A job that waits for one that will never run never runs either."""
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
    """A sentence of the core with the job ids of the trace instead of its own numbers."""
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


def run(
    prepared: Prepared,
    *,
    engine: str = "auto",
    record_nodes: bool = True,
    progress: Progress | None = None,
    observe: Observer | None = None,
) -> tuple[RunTable, Journal]:
    """Simulate; `engine` is auto, fast (refuses what it cannot do) or steps."""
    obstacle = _beyond_fast(prepared)
    if engine == "fast" and obstacle:
        raise InputError(f"the fast engine cannot do this: {obstacle}", "--engine", "use auto or steps")
    if engine == "steps" or obstacle or observe is not None:
        return _run_steps(prepared, progress, observe)
    return _run_fast(prepared, record_nodes, progress)


def _beyond_fast(prepared: Prepared) -> str:
    cluster, faults = prepared.cluster, prepared.scenario.faults
    reasons = {
        "several kinds of nodes": len(cluster.groups) > 1 or bool(cluster.partitions),
        "maintenance windows": bool(cluster.windows),
        "dependencies between jobs": prepared.workload.after is not None and any(prepared.workload.after),
        "memory limits": prepared.workload.memory_bytes is not None and cluster.groups[0].memory_bytes > 0,
        "faults": faults.node_mtbf_h > 0 or faults.late_reports_s > 0,
        "shared nodes": not prepared.policies.placer.exclusive,
    }
    return ", ".join(reason for reason, holds in reasons.items() if holds)


def _durations(prepared: Prepared) -> NDArray[np.int64]:
    run_us, limit_us = prepared.workload.run_us[prepared.rows], prepared.workload.limit_us[prepared.rows]
    return np.minimum(run_us, limit_us) if prepared.scenario.world.kill else run_us


def _run_fast(prepared: Prepared, record_nodes: bool, progress: Progress | None) -> tuple[RunTable, Journal]:
    workload, rows = prepared.workload, prepared.rows
    result = replay(
        workload.submit_us[rows], _durations(prepared), workload.limit_us[rows], prepared.nodes,
        workload.processes[rows], workload.user[rows].astype(np.int64), prepared.cluster.nodes, prepared.policies,
        record_ranges=record_nodes, progress=progress,
    )  # fmt: skip
    table = _Table(prepared)
    ran = result.end_us != NEVER
    table.start_us[rows], table.end_us[rows] = result.start_us, result.end_us
    table.nodes[rows[ran]] = prepared.nodes[ran]
    killed = ran & (workload.run_us[rows] > workload.limit_us[rows]) & prepared.scenario.world.kill
    table.status[rows] = np.where(killed, KILLED, np.where(ran, DONE, CANCELLED))
    table.say(rows[killed], "reached its time limit")
    table.say(rows[~ran], "still waiting when the simulation ended")
    ranges = None
    if result.ranges is not None and result.range_owner is not None:
        ranges = _ranges(rows[result.range_owner], result.ranges[0], result.ranges[1], len(workload))
    return table.finish(result.journal, result.events, ranges), result.journal


def _run_steps(prepared: Prepared, progress: Progress | None, observe: Observer | None) -> tuple[RunTable, Journal]:
    scenario, workload, rows = prepared.scenario, prepared.workload, prepared.rows
    core = SchedulerCore(prepared.cluster, prepared.policies)
    written: list[tuple[int, int, int, int]] = []

    def watch(now_us: int, events: list[Event], commands: list[Command]) -> None:
        written.extend((now_us, *_fact_line(event)) for event in events)
        for command in commands:
            if isinstance(command, StartJob | CancelJob):
                kind = lines.START if isinstance(command, StartJob) else lines.CANCEL
                written.append((now_us, kind, int(command.job_id), command.attempt))
        if observe is not None:
            observe(now_us, events, commands, core)

    world = World(core, kill=scenario.world.kill, observe=watch)
    faults = scenario.faults
    if faults.node_mtbf_h > 0:
        begin = int(workload.submit_us[rows].min())
        world.faults = node_failures(
            stream(scenario.seed, "node failures"), prepared.cluster.nodes, faults.node_mtbf_h * HOUR,
            faults.node_repair_h * HOUR, begin,
        )  # fmt: skip
    if faults.late_reports_s > 0:
        world.report_delay_us = late_reports(stream(scenario.seed, "late reports"), faults.late_reports_s * SECOND)
    world.add(traced_jobs(prepared))
    total = len(rows)
    world.run(None if progress is None else lambda events: progress(min(events // 2, total), total))
    table = _Table(prepared)
    firsts: list[tuple[int, int, int]] = []
    codes = {"done": DONE, "killed": KILLED, "failed": FAILED, "cancelled": CANCELLED, "rejected": REJECTED}
    for number, row in enumerate(rows):
        outcome = world.outcomes[str(number)]
        table.status[row] = codes.get(outcome.status, CANCELLED)
        if outcome.start_us is not None and outcome.end_us is not None:
            table.start_us[row], table.end_us[row] = outcome.start_us, outcome.end_us
            table.nodes[row] = sum(count for _, count in outcome.nodes)
            firsts += [(int(row), first, count) for first, count in outcome.nodes]
        reason = outcome.reason if outcome.status in codes else "still waiting when the simulation ended"
        if reason:
            table.say(np.array([row]), public(reason, prepared))
    spans = np.array(firsts, np.int64).reshape(-1, 3)
    columns = np.array(written, np.int64).reshape(-1, 4)
    kind, row, attempt = (columns[:, 1].astype(np.int8), *columns[:, 2:].astype(np.int32).T)
    journal = Journal(columns[:, 0].copy(), kind, row, attempt)
    ranges = _ranges(spans[:, 0], spans[:, 1].astype(np.int32), spans[:, 2].astype(np.int32), len(workload))
    return table.finish(journal, world.events, ranges), journal


_NODE_FACTS = {fact.NodeUp: lines.NODE_UP, fact.NodeDown: lines.NODE_DOWN, fact.NodeDrained: lines.NODE_DRAINED}


def _fact_line(event: Event) -> tuple[int, int, int]:
    if isinstance(event, fact.JobSubmitted):
        return lines.SUBMITTED, int(event.job.job_id), 1
    if isinstance(event, fact.NodeUp | fact.NodeDown | fact.NodeDrained):
        return _NODE_FACTS[type(event)], event.node, 1
    if isinstance(event, fact.JobFinished):
        return lines.FINISHED, int(event.job_id), event.attempt
    return lines.WOKEN, -1, 1


def traced_jobs(prepared: Prepared) -> list[TracedJob]:
    """The jobs as the world takes them, named by their place in the order of submission."""
    workload, rows = prepared.workload, prepared.rows
    number_of = {str(workload.job_id[row]): str(number) for number, row in enumerate(rows)}
    partitions = prepared.cluster.partitions
    traced = []
    for number, row in enumerate(rows):
        after = tuple(number_of[name] for name in (workload.after[row] if workload.after else ()) if name in number_of)
        partition = ""
        if partitions and workload.partition is not None and workload.partition[row] >= 0:
            partition = workload.partition_names[workload.partition[row]]
        job = Job(
            job_id=str(number), limit_us=int(workload.limit_us[row]), processes=int(workload.processes[row]),
            memory_bytes=0 if workload.memory_bytes is None else int(workload.memory_bytes[row]),
            user=int(workload.user[row]), partition=partition, after=after,
        )  # fmt: skip
        traced.append(TracedJob(job, int(workload.submit_us[row]), int(workload.run_us[row])))
    return traced


def _ranges(owner: NDArray[np.int64], first: NDArray[np.int32], count: NDArray[np.int32], total: int) -> NodeRanges:
    by_job = np.argsort(owner, kind="stable")
    offsets = np.zeros(total + 1, np.int64)
    np.cumsum(np.bincount(owner, minlength=total), out=offsets[1:])
    return NodeRanges(offsets, first[by_job], count[by_job])


class _Table:
    """Result columns in file order, filled bit by bit."""

    def __init__(self, prepared: Prepared) -> None:
        total = len(prepared.workload)
        self.prepared = prepared
        self.start_us, self.end_us = np.full(total, NEVER), np.full(total, NEVER)
        self.nodes = np.zeros(total, np.int32)
        self.status = np.full(total, REJECTED, np.int8)
        self.reason = np.zeros(total, np.int32)
        self.reasons: list[str] = [""]
        for code, why in REJECTIONS.items():
            self.say(np.flatnonzero(prepared.rejection == code), why)

    def say(self, rows: NDArray[np.int64], reason: str) -> None:
        """Give these rows a reason."""
        if len(rows):
            if reason not in self.reasons:
                self.reasons.append(reason)
            self.reason[rows] = self.reasons.index(reason)

    def finish(self, journal: Journal, events: int, ranges: NodeRanges | None) -> RunTable:
        """The finished table."""
        prepared, ran = self.prepared, self.start_us != NEVER
        return RunTable(
            workload=prepared.workload, start_us=self.start_us, end_us=self.end_us, nodes=self.nodes,
            cores=np.where(ran, prepared.workload.processes, 0), scale=ran.astype(np.int32), status=self.status,
            reason=self.reason, reasons=tuple(self.reasons), cluster_nodes=prepared.cluster.nodes,
            cluster_cores=prepared.cluster.cores, policy=policy_names.title(prepared.policies.names),
            seed=prepared.scenario.seed, events=events, node_ranges=ranges, settings=settings_of(prepared),
            journal_hash=journal.hash(), scenario_hash=scenario_hash(prepared),
        )  # fmt: skip


def settings_of(prepared: Prepared) -> dict[str, Any]:
    """The scenario as plain data, with the machine size filled in; enough, with the jobs, to run it again."""
    data: dict[str, Any] = msgspec.to_builtins(prepared.scenario)
    if not prepared.scenario.cluster.group:
        data["cluster"]["nodes"] = prepared.cluster.nodes
    data["policy"] |= prepared.policies.names
    return data


def scenario_hash(prepared: Prepared) -> str:
    """A digest of everything that decides the outcome: the settings and the jobs, not where they were read from."""
    settings = settings_of(prepared)
    settings["jobs"] = {}
    digest = hashlib.blake2b(digest_size=16)
    for key in ("order", "backfill_order"):
        name = str(settings["policy"].get(key) or "")
        if name.endswith(".py"):
            settings["policy"][key] = "own"
            digest.update(Path(name).read_bytes())
    digest.update(msgspec.json.encode(settings, order="deterministic"))
    workload = prepared.workload
    for column in (workload.submit_us, workload.run_us, workload.limit_us, workload.processes, workload.user):
        digest.update(np.ascontiguousarray(column, "<i8").data)
    return digest.hexdigest()


def finished_jobs(table: RunTable) -> int:
    """Jobs that ran to an end of whatever kind."""
    return int((table.end_us != NEVER).sum())


__all__ = ["Prepared", "finished_jobs", "prepare", "run", "settings_of", "traced_jobs"]
