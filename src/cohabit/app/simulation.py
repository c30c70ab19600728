"""Run a scenario: choose the engine, run it, and put what happened into a RunTable.

Plain traces on interchangeable whole nodes go through the whole-trace driver; dependencies, partitions, memory, windows
and faults through the event-by-event world. Both ask the same core, and both leave the same journal.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.app import policies as policy_names
from cohabit.app.programs import known_profiles, load_programs, names_in, with_run_times
from cohabit.app.scenario import Scenario, cluster_of
from cohabit.app.workloads import load_workload, machine_size
from cohabit.core.core import SchedulerCore
from cohabit.core.gating import JOBS
from cohabit.core.protocols import PolicySet
from cohabit.model import event as fact
from cohabit.model.cluster import Cluster
from cohabit.model.codec import encode
from cohabit.model.command import CancelJob, Command, MoveJob, StartJob
from cohabit.model.errors import InputError
from cohabit.model.event import Event
from cohabit.model.job import Job
from cohabit.model.profile import Profile
from cohabit.model.records import CANCELLED, DONE, FAILED, KILLED, NEVER, REJECTED, NodeRanges, RunTable
from cohabit.model.telemetry import WINDOW_US
from cohabit.model.units import HOUR, SECOND
from cohabit.model.workload import ACCEPTED, NEVER_FREE, REJECTIONS, TOO_LARGE, Workload
from cohabit.sim import journal as lines
from cohabit.sim.fast import replay
from cohabit.sim.faults import late_reports, node_failures
from cohabit.sim.journal import Journal
from cohabit.sim.machine.constants import CONSTANTS, Constants, calibration_hash
from cohabit.sim.machine.machine import Machine, Segment
from cohabit.sim.machine.phases import Phases
from cohabit.sim.machine.profiler import Profiler
from cohabit.sim.machine.recorder import BandwidthRecorder
from cohabit.sim.machine.truth import Truth
from cohabit.sim.streams import stream
from cohabit.sim.world import Outcome, TracedJob, World
from cohabit.trace.programs import Programs

NO_LIMIT_RUNS = 100  # a job on shared nodes that states no limit may take this many times its exclusive run

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
    programs: Programs = field(default_factory=lambda: Programs({}))  # the truth, for the world alone
    profiles: tuple[Profile, ...] = ()  # what the scheduler is told of them
    constants: Constants = CONSTANTS  # of the world; others than the frozen ones only to study sensitivity


def prepare(scenario: Scenario, workload: Workload | None = None, policies: PolicySet | None = None) -> Prepared:
    """Load the jobs, build the machine and the policies, and refuse what cannot run."""
    if policies is None:
        policies = policy_names.build(
            scenario.policy, scenario.cluster.sharing, scenario.cluster.oversubscribe is not False
        )
    workload = load_workload(scenario) if workload is None else workload
    cluster = cluster_of(scenario.cluster, machine_size(scenario, workload))
    programs = load_programs(scenario.programs, cluster)
    workload = with_run_times(workload, programs, cluster.groups[0])
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
    order = workload.order()
    rows = order[accepted[order]]
    notes = _notes(scenario, workload, rejection) + ((programs.warning,) if programs.warning else ())
    profiles = () if policies.placer.exclusive else tuple(known_profiles(scenario, programs, cluster))
    if scenario.cluster.sharing != "exclusive":  # the switch back to CE leaves the keys of sharing where they are
        notes += tuple(policy_names.without_effect(scenario.policy, policies.names))
        notes += tuple(policy_names.nothing_known(scenario, policies, names_in(workload, rows), profiles))
    return Prepared(
        scenario, workload, cluster, policies, rows, needed[rows], rejection, notes, programs, profiles
    )  # fmt: skip


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
    recorder: BandwidthRecorder | None = None,
) -> tuple[RunTable, Journal]:
    """Simulate; `engine` is auto, fast (refuses what it cannot do) or steps. A recorder sees what every node draws."""
    obstacle = _beyond_fast(prepared)
    if engine == "fast" and obstacle:
        raise InputError(f"the fast engine cannot do this: {obstacle}", "--engine", "use auto or steps")
    if engine == "steps" or obstacle or observe is not None or recorder is not None:
        return _run_steps(prepared, progress, observe, recorder, record_nodes)
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
        "a gate": bool(prepared.policies.gates),
        "weather": prepared.scenario.world.weather != "none",
        "an age limit beside this order": _limits_age_beside_another_order(prepared.policies),
    }
    return ", ".join(reason for reason, holds in reasons.items() if holds)


def _limits_age_beside_another_order(policies: PolicySet) -> bool:
    limited = bool(policies.age_limit_us or policies.age_limit_runs)
    return limited and (policies.order.name not in ("age", "fcfs") or policies.backfill_order is not None)


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


def _run_steps(
    prepared: Prepared,
    progress: Progress | None,
    observe: Observer | None,
    recorder: BandwidthRecorder | None,
    record_nodes: bool,
) -> tuple[RunTable, Journal]:
    scenario, workload, rows = prepared.scenario, prepared.workload, prepared.rows
    core = SchedulerCore(prepared.cluster, prepared.policies, profiles=prepared.profiles)
    written: list[tuple[int, int, int, int]] = []
    learned: list[bytes] = []

    def watch(now_us: int, events: list[Event], commands: list[Command]) -> None:
        for event in events:
            if isinstance(event, fact.ProfileLearned | fact.TelemetryReduced):
                written.append((now_us, lines.LEARNED, len(learned), 1))
                learned.append(encode([event]))
            else:
                written.append((now_us, *_fact_line(event)))
        for command in commands:
            if isinstance(command, StartJob | CancelJob):
                kind = lines.START if isinstance(command, StartJob) else lines.CANCEL
                written.append((now_us, kind, int(command.job_id), command.attempt))
            elif isinstance(command, MoveJob):
                written.append((now_us, lines.MOVE, int(command.job_id), command.nodes[0][0]))
        if observe is not None:
            observe(now_us, events, commands, core)

    world = World(core, kill=scenario.world.kill, observe=watch, move_us=round(scenario.world.move_s * SECOND))
    _add_machine(world, prepared, recorder, record_nodes)
    drained = _add_weather(world, prepared)
    faults = scenario.faults
    if faults.node_mtbf_h > 0:
        begin = int(workload.submit_us[rows].min())
        world.faults = node_failures(
            stream(scenario.seed, "node failures"), prepared.cluster.nodes, faults.node_mtbf_h * HOUR,
            faults.node_repair_h * HOUR, begin,
        )  # fmt: skip
    if faults.late_reports_s > 0:
        world.report_delay_us = late_reports(stream(scenario.seed, "late reports"), faults.late_reports_s * SECOND)
    world.add(traced_jobs(prepared), drained)
    total = len(rows)
    world.run(None if progress is None else lambda events: progress(min(events // 2, total), total))
    table = _Table(prepared)
    firsts: list[tuple[int, int, int]] = []
    shares: list[str] | None = [""] * len(workload) if world.machine is not None else None
    codes = {"done": DONE, "killed": KILLED, "failed": FAILED, "cancelled": CANCELLED, "rejected": REJECTED}
    for number, row in enumerate(rows):
        outcome = world.outcomes[str(number)]
        table.status[row] = codes.get(outcome.status, CANCELLED)
        if outcome.start_us is not None and outcome.end_us is not None:
            table.start_us[row], table.end_us[row] = outcome.start_us, outcome.end_us
            table.nodes[row] = sum(count for _, count in outcome.nodes)
            table.scale[row] = outcome.scale
            if shares is not None and world.machine is not None:
                shares[row] = _shares_text(outcome, (world.machine.segments or {}).get(str(number), []))
            firsts += [(int(row), first, count) for first, count in outcome.nodes]
        reason = outcome.reason if outcome.status in codes else "still waiting when the simulation ended"
        if reason:
            table.say(np.array([row]), public(reason, prepared))
    spans = np.array(firsts, np.int64).reshape(-1, 3)
    columns = np.array(written, np.int64).reshape(-1, 4)
    kind, row, attempt = (columns[:, 1].astype(np.int8), *columns[:, 2:].astype(np.int32).T)
    journal = Journal(columns[:, 0].copy(), kind, row, attempt, tuple(learned))
    ranges = _ranges(spans[:, 0], spans[:, 1].astype(np.int32), spans[:, 2].astype(np.int32), len(workload))
    return replace(table.finish(journal, world.events, ranges), shares=shares, gates=_gates(core)), journal


def _gates(core: SchedulerCore) -> dict[str, Any]:
    """What every gate was asked and said in this run; what it remembers of single jobs is left out."""
    remembered = {gate.name: core.state.memory.get(gate.name, {}) for gate in core.policies.gates}
    return {name: {key: value for key, value in told.items() if key != JOBS} for name, told in remembered.items()}


def _add_machine(world: World, prepared: Prepared, recorder: BandwidthRecorder | None, keep_segments: bool) -> None:
    """Let neighbours slow each other, where the scenario has programs and says how."""
    scenario = prepared.scenario
    shared = not prepared.policies.placer.exclusive
    if scenario.world.contention == "none" or not (shared or recorder is not None):
        return
    conditions = scenario.world.contention, scenario.world.q, prepared.constants
    truth = Truth(prepared.programs, prepared.cluster.groups, *conditions)
    world.machine = Machine(truth, keep_segments, recorder, oversubscribed=scenario.cluster.oversubscribe is not False)
    world.phases = Phases(scenario.seed, prepared.constants.phases) if scenario.world.phases else None
    world.profiler = Profiler(truth, scenario.seed, scenario.world.profile_noise) if shared else None


def _add_weather(world: World, prepared: Prepared) -> list[tuple[int, Event]]:
    """Let network and filesystem slow jobs, where the scenario says so; the noise job's nodes are not to be used."""
    scenario = prepared.scenario
    if scenario.world.weather == "none":
        return []
    from cohabit.sim.weather.weather import weather_of
    from cohabit.trace.rush_programs import TEMPERS

    begin_us = int(prepared.workload.submit_us[prepared.rows].min()) - 2 * WINDOW_US  # the first jobs are judged, too
    world.weather = weather_of(
        scenario.seed, prepared.cluster.nodes, {one.name: one for one in TEMPERS},
        noise=scenario.world.weather == "noise", canaries=scenario.world.canaries,
        telling=bool(prepared.policies.gates), begin_us=begin_us,
    )  # fmt: skip
    return [(begin_us, fact.NodeDrained(int(node))) for node in world.weather.noise_nodes]


