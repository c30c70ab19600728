"""Event-by-event simulation: one prepared scenario as a world that runs alone or beside others, and its results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np

from cohabit.app.scenario.reading import announcements
from cohabit.app.scenario.tables import WorldConfig
from cohabit.app.simulate.expectations import Expectations
from cohabit.app.simulate.preparation import Prepared, public
from cohabit.app.simulate.results import ResultTable, ranges_of
from cohabit.core import co_runs
from cohabit.core.core import SchedulerCore
from cohabit.core.gating import JOBS
from cohabit.model import event as fact
from cohabit.model.codec import encode
from cohabit.model.command import (
    CancelJob,
    Command,
    HoldJob,
    MoveJob,
    ReleaseJob,
    RenewJob,
    StartJob,
    StopJob,
    TellPeer,
)
from cohabit.model.event import Event
from cohabit.model.group import Group
from cohabit.model.job import Job
from cohabit.model.records import CANCELLED, DONE, FAILED, KILLED, REJECTED, RunTable
from cohabit.model.telemetry import WINDOW_US
from cohabit.model.units import HOUR, SECOND
from cohabit.model.workload import Workload
from cohabit.sim import journal as lines
from cohabit.sim.journal import Journal
from cohabit.sim.machine.machine import Machine, Segment
from cohabit.sim.machine.phases import Phases
from cohabit.sim.machine.profiler import Profiler
from cohabit.sim.machine.recorder import BandwidthRecorder
from cohabit.sim.machine.truth import Truth
from cohabit.sim.monitor import Monitor
from cohabit.sim.runs import Outcome, TracedJob
from cohabit.sim.streams import stream
from cohabit.sim.terms import OK, Needed, Terms
from cohabit.sim.world import World, late_reports, node_failures
from cohabit.trace.records import BEGIN_AFTER, CANCEL_AFTER, TERMS

NO_LIMIT_RUNS = 100  # a job on shared nodes without a limit may take this many times its exclusive run
NO_MATES: Mapping[int, Group] = MappingProxyType({})
STATUS = {"done": DONE, "killed": KILLED, "failed": FAILED, "cancelled": CANCELLED, "rejected": REJECTED}
STILL_WAITING = "still waiting when the simulation ended"

Progress = Callable[[int, int], None]  # jobs submitted so far, jobs in all
Observer = Callable[[int, list[Event], list[Command], SchedulerCore], None]


class Stepper:
    """A world made from a prepared scenario; the events and commands of every step go into a journal."""

    def __init__(
        self,
        prepared: Prepared,
        *,
        observe: Observer | None = None,
        recorder: BandwidthRecorder | None = None,
        keep_segments: bool = True,
        mates: Mapping[int, Group] = NO_MATES,
    ) -> None:
        scenario, workload, rows = prepared.scenario, prepared.workload, prepared.rows
        self.prepared, self.observe = prepared, observe
        self.core = SchedulerCore(prepared.cluster, prepared.policies, profiles=prepared.profiles)
        if prepared.co_runs:
            co_runs.take_stored(self.core.state, self.core.policies, 0, fact.CoRunsStored(prepared.co_runs))
        self._written: list[tuple[int, int, int, int]] = []
        self._learned: list[bytes] = []
        move_us = round(scenario.world.move_s * SECOND)
        self.world = World(self.core, kill=scenario.world.kill, observe=self._watch, move_us=move_us)
        _add_machine(self.world, prepared, recorder, keep_segments)
        self.expectations = None if self.world.machine is None else Expectations(self.core)
        drained = _add_weather(self.world, prepared)
        faults = scenario.faults
        if faults.node_mtbf_h > 0:
            begin = int(workload.submit_us[rows].min())
            self.world.faults = node_failures(
                stream(scenario.seed, "node failures"),
                prepared.cluster.nodes,
                faults.node_mtbf_h * HOUR,
                faults.node_repair_h * HOUR,
                begin,
            )
        if faults.late_reports_s > 0:
            delays = late_reports(stream(scenario.seed, "late reports"), faults.late_reports_s * SECOND)
            self.world.report_delay_us = delays
        _add_latency(self.world, scenario.world)
        announced = announcements(scenario.cluster, prepared.cluster.nodes)
        self.world.add(traced_jobs(prepared, mates), [*drained, *announced])

    def run(self, progress: Progress | None) -> None:
        """Run it alone until no events are left."""
        total = len(self.prepared.rows)
        self.world.run(None if progress is None else lambda events: progress(min(events // 2, total), total))

    def _watch(self, now_us: int, events: list[Event], commands: list[Command]) -> None:
        told = [event for event in events if not isinstance(event, fact.JobStarted)]  # that follows from the command
        if told and self._written and self._written[-1][0] == now_us and self._written[-1][1] < lines.START:
            self._written.append((now_us, lines.AGAIN, -1, 1))
        for event in told:
            if _is_told_whole(event):
                self._write_whole(now_us, lines.LEARNED, encode([event]))
            else:
                self._written.append((now_us, *_fact_line(event)))
        for command in commands:
            if isinstance(command, StartJob | CancelJob):
                kind = lines.START if isinstance(command, StartJob) else lines.CANCEL
                self._written.append((now_us, kind, int(command.job_id), command.attempt))
                if self.expectations is not None and isinstance(command, StartJob):
                    self.expectations.started(command, now_us + self.world.clock_offset_us)
            elif isinstance(command, MoveJob):
                self._written.append((now_us, lines.MOVE, int(command.job_id), command.nodes[0][0]))
            elif isinstance(command, ABOUT_MATES):
                self._write_whole(now_us, lines.ABOUT_MATES, encode([command]))
        if self.observe is not None:
            self.observe(now_us, events, commands, self.core)

    def _write_whole(self, now_us: int, kind: int, content: bytes) -> None:
        self._written.append((now_us, kind, len(self._learned), 1))
        self._learned.append(content)

    def result(self) -> tuple[RunTable, Journal]:
        """Return the results of every job."""
        prepared, world = self.prepared, self.world
        table, total = ResultTable(prepared), len(prepared.workload)
        firsts: list[tuple[int, int, int]] = []
        shares: list[str] | None = [""] * total if world.machine is not None else None
        for number, row in enumerate(prepared.rows):
            outcome = world.outcomes[str(number)]
            table.status[row] = STATUS.get(outcome.status, CANCELLED)
            if outcome.start_us is not None and outcome.end_us is not None:
                table.start_us[row], table.end_us[row] = outcome.start_us, outcome.end_us
                table.nodes[row] = sum(count for _, count in outcome.nodes)
                table.scale[row] = outcome.scale
                if shares is not None and world.machine is not None:
                    shares[row] = _shares_text(outcome, (world.machine.segments or {}).get(str(number), []))
                firsts += [(int(row), first, count) for first, count in outcome.nodes]
            reason = outcome.reason if outcome.status in STATUS else STILL_WAITING
            if reason:
                table.say(np.array([row]), public(reason, prepared))
        spans = np.array(firsts, np.int64).reshape(-1, 3)
        columns = np.array(self._written, np.int64).reshape(-1, 4)
        kind, row, attempt = (columns[:, 1].astype(np.int8), *columns[:, 2:].astype(np.int32).T)
        journal = Journal(columns[:, 0].copy(), kind, row, attempt, tuple(self._learned))
        ranges = ranges_of(spans[:, 0], spans[:, 1].astype(np.int32), spans[:, 2].astype(np.int32), total)
        found = table.finish(journal, world.events, ranges)
        canary_us = 0 if world.weather is None else world.weather.canary_us
        if self.expectations is not None:
            found = replace(found, slowdowns=self.expectations.slowdowns(world, prepared.rows, found))
        return replace(found, shares=shares, gates=_gates(self.core), canary_us=canary_us), journal


def _gates(core: SchedulerCore) -> dict[str, Any]:
    """Return the questions and answers of every gate in this run, without its memory of single jobs."""
    remembered = {gate.name: core.state.memory.get(gate.name, {}) for gate in core.policies.gates}
    return {name: {key: value for key, value in told.items() if key != JOBS} for name, told in remembered.items()}


def _add_latency(world: World, config: WorldConfig) -> None:
    """Let the manager take its time: with submissions, with orders to start, and with reports of ends."""
    submit_us, start_us, end_us = (
        round(one * SECOND) for one in (config.submit_latency_s, config.start_latency_s, config.end_latency_s)
    )
    world.submit_delay_us, world.start_delay_us = submit_us, start_us
    drawn = world.report_delay_us
    if end_us:
        world.report_delay_us = lambda job_id: end_us + (0 if drawn is None else drawn(job_id))


def has_latency(config: WorldConfig) -> bool:
    """Return whether the manager takes any time of its own."""
    return bool(config.submit_latency_s or config.start_latency_s or config.end_latency_s)


def _add_machine(world: World, prepared: Prepared, recorder: BandwidthRecorder | None, keep_segments: bool) -> None:
    """Let neighbours slow each other, if the scenario has programs and a contention model."""
    scenario = prepared.scenario
    shared = not prepared.policies.placer.exclusive
    if scenario.world.contention == "none" or not (shared or recorder is not None):
        return
    conditions = scenario.world.contention, scenario.world.q, prepared.constants
    truth = Truth(prepared.programs, prepared.cluster.groups, *conditions)
    world.machine = Machine(truth, keep_segments, recorder, oversubscribed=scenario.cluster.oversubscribe is not False)
    world.phases = Phases(scenario.seed, prepared.constants.phases) if scenario.world.phases else None
    world.profiler = Profiler(truth, scenario.seed, scenario.world.profile_noise) if shared else None
    if shared and scenario.world.progress_s > 0:
        period_us = max(round(scenario.world.progress_s * SECOND), 1)
        world.monitor = Monitor(period_us, scenario.seed, scenario.world.progress_noise)


def _add_weather(world: World, prepared: Prepared) -> list[tuple[int, Event]]:
    """Let network and filesystem slow jobs, if the scenario says so; the noise job's nodes must not be used."""
    scenario = prepared.scenario
    if scenario.world.weather == "none":
        return []
    from cohabit.sim.weather.constants import CONSTANTS
    from cohabit.sim.weather.weather import weather_of
    from cohabit.trace.rush_programs import TEMPERS

    begin_us = int(prepared.workload.submit_us[prepared.rows].min()) - 2 * WINDOW_US  # judges the first jobs, too
    world.weather = weather_of(
        scenario.seed,
        prepared.cluster.nodes,
        {one.name: one for one in TEMPERS},
        noise=scenario.world.weather == "noise",
        canaries=scenario.world.canaries and bool(prepared.policies.gates),
        telling=bool(prepared.policies.gates),
        begin_us=begin_us,
        constants=msgspec.structs.replace(
            CONSTANTS, noise=msgspec.structs.replace(CONSTANTS.noise, place=scenario.world.noise_place)
        ),
    )
    return [(begin_us, fact.NodeDrained(int(node))) for node in world.weather.noise_nodes]


