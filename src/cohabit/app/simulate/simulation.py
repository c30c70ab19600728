"""Run a scenario: choose the engine, run it, and put the results into a RunTable.

Plain traces on interchangeable whole nodes go through the whole-trace driver; dependencies, partitions, memory, windows
and faults through the event-by-event world. Both use the same core, and both write the same journal.
"""

from __future__ import annotations

import numpy as np

from cohabit.app.simulate.preparation import Prepared, prepare, public
from cohabit.app.simulate.results import ResultTable, ranges_of, settings_of
from cohabit.app.simulate.stepping import (
    STILL_WAITING,
    Observer,
    Progress,
    Stepper,
    has_latency,
    replays_terms,
    traced_jobs,
)
from cohabit.model.errors import InputError
from cohabit.model.records import CANCELLED, DONE, KILLED, NEVER, RunTable
from cohabit.sim.journal import Journal
from cohabit.sim.machine.recorder import BandwidthRecorder
from cohabit.sim.trace_driver import replay


def run(
    prepared: Prepared,
    *,
    engine: str = "auto",
    record_nodes: bool = True,
    progress: Progress | None = None,
    observe: Observer | None = None,
    recorder: BandwidthRecorder | None = None,
) -> tuple[RunTable, Journal]:
    """Simulate; `engine` is auto, fast (refuses what it cannot do) or steps. A recorder sees every node's bandwidth."""
    obstacle = _beyond_fast(prepared)
    if engine == "fast" and obstacle:
        raise InputError(f"the fast engine cannot do this: {obstacle}", "--engine", "use auto or steps")
    if engine == "steps" or obstacle or observe is not None or recorder is not None:
        stepper = Stepper(prepared, observe=observe, recorder=recorder, keep_segments=record_nodes)
        stepper.run(progress)
        return stepper.result()
    return _run_fast(prepared, record_nodes, progress)


def _beyond_fast(prepared: Prepared) -> str:
    cluster, faults, policies = prepared.cluster, prepared.scenario.faults, prepared.policies
    limits_age = bool(policies.age_limit_us or policies.age_limit_runs)
    by_age = policies.order.name in ("age", "fcfs") and policies.backfill_order is None
    reasons = {
        "several kinds of nodes": len(cluster.groups) > 1 or bool(cluster.partitions),
        "maintenance windows": bool(prepared.scenario.cluster.maintenance),
        "dependencies between jobs": prepared.workload.after is not None and any(prepared.workload.after),
        "latency of the manager": has_latency(prepared.scenario.world),
        "terms of a log": replays_terms(prepared.workload),
        "memory limits": prepared.workload.memory_bytes is not None and cluster.groups[0].memory_bytes > 0,
        "faults": faults.node_mtbf_h > 0 or faults.late_reports_s > 0,
        "shared nodes": not policies.placer.exclusive,
        "backfilling in cycles": policies.backfill.cycle is not None,
        "priorities of QOS": bool(prepared.scenario.qos),
        "limits of the site": bool(policies.bounds),
        "another placement of whole nodes": policies.placer.exclusive and not getattr(policies.placer, "lowest", False),
        "a gate": bool(policies.gates),
        "weather": prepared.scenario.world.weather != "none",
        "an age limit beside this order": limits_age and not by_age,
    }
    return ", ".join(reason for reason, holds in reasons.items() if holds)


def _run_fast(prepared: Prepared, record_nodes: bool, progress: Progress | None) -> tuple[RunTable, Journal]:
    workload, rows, kill = prepared.workload, prepared.rows, prepared.scenario.world.kill
    run_us, limit_us = workload.run_us[rows], workload.limit_us[rows]
    result = replay(
        workload.submit_us[rows],
        np.minimum(run_us, limit_us) if kill else run_us,
        limit_us,
        prepared.nodes,
        workload.processes[rows],
        workload.user[rows].astype(np.int64),
        prepared.cluster.nodes,
        prepared.policies,
        record_ranges=record_nodes,
        progress=progress,
    )
    table = ResultTable(prepared)
    ran = result.end_us != NEVER
    table.start_us[rows], table.end_us[rows] = result.start_us, result.end_us
    table.nodes[rows[ran]] = prepared.nodes[ran]
    killed = ran & (run_us > limit_us) & kill
    table.status[rows] = np.where(killed, KILLED, np.where(ran, DONE, CANCELLED))
    table.say(rows[killed], "reached its time limit")
    table.say(rows[~ran], STILL_WAITING)
    ranges = None
    if result.ranges is not None and result.range_owner is not None:
        ranges = ranges_of(rows[result.range_owner], result.ranges[0], result.ranges[1], len(workload))
    return table.finish(result.journal, result.events, ranges), result.journal


def finished_jobs(table: RunTable) -> int:
    """Return the number of jobs that ran to an end of any kind."""
    return int((table.end_us != NEVER).sum())


__all__ = [
    "Observer", "Prepared", "Progress", "finished_jobs", "prepare", "public", "run", "settings_of", "traced_jobs",
]  # fmt: skip
