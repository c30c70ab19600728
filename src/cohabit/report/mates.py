"""The cost of coscheduling: the time jobs waited for their mates, and the nodes kept idle meanwhile (C16 to C19).

Reads the columns `group`, `first_ready_s`, `held_s` and `yields` that a run of several domains leaves beside its jobs.
Exact definitions: docs/metrics.md. A value without meaning is None.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from cohabit.model.records import NEVER, RunTable
from cohabit.model.units import SECOND
from cohabit.report.metrics import Metric, mean, ran_jobs, slowdown, span_us
from cohabit.report.wording import Entry

MATES_GLOSSARY = {
    "mates_total": Entry("Jobs with mates", "count", "Jobs that belong to a group with jobs of other domains."),
    "mates_started": Entry("Jobs with mates that started", "count", "Those of them that ran."),
    "mean_sync_s": Entry(
        "Mean synchronisation time", "duration",
        "From the first time nodes were found for a job with mates to its start.", "lower",
    ),
    "max_sync_s": Entry("Longest synchronisation time", "duration", "The longest of those.", "lower"),
    "held_node_hours": Entry(
        "Service-unit loss, node-hours", "hours",
        "Nodes times the time they were kept idle for jobs that wait for mates.", "lower",
    ),
    "held_share": Entry(
        "Service-unit loss, share", "share", "The same as a share of all node-hours of the run.", "lower"
    ),
    "yields": Entry("Turns given up", "count", "How often jobs gave their nodes back because mates were not ready."),
    "mean_wait_mates_s": Entry("Mean wait, with mates", "duration", "Over jobs with mates that ran.", "lower"),
    "mean_wait_others_s": Entry("Mean wait, others", "duration", "Over jobs without mates that ran.", "lower"),
    "mean_slowdown_others": Entry("Mean slowdown, others", "number", "Over jobs without mates that ran.", "lower"),
}  # fmt: skip


def has_mates(run: RunTable) -> NDArray[np.bool_]:
    """Per row, whether the job belongs to a group."""
    group = run.workload.extra.get("group")
    if group is None:
        return np.zeros(len(run), bool)
    return np.array([bool(name) for name in group], bool)


def summarise_mates(run: RunTable) -> dict[str, Metric]:
    """Every metric of one domain about jobs with mates, by name."""
    extra, tied = run.workload.extra, has_mates(run)
    none = np.zeros(len(run))
    held_s, yields = extra.get("held_s", none), extra.get("yields", none)
    jobs = ran_jobs(run)
    mine = tied[jobs.row]
    sync_s = np.empty(0)
    if mine.any():
        sync_s = jobs.start_us[mine] / SECOND - extra["first_ready_s"][jobs.row[mine]]
    nodes = np.ceil(run.workload.processes * (run.cluster_nodes / max(run.cluster_cores, 1)))
    lost = float((held_s * nodes).sum()) / 3600
    offered = run.cluster_nodes * span_us(jobs) / SECOND / 3600
    return {
        "mates_total": int(tied.sum()),
        "mates_started": int(mine.sum()),
        "mean_sync_s": mean(sync_s),
        "max_sync_s": float(sync_s.max()) if len(sync_s) else None,
        "held_node_hours": lost,
        "held_share": lost / offered if offered > 0 else None,
        "yields": int(yields.sum()),
        "mean_wait_mates_s": mean(jobs.wait_s[mine]),
        "mean_wait_others_s": mean(jobs.wait_s[~mine]),
        "mean_slowdown_others": mean(slowdown(jobs.wait_s[~mine], jobs.run_s[~mine])),
    }


def groups_together(tables: Mapping[str, RunTable], offsets_us: Sequence[int] = ()) -> dict[str, Metric]:
    """Count the groups that started and those that started together; the others' largest distance.

    `offsets_us`: by how much each domain's jobs are meant to start later than the first; none: all at once.
    """
    starts: dict[str, list[int]] = {}
    never: set[str] = set()
    for place, run in enumerate(tables.values()):
        offset_us = offsets_us[place] if offsets_us else 0
        for row in np.flatnonzero(has_mates(run)).tolist():
            name = str(run.workload.extra["group"][row])
            if run.start_us[row] == NEVER:
                never.add(name)
            starts.setdefault(name, []).append(int(run.start_us[row]) - offset_us)
    whole = {name: at for name, at in starts.items() if name not in never}
    apart = [max(at) - min(at) for at in whole.values()]
    return {
        "groups": len(starts),
        "groups_started": len(whole),
        "groups_together": sum(us == 0 for us in apart),
        "groups_not_started": len(never),
        "max_apart_s": max(apart) / SECOND if apart else None,
    }