def _shares_text(outcome: Outcome, segments: list[Segment]) -> str:
    """How a job ran on its nodes, as JSON: what it had booked, and its progress over time as [from_s, rate, ways]."""
    how: dict[str, Any] = {
        "cores": outcome.cores, "ways": outcome.ways, "bandwidth_mbs": outcome.bandwidth_mbs,
        "exclusive": outcome.exclusive, "purpose": outcome.purpose,
        "segments": [[at_us / SECOND, rate, ways] for at_us, rate, ways in segments],
    }  # fmt: skip
    return msgspec.json.encode(how).decode()


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
    shared, alphas = not prepared.policies.placer.exclusive, workload.extra.get("alpha")
    movable = workload.extra.get("movable")
    weather = prepared.scenario.world.weather != "none"
    kinds, skips = workload.extra.get("workload_type"), workload.extra.get("skip_threshold")
    partitions = prepared.cluster.partitions
    traced = []
    for number, row in enumerate(rows):
        after = tuple(number_of[name] for name in (workload.after[row] if workload.after else ()) if name in number_of)
        partition = ""
        if partitions and workload.partition is not None and workload.partition[row] >= 0:
            partition = workload.partition_names[workload.partition[row]]
        limit_us, run_us, code = int(workload.limit_us[row]), int(workload.run_us[row]), int(workload.program[row])
        if (shared or weather) and limit_us == run_us:  # no limit was stated: who is slowed down must not be cut for it
            limit_us = NO_LIMIT_RUNS * run_us
        alpha = float(alphas[row]) if alphas is not None else 0.0
        program = prepared.programs.get(workload.program_names[code]) if code >= 0 else None
        confined = program is not None and program.single_node and int(prepared.nodes[number]) == 1  # as its owner says
        job = Job(
            job_id=str(number), limit_us=limit_us, processes=int(workload.processes[row]),
            program=workload.program_names[code] if code >= 0 else "", alpha=alpha if alpha > 0 else 0.0,
            memory_bytes=0 if workload.memory_bytes is None else int(workload.memory_bytes[row]),
            user=int(workload.user[row]), partition=partition, after=after, single_node=confined,
            movable=movable is not None and movable[row] > 0,
            workload_type="" if kinds is None else str(kinds[row] or ""),
            skip_threshold=-1 if skips is None else int(skips[row]),
        )  # fmt: skip
        traced.append(TracedJob(job, int(workload.submit_us[row]), run_us))
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
        self.scale = np.zeros(total, np.int32)
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
            cores=np.where(ran, prepared.workload.processes, 0),
            scale=np.where(ran, np.maximum(self.scale, 1), 0).astype(np.int32), status=self.status,
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
    settings["programs"] = calibration_hash(prepared.programs.values()) if prepared.programs else ""
    digest = hashlib.blake2b(digest_size=16)
    for key in ("order", "backfill_order"):
        name = str(settings["policy"].get(key) or "")
        if name.endswith(".py"):
            settings["policy"][key] = "own"
            digest.update(Path(name).read_bytes())
    digest.update(msgspec.json.encode(settings, order="deterministic"))
    workload = prepared.workload
    columns = [workload.submit_us, workload.run_us, workload.limit_us, workload.processes, workload.user]
    if prepared.programs:
        columns.append(workload.program)
    for column in columns:
        digest.update(np.ascontiguousarray(column, "<i8").data)
    return digest.hexdigest()


def finished_jobs(table: RunTable) -> int:
    """Jobs that ran to an end of whatever kind."""
    return int((table.end_us != NEVER).sum())


__all__ = ["Prepared", "finished_jobs", "prepare", "run", "settings_of", "traced_jobs"]
