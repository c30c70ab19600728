"""A finished run for the page: the documents of live/api/page/documents.py, made from jobs.parquet alone.

Instants are seconds since the first submission. Every query is possible for any instant of the run. It never writes.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from cohabit.app.simulate.preparation import Prepared
from cohabit.live.api.page.charts import packed, series
from cohabit.live.api.page.documents import About, Overview, RunName, Series
from cohabit.live.api.page.gantt_documents import GanttColumns, GanttHeader
from cohabit.live.api.page.views import NodeUse
from cohabit.model.cluster import NodeGroup
from cohabit.model.errors import InputError
from cohabit.model.records import CANCELLED, NEVER, REJECTED, STATUS_NAMES, NodeRanges, RunTable
from cohabit.model.units import SECOND
from cohabit.report.gantt import core_share
from cohabit.report.tables import read_jobs_parquet
from cohabit.report.variation import by_program
from cohabit.version import __version__

Ints = NDArray[np.int64]
STATES = ("running", *STATUS_NAMES[1:])


class FinishedRun:
    """One folder written by `cohabit simulate --out`."""

    def __init__(self, folder: Path) -> None:
        path = folder / "jobs.parquet"
        if not path.is_file():
            raise InputError("has no jobs.parquet", str(folder), "simulate with --out DIR, without --no-report")
        try:
            workload, columns = read_jobs_parquet(path)
            self.folder, self.table = folder, RunTable(workload, **columns)
        except (TypeError, KeyError, ValueError, AttributeError, pl.exceptions.PolarsError) as error:
            raise InputError(
                f"is not as cohabit writes it ({type(error).__name__}: {error})",
                str(path),
                "simulate again with --out DIR",
            ) from error
        self.name = f"{folder.name}: {self.table.policy}"
        self.origin_us = int(workload.submit_us.min()) if len(workload) else 0
        ends = self.table.end_us[self.table.end_us != NEVER]
        self.until_us = max(int(ends.max()) if len(ends) else self.origin_us, self.origin_us + SECOND)
        self.ids = workload.job_id.astype(str)
        if "domain" in workload.extra:  # each domain numbers its own jobs
            pairs = zip(workload.extra["domain"].tolist(), self.ids.tolist(), strict=True)
            self.ids = np.array([f"{domain}:{name}" for domain, name in pairs], dtype=object).astype(str)

    # ---- the machine ------------------------------------------------------------------------------------------------

    @cached_property
    def domains(self) -> list[Prepared]:
        """The scenario of every domain again, for what the table lacks; empty: it cannot be loaded any more."""
        from cohabit.app.simulate.finished import load_run

        try:
            return [one.prepared for one in load_run(self.folder).domains.values()]
        except InputError:
            return []

    @property
    def prepared(self) -> Prepared | None:
        """The scenario again; None: a run of several domains has no single one."""
        return self.domains[0] if len(self.domains) == 1 else None

    @cached_property
    def groups(self) -> list[NodeGroup]:
        """The kind of every node; domain after domain."""
        if self.domains:
            return [group for one in self.domains for group in one.cluster.groups for _ in range(group.count)]
        cores = max(self.table.cluster_cores // max(self.table.cluster_nodes, 1), 1)
        return [NodeGroup(self.table.cluster_nodes, cores)] * self.table.cluster_nodes

    @cached_property
    def ranges(self) -> NodeRanges:
        """The nodes of every job; empty if they were not recorded."""
        nothing = np.zeros(0, np.int32)
        return self.table.node_ranges or NodeRanges(np.zeros(len(self.table) + 1, np.int64), nothing, nothing)

    def ranges_of(self, row: int) -> list[tuple[int, int]]:
        """Return (first, count) of a job's nodes."""
        at = slice(int(self.ranges.offsets[row]), int(self.ranges.offsets[row + 1]))
        return list(zip(self.ranges.first[at].tolist(), self.ranges.count[at].tolist(), strict=True))

    def share_of(self, row: int) -> dict[str, Any]:
        """Return how a job ran on shared nodes; empty: it had them to itself."""
        text = self.table.shares[row] if self.table.shares is not None else ""
        return dict(msgspec.json.decode(text)) if text else {}

    # ---- instants ---------------------------------------------------------------------------------------------------

    def at(self, us: int) -> float | None:
        """Convert an instant to the page's clock."""
        return None if us == NEVER else (us - self.origin_us) / SECOND

    def instant(self, at: float | None) -> int:
        """Convert an instant to the run's clock; None: its end."""
        return self.until_us if at is None else self.origin_us + round(at * SECOND)

    def running(self, now_us: int) -> Ints:
        """Return the rows that run at an instant."""
        start, end = self.table.start_us, self.table.end_us
        return np.flatnonzero((start != NEVER) & (start <= now_us) & ((end > now_us) | (end == NEVER)))

    def waiting(self, now_us: int) -> Ints:
        """Return the rows that wait at an instant."""
        table = self.table
        later = (table.start_us == NEVER) | (table.start_us > now_us)
        return np.flatnonzero((table.workload.submit_us <= now_us) & later & self._queued)

    @cached_property
    def _queued(self) -> NDArray[np.bool_]:
        """The rows that wait until their start: not rejected jobs, nor those cancelled before it at an unknown time."""
        table = self.table
        found: NDArray[np.bool_] = (table.status != REJECTED) & (
            (table.status != CANCELLED) | (table.start_us != NEVER)
        )
        return found

    def over(self, now_us: int) -> Ints:
        """Return the rows that have ended by then, latest first."""
        rows = np.flatnonzero((self.table.end_us != NEVER) & (self.table.end_us <= now_us))
        return rows[np.argsort(-self.table.end_us[rows], kind="stable")]

    # ---- documents --------------------------------------------------------------------------------------------------

    def about(self, runs: list[RunName]) -> About:
        """Return a description of the run; `runs`: all that the page can choose from."""
        table, span = self.table, self.until_us - self.origin_us
        prepared = self.prepared
        known = prepared is not None and bool(prepared.profiles)
        return {
            "source": "finished",
            "title": self.folder.name,
            "user": "",
            "role": "reader",
            "policy": table.policy,
            "nodes": table.cluster_nodes,
            "cores": table.cluster_cores,
            "from": 0.0,
            "until": span / SECOND,
            "at": round(span / 2) / SECOND,
            "coupled": "domain" in table.workload.extra,
            "programs": known or bool(by_program(table)),
            "predictions": known or table.slowdowns is not None or bool(prepared and prepared.policies.gates),
            "version": __version__,
            "runs": runs,
        }

    def overview(self, at: float | None) -> Overview:
        """Return every node in columns at an instant, and how many jobs wait and run."""
        now_us = self.instant(at)
        rows, use = self.running(now_us), NodeUse(self.groups, np.arange(len(self.groups)))
        for row in rows.tolist():
            how = self.share_of(row)
            use.add(self.ranges_of(row), how.get("cores", 0), how.get("ways", 0), how.get("bandwidth_mbs", 0))
        return {
            "nodes": use.columns(shares=self.table.shares is not None),
            "counts": {"running": len(rows), "held": 0, "queued": len(self.waiting(now_us))},
            "at": self.at(now_us),
        }

    @cached_property
    def whole_series(self) -> Series:
        """The jobs started, ended and waiting, and cores in use, over the whole run."""
        table = self.table
        entered = np.flatnonzero(self._queued)
        columns = (table.workload.submit_us, table.start_us, table.end_us, table.cores)
        submit, start, end, cores = (column[entered] for column in columns)
        found = series(submit, start, end, cores, self.origin_us, self.until_us)
        found["from"] = 0.0
        return found

    @cached_property
    def gantt(self) -> bytes:
        """The nodes of every job over time, in packed columns; the same bytes for every reader."""
        table, ranges = self.table, self.ranges
        ran = np.flatnonzero((table.start_us != NEVER) & (table.end_us != NEVER))
        place = np.full(len(table), -1, np.int32)
        place[ran] = np.arange(len(ran), dtype=np.int32)
        owner = np.repeat(np.arange(len(table)), np.diff(ranges.offsets))
        bars = np.flatnonzero(place[owner] >= 0)
        bars = bars[np.argsort(table.start_us[owner[bars]], kind="stable")]  # the page paints them in this order
        names = [str(name) for name in table.workload.program_names]
        header: GanttHeader = {
            "ids": self.ids[ran].tolist(),
            "programs": names or [""],
            "users": [str(name) for name in table.workload.user_names] or [""],
            "states": list(STATES),
            "nodes": table.cluster_nodes,
            "shared": table.shares is not None,
            "from": 0.0,
            "until": (self.until_us - self.origin_us) / SECOND,
        }
        arrays = GanttColumns(
            submit=(table.workload.submit_us[ran] - self.origin_us) / SECOND,
            start=(table.start_us[ran] - self.origin_us) / SECOND,
            end=(table.end_us[ran] - self.origin_us) / SECOND,
            program=table.workload.program[ran],
            user=table.workload.user[ran],
            size=table.nodes[ran],
            share=core_share(table, ran),
            state=table.status[ran],
            bar_job=place[owner[bars]],
            bar_first=ranges.first[bars],
            bar_count=ranges.count[bars],
        )
        return packed(header, arrays._asdict())
