"""Programs, neighbours and domains of a finished run, and its comparison with another run. It never writes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from cohabit.app.view.run import FinishedRun
from cohabit.live.api.page import learning as page_learning
from cohabit.live.api.page.documents import (
    Domains,
    PastGroup,
    Predictions,
    Programs,
    VariabilityGate,
)
from cohabit.model.profile import Profile
from cohabit.model.records import NEVER, RunTable
from cohabit.model.units import SECOND
from cohabit.report.metrics import ran_jobs, summarise
from cohabit.report.predicted import Compared, compared_rows, slowdown_figures
from cohabit.report.variation import by_program, first_policy_norms
from cohabit.report.wording import GLOSSARY, jobs_of, shown

MOST_GROUPS = 500
POINTS = 120
MOST_APART = 1.1  # between the jobs, and the work, of two runs that can be called better or worse than each other
MOST_POINTS = 200  # jobs of which predicted and measured slowdown are told


def programs(run: FinishedRun) -> Programs:
    """Return every program with what the scheduler was told of it."""
    prepared = run.prepared
    if prepared is None:
        return {"programs": [], "learns": False, "ways": 0, "variation": by_program(run.table)}
    group, trials = prepared.cluster.groups[0], getattr(prepared.policies.placer, "trials", None)
    found = [page_learning.program_view(one, group, trials, ()) for one in prepared.profiles]
    return {
        "programs": found,
        "learns": trials is not None,
        "ways": group.ways,
        "variation": by_program(run.table),
    }


def predictions(run: FinishedRun) -> Predictions:
    """Return the slowdowns the scheduler predicted between programs, and the questions and answers of its gates."""
    matrix, gates = None, list[VariabilityGate]()
    if run.prepared is not None:
        known: dict[tuple[str, str], dict[int, Profile]] = defaultdict(dict)
        for one in run.prepared.profiles:
            known[one.program, one.owner][one.processes] = one
        judge = getattr(run.prepared.policies.placer, "degradations", None)
        matrix = page_learning.matrix(known, run.prepared.cluster.groups[0], judge)
        gates = [
            {
                "gate": gate.name,
                "labels": list(getattr(gate, "labels", ())),
                "now": [],
                "passed_over": [],
                "skip_threshold": getattr(gate, "skip_threshold", 0),
                "without_data": "The run is over.",
                "tallies": {
                    key: value for key, value in run.table.gates.get(gate.name, {}).items() if isinstance(value, int)
                },
            }
            for gate in run.prepared.policies.gates
        ]
    return {"matrix": matrix, "gates": gates, "counters": None, "slowdowns": _slowdowns(run)}


def _slowdowns(run: FinishedRun) -> Compared | None:
    """Return predicted and measured slowdowns, newest last; None: none was predicted."""
    table, rows = run.table, compared_rows(run.table)
    if table.slowdowns is None or not len(rows):
        return None
    newest = rows[np.argsort(table.end_us[rows], kind="stable")][-MOST_POINTS:]
    points: list[dict[str, str | float]] = [
        {
            "job": str(run.ids[row]),
            "program": str(table.workload.program_names[code]) if code >= 0 else "",
            "predicted": float(table.slowdowns.predicted[row]),
            "actual": float(table.slowdowns.measured[row]),
        }
        for row, code in zip(newest.tolist(), table.workload.program[newest].tolist(), strict=True)
    ]
    return {"points": points, "mean_abs_error": slowdown_figures(table)["slowdowns"]["mean_abs_error"]}


def domains(run: FinishedRun) -> Domains:
    """Return groups of jobs that started together; None: the run had one domain."""
    extra, table = run.table.workload.extra, run.table
    if "domain" not in extra or "group" not in extra:
        return {"coupling": None}
    groups: dict[str, list[int]] = defaultdict(list)
    for row, name in enumerate(extra["group"].tolist()):
        if name:
            groups[str(name)].append(row)
    past: list[PastGroup] = []
    for name, rows in groups.items():
        starts = [int(table.start_us[row]) for row in rows if table.start_us[row] != NEVER]
        ready = [float(extra["first_ready_s"][row]) for row in rows] if "first_ready_s" in extra else []
        ready = [one - run.origin_us / SECOND for one in ready if np.isfinite(one)]
        begin = run.at(min(starts)) if starts else None
        past.append(
            {
                "group": name,
                "jobs": [{"domain": str(extra["domain"][row]), "job": str(run.ids[row])} for row in rows],
                "first_ready": min(ready, default=None),
                "start": begin,
                "apart_s": (max(starts) - min(starts)) / SECOND if starts else None,
                "waited_s": begin - min(ready) if ready and begin is not None else None,
            }
        )
    past.sort(key=lambda one: -(one["waited_s"] or 0.0))
    names = list(dict.fromkeys(str(name) for name in extra["domain"].tolist()))
    return {
        "coupling": {
            "domain": ", ".join(names),
            "peers": names,
            "scheme": "",
            "past": past[:MOST_GROUPS],
            "left_out": max(len(past) - MOST_GROUPS, 0),
        }
    }


# ---- two runs -------------------------------------------------------------------------------------------------------


class Judged(Protocol):
    """A run to compare: its name and its table."""

    @property
    def name(self) -> str: ...

    @property
    def table(self) -> RunTable: ...


def compare(runs: Sequence[Judged]) -> dict[str, Any]:
    """Compare the first two runs: every figure, and how long jobs waited."""
    both = runs[:2]
    norms, alike = first_policy_norms([run.table for run in both]), same_work(both)
    figures = [summarise(run.table, norms) for run in both]
    rows = []
    for key, about in GLOSSARY.items():
        values = [one.get(key) for one in figures]
        if any(value is not None for value in values):
            better = {"lower": -1, "higher": 1}.get(about.better, 0) if alike else 0
            rows.append(
                {
                    "key": key,
                    "title": about.label,
                    "values": values,
                    "better": better,
                    "shown": [shown(about.kind, value) for value in values],
                }
            )
    waits = [_waits(run) for run in both]
    means = [shown("duration", one.get("mean_turnaround_s")) for one in figures]
    words = f"Mean turnaround {means[0]} under {both[0].name}, {means[1]} under {both[1].name}."
    if alike:
        words += " One run each: a small difference may be chance."
    else:
        jobs = " and ".join(jobs_of(int(one["jobs_ran"] or 0)) for one in figures)
        words += f" The runs have different jobs ({jobs} ran), so neither is better."
    return {"runs": [run.name for run in both], "rows": rows, "waits": waits, "words": words}


def same_work(runs: Sequence[Judged]) -> bool:
    """Return whether the runs have about as many jobs and as much work to do: else neither can be called better."""
    sizes = []
    for run in runs:
        jobs = run.table.workload
        sizes.append((float(len(jobs)), float((jobs.processes * (jobs.run_us / SECOND)).sum())))
    return all(max(pair) <= MOST_APART * max(min(pair), 1.0) for pair in zip(*sizes, strict=True))


def _waits(run: Judged) -> list[list[float]]:
    """Return [log10(1 + wait), share of jobs that waited at most that long]."""
    waits = np.sort(ran_jobs(run.table).wait_s)
    if not len(waits):
        return [[0.0, 0.0]]
    shares = np.linspace(0.0, 1.0, POINTS)
    at = np.quantile(waits, shares)
    return [[float(np.log10(1.0 + wait)), float(share)] for wait, share in zip(at, shares, strict=True)]
