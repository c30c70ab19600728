"""Read all jobs of Slurm as text records; only records that have changed are parsed.

Users write names and comments, which may contain anything, including new lines and whole made-up records. So the
numbers of all jobs are asked for separately. A record with a number that Slurm does not know is dropped. A record that
occurs twice, or has a field twice, is looked up in JSON, which is unambiguous.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

from cohabit.backend.slurm import commands, json_output, text_output
from cohabit.backend.slurm.calls import Calls
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.backend.steered.shapes import ManagerJob

log = logging.getLogger(__name__)


class JobReader:
    """Remembers what it read, and which forms of JSON work."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self.forms = ["", commands.TELLS_SHARING]  # of JSON, tried in this order; empty: there is none
        self._records: dict[int, str] = {}  # by Slurm's number
        self._read: dict[int, list[ManagerJob]] = {}  # a waiting array is several jobs

    async def all(self) -> list[ManagerJob]:
        """Return every job Slurm remembers, including jobs that have ended."""
        text = await self._calls(commands.list_jobs_text())
        known = await self._calls(commands.list_numbers())  # second: tasks of arrays get a number when they start
        records, doubtful = sorted_out(text, {int(word) for word in known.split() if word.isdigit()})
        changed = [number for number, one in records.items() if self._differs(number, one)]
        unsure = [one for one in changed if one in doubtful or text_output.is_doubtful(records[one])]
        told = await self._surely(unsure) if unsure else {}
        self._read = {number: jobs for number, jobs in self._read.items() if number in records}
        for number in changed:
            self._read[number] = told[number] if number in told else text_output.jobs(records[number])
        self._records = records
        return [job for jobs in self._read.values() for job in jobs]

    def _differs(self, number: int, record: str) -> bool:
        """Return whether more has changed than its run time."""
        before = self._records.get(number)
        if before is None or before == record:
            return before is None
        return text_output.without_clock(before) != text_output.without_clock(record)

    async def _surely(self, numbers: list[int]) -> dict[int, list[ManagerJob]]:
        """Return these jobs from JSON; without JSON, from a separate query for each."""
        found: dict[int, list[ManagerJob]] = {number: [] for number in numbers}
        while self.forms:
            try:
                for job in json_output.jobs(await self._calls(commands.list_jobs_json(self.forms[0]))):
                    if job.number in found:
                        found[job.number].append(job)
                return found
            except json_output.NoAnswer as error:
                raise ManagerAway(f"squeue says: {error}") from error
            except json_output.Incomplete:
                self.forms.pop(0)
            except (ManagerRefused, ValueError) as error:
                log.info("squeue has no JSON here (%s); odd names are read as text", error)
                self.forms = []
        return dict(zip(numbers, await asyncio.gather(*(self._one(number) for number in numbers)), strict=True))

    async def _one(self, number: int) -> list[ManagerJob]:
        """Return a job from its first record, which is Slurm's own; the job may have gone meanwhile."""
        try:
            said = await self._calls(commands.show_job(str(number)))
        except ManagerRefused:
            return []
        found = text_output.jobs(next((record for one, record in text_output.records(said) if one == number), ""))
        return found or text_output.jobs(" ".join(said.splitlines()))  # split by a name that continues like a record


def sorted_out(text: str, numbers: set[int]) -> tuple[dict[int, str], set[int]]:
    """Return the records of these jobs, and the jobs with doubtful records: a record with an unknown number, or one
    that occurs twice, was written by a user into the text of the job before it."""
    told = text_output.records(text)
    often, found, doubtful = Counter(number for number, _ in told), dict[int, str](), set[int]()
    for at, (number, record) in enumerate(told):
        if number not in numbers or often[number] > 1:
            doubtful |= {number, told[max(at - 1, 0)][0]}
        if number in numbers:
            found[number] = found.get(number, "") + record
    return found, doubtful