def _shares_text(outcome: Outcome, segments: list[Segment]) -> str:
    """Describe a job's run on its nodes as JSON: what it had booked, and its progress as [from_s, rate, ways]."""
    how: dict[str, Any] = {
        "cores": outcome.cores,
        "ways": outcome.ways,
        "bandwidth_mbs": outcome.bandwidth_mbs,
        "exclusive": outcome.exclusive,
        "purpose": outcome.purpose,
        "segments": [[at_us / SECOND, rate, ways] for at_us, rate, ways in segments],
    }
    return msgspec.json.encode(how).decode()


_TOLD_WHOLE = (
    fact.ProfileLearned, fact.ProgressMeasured, fact.TelemetryReduced, fact.PeerReported, fact.SchemeChanged,
    fact.Recovered, fact.WindowSet, fact.WindowCleared, fact.JobCancelled, fact.StartRefused,
)  # fmt: skip
ABOUT_MATES = (HoldJob, ReleaseJob, RenewJob, StopJob, TellPeer)  # commands that the journal has whole
_NODE_FACTS = {fact.NodeUp: lines.NODE_UP, fact.NodeDown: lines.NODE_DOWN, fact.NodeDrained: lines.NODE_DRAINED}


def _is_told_whole(event: Event) -> bool:
    """Return whether a line cannot say it: the table has a job's last end, not that it was stopped before."""
    return isinstance(event, _TOLD_WHOLE) or (isinstance(event, fact.JobFinished) and event.status == "stopped")


