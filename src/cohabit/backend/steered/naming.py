"""The names of jobs: the core knows a job by the manager's name for it, and one with mates by the name in its group.

Names in a group are used once: a second job that claims one is left to the manager, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cohabit.backend.slurm.translate import Terms
from cohabit.backend.steered.marks import read_mark, wished_mates
from cohabit.backend.steered.shapes import SlurmJob


class Names:
    """Remembers which job of the manager has which name of a group."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._of: dict[str, str] = {}  # the core's name -> the manager's

    def theirs(self, name: str) -> str:
        """What the manager calls it."""
        return self._of.get(name, name)

    def ours(self, jobs: Iterable[SlurmJob]) -> dict[str, SlurmJob]:
        """Jobs of the manager by the names the core knows."""
        found = [self._named(job) for job in sorted(jobs, key=lambda job: job.number)]
        return {job.name: job for job in found}

    def one(self, job: SlurmJob) -> SlurmJob:
        """The same for a job that has been seen with all others before."""
        return self._named(job)

    def _named(self, job: SlurmJob) -> SlurmJob:
        mates = mates_of(job, self._terms)
        if not mates:
            return job
        group = self._terms.group_of(mates)
        if group is None or self._terms.domain not in group.domains():
            return _odd(job, f"names mates ({mates}) that the site file does not describe")
        name = group.job(self._terms.domain)
        owner = self._of.setdefault(name, job.name)
        if owner != job.name:
            return _odd(job, f"names mates ({mates}) whose job here is {owner}")
        return msgspec.structs.replace(job, name=name, mates=mates)


def mates_of(job: SlurmJob, terms: Terms) -> str:
    """From the mark, which only administrators write; where nothing marks jobs, from the comment of its owner."""
    if mark := read_mark(job.mark):
        return mark.mates
    return wished_mates(job.comment) if terms.all_held and not job.mark else ""


def _odd(job: SlurmJob, why: str) -> SlurmJob:
    return msgspec.structs.replace(job, special=(why, *job.special))
