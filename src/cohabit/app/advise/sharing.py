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
from numpy.typing import NDArray

from cohabit.app.scenario.tables import ClusterConfig, JobsConfig, PolicyConfig, ProgramsConfig, Scenario, WorldConfig
from cohabit.app.simulate import simulation
from cohabit.app.simulate.preparation import prepare
from cohabit.model.errors import InputError
from cohabit.model.records import NEVER, RunTable
from cohabit.model.units import DAY, HOUR, SECOND
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.report.intervals import bootstrap_interval
from cohabit.report.metrics import summarise
from cohabit.sim.streams import stream
from cohabit.trace.catalogue import READERS, read_trace
from cohabit.trace.coupled_machines import within
from cohabit.trace.files import UTF8_MARK, open_trace
from cohabit.trace.programs import Programs, catalogue

CATALOGUE = "sns12"
TODAY = {"whole": "ce-easy", "cores": "cs"}  # how the site allocates nodes now -> the bundle that represents it
CANDIDATES = ("ce", "cs", "sns")
GENTLE_GBS, GREEDY_GBS = 30.0, 40.0  # memory traffic of 16 processes: gentle at most, greedy at least
ASSUMPTIONS = ("gentle", "mixed", "greedy")
MEASURES = ("mean_wait_s", "mean_turnaround_s", "node_hours")
MOST_JOBS, LEAST_JOBS = 3000, 20
CLEAR_PCT = 2.0  # a smaller change of the mean turnaround counts as no change
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


def read_log(path: Path) -> Workload:
    """Read a trace or the output of sacct, unchanged."""
    with open_trace(path) as stream:
        first = stream.read(FIRST_BYTES).removeprefix(UTF8_MARK).partition(b"\n")[0]
    return READERS["sacct"](path) if b"JobID|" in first or b"|JobID" in first else read_trace(path)


def advise(question: Question, progress: Progress | None = None) -> dict[str, Any]:
    """Return the document of `cohabit advise sharing`."""
    _check(question)
    log = read_log(question.log)
    stretches = cut(log, question.days, question.repeats)
    programs = catalogue(CATALOGUE).programs
    base = TODAY[question.today]
    total = len(stretches) * (1 + len(ASSUMPTIONS) * len(CANDIDATES))
    done = 0

    def advance() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    found: dict[tuple[str, str], list[dict[str, float]]] = {}
    for number, stretch in enumerate(stretches):
        for assumption in ASSUMPTIONS:
            drawn = with_programs(stretch, names_for(assumption, programs), question, number, programs)
            for policy in (base, *(name for name in CANDIDATES if name != base)):
                if policy == "ce-easy" and assumption != ASSUMPTIONS[0]:  # exclusive nodes: no job has a neighbour
                    found.setdefault((assumption, policy), []).append(found[ASSUMPTIONS[0], policy][-1])
                    continue
                found.setdefault((assumption, policy), []).append(_measure(question, policy, drawn))
                advance()
    if progress is not None:
        progress(total, total)
    cases = [
        _case(assumption, policy, runs, found[assumption, base], question.seed)
        for (assumption, policy), runs in found.items()
    ]
    judged = judge(cases, base)
    facts = {
        "log": str(question.log),
        "jobs_in_log": len(log),
        "jobs_simulated": sum(len(one) for one in stretches),
        "nodes": question.nodes,
        "cores": question.cores,
        "days": question.days,
        "repeats": len(stretches),
        "today": base,
        "defects": dict(log.defects),
    }
    return {**facts, "cases": cases, **judged, "words": words_for(facts, cases, judged, question)}


def _check(question: Question) -> None:
    for option, value in (("--nodes", question.nodes), ("--cores", question.cores), ("--repeat", question.repeats)):
        if value < 1:
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


# ---- the part of the log that is simulated --------------------------------------------------------------------------


def cut(log: Workload, days: float, repeats: int) -> list[Workload]:
    """Cut `repeats` stretches spread evenly over the log; if it is too short, return the whole log each time."""
    usable = log.rejection == ACCEPTED
    if int(usable.sum()) < LEAST_JOBS:
        raise InputError(f"only {int(usable.sum())} jobs ran", log.source, f"give a log of at least {LEAST_JOBS}")
    first_us, last_us = int(log.submit_us[usable].min()), int(log.submit_us[usable].max())
    span_us = round(days * DAY)
    if last_us - first_us <= span_us:
        return [_shortened(log)] * repeats
    begins = np.linspace(first_us, last_us - span_us, repeats).astype(np.int64).tolist()
    found = [_shortened(within(log, begin, begin + span_us)) for begin in begins]
    found = [one for one in found if int((one.rejection == ACCEPTED).sum()) >= LEAST_JOBS]
    if not found:
        raise InputError(f"has no {days:g} days with {LEAST_JOBS} jobs", log.source, "give more --days")
    return found


