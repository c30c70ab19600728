"""The names of jobs: the core knows a job by the manager's name for it, and a job with mates by its name in its group.

Names in a group are used once: a second job that claims one is left to the manager, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from cohabit.backend.slurm.translate import Terms
from cohabit.backend.steered.marks import read_mark, wished_mates
from cohabit.backend.steered.shapes import SlurmJob


class Names:
    """Map names in groups to jobs of the manager."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._of: dict[str, str] = {}  # the core's name -> the manager's

    def theirs(self, name: str) -> str:
        """Return the manager's name of a job."""
        return self._of.get(name, name)

    def ours(self, jobs: Iterable[SlurmJob]) -> dict[str, SlurmJob]:
        """Return jobs of the manager by the names the core knows."""
        found = [self._named(job) for job in sorted(jobs, key=lambda job: job.number)]
        return {job.name: job for job in found}

    def one(self, job: SlurmJob) -> SlurmJob:
        """Return the same for a job that has been seen with all others before."""
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
    """Return its group from the mark, which only administrators write, or if jobs are not marked, from the comment."""
    if mark := read_mark(job.mark):
        return mark.mates
    return wished_mates(job.comment) if terms.all_held and not job.mark else ""


def _odd(job: SlurmJob, why: str) -> SlurmJob:
    return msgspec.structs.replace(job, special=(why, *job.special))