def _fact_line(event: Event) -> tuple[int, int, int]:
    if isinstance(event, fact.JobSubmitted):
        return lines.SUBMITTED, int(event.job.job_id), 1
    if isinstance(event, fact.NodeUp | fact.NodeDown | fact.NodeDrained):
        return _NODE_FACTS[type(event)], event.node, 1
    if isinstance(event, fact.JobFinished):
        return lines.FINISHED, int(event.job_id), event.attempt
    return lines.WOKEN, -1, 1


def traced_jobs(prepared: Prepared, mates: Mapping[int, Group] = NO_MATES) -> list[TracedJob]:
    """Return the jobs for the world, named by position in the order of submission; `mates`: groups by position."""
    workload, rows = prepared.workload, prepared.rows
    number_of = {str(workload.job_id[row]): str(number) for number, row in enumerate(rows)}
    shared, alphas = not prepared.policies.placer.exclusive, workload.extra.get("alpha")
    movable = workload.extra.get("movable")
    weather = prepared.scenario.world.weather != "none"
    kinds, skips = workload.extra.get("workload_type"), workload.extra.get("skip_threshold")
    accounts, partitions = workload.extra.get("account"), prepared.cluster.partitions
    services, has_terms, traced = workload.extra.get("qos"), replays_terms(workload), []
    for number, row in enumerate(rows):
        named = workload.after[row] if workload.after and not has_terms else ()
        after = tuple(number_of[name] for name in named if name in number_of)
        partition = ""
        if partitions and workload.partition is not None and workload.partition[row] >= 0:
            partition = workload.partition_names[workload.partition[row]]
        limit_us, run_us, code = int(workload.limit_us[row]), int(workload.run_us[row]), int(workload.program[row])
        if (shared or weather) and limit_us == run_us:  # no limit was stated: a slowed job must not be killed for it
            limit_us = NO_LIMIT_RUNS * run_us
        alpha = float(alphas[row]) if alphas is not None else 0.0
        program = prepared.programs.get(workload.program_names[code]) if code >= 0 else None
        confined = program is not None and program.single_node and int(prepared.nodes[number]) == 1  # as its owner says
        service = "" if services is None else str(services[row] or "")
        job = Job(
            job_id=str(number),
            limit_us=limit_us,
            processes=int(workload.processes[row]),
            program=workload.program_names[code] if code >= 0 else "",
            alpha=alpha if alpha > 0 else 0.0,
            memory_bytes=0 if workload.memory_bytes is None else int(workload.memory_bytes[row]),
            user=int(workload.user[row]),
            partition=partition,
            after=after,
            single_node=confined,
            movable=movable is not None and movable[row] > 0,
            workload_type="" if kinds is None else str(kinds[row] or ""),
            skip_threshold=-1 if skips is None else int(skips[row]),
            mates=mates.get(number),
            service=service,
            qos=prepared.scenario.qos.get(service, 0),
            account="" if accounts is None else str(accounts[row] or ""),
        )
        terms = _terms_of(workload, int(row), number_of) if has_terms else None
        traced.append(TracedJob(job, int(workload.submit_us[row]), run_us, terms))
    return traced


