"""Nodes on which runs last as long as the scene says, on the clock of the loop; the back end of a live controller.

They outlive controllers, stop runs at their limits and fuses, and keep ends until these are settled.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from cohabit.backend.protocol import ENDED, NEVER, RUNNING, BackendError, Capabilities, Launch, Run
from cohabit.model.command import CancelJob, Command, RenewJob, StartJob, StopJob
from cohabit.model.event import Event, JobFinished, JobStarted
from cohabit.model.units import FOREVER
from tests.mates_conformance.scene import Job

ROUNDING_S = 1e-6  # of the loop's clock


@dataclass
class Running:
    """One run."""

    job: str
    attempt: int
    start_s: float
    ends_s: float  # by itself
    how: str
    fuse_s: float = float("inf")
    status: str = ""  # how it ended
    end_s: float = 0.0


class Machines:
    """The nodes of a domain. `ahead_us`: its clock minus the loop's."""

    def __init__(self, jobs: dict[str, Job], refuse: dict[str, float], ahead_us: int) -> None:
        self._jobs, self._refuse, self._ahead_us = jobs, refuse, ahead_us
        self.runs: dict[tuple[str, int], Running] = {}
        self._unsettled: dict[tuple[str, int], Running] = {}
        self._told: asyncio.Queue[Event] = asyncio.Queue()
        self.capabilities = Capabilities(fuses=True)

    def reconnect(self) -> Machines:
        """For a new controller: what was not heard by the old one is in `observe`."""
        self._told = asyncio.Queue()
        return self

    async def open(self) -> None:
        """Nothing to do."""

    async def close(self) -> None:
        """Runs go on."""

    async def execute(self, command: Command, launch: Launch | None = None) -> None:
        """Carry out an order."""
        match command:
            case StartJob(job_id=job_id):
                now_s = asyncio.get_running_loop().time()
                if self._refuse.get(job_id, now_s + 1) <= now_s:
                    del self._refuse[job_id]
                    raise BackendError("the nodes could not start it")
                self._start(command, now_s)
            case CancelJob(job_id, attempt):
                self._end((job_id, attempt), "cancelled")
            case StopJob(job_id, attempt):
                self._end((job_id, attempt), "stopped")
            case RenewJob(job_id, attempt, fuse_us) if (job_id, attempt) in self.runs:
                self.runs[job_id, attempt].fuse_s = self._true_s(fuse_us)
                self._look_later(self.runs[job_id, attempt])

    async def events(self) -> AsyncIterator[Event]:
        """What happens from now on."""
        while True:
            yield await self._told.get()

    async def observe(self) -> list[Run]:
        """All runs that are not settled."""
        return [
            Run(one.job, one.attempt, ENDED if one.status else RUNNING, one.status) for one in self._unsettled.values()
        ] or [Run("", 0, NEVER)][:0]

    async def settled(self, job_id: str, attempt: int) -> None:
        """Its end is in the journal."""
        self._unsettled.pop((job_id, attempt), None)

    def _true_s(self, at_us: int) -> float:
        return float("inf") if at_us >= FOREVER else (at_us - self._ahead_us) / 1e6

    def _start(self, order: StartJob, now_s: float) -> None:
        job = self._jobs[order.job_id]
        how = "done" if job.run_s <= job.limit_s else "killed"
        run = Running(job.name, order.attempt, now_s, now_s + min(job.run_s, job.limit_s), how)
        run.fuse_s = self._true_s(order.fuse_us)
        self.runs[job.name, order.attempt] = self._unsettled[job.name, order.attempt] = run
        self._told.put_nowait(JobStarted(job.name, order.attempt))
        self._look_later(run)

    def _look_later(self, run: Running) -> None:
        at_s = min(run.ends_s, run.fuse_s)
        if at_s < float("inf"):
            asyncio.get_running_loop().call_at(at_s, self._look, run)

    def _look(self, run: Running) -> None:
        now_s = asyncio.get_running_loop().time() + ROUNDING_S
        if run.ends_s <= now_s:
            self._end((run.job, run.attempt), run.how)
        elif run.fuse_s <= now_s:
            self._end((run.job, run.attempt), "stopped")

    def _end(self, key: tuple[str, int], status: str) -> None:
        run = self.runs.get(key)
        if run is not None and not run.status:
            run.status, run.end_s = status, asyncio.get_running_loop().time()
            self._told.put_nowait(JobFinished(*key, status))
