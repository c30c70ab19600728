"""Asking Slurm for all its jobs: a short digest of all of them, and in full only those whose digest has changed.

In full as JSON where its squeue speaks it, as text otherwise: JSON is preferred because a name or a comment, which
users write, may contain anything, new lines included.
"""

from __future__ import annotations

import asyncio
import logging

from cohabit.backend.slurm import commands, json_output, text_output
from cohabit.backend.slurm.calls import Calls, SlurmAway, SlurmRefused
from cohabit.backend.slurm.shapes import SlurmJob

FEW = 12  # jobs that are asked for one by one; more of them are cheaper all at once
log = logging.getLogger(__name__)


class JobReader:
    """Finds out once which form there is, and remembers what it read."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self.as_json, self.digests = calls, True, True
        self._lines: dict[int, str] = {}  # the digest of every job that was read
        self._read: dict[int, list[SlurmJob]] = {}  # by Slurm's number; a waiting array is several

    async def all(self) -> list[SlurmJob]:
        """Every job Slurm remembers, those that ended included."""
        lines = await self._digest()
        if lines is None:
            return await self._in_full()
        changed = [number for number, line in lines.items() if self._lines.get(number) != line]
        if len(changed) > FEW or not self._read:
            self._read = {}
            for job in await self._in_full():
                self._read.setdefault(job.number, []).append(job)
        else:
            found = await asyncio.gather(*(self._one(number) for number in changed))
            self._read = {number: jobs for number, jobs in self._read.items() if number in lines}
            self._read |= dict(zip(changed, found, strict=True))
        self._lines = lines
        return [job for jobs in self._read.values() for job in jobs]

    async def _digest(self) -> dict[int, str] | None:
        """Of every job; None: this squeue cannot."""
        if not self.digests:
            return None
        try:
            said = await self._calls(commands.digest_jobs())
            return {int(line.partition("|")[0]): line for line in said.splitlines()}
        except (SlurmRefused, ValueError) as error:
            log.info("squeue does not print what is asked for (%s); all jobs are read every time", error)
            self.digests = False
            return None

    async def _one(self, number: int) -> list[SlurmJob]:
        """One record; it may have gone meanwhile."""
        try:
            said = await self._calls(commands.show_job(str(number)))
        except SlurmRefused:
            return []
        return [job for job in text_output.jobs(said) if job.number == number]

    async def _in_full(self) -> list[SlurmJob]:
        if self.as_json:
            try:
                return json_output.jobs(await self._calls(commands.list_jobs_json()))
            except json_output.NoAnswer as error:
                raise SlurmAway(f"squeue says: {error}") from error
            except (SlurmRefused, ValueError) as error:
                log.info("squeue does not speak JSON here (%s); text is read", error)
                self.as_json = False
        return text_output.jobs(await self._calls(commands.list_jobs_text()))
