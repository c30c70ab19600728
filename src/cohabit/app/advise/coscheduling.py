"""Advise from a site's own logs which coscheduling scheme each side should use, and what it would cost (C38).

A part of the logs is simulated under every scheme, with jobs paired as requested; the paper's findings on how many
pairs a scheme tolerates are applied to the results. Nothing is written.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from cohabit.app.scenario.tables import ClusterConfig, CouplingConfig, DomainConfig, JobsConfig, PolicyConfig, Scenario
from cohabit.app.simulate import simulation
from cohabit.app.simulate.coupling import prepare_domains, run_domains
from cohabit.app.simulate.coupling_results import metrics_of
from cohabit.app.simulate.coupling_scenario import domain_scenario
from cohabit.model.errors import InputError
from cohabit.model.scheme import AGREE, HOLD, YIELD
from cohabit.model.units import DAY, SECOND
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.report.mates import groups_together
from cohabit.trace.catalogue import read_trace
from cohabit.trace.coupled_machines import shifted, within

MANY, SOME = 1 / 3, 0.1  # of the jobs paired: the paper's limits (V.E)
BEARABLE_LOSS = 0.05  # of a machine's node-hours
MOST_SIDES = 4
Progress = Callable[[int, int], None]


@dataclass(frozen=True)
class Question:
    """The input of an advice on coscheduling."""

    logs: tuple[Path, ...]
    nodes: tuple[int, ...] = ()  # sizes of the machines; none: as the logs say
    pairing: CouplingConfig = field(default_factory=lambda: CouplingConfig(pairing="vicinity"))
    days: float = 5.0
    order: str = "wfp"
    backfill: str = "easy"
    seed: int = 1


@dataclass(frozen=True)
class Part:
    """The part of the logs that is simulated, by domain."""

    jobs: dict[str, Workload]
    begin_s: float
    moved: dict[str, float]  # days by which a log was moved to overlap with the first
    outside: int  # jobs of the logs that were not simulated


def advise(question: Question, progress: Progress | None = None) -> dict[str, Any]:
    """Return the document of `cohabit advise coscheduling`."""
    part = _part(question)
    scenario = _scenario(question, part.jobs)
    ways = combinations(list(part.jobs))
    prepared = prepare_domains(scenario, part.jobs)
    if not prepared.ties:
        raise InputError(
            "no jobs of these logs belong together",
            "coupling",
            "try another --pairing, or more --vicinity-s or --days",
        )
    tied = {name: len(groups) for name, groups in prepared.groups.items()}
    shares = {name: tied[name] / max(len(one.rows), 1) for name, one in prepared.domains.items()}
    base = _apart(scenario, part.jobs)
    cases = []
    for number, way in enumerate(ways):
        cases.append(_case(scenario, part.jobs, way, base))
        if progress is not None:
            progress(number + 1, len(ways))
    chosen = judge(cases, max(shares.values()))
    return {
        "paper": "coscheduling",
        "domains": {
            name: {
                "jobs": len(prepared.domains[name].rows),
                "nodes": prepared.domains[name].cluster.nodes,
                "paired_pct": 100.0 * shares[name],
                "base": base[name],
                "moved_days": part.moved.get(name, 0.0),
            }
            for name in part.jobs
        },
        "groups": len(prepared.ties),
        "days": question.days,
        "begin_s": part.begin_s,
        "jobs_outside": part.outside,
        "cases": cases,
        **chosen,
        "words": words_for(chosen, cases, shares, question, part),
    }


def combinations(names: Sequence[str]) -> list[dict[str, str]]:
    """Return schemes by domain: all combinations of hold and yield, and agree everywhere."""
    found = [dict(zip(names, way, strict=True)) for way in itertools.product((HOLD, YIELD), repeat=len(names))]
    return [*found, dict.fromkeys(names, AGREE)]


def judge(cases: Sequence[dict[str, Any]], share: float) -> dict[str, Any]:
    """Choose a case: the paper's limits on hold first, then the shortest mean wait over all jobs."""
    allowed = [one for one in cases if share < SOME or HOLD not in one["schemes"].values()]
    allowed = [one for one in allowed if one["worst_loss_pct"] <= 100 * BEARABLE_LOSS] or allowed
    published = [one for one in allowed if AGREE not in one["schemes"].values()]
    best = min(published, key=_order)
    overall = min(allowed, key=_order)
    return {
        "enable": share <= MANY or overall["schemes"] != best["schemes"],
        "advice": overall["schemes"],
        "advice_without_agree": best["schemes"],
        "paired_pct": 100.0 * share,
    }


