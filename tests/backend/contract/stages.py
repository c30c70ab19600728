"""The same stage for every back end: hand in a job, give orders about it, hear facts, restart the back end."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from pathlib import Path

from cohabit.backend.gridengine import discovery as of_gridengine
from cohabit.backend.gridengine.calls import Calls as GridEngineCalls
from cohabit.backend.gridengine.steering import GridEngineManager
from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.protocol import Backend, Launch
from cohabit.backend.slurm import discovery as of_slurm
from cohabit.backend.slurm.calls import Calls as SlurmCalls
from cohabit.backend.slurm.steering import SlurmManager
from cohabit.backend.steered.backend import Expected, SteeredBackend
from cohabit.model.command import StartJob
from cohabit.model.event import Event, JobFinished, JobStarted, JobSubmitted, StartRefused
from cohabit.model.units import SECOND
from tests.support.gridengine_cluster import GridEngineCluster
from tests.support.slurm_cluster import SlurmCluster

WAIT_S = 90.0
TOLD = JobStarted | JobFinished | StartRefused  # what the contract is about; nodes come and go besides


class Stage(ABC):
    """One back end and the jobs on it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.backend: Backend
        self.heard: list[Event] = []
        self._listening: asyncio.Task[None] | None = None

    async def open(self, expected: dict[str, Expected] | None = None) -> None:
        """The back end, as after a restart if jobs are `expected`."""
        self.backend = await self.make(expected or {})
        await self.backend.open()

    def listen(self) -> None:
        """From now on facts are heard."""

        async def hear() -> None:
            async for event in self.backend.events():
                self.heard.append(event)

        self._listening = asyncio.create_task(hear())

    async def close(self) -> None:
        """The controller is gone; runs go on."""
        if self._listening is not None:
            self._listening.cancel()
            await asyncio.gather(self._listening, return_exceptions=True)
        await self.backend.close()

    async def until(self, kind: type[Event], job: str, attempt: int) -> Event:
        """The fact of this kind about this run."""
        async with asyncio.timeout(WAIT_S):
            while True:
                for event in self.heard:
                    if (
                        isinstance(event, kind)
                        and isinstance(event, TOLD)
                        and (event.job_id, event.attempt) == (job, attempt)
                    ):
                        return event
                await asyncio.sleep(0.05)

    def told(self, job: str) -> list[Event]:
        """All facts about its runs, in their order."""
        return [event for event in self.heard if isinstance(event, TOLD) and event.job_id == job]

    def order(self, job: str, attempt: int = 1, node: int = 0) -> StartJob:
        """Start it on one node."""
        return StartJob(job, attempt, ((node, 1),), 600 * SECOND)

    def script(self, text: str, job: str) -> str:
        """A program that notes every run of it first."""
        return f"echo {job} >> {self.folder}/runs\n{text}"

    def runs(self) -> list[str]:
        """Every run of every job, as the jobs themselves say."""
        noted = self.folder / "runs"
        return noted.read_text().split() if noted.exists() else []

    @abstractmethod
    async def make(self, expected: dict[str, Expected]) -> Backend:
        """A back end."""

    @abstractmethod
    async def submit(self, text: str) -> tuple[str, Launch | None]:
        """A job that runs these lines of shell; returns when a start of it can be ordered."""


class LocalStage(Stage):
    """Processes on this machine."""

    submitted = 0

    async def make(self, expected: dict[str, Expected]) -> Backend:
        return LocalBackend(self.folder / "place", VirtualNodes(2), lambda at_us: at_us)

    async def submit(self, text: str) -> tuple[str, Launch | None]:
        self.submitted += 1
        name = f"job{self.submitted}"
        return name, Launch(("/bin/sh", "-c", self.script(text, name)))


class _ManagedStage(Stage):
    """Jobs come by the manager's own command and are held."""

    count = 0

    async def submit(self, text: str) -> tuple[str, Launch | None]:
        self.count += 1
        path = self.folder / f"script{self.count}.sh"
        path.write_text(f"#!/bin/sh\n{self.script(text, f'${self.number}')}\n")
        name = await asyncio.to_thread(self.hand_in, path)
        async with asyncio.timeout(WAIT_S):
            while not any(isinstance(event, JobSubmitted) and event.job.job_id == name for event in self.heard):
                await asyncio.sleep(0.05)
        return name, None

    number: str  # the variable in which a job finds its number

    @abstractmethod
    def hand_in(self, script: Path) -> str:
        """A held job; its number."""


class SlurmStage(_ManagedStage):
    """A real Slurm."""

    number = "SLURM_JOB_ID"

    def __init__(self, folder: Path, slurm: SlurmCluster) -> None:
        super().__init__(folder)
        self.slurm = slurm

    async def make(self, expected: dict[str, Expected]) -> Backend:
        calls = SlurmCalls(str(self.slurm.conf))
        found = await of_slurm.discover(calls, all_held=True)
        return SteeredBackend(SlurmManager(calls), found, expected, poll_s=0.3)

    def hand_in(self, script: Path) -> str:
        return self.slurm.run("sbatch", "--parsable", "--hold", "--requeue", "--output=/dev/null", str(script)).strip()


class GridEngineStage(_ManagedStage):
    """A real Grid Engine."""

    number = "JOB_ID"

    def __init__(self, folder: Path, ge: GridEngineCluster) -> None:
        super().__init__(folder)
        self.ge = ge

    async def make(self, expected: dict[str, Expected]) -> Backend:
        calls = GridEngineCalls(str(self.ge.bin))
        found, site = await of_gridengine.discover(calls, ["all.q"], all_held=True, checkpoint="cohabit")
        return SteeredBackend(GridEngineManager(calls, site, all_held=True, secures=True), found, expected, poll_s=0.3)

    def hand_in(self, script: Path) -> str:
        words = ("qsub", "-terse", "-h", "-ckpt", "cohabit", "-o", "/dev/null", "-j", "y", str(script))
        return self.ge.run(*words).strip()
