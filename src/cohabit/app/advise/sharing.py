"""Estimate from a site's own log what it gains if its jobs share nodes: `cohabit advise sharing`. Writes nothing.

Stretches of the log are simulated under today's rule and under other policies. A log does not record what programs
demand of cache and memory, so three assumptions are made, from gentle to greedy. Programs of a published catalogue are
drawn for each user's kinds of jobs. Each repeat uses another stretch and another draw. An advice holds only if it does
not depend on the assumption.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import structs
from numpy.typing import NDArray

from cohabit.app.advise.gains import Floats, gains
from cohabit.app.advise.sharing_words import (
    ASSUMPTIONS,
    CATALOGUE,
    GENTLE_GBS,
    GREEDY_GBS,
    SITE,
    judge,
    no_advice,
    nothing_waits,
    opening,
    words_for,
)
from cohabit.app.advise.stretches import LEAST_STRETCHES, Stretch, cut
from cohabit.app.advise.today import check, offered_load, waits_of, what_may_be_missing
from cohabit.app.scenario.reading import read_scenario
from cohabit.app.scenario.tables import (
    ClusterConfig,
    JobsConfig,
    NodeConfig,
    PolicyConfig,
    ProgramsConfig,
    Scenario,
    WorldConfig,
)
from cohabit.app.simulate import simulation
from cohabit.app.simulate.preparation import prepare
from cohabit.model.errors import InputError
from cohabit.model.records import NEVER, RunTable
from cohabit.model.units import SECOND
from cohabit.model.workload import Workload
from cohabit.report.intervals import bootstrap_interval
from cohabit.report.metrics import node_seconds
from cohabit.sim.streams import stream
from cohabit.trace.catalogue import READERS, read_trace
from cohabit.trace.files import UTF8_MARK, open_trace
from cohabit.trace.programs import Programs, catalogue
from cohabit.trace.records import with_cancelled
from cohabit.trace.swf import read_swf

TODAY = {"whole": "ce-easy", "cores": "cs"}  # how the site allocates nodes now -> the bundle that represents it
CANDIDATES = ("ce", "cs", "sns", "cohabit")
MEASURES = ("mean_wait_s", "mean_turnaround_s", "node_hours")
SLOWED = 1.1  # times the run time in the log
FIRST_BYTES = 4096
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Question:
    """The input of an advice on sharing."""

    log: Path
    nodes: int
    cores: int
    today: str = "whole"
    days: float = 3.0
    repeats: int = 5
    seed: int = 1
    memory_gb: float = 0.0  # of a node; 0: memory is ignored
    ways: int = 20
    bandwidth_gbs: float = 0.0  # of a node with all cores busy; 0: as the catalogue's, by cores
    site: Path | None = None  # a scenario of the site as it schedules today, instead of nodes, cores and today


def read_log(path: Path) -> Workload:
    """Read a trace or the output of sacct, unchanged."""
    with open_trace(path) as stream:
        first = stream.read(FIRST_BYTES).removeprefix(UTF8_MARK).partition(b"\n")[0]
    if b"JobID|" in first or b"|JobID" in first:
        return READERS["sacct"](path)
    jobs = read_trace(path)
    return jobs if jobs.max_procs == 0 and not jobs.header else read_swf(path, every_field=True)  # with its waits


def advise(question: Question, progress: Progress | None = None) -> dict[str, Any]:
    """Return the document of `cohabit advise sharing`."""
    question, site = _with_site(question)
    _check(question)
    log = with_cancelled(read_log(question.log))
    stretches = cut(log, question.days, question.repeats)
    runs = [stretches[number % len(stretches)] for number in range(question.repeats)]  # each with another draw
    base = SITE if site is not None else TODAY[question.today]
    load = offered_load(log, _cores(question, site))
    tell, total = progress or (lambda _done, _total: None), len(runs) * len(ASSUMPTIONS) * (len(CANDIDATES) + 1)
    done = len(stretches)

    truth = [waits_of(one, _simulated(question, site, base, one.jobs, alone=True)) for one in stretches]
    checked = check(truth)
    tell(done, total + done)
    facts = {
        "log": str(question.log),
        "jobs_in_log": len(log),
        "jobs_simulated": sum(int(one.counted.sum()) for one in stretches),
        "nodes": question.nodes,
        "cores": question.cores,
        "days": question.days,
        "repeats": question.repeats,
        "stretches": len(stretches),
        "today": base,
        "offered_load": load,
        "today_against_log": checked,
        "defects": dict(log.defects),
    }
    if checked["believed"] is False:
        missing = what_may_be_missing(checked, log, load, site is not None, base)
        unknown_advice: dict[str, Any] = {"advice": None, "changes": False, "holds_for": [], "harms_for": []}
        said = [*opening(facts), *no_advice(checked, missing)]
        return {**facts, "cases": [], **unknown_advice, "missing": missing, "words": said, "words_above": len(said)}

    programs = catalogue(CATALOGUE).programs
    candidates = (base, *(name for name in CANDIDATES if name != base))
    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    backs: dict[tuple[str, str], list[Floats]] = {}  # turnarounds, job by job
    for number, stretch in enumerate(runs):
        for assumption in ASSUMPTIONS:
            drawn = with_programs(stretch.jobs, names_for(assumption, programs), question, number, programs)
            for policy in candidates:
                if policy == "ce-easy" and assumption != ASSUMPTIONS[0]:  # exclusive nodes: no job has a neighbour
                    found.setdefault((assumption, policy), []).append(found[ASSUMPTIONS[0], policy][-1])
                    backs.setdefault((assumption, policy), []).append(backs[ASSUMPTIONS[0], policy][-1])
                else:
                    ran = _simulated(question, site, policy, drawn)
                    found.setdefault((assumption, policy), []).append(_measure(ran, stretch))
                    backs.setdefault((assumption, policy), []).append(_turnarounds_s(ran, stretch))
                done += 1
                tell(done, total + len(stretches))
    cases = [
        _case(assumption, policy, ran, found[assumption, base], question.seed, len(stretches))
        for (assumption, policy), ran in found.items()
    ]
    judged = judge(cases, base, nothing_waits(load, checked))
    shares: dict[str, Any] = {"by_size": [], "by_user": []}
    if judged["changes"]:
        shares = _gains(runs, question.cores, backs["mixed", base], backs["mixed", judged["advice"]])
    words, above = words_for({**facts, **shares}, cases, judged, question.memory_gb > 0)
    return {**facts, "cases": cases, **judged, **shares, "missing": [], "words": words, "words_above": above}


def _gains(runs: Sequence[Stretch], cores: int, before: Sequence[Floats], after: Sequence[Floats]) -> dict[str, Any]:
    """Return which jobs of all repeats gain and which pay."""
    jobs = [one.jobs for one in runs]
    users = [
        str(part.user_names[code]) if code >= 0 else ""
        for part, stretch in zip(jobs, runs, strict=True)
        for code in part.user[stretch.counted]
    ]
    processes = np.concatenate([one.jobs.processes[one.counted] for one in runs]).astype(np.float64)
    return gains(processes, cores, users, np.concatenate(before), np.concatenate(after))


def _with_site(question: Question) -> tuple[Question, Scenario | None]:
    """Return the question with the size of the site's machine, and the site."""
    if question.site is None:
        return question, None
    if question.nodes or question.cores:
        raise InputError("--nodes and --cores do not go with --site", "--site", "leave them out: the site says it")
    site = read_scenario(question.site)
    if site.domain:
        raise InputError("has several domains", str(question.site), "give a scenario of one cluster")
    cluster = site.cluster
    nodes = sum(one.nodes for one in cluster.group) or cluster.nodes
    return replace(question, nodes=nodes, cores=max([one.cores for one in cluster.group] or [cluster.cores])), site