def _order(case: dict[str, Any]) -> tuple[float, float]:
    return case["mean_wait_s"], case["worst_loss_pct"]


def words_for(
    chosen: dict[str, Any], cases: Sequence[dict[str, Any]], shares: dict[str, float], question: Question, part: Part
) -> list[str]:
    """Return the advice as sentences."""
    said = [_of_part(shares, question, part)]
    share = chosen["paired_pct"] / 100.0
    if share > MANY:
        said.append(
            f"{100 * share:.0f} % of the jobs on one side have mates, more than a third: switch coscheduling off for "
            "most of them, or yield on every side. Holding nodes is not advisable."
        )
    elif share >= SOME:
        said.append(
            f"{100 * share:.0f} % of the jobs on one side have mates: from a tenth on, holding nodes costs other jobs "
            "more than yielding, so only yield and agree are considered."
        )
    else:
        said.append(f"At most {100 * share:.1f} % of the jobs have mates: few enough for every scheme.")
    by_schemes = {tuple(one["schemes"].values()): one for one in cases}
    best = by_schemes[tuple(chosen["advice_without_agree"].values())]
    said.append(f"With the paper's schemes: {_named(best)}. {_cost(best)}")
    overall = by_schemes[tuple(chosen["advice"].values())]
    if overall is not best:
        said.append(f"Better, if all sides run this software: {_named(overall)}. {_cost(overall)}")
    held = by_schemes[tuple(HOLD for _ in best["schemes"])]
    if held is not best:
        said.append(f"For comparison, {_named(held)}: {_cost(held)}")
    return said


def _of_part(shares: dict[str, float], question: Question, part: Part) -> str:
    sizes = ", ".join(f"{len(jobs):,} jobs of {name}" for name, jobs in part.jobs.items())
    moved = "".join(
        f" The logs do not overlap in time: {name} was moved by {days:.0f} days." for name, days in part.moved.items()
    )
    return (
        f"Simulated: {question.days:g} days, {sizes}, under {question.order} with {question.backfill} on every side; "
        f"paired by {question.pairing.pairing}.{moved}"
    )


def _named(case: dict[str, Any]) -> str:
    return ", ".join(f"{scheme} on {name}" for name, scheme in case["schemes"].items())


def _cost(case: dict[str, Any]) -> str:
    parts = []
    for name, told in case["domains"].items():
        lost = f", {told['loss_pct']:.1f} % of its node-hours kept idle" if told["loss_pct"] >= 0.05 else ""
        parts.append(
            f"{name}: mean wait {told['wait_min']:.0f} min ({told['extra_wait_min']:+.1f}), jobs with mates wait "
            f"{told['sync_min']:.0f} min for them{lost}"
        )
    return "; ".join(parts) + "."


# ---- running ------------------------------------------------------------------------------------------------------


def _part(question: Question) -> Part:
    """Return the stretch of the given length in which the log with the fewest jobs has the most."""
    logs = {name: read_trace(path) for name, path in zip(_names(question.logs), question.logs, strict=True)}
    if not 0 < question.days < 3660:
        raise InputError(f"--days {question.days:g} is not a length of time", "", "give 5, for example")
    for place, (name, jobs) in enumerate(logs.items()):
        if question.nodes:
            logs[name] = replace(jobs, max_nodes=question.nodes[place], max_procs=question.nodes[place])
        elif jobs.max_nodes < 1 and jobs.max_procs < 1:
            what = "the log does not say how large its machine is"
            raise InputError(what, str(question.logs[place]), "give --nodes N,N for all logs")
    moved: dict[str, float] = {}
    first = next(iter(logs.values()))
    for name, jobs in list(logs.items())[1:]:
        if jobs.submit_us.max() < first.submit_us.min() or jobs.submit_us.min() > first.submit_us.max():
            by_us = int(first.submit_us.min() - jobs.submit_us.min())
            logs[name], moved[name] = shifted(jobs, by_us), by_us / DAY
    begin_us = _busiest(list(logs.values()), round(question.days * DAY))
    parts = {name: within(jobs, begin_us, begin_us + round(question.days * DAY)) for name, jobs in logs.items()}
    outside = sum(len(jobs) for jobs in logs.values()) - sum(len(jobs) for jobs in parts.values())
    for name, jobs in parts.items():
        if not (jobs.rejection == ACCEPTED).any():
            raise InputError(
                f"{name} has no jobs in the {question.days:g} days that were compared", "", "give more --days"
            )
    return Part(parts, begin_us / SECOND, moved, outside)