def _shortened(part: Workload) -> Workload:
    """Keep the first jobs, as many as can be simulated in a minute or two."""
    return part.take(part.order()[:MOST_JOBS]) if len(part) > MOST_JOBS else part


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


def _scenario(question: Question, policy: str) -> Scenario:
    machine = catalogue(CATALOGUE).programs.machine
    assert machine is not None
    node, ratio = machine.node, question.cores / machine.node.cores
    most = question.bandwidth_gbs or node.bandwidth_gbs[-1][1] * ratio
    curve: dict[str, float] = {}
    for cores, gbs in node.bandwidth_gbs:
        curve[str(max(round(cores * ratio), 1))] = round(gbs / node.bandwidth_gbs[-1][1] * most, 3)
    cluster = ClusterConfig(
        nodes=question.nodes,
        cores=question.cores,
        memory_gb=question.memory_gb,
        ways=question.ways,
        min_ways=node.min_ways,
        closids=node.closids,
        bandwidth_gbs=curve,
    )
    return Scenario(
        seed=question.seed,
        cluster=cluster,
        programs=ProgramsConfig(catalogue=CATALOGUE),
        policy=PolicyConfig(policy),
        jobs=JobsConfig(trace=str(question.log)),
        world=WorldConfig(kill=False),
    )


def _measure(question: Question, policy: str, jobs: Workload) -> dict[str, float]:
    jobs = jobs if question.memory_gb else replace(jobs, memory_bytes=None)
    prepared = prepare(_scenario(question, policy), replace(jobs, partition=None, partition_names=()))
    table, _ = simulation.run(prepared)
    told = summarise(table)
    return {
        "mean_wait_s": float(told["mean_wait_s"] or 0.0),
        "mean_turnaround_s": float(told["mean_turnaround_s"] or 0.0),
        "node_hours": busy_node_hours(table),
        "slowed_pct": _slowed_pct(table),
    }


def busy_node_hours(table: RunTable) -> float:
    """Return the node hours with at least one job, over all nodes: a node shared by two jobs counts once."""
    ranges = table.node_ranges
    assert ranges is not None
    stays = [
        (node, int(table.start_us[row]), int(table.end_us[row]))
        for row in np.flatnonzero(table.end_us != NEVER).tolist()
        for at in range(int(ranges.offsets[row]), int(ranges.offsets[row + 1]))
        for node in range(int(ranges.first[at]), int(ranges.first[at]) + int(ranges.count[at]))
    ]
    total_us, last, until_us = 0, -1, 0
    for node, start_us, end_us in sorted(stays):
        until_us = until_us if node == last else start_us
        last = node
        total_us += max(end_us - max(start_us, until_us), 0)
        until_us = max(until_us, end_us)
    return total_us / HOUR


def _slowed_pct(table: RunTable) -> float:
    """Return the percentage of the jobs that ran which took more than a tenth longer than in the log."""
    ran: NDArray[np.bool_] = (table.end_us != NEVER) & (table.workload.run_us > SECOND)
    took = table.end_us[ran] - table.start_us[ran]
    return float(100.0 * (took > SLOWED * table.workload.run_us[ran]).mean()) if ran.any() else 0.0


def _case(
    assumption: str, policy: str, runs: Sequence[Mapping[str, float]], base: Sequence[Mapping[str, float]], seed: int
) -> dict[str, Any]:
    """Return means over the repeats, and changes against today's rule in percent with their intervals."""
    found: dict[str, Any] = {"assumption": assumption, "policy": policy, "repeats": len(runs)}
    for name in MEASURES:
        found[name] = float(np.mean([one[name] for one in runs]))
        changes = [
            100.0 * (one[name] - was[name]) / was[name] if was[name] > 0 else 0.0
            for one, was in zip(runs, base, strict=True)
        ]
        told = bootstrap_interval(changes, stream(seed, "bootstrap"))
        found[f"{name.removesuffix('_s')}_change_pct"] = {"mean": told.mean, "low": told.low, "high": told.high}
    found["slowed_pct"] = float(np.mean([one["slowed_pct"] for one in runs]))
    return found


# ---- judging --------------------------------------------------------------------------------------------------------


def judge(cases: Sequence[Mapping[str, Any]], base: str) -> dict[str, Any]:
    """Return the policy that helps most with mixed programs, and whether that holds under all assumptions."""
    changes = {(one["assumption"], one["policy"]): one["mean_turnaround_change_pct"] for one in cases}
    best, least = base, 0.0
    for policy in dict.fromkeys(one["policy"] for one in cases):
        change = changes["mixed", policy]
        upper = change["mean"] if change["high"] is None else change["high"]
        if policy != base and upper < -CLEAR_PCT and change["mean"] < least:
            best, least = policy, change["mean"]
    verdicts = {assumption: _verdict(changes[assumption, best]) for assumption in ASSUMPTIONS}
    return {
        "advice": best,
        "changes": best != base,
        "holds_for": [name for name in ASSUMPTIONS if verdicts[name] < 0],
        "harms_for": [name for name in ASSUMPTIONS if verdicts[name] > 0],
    }


