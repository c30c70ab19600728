"""Bounds of a site on what runs at once: jobs, cores and nodes of a user, an account, a partition or a QOS.

A job over a bound waits, is promised nothing, and keeps no other job back, as under Slurm (`QOSMaxJobsPerUserLimit`).
Counting is by what runs and what a pass has started.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cohabit.core.columns import CORES, NODES
from cohabit.model.job import Job

if TYPE_CHECKING:
    from cohabit.core.view import View

ALL, USER, ACCOUNT = PER = ("all", "user", "account")


@dataclass(frozen=True)
class Bound:
    """At most so many jobs, cores and nodes at once, of the jobs it is about; 0: no such bound."""

    per: str = ALL  # counted together: all jobs it is about, those of one user or of one account
    partition: str = ""  # "": jobs of any partition
    qos: str = ""  # "": jobs of any quality of service
    jobs: int = 0
    cores: int = 0
    nodes: int = 0
    name: str = ""  # how the site calls it

    def covers(self, job: Job) -> bool:
        """Return whether it is about this job."""
        return self.partition in ("", job.partition) and self.qos in ("", job.service)

    def group(self, job: Job) -> str | int:
        """Return who the job is counted with."""
        return job.user if self.per == USER else job.account if self.per == ACCOUNT else ""


class InUse:
    """What runs under each bound, in one pass."""

    def __init__(self, view: View, bounds: Sequence[Bound]) -> None:
        self._view, self._bounds = view, bounds
        self._used: dict[tuple[int, str | int], tuple[int, int, int]] = {}
        for row in view.running().tolist() if bounds else ():
            self.begin(row)

    def begin(self, row: int) -> None:
        """Count a job that runs, or starts in this pass."""
        for key, wanted in self._wanted(row):
            jobs, cores, nodes = self._used.get(key, (0, 0, 0))
            self._used[key] = jobs + wanted[0], cores + wanted[1], nodes + wanted[2]

    def why_not(self, row: int) -> str:
        """Return which bound keeps a job back now; empty if none does."""
        for (number, group), wanted in self._wanted(row):
            bound, used = self._bounds[number], self._used.get((number, group), (0, 0, 0))
            for what, most, now, more in zip(
                ("jobs", "cores", "nodes"), (bound.jobs, bound.cores, bound.nodes), used, wanted, strict=True
            ):
                if most and now + more > most:
                    of = {ALL: "", USER: " of one user", ACCOUNT: " of one account"}[bound.per]
                    return f"limit {bound.name or number + 1}: at most {most} {what}{of} at once, {now} in use"
        return ""

    def _wanted(self, row: int) -> list[tuple[tuple[int, str | int], tuple[int, int, int]]]:
        if not self._bounds:
            return []
        job, jobs = self._view.job(row), self._view.jobs
        wanted = (1, int(jobs[CORES, row]), int(jobs[NODES, row]))
        return [((number, bound.group(job)), wanted) for number, bound in enumerate(self._bounds) if bound.covers(job)]
