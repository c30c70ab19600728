"""Whether the simulation of today's rule says what the log says: mean waits of the same jobs, side by side.

An advice compares rules in the simulator. Where the simulator does not give today's waits, it is not to be
believed about others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.app.advise.stretches import Stretch
from cohabit.model.records import NEVER, RunTable
from cohabit.model.units import SECOND
from cohabit.model.workload import ACCEPTED, Workload
from cohabit.trace.records import BEGIN_AFTER, WAITED

MOST_OFF = 0.2  # of the log's mean wait
LEAST_S = 10.0  # a smaller difference is the manager's own latency
NEARLY_EMPTY = 0.3  # offered load below which a machine that lets no job wait counts as nearly empty


class Waits(NamedTuple):
    """Waits of the same jobs, in seconds."""

    log: NDArray[np.float64]
    simulated: NDArray[np.float64]


def waits_of(stretch: Stretch, table: RunTable) -> Waits:
    """Return the waits of the jobs that count and began in both."""
    jobs = stretch.jobs
    in_log = jobs.extra.get(WAITED, np.full(len(jobs), -SECOND))
    both = stretch.counted & (in_log >= 0) & (table.start_us != NEVER)
    return Waits(in_log[both] / SECOND, (table.start_us - jobs.submit_us)[both] / SECOND)


def offered_load(log: Workload, cores: int) -> float:
    """Return the core-seconds of the jobs that ran over what the machine offers from first submission to last end."""
    ran = (log.rejection == ACCEPTED) & (log.run_us > 0)
    if not ran.any():
        return 0.0
    ends_us = log.submit_us + np.maximum(log.extra.get(WAITED, np.zeros(len(log), np.int64)), 0) + log.run_us
    span_us = int(ends_us[ran].max() - log.submit_us[ran].min())
    return float((log.run_us[ran].astype(np.float64) * log.processes[ran]).sum() / (max(span_us, 1) * cores))


def check(waits: Sequence[Waits]) -> dict[str, Any]:
    """Return both mean waits and whether the simulation is to be believed; `believed` is None without waits."""
    log, simulated = (np.concatenate([getattr(one, side) for one in waits]) for side in ("log", "simulated"))
    if not len(log):
        return {"jobs": 0, "log_wait_s": None, "simulated_wait_s": None, "off_pct": None, "believed": None}
    was, now = float(log.mean()), float(simulated.mean())
    off = None if was == 0 else 100.0 * (now - was) / was
    far = abs(now - was) > max(MOST_OFF * was, LEAST_S)
    return {"jobs": len(log), "log_wait_s": was, "simulated_wait_s": now, "off_pct": off, "believed": not far}


def what_may_be_missing(found: dict[str, Any], log: Workload, load: float, site: bool, today: str) -> list[str]:
    """Return what could explain that today's rule gives other waits than the log."""
    missing = []
    if found["simulated_wait_s"] < found["log_wait_s"]:
        if log.after is None and BEGIN_AFTER not in log.extra:
            missing.append(
                "dependencies, begin times and holds: give sacct's Eligible and SubmitLine, as its output or a jobs.csv"
            )
        if not site:
            missing.append("limits, partitions and Slurm's cycles: cohabit import slurm-conf, then --site site.toml")
        missing.append("reservations, drained nodes, and jobs that were submitted before the log begins")
        if today == "cs":
            missing.append("whole nodes, if the site gives them out (--today whole)")
        return missing
    if today == "ce-easy" and not site:
        missing.append("jobs that shared nodes (--today cores)")
    if load > 0.9:
        missing.append(f"nodes or cores (the log offers {100 * load:.0f} % of the machine as given): --nodes, --cores")
    missing += ["a machine that is larger than given, or grew", "order by priority: --site with the weights of Slurm"]
    return missing if not site else missing[:-1]