def _verdict(change: Mapping[str, Any]) -> int:
    """Return -1 for clearly shorter, 1 for clearly longer, 0 for neither."""
    low, high = (change["mean"] if change[end] is None else change[end] for end in ("low", "high"))
    return -1 if high < -CLEAR_PCT else 1 if low > CLEAR_PCT else 0


EXPLAINED = {
    "ce-easy": "whole nodes, first come first served with EASY backfilling",
    "ce": "whole nodes, first fit with an age limit",
    "cs": "jobs share nodes, as compactly as they fit",
    "sns": "jobs share nodes and spread out where that helps, with cache and bandwidth booked",
}


def words_for(
    facts: Mapping[str, Any], cases: Sequence[Mapping[str, Any]], judged: Mapping[str, Any], question: Question
) -> list[str]:
    """Return the advice as sentences."""
    by_key = {(one["assumption"], one["policy"]): one for one in cases}
    base, best = facts["today"], judged["advice"]
    memory = "" if question.memory_gb else " Memory was not looked at (--memory-gb)."
    said = [
        f"Simulated: {facts['repeats']} stretches of up to {question.days:g} days, {facts['jobs_simulated']:,} jobs of "
        f"the log, on {question.nodes} nodes of {question.cores} cores, each beginning with an empty machine.{memory}",
        f"Today is taken to be {base}: {EXPLAINED[base]}. In the mixed case jobs wait "
        f"{_time(by_key['mixed', base]['mean_wait_s'])} and are back after "
        f"{_time(by_key['mixed', base]['mean_turnaround_s'])} on average.",
        "Assumed, as no log says it: what programs ask of cache and memory. Each user's kinds of jobs run programs of "
        f"the {CATALOGUE} catalogue: gentle ones only (at most {GENTLE_GBS:g} GB/s), all (mixed), or greedy ones only "
        f"(at least {GREEDY_GBS:g} GB/s); the scheduler has measured them before.",
    ]
    if not judged["changes"]:
        said.append(
            f"Advice: stay with {base}. No other rule makes the mean turnaround clearly shorter (by more than "
            f"{CLEAR_PCT:g} %) if programs are mixed."
        )
        said.append("Next: nothing to do; look again when the load or the programs have changed.")
        return said
    said.append(f"Advice: {best} ({EXPLAINED[best]}). {_gain(by_key['mixed', best])}")
    if best != "ce" and base == "ce-easy":
        alone = by_key["mixed", "ce"]["mean_turnaround_change_pct"]["mean"]
        said.append(f"The queue's order alone (ce, nothing shared) would change the mean turnaround by {alone:+.0f} %.")
    gentle = by_key["mixed", "sns"]
    if best != "sns" and _verdict(gentle["mean_turnaround_change_pct"]) < 0 < by_key["mixed", best]["slowed_pct"]:
        said.append(
            f"Where no job may be slowed much, take sns: {_percent(gentle['mean_turnaround_change_pct'])}, and "
            f"{gentle['slowed_pct']:.0f} % of the jobs run more than a tenth longer."
        )
    others = [
        f"{name}: {_percent(by_key[name, best]['mean_turnaround_change_pct'])}, "
        f"{by_key[name, best]['slowed_pct']:.0f} % of the jobs run more than a tenth longer"
        for name in ASSUMPTIONS
        if name != "mixed"
    ]
    said.append(f"How much hangs on the assumption: mean turnaround if programs are {'; if they are '.join(others)}.")
    if judged["harms_for"]:
        said.append(
            f"That is not safe: if programs are {' or '.join(judged['harms_for'])}, jobs are back later than today. "
            "Measure your programs first (cohabit profile)."
        )
    elif len(judged["holds_for"]) < len(ASSUMPTIONS):
        weak = [name for name in ASSUMPTIONS if name not in judged["holds_for"]]
        said.append(f"If programs are {' or '.join(weak)}, no clear gain is left; nothing is lost either.")
    else:
        said.append("The gain is there whichever of the three is true.")
    said.append(
        f'Next: watch your own cluster without touching it: a site file with name = "{best}" under [policy], then '
        "cohabit slurm shadow site.toml --for 3d (docs/operators-first-hour.md)."
    )
    return said


def _gain(case: Mapping[str, Any]) -> str:
    return (
        f"If programs are mixed: mean wait {_percent(case['mean_wait_change_pct'])}, mean turnaround "
        f"{_percent(case['mean_turnaround_change_pct'])}, node-hours {_percent(case['node_hours_change_pct'])}; "
        f"{case['slowed_pct']:.0f} % of the jobs run more than a tenth longer than in the log."
    )


def _percent(change: Mapping[str, float | None]) -> str:
    bounds = "" if change["low"] is None else f" (95 %: {change['low']:+.0f} to {change['high']:+.0f} %)"
    return f"{change['mean']:+.0f} %{bounds}"


def _time(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
