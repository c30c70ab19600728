"""The names of jobs: the core knows a job by the manager's name for it, and a job with mates by its name in its group.

Names in a group are used once: a second job that claims one is left to the manager, with the reason. Names outlive a
controller in one small file in its place, written before a job with mates is reported to the core: a manager may forget
a job the moment it ends, and its accounting knows only numbers.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from pathlib import Path

import msgspec

from cohabit.backend.steered.marks import read_mark, wished_mates
from cohabit.backend.steered.shapes import ManagerJob, Terms
from cohabit.whole_files import replacing


class Names:
    """Map names in groups to jobs of the manager."""

    def __init__(self, terms: Terms) -> None:
        self._terms = terms
        self._of: dict[str, str] = {}  # the core's name -> the manager's

    def theirs(self, name: str) -> str:
        """Return the manager's name of a job."""
        return self._of.get(name, name)

    def ours(self, jobs: Iterable[ManagerJob]) -> dict[str, ManagerJob]:
        """Return jobs of the manager by the names the core knows."""
        found = [self.one(job) for job in sorted(jobs, key=lambda job: job.number)]
        return {job.name: job for job in found}

    def one(self, job: ManagerJob) -> ManagerJob:
        """Return one job of the manager under the name the core knows."""
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


class RememberedNames(Names):
    """Names kept in a file. `living`: names the core still has; all others can be forgotten."""

    def __init__(self, terms: Terms, file: Path, living: Container[str]) -> None:
        super().__init__(terms)
        self._path = file
        self._of.update((ours, theirs) for ours, theirs in kept_names(file).items() if ours in living)

    def one(self, job: ManagerJob) -> ManagerJob:
        """Return the job under the core's name; a new name is on the disk first."""
        known = len(self._of)
        found = super().one(job)
        if len(self._of) > known:
            with replacing(self._path) as stream:
                stream.write(msgspec.json.encode(self._of))
        return found


def kept_names(file: Path) -> dict[str, str]:
    """Return the core's name of every job with mates -> the manager's; a name that cannot be read is missing."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, str])
    except (OSError, msgspec.DecodeError):
        return {}


def mates_of(job: ManagerJob, terms: Terms) -> str:
    """Return its group from the mark, which only administrators write, or if jobs are not marked, from the comment."""
    if mark := read_mark(job.mark):
        return mark.mates
    return wished_mates(job.comment) if terms.all_held and not job.mark else ""


def _odd(job: ManagerJob, why: str) -> ManagerJob:
    return msgspec.structs.replace(job, special=(why, *job.special))
