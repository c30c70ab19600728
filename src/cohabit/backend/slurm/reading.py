"""Asking Slurm for all its jobs: as JSON where its squeue speaks it, as text otherwise.

JSON is preferred because a name or a comment, which users write, may contain anything, new lines included.
"""

from __future__ import annotations

import logging

from cohabit.backend.slurm import commands, json_output, text_output
from cohabit.backend.slurm.calls import Calls, SlurmAway, SlurmRefused
from cohabit.backend.slurm.shapes import SlurmJob

log = logging.getLogger(__name__)


class JobReader:
    """Finds out once which form there is."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self.as_json = calls, True

    async def all(self) -> list[SlurmJob]:
        """Every job Slurm remembers, those that ended included."""
        if self.as_json:
            try:
                return json_output.jobs(await self._calls(commands.list_jobs_json()))
            except json_output.NoAnswer as error:
                raise SlurmAway(f"squeue says: {error}") from error
            except (SlurmRefused, ValueError) as error:
                log.info("squeue does not speak JSON here (%s); text is read", error)
                self.as_json = False
        return text_output.jobs(await self._calls(commands.list_jobs_text()))