def _cores(question: Question, site: Scenario | None) -> int:
    if site is None or not site.cluster.group:
        return question.nodes * question.cores
    return sum(one.nodes * one.cores for one in site.cluster.group)


def _check(question: Question) -> None:
    for option, value in (("--nodes", question.nodes), ("--cores", question.cores), ("--repeat", question.repeats)):
        if value < 1:
            if option != "--repeat" and value == 0:
                fix = "give --nodes and --cores of the machine that the log is of, or --site"
                raise InputError("the size of the machine is not known", option, fix)
            raise InputError(f"{value} is not a positive number", option, "give a whole number from 1 up")
    if question.today not in TODAY:
        raise InputError(f"{question.today!r} is not a way to give out nodes", "--today", f"use {' or '.join(TODAY)}")
    if not 0 < question.days < 3660:
        raise InputError(f"{question.days:g} is not a length of time", "--days", "give 3, for example")
    for option, number in (("--memory-gb", question.memory_gb), ("--bandwidth-gbs", question.bandwidth_gbs)):
        if not 0 <= number < float("inf"):
            raise InputError(f"{number:g} is not an amount", option, "give a number from 0 up")
    most = catalogue(CATALOGUE).programs.machine
    assert most is not None
    if not 2 <= question.ways <= most.node.ways:
        raise InputError(f"{question.ways} ways", "--ways", f"give a number from 2 to {most.node.ways}")


