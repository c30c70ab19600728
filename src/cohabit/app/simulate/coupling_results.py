"""The output of a run of several domains, on disk and terminal: one table over all domains, a summary, a report."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.app.scenario.tables import Scenario
from cohabit.app.simulate.coupling import CoupledRun
from cohabit.app.simulate.coupling_scenario import start_windows
from cohabit.app.simulate.outputs import document as single_document
from cohabit.model.group import start_offsets
from cohabit.model.records import NodeRanges, RunTable
from cohabit.model.workload import Workload
from cohabit.report import tables
from cohabit.report.mates import groups_together, summarise_mates
from cohabit.report.metrics import Metric, summarise
from cohabit.report.summary_file import write_summary


def metrics_of(table: RunTable) -> dict[str, Metric]:
    """Return every metric of one domain."""
    return summarise(table) | summarise_mates(table)


def document(run: CoupledRun, scenario: Scenario, opened_at: float) -> dict[str, Any]:
    """Return the JSON of `simulate` for several domains."""
    whole = single_document(merged(run.tables), opened_at)
    offsets = start_offsets([one.name for one in scenario.domain], start_windows(scenario.coupling))
    coupling = groups_together(run.tables, list(offsets))
    return whole | {
        "domains": {name: metrics_of(table) for name, table in run.tables.items()},
        "coupling": coupling | {"messages": run.messages, "deadlock": list(run.deadlock)},
    }


def write_run(
    run: CoupledRun, scenario: Scenario, folder: Path, opened_at: float, *, report: bool, title: str
) -> dict[str, Any]:
    """Write a run, with the journals it has; each file is complete or absent. Return the summary, timed when jobs.csv
    was closed."""
    whole = merged(run.tables)
    tables.write_jobs_csv(whole, folder / "jobs.csv")
    summary = document(run, scenario, opened_at)
    if report or run.journals:
        tables.write_jobs_parquet(whole, folder / "jobs.parquet")
    if run.journals:
        from cohabit.app.serve.journals import write_journals

        write_journals(run.journals, folder / "journal.parquet")
    if report:
        from cohabit.report.coupled import write_coupled_report

        write_coupled_report(run.tables, summary["coupling"], folder / "report.html", title)
    write_summary(summary | {"settings": whole.settings}, folder / "summary.json")
    return summary


def merged(runs: Mapping[str, RunTable]) -> RunTable:
    """Return all domains as one machine: rows one after the other, nodes numbered on from domain to domain."""
    parts = list(runs.values())
    first_nodes = np.cumsum([0, *(run.cluster_nodes for run in parts)])
    reasons, reason = _renumbered([run.reasons for run in parts], [run.reason for run in parts])
    ranges = None
    if all(run.node_ranges is not None for run in parts):
        ranges = _all_ranges([run.node_ranges for run in parts if run.node_ranges is not None], first_nodes)
    policies = list(dict.fromkeys(run.policy for run in parts))
    title = policies[0] if len(policies) == 1 else ", ".join(f"{name}: {run.policy}" for name, run in runs.items())
    together: dict[str, Any] = {
        name: np.concatenate([getattr(run, name) for run in parts])
        for name in ("start_us", "end_us", "nodes", "cores", "scale", "status")
    }
    return RunTable(
        workload=_all_jobs([run.workload for run in parts]),
        **together,
        reason=reason,
        reasons=tuple(reasons),
        cluster_nodes=int(first_nodes[-1]),
        cluster_cores=sum(run.cluster_cores for run in parts),
        policy=title,
        seed=parts[0].seed,
        events=sum(run.events for run in parts),
        node_ranges=ranges,
        shares=None
        if all(run.shares is None for run in parts)
        else [text for run in parts for text in run.shares or [""] * len(run)],
        settings=parts[0].settings,
        journal_hash=_one_hash([run.journal_hash for run in parts]),
        scenario_hash=_one_hash([run.scenario_hash for run in parts]),
    )


def _renumbered(names: Sequence[Sequence[str]], index: Sequence[NDArray[Any]]) -> tuple[list[str], NDArray[Any]]:
    """Return one list of all names, and the indices into it; -1 stays."""
    known: dict[str, int] = {}
    for own in names:
        for name in own:
            known.setdefault(name, len(known))
    found = []
    for own, column in zip(names, index, strict=True):
        places = np.array([known[name] for name in own] + [-1], column.dtype)
        found.append(places[column])
    return list(known), np.concatenate(found)


def _all_jobs(jobs: Sequence[Workload]) -> Workload:
    users, user = _renumbered([one.user_names for one in jobs], [one.user for one in jobs])
    programs, program = _renumbered([one.program_names for one in jobs], [one.program for one in jobs])
    ids = [one.job_id for one in jobs]
    if any(own.dtype.kind != "i" for own in ids):
        ids = [own.astype(str).astype(object) for own in ids]
    columns = {
        name: np.concatenate([getattr(one, name) for one in jobs])
        for name in ("submit_us", "run_us", "limit_us", "processes", "rejection")
    }
    partitions, partition = _renumbered(
        [one.partition_names for one in jobs],
        [np.full(len(one), -1, np.int32) if one.partition is None else one.partition for one in jobs],
    )
    return replace(
        jobs[0],
        job_id=np.concatenate(ids),
        user=user,
        user_names=users,
        program=program,
        program_names=programs,
        memory_bytes=_all_memory(jobs),
        partition=None if all(one.partition is None for one in jobs) else partition,
        partition_names=partitions,
        after=None
        if all(one.after is None for one in jobs)
        else [names for one in jobs for names in one.after or [()] * len(one)],
        **columns,
        extra={name: _all_values(jobs, name) for name in dict.fromkeys(name for one in jobs for name in one.extra)},
        max_nodes=sum(one.max_nodes for one in jobs),
        max_procs=sum(one.max_procs for one in jobs),
        source=", ".join(one.source for one in jobs),
        header={},
        defects={},
    )


def _all_memory(jobs: Sequence[Workload]) -> NDArray[np.int64] | None:
    if all(one.memory_bytes is None for one in jobs):
        return None
    known = [np.zeros(len(one), np.int64) if one.memory_bytes is None else one.memory_bytes for one in jobs]
    return np.concatenate(known)


def _all_values(jobs: Sequence[Workload], name: str) -> NDArray[Any]:
    """Return an extra column of all domains; None or NaN where a domain does not have it."""
    known = [one.extra[name] for one in jobs if name in one.extra]
    if len(known) == len(jobs):
        return np.concatenate(known)
    numbers = all(column.dtype.kind in "iufb" for column in known)
    nothing = np.nan if numbers else None
    kind = np.float64 if numbers else object
    return np.concatenate([one.extra.get(name, np.full(len(one), nothing, kind)).astype(kind) for one in jobs])


def _all_ranges(ranges: Sequence[NodeRanges], first_nodes: NDArray[np.int64]) -> NodeRanges:
    starts = np.cumsum([0, *(len(one.first) for one in ranges)])
    offsets = [one.offsets[:-1] + start for one, start in zip(ranges, starts[:-1], strict=True)]
    first = [one.first + node for one, node in zip(ranges, first_nodes[:-1], strict=True)]
    return NodeRanges(
        np.concatenate([*offsets, starts[-1:]]),
        np.concatenate(first).astype(np.int32),
        np.concatenate([one.count for one in ranges]),
    )


def _one_hash(hashes: Sequence[str]) -> str:
    return hashlib.blake2b("".join(hashes).encode(), digest_size=16).hexdigest()
