"""Write records of a running scheduler as a run: summary.json, jobs.csv and report.html, like those of a simulation.

Only jobs that have ended are included: the run time of the others is not known yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.app.simulate.results import ranges_of
from cohabit.model.records import CANCELLED, DONE, FAILED, KILLED, NEVER, RunTable, Slowdowns
from cohabit.model.units import SECOND, microseconds
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.report.metrics import LIVE, summarise
from cohabit.report.predicted import slowdown_figures
from cohabit.report.summary_file import write_summary
from cohabit.report.variation import by_program
from cohabit.version import __version__

STATUS = {
    "done": DONE, "failed": FAILED, "killed": KILLED, "cancelled": CANCELLED, "lost": FAILED,
}  # fmt: skip
LOST = "lost with its machine, or with the process that watched it"

View = dict[str, Any]


def run_table(jobs: Sequence[View], nodes: Sequence[View], policy: str) -> RunTable:
    """Return the jobs that have ended, in the order of submission, on these nodes."""
    views = sorted((job for job in jobs if job["state"] in STATUS), key=lambda job: float(job["submitted_at"]))
    start_us, end_us = _instants(views, "started_at"), _instants(views, "ended_at")
    ran = (start_us != NEVER) & (end_us != NEVER)
    status = np.array([STATUS[view["state"]] for view in views], np.int8)
    lost = np.array([view["state"] == "lost" for view in views], bool)
    places = [[] if not started else sorted(view["nodes"]) for view, started in zip(views, ran, strict=True)]
    owner = np.repeat(np.arange(len(views)), [len(place) for place in places]).astype(np.int64)
    first = np.array([node for place in places for node in place], np.int32)
    return RunTable(
        workload=_workload(views, start_us, end_us),
        start_us=np.where(ran, start_us, NEVER),
        end_us=np.where(ran, end_us, NEVER),
        nodes=np.array([len(place) for place in places], np.int32),
        cores=np.where(ran, [_used(view) for view in views], 0).astype(np.int64),
        scale=np.where(ran, [int(view["scale"] or 1) for view in views], 0).astype(np.int32),
        status=status,
        reason=lost.astype(np.int32),
        reasons=("", LOST),
        cluster_nodes=len(nodes),
        cluster_cores=sum(int(node["cores"]) for node in nodes),
        policy=policy,
        seed=0,
        events=0,
        node_ranges=ranges_of(owner, first, np.ones_like(first), len(views)),
        slowdowns=_slowdowns(views),
    )


def _slowdowns(views: Sequence[View]) -> Slowdowns | None:
    """Return what was predicted and measured; None: nothing was."""
    columns = [
        np.array([view.get(key) for view in views], np.float64) for key in ("predicted_slowdown", "actual_slowdown")
    ]
    return None if all(np.isnan(column).all() for column in columns) else Slowdowns(*columns)


def allotted_utilisation(jobs: Sequence[View], nodes: Sequence[View]) -> float | None:
    """Return `utilisation` of the metrics, but by allocated cores: a node allocated whole counts whole."""
    ran = [job for job in jobs if job["started_at"] is not None and job["ended_at"] is not None]
    if not ran:
        return None
    span_s = max(job["ended_at"] for job in ran) - min(job["submitted_at"] for job in ran)
    given_s = sum(job["cores"] * (job["ended_at"] - job["started_at"]) for job in ran)
    cores = sum(int(node["cores"]) for node in nodes)
    return float(given_s / (cores * span_s)) if cores and span_s > 0 else None


def write_live_report(table: RunTable, folder: Path, title: str, more: View) -> View:
    """Write the three files, each complete or absent; return the summary."""
    from cohabit.report import tables
    from cohabit.report.html import write_report

    tables.write_jobs_csv(table, folder / "jobs.csv")
    summary = {
        "jobs": int((table.start_us != NEVER).sum()),
        "policy": table.policy,
        "version": __version__,
        "metrics": summarise(table),
        "programs": by_program(table),
        **slowdown_figures(table),
        **more,
    }
    write_report([table], folder / "report.html", title=title)
    write_summary(summary, folder / "summary.json")
    return summary


def _used(view: View) -> int:
    """Return the cores its processes used; a server of an earlier version reports only the allocated ones."""
    return int(view.get("used_cores") or view["cores"] or view["processes"])


def _instants(views: Sequence[View], key: str) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.array([NEVER if view[key] is None else microseconds(view[key]) for view in views], np.int64)


def _workload(views: Sequence[View], start_us: Any, end_us: Any) -> Workload:
    users, programs = (sorted({str(view[key]) for view in views}) for key in ("user", "program"))
    user_at, program_at = ({name: at for at, name in enumerate(names)} for names in (users, programs))
    run_us = np.where((start_us == NEVER) | (end_us == NEVER), 0, end_us - np.where(start_us == NEVER, 0, start_us))
    return Workload(
        job_id=np.array([str(view["job"]) for view in views], dtype=object),
        submit_us=_instants(views, "submitted_at"),
        run_us=np.maximum(run_us, 0),
        limit_us=np.array([round(view["limit_s"] * SECOND) for view in views], np.int64),
        processes=np.array([int(view["processes"]) for view in views], np.int64),
        user=np.array([user_at[str(view["user"])] for view in views], np.int32),
        program=np.array([program_at[str(view["program"])] for view in views], np.int32),
        rejection=np.full(len(views), ACCEPTED, np.int8),
        user_names=users,
        program_names=programs,
        source=LIVE,
    )
