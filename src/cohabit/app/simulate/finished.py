"""Load a finished run again, from its folder alone: its table, and the scenario that it followed from.

A run of several domains has one table for all of them; here every domain gets its own jobs back. Mates are those that
the table names, however they were chosen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.app.scenario import policies as policy_names
from cohabit.app.scenario.reading import scenario_from
from cohabit.app.simulate.coupling import PreparedDomains, clock_offsets, prepare_domains
from cohabit.app.simulate.preparation import Prepared, prepare
from cohabit.model.errors import InputError
from cohabit.model.group import Group
from cohabit.model.records import NodeRanges, RunTable
from cohabit.model.workload import Workload
from cohabit.report.tables import read_jobs_parquet
from cohabit.trace.pairing import COLUMN

ONLY = ""  # the name of the domain, where there is one


@dataclass(frozen=True)
class FinishedDomain:
    """One domain of a run: what it began with and how it ended."""

    prepared: Prepared
    table: RunTable
    groups: Mapping[int, Group]  # position in the order of submission -> its group
    clock_offset_us: int


@dataclass(frozen=True)
class Finished:
    """A run; `table` has all domains as one machine."""

    table: RunTable
    domains: dict[str, FinishedDomain]
    coupled: PreparedDomains | None  # None: one domain


def load_run(folder: Path) -> Finished:
    """Load a run that `simulate --out` has written."""
    path = folder / "jobs.parquet"
    if not path.is_file():
        raise InputError("the folder has no jobs.parquet", str(folder), "simulate with --out DIR, without --no-report")
    workload, columns = read_jobs_parquet(path)
    table = RunTable(workload, **columns)
    settings: dict[str, Any] = msgspec.to_builtins(dict(table.settings))
    if settings.get("domain"):
        return _load_domains(table, settings, folder)
    settings["jobs"] = {"trace": str(path)}
    prepared = prepare(scenario_from(settings, str(folder)), workload)
    return Finished(table, {ONLY: FinishedDomain(prepared, table, {}, 0)}, None)


def _load_domains(table: RunTable, settings: dict[str, Any], folder: Path) -> Finished:
    for one in settings["domain"]:
        one["jobs"] = {"trace": str(folder / "jobs.parquet")}
    settings["coupling"] |= {"pairing": COLUMN, "proportion": None}
    scenario = scenario_from(settings, str(folder))
    column = table.workload.extra.get("domain", np.empty(0, object))
    rows = {one.name: np.flatnonzero(column == one.name) for one in scenario.domain}
    coupled = prepare_domains(scenario, {name: _own_jobs(table.workload, own) for name, own in rows.items()})
    domains, first_node, offsets = {}, 0, clock_offsets(coupled)
    for one in scenario.domain:
        prepared = coupled.domains[one.name]
        own = _own_results(table, rows[one.name], prepared, first_node)
        domains[one.name] = FinishedDomain(prepared, own, coupled.groups[one.name], offsets[one.name])
        first_node += prepared.cluster.nodes
    return Finished(table, domains, coupled)


def _own_jobs(workload: Workload, rows: NDArray[np.int64]) -> Workload:
    """Return the jobs of one domain, without columns that only other domains had; the table's groups are its mates."""
    own = workload.take(rows)
    extra = {name: column for name, column in own.extra.items() if name != "mate" and not _is_empty(column)}
    return replace(own, extra=extra)


def _is_empty(column: NDArray[Any]) -> bool:
    if column.dtype.kind == "f":
        return bool(np.isnan(column).all())
    return column.dtype.kind == "O" and all(value is None for value in column.tolist())


def _own_results(table: RunTable, rows: NDArray[np.int64], prepared: Prepared, first_node: int) -> RunTable:
    """Return the results of one domain, with its own node numbers."""
    columns: dict[str, Any] = {
        name: getattr(table, name)[rows]
        for name in ("start_us", "end_us", "nodes", "cores", "scale", "status", "reason")
    }
    return replace(
        table,
        workload=table.workload.take(rows),
        **columns,
        cluster_nodes=prepared.cluster.nodes,
        cluster_cores=prepared.cluster.cores,
        policy=policy_names.title(prepared.policies.names),
        node_ranges=None if table.node_ranges is None else _own_ranges(table.node_ranges, rows, first_node),
        shares=None if table.shares is None else [table.shares[row] for row in rows.tolist()],
    )


def _own_ranges(ranges: NodeRanges, rows: NDArray[np.int64], first_node: int) -> NodeRanges:
    counts = np.diff(ranges.offsets)[rows]
    places = [np.arange(ranges.offsets[row], ranges.offsets[row + 1]) for row in rows.tolist()]
    kept = np.concatenate([np.empty(0, np.int64), *places])
    offsets = np.concatenate(([0], np.cumsum(counts))).astype(np.int64)
    return NodeRanges(offsets, ranges.first[kept] - np.int32(first_node), ranges.count[kept])