def replays_terms(workload: Workload) -> bool:
    """Return whether jobs must wait for more than the ends of others, failed, or were cancelled, as in a log."""
    special = any(entry.startswith(TERMS) for entries in workload.after or () for entry in entries)
    return special or any(name in workload.extra for name in (BEGIN_AFTER, CANCEL_AFTER, "failed", "at_most"))


def _terms_of(workload: Workload, row: int, number_of: Mapping[str, str]) -> Terms:
    submit_us, extra = int(workload.submit_us[row]), workload.extra
    begin_us, cancel_us = (int(extra[name][row]) if name in extra else -1 for name in (BEGIN_AFTER, CANCEL_AFTER))
    needed = []
    for entry in workload.after[row] if workload.after else ():
        how, _, name = entry.partition(":") if entry.startswith(TERMS) else (OK, "", entry)
        if name in number_of:
            needed.append(Needed(how, number_of[name]))
    array = str(extra["array"][row] or "") if "array" in extra else ""
    return Terms(
        submit_us + begin_us if begin_us > 0 else 0,
        tuple(needed),
        array,
        int(extra["at_most"][row]) if array and "at_most" in extra else 0,
        submit_us + cancel_us if cancel_us >= 0 else 0,
        bool(extra["failed"][row]) if "failed" in extra else False,
    )