def _busiest(logs: Sequence[Workload], span_us: int) -> int:
    begin_us = max(int(jobs.submit_us.min()) for jobs in logs)
    end_us = min(int(jobs.submit_us.max()) for jobs in logs)
    places = np.arange(begin_us, max(end_us - span_us, begin_us) + 1, DAY, dtype=np.int64)
    counts = np.full(len(places), np.iinfo(np.int64).max)
    for jobs in logs:
        times = np.sort(jobs.submit_us)
        counts = np.minimum(counts, np.searchsorted(times, places + span_us) - np.searchsorted(times, places))
    return int(places[int(np.argmax(counts))])


def _names(logs: Sequence[Path]) -> list[str]:
    """Return short, unique names for the logs."""
    found: list[str] = []
    for path in logs:
        name = "".join(sign if sign.isalnum() or sign in "-_" else "-" for sign in path.name.split(".")[0]) or "log"
        found.append(name if name not in found else f"{name}-{found.count(name) + 1}")
    if len(set(found)) < len(found):
        return [f"{name}-{number}" for number, name in enumerate(found, start=1)]
    return found


def _scenario(question: Question, jobs: dict[str, Workload]) -> Scenario:
    policy = PolicyConfig(order=question.order, backfill=question.backfill)
    domains = [
        DomainConfig(name, ClusterConfig(nodes=one.max_nodes or one.max_procs), JobsConfig(trace=one.source), policy)
        for name, one in jobs.items()
    ]
    return Scenario(seed=question.seed, domain=domains, coupling=question.pairing)


def _apart(scenario: Scenario, jobs: dict[str, Workload]) -> dict[str, dict[str, Any]]:
    """Simulate every machine by itself."""
    found = {}
    for domain in scenario.domain:
        prepared = simulation.prepare(domain_scenario(scenario, domain), jobs[domain.name])
        table, _ = simulation.run(prepared, record_nodes=False)
        told = metrics_of(table)
        found[domain.name] = {"wait_min": (told["mean_wait_s"] or 0.0) / 60, "utilisation": told["utilisation"]}
    return found


def _case(
    scenario: Scenario, jobs: dict[str, Workload], way: dict[str, str], base: dict[str, dict[str, Any]]
) -> dict[str, Any]:
    domains = [msgspec.structs.replace(one, scheme=way[one.name]) for one in scenario.domain]
    prepared = prepare_domains(msgspec.structs.replace(scenario, domain=domains), jobs)
    run = run_domains(prepared, record_nodes=False)
    told, waited_s, ran = {}, 0.0, 0
    for name, table in run.tables.items():
        one = metrics_of(table)
        wait_s = one["mean_wait_s"] or 0.0
        waited_s, ran = waited_s + wait_s * int(one["jobs_ran"] or 0), ran + int(one["jobs_ran"] or 0)
        told[name] = {
            "wait_min": wait_s / 60,
            "extra_wait_min": wait_s / 60 - base[name]["wait_min"],
            "sync_min": (one["mean_sync_s"] or 0.0) / 60,
            "loss_node_hours": one["held_node_hours"],
            "loss_pct": 100.0 * (one["held_share"] or 0.0),
            "mean_slowdown": one["mean_slowdown"],
        }
    together = groups_together(run.tables)
    return {
        "schemes": way,
        "domains": told,
        "mean_wait_s": waited_s / max(ran, 1),
        "worst_loss_pct": max(one["loss_pct"] for one in told.values()),
        "groups_together": together["groups_together"],
        "groups": together["groups"],
    }