# ---- what jobs are assumed to run -----------------------------------------------------------------------------------


def names_for(assumption: str, programs: Programs) -> list[str]:
    """Return the programs of the catalogue that jobs are assumed to run."""
    traffic = {name: one.bandwidth_gbs.values[-1] for name, one in programs.items()}
    if assumption == "gentle":
        return [name for name, gbs in traffic.items() if gbs <= GENTLE_GBS]
    if assumption == "greedy":
        return [name for name, gbs in traffic.items() if gbs >= GREEDY_GBS]
    return list(traffic)


def with_programs(
    part: Workload, names: Sequence[str], question: Question, number: int, programs: Programs
) -> Workload:
    """Return the same jobs with one program per user and kind of job; some programs cannot span nodes."""
    rng = stream(question.seed, f"assumed programs {number}")
    anywhere = [place for place, name in enumerate(names) if not programs[name].single_node]
    drawn: dict[tuple[int, int, bool], int] = {}
    chosen = np.empty(len(part), dtype=np.int32)
    for row in range(len(part)):
        wide = bool(part.processes[row] > question.cores)
        kind = (int(part.user[row]), int(part.program[row]), wide)
        if kind[:2] == (-1, -1):
            kind = (-1, -2 - row, wide)  # a log without names: every job is its own kind
        if kind not in drawn:
            drawn[kind] = int(rng.choice(anywhere if wide else np.arange(len(names))))
        chosen[row] = drawn[kind]
    return replace(part, program=chosen, program_names=tuple(names))


# ---- simulating -----------------------------------------------------------------------------------------------------


def _scenario(question: Question, site: Scenario | None, policy: str) -> Scenario:
    machine = catalogue(CATALOGUE).programs.machine
    assert machine is not None
    node = machine.node

    def of(one: NodeConfig) -> dict[str, Any]:
        """Return what no log and no slurm.conf says of a node."""
        ratio = one.cores / node.cores
        most = question.bandwidth_gbs or node.bandwidth_gbs[-1][1] * ratio
        curve: dict[str, float] = {}
        for cores, gbs in node.bandwidth_gbs:
            curve[str(max(round(cores * ratio), 1))] = round(gbs / node.bandwidth_gbs[-1][1] * most, 3)
        caches = {"ways": question.ways, "min_ways": node.min_ways, "closids": node.closids}
        return {**caches, "bandwidth_gbs": curve}

    given = Scenario() if site is None else site
    cluster = given.cluster
    if site is None:
        cluster = ClusterConfig(nodes=question.nodes, cores=question.cores, memory_gb=question.memory_gb)
    if cluster.group:
        cluster = structs.replace(cluster, group=[structs.replace(one, **of(one)) for one in cluster.group])
    else:
        cluster = structs.replace(cluster, **of(cluster))
    return structs.replace(
        given,
        seed=question.seed,
        cluster=cluster,
        programs=ProgramsConfig(catalogue=CATALOGUE),
        policy=given.policy if policy == SITE else PolicyConfig(policy),
        jobs=JobsConfig(trace=str(question.log)),
        world=WorldConfig(kill=False),
    )


