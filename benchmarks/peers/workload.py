"""The jobs that every simulator gets, and the start times of textbook EASY for them.

The trace comes from `cohabit generate lublin` (Lublin and Feitelson 2003) with a fixed seed, and is written as plain
SWF with every run time within its request, so that no peer has to decide what happens to a job that runs too long. The
reference is the project's independent one (tests/reference/textbook_easy.c), which shares no code with the product.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.plain_easy import simulate as plain_simulate
from tests.reference.fast_easy import compiler, fast_easy_starts
from tests.reference.textbook import Job

COHABIT = [sys.executable, "-m", "cohabit.cli"]


@dataclass(frozen=True)
class Workload:
    """A trace on disk, its jobs, its machine, and when EASY starts each job."""

    swf: Path
    jobs: tuple[Job, ...]
    nodes: int
    easy: dict[int, int]

    @property
    def label(self) -> str:
        """As the page names it."""
        return f"{len(self.jobs):,} jobs, {self.nodes:,} nodes"


def make(folder: Path, jobs: int, nodes: int, load: float = 0.9) -> Workload:
    """Generate, clean and solve one workload."""
    raw, swf = folder / f"raw-{jobs}-{nodes}.swf", folder / f"peers-{jobs}-{nodes}.swf"
    options = ["--jobs", str(jobs), "--nodes", str(nodes), "--load", str(load), "--seed", "1"]
    subprocess.run([*COHABIT, "generate", "lublin", *options, "-o", str(raw)], check=True, capture_output=True)
    found = clean(raw.read_text())
    swf.write_text(as_swf(found, nodes))
    return Workload(swf, tuple(found), nodes, easy_starts(found, nodes))


def clean(text: str) -> list[Job]:
    """Jobs of an SWF file: at least one second each, never longer than requested."""
    found = []
    for line in text.splitlines():
        if line.startswith(";") or not line.strip():
            continue
        field = [int(float(word)) for word in line.split()]
        limit = max(field[8], 1)
        found.append(Job(field[0], field[1], min(max(field[3], 1), limit), limit, field[7]))
    return found


def as_swf(jobs: list[Job], nodes: int) -> str:
    """Eighteen columns, single spaces, no blank lines: what the strictest reader among the peers accepts."""
    head = f"; Version: 2.2\n; MaxJobs: {len(jobs)}\n; MaxNodes: {nodes}\n; MaxProcs: {nodes}\n"
    return head + "".join(
        f"{j.job_id} {j.submit} 0 {j.run} {j.size} 0 0 {j.size} {j.limit} -1 1 1 1 1 1 1 -1 -1\n" for j in jobs
    )


def easy_starts(jobs: list[Job], nodes: int) -> dict[int, int]:
    """Job -> start under FCFS with EASY backfilling. The C reference; without a compiler the plain Python one."""
    if compiler() is not None:
        starts = [start or 0 for start in fast_easy_starts(jobs, nodes)]
    else:
        submit, run, limit = ([getattr(job, key) for job in jobs] for key in ("submit", "run", "limit"))
        starts = plain_simulate(submit, run, limit, [job.size for job in jobs], nodes)
    return {job.job_id: start for job, start in zip(jobs, starts, strict=True)}


@dataclass(frozen=True)
class Likeness:
    """Likeness of a peer's start times to those of textbook EASY."""

    same: int
    of: int
    wait_ratio: float  # mean wait over EASY's
    lost: int = 0  # jobs without a start time

    @property
    def text(self) -> str:
        """For a table."""
        if self.same == self.of:
            return "yes, all"
        if self.lost:
            return f"no: {self.lost:,} of {self.of:,} jobs never start"
        return f"no: {100 * self.same / self.of:.0f} % of them, mean wait {self.wait_ratio:.2f} times"


def compare(work: Workload, starts: dict[int, int]) -> Likeness:
    """Job by job; a job that never started counts as different."""
    same = sum(starts.get(job.job_id) == work.easy[job.job_id] for job in work.jobs)
    easy_wait = sum(work.easy[job.job_id] - job.submit for job in work.jobs)
    wait = sum(starts.get(job.job_id, job.submit) - job.submit for job in work.jobs)
    return Likeness(same, len(work.jobs), wait / max(easy_wait, 1), len(work.jobs) - len(starts))