def _simulated(question: Question, site: Scenario | None, policy: str, jobs: Workload, alone: bool = False) -> RunTable:
    """Simulate; `alone`: run times are those of the log, whatever is beside a job."""
    scenario = _scenario(question, site, policy)
    if alone:
        scenario = structs.replace(
            scenario, programs=ProgramsConfig(), world=WorldConfig(kill=False, contention="none")
        )
    if site is None:
        jobs = jobs if question.memory_gb else replace(jobs, memory_bytes=None)
        jobs = replace(jobs, partition=None, partition_names=())
    table, _ = simulation.run(prepare(scenario, jobs))
    return table


def _measure(table: RunTable, stretch: Stretch) -> dict[str, float]:
    ran = stretch.counted & (table.end_us != NEVER)
    waits_us, back_us = (instants[ran] - stretch.jobs.submit_us[ran] for instants in (table.start_us, table.end_us))
    return {
        "mean_wait_s": float(waits_us.mean() / SECOND) if ran.any() else 0.0,
        "mean_turnaround_s": float(back_us.mean() / SECOND) if ran.any() else 0.0,
        "node_hours": node_seconds(table) / 3600,
        "slowed_pct": _slowed_pct(table, ran),
    }


def _turnarounds_s(table: RunTable, stretch: Stretch) -> Floats:
    """Return the turnaround of every job that counts; NaN if it did not end."""
    counted = stretch.counted
    ended, back_us = table.end_us[counted], table.end_us[counted] - stretch.jobs.submit_us[counted]
    return np.where(ended != NEVER, back_us / SECOND, np.nan)


def _slowed_pct(table: RunTable, counted: NDArray[np.bool_]) -> float:
    """Return the percentage of these jobs that took more than a tenth longer than in the log."""
    ran: NDArray[np.bool_] = counted & (table.workload.run_us > SECOND)
    took = table.end_us[ran] - table.start_us[ran]
    return float(100.0 * (took > SLOWED * table.workload.run_us[ran]).mean()) if ran.any() else 0.0


def _case(
    assumption: str,
    policy: str,
    runs: Sequence[Mapping[str, float]],
    base: Sequence[Mapping[str, float]],
    seed: int,
    stretches: int,
) -> dict[str, Any]:
    """Return means over the repeats, and changes against today's rule in percent.

    An interval is over stretches, as repeats of one stretch are not independent: with fewer than three there is none.
    """
    found: dict[str, Any] = {"assumption": assumption, "policy": policy, "repeats": len(runs)}
    for name in MEASURES:
        found[name] = float(np.mean([one[name] for one in runs]))
        changes = [
            100.0 * (one[name] - was[name]) / was[name] if was[name] > 0 else 0.0
            for one, was in zip(runs, base, strict=True)
        ]
        by_stretch = [float(np.mean(changes[number::stretches])) for number in range(min(stretches, len(changes)))]
        told = bootstrap_interval(by_stretch, stream(seed, "bootstrap"))
        low, high = (told.low, told.high) if len(by_stretch) >= LEAST_STRETCHES else (None, None)
        found[f"{name.removesuffix('_s')}_change_pct"] = {"mean": float(np.mean(changes)), "low": low, "high": high}
    found["slowed_pct"] = float(np.mean([one["slowed_pct"] for one in runs]))
    return found
