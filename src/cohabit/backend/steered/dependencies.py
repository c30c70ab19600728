"""Follow what waiting jobs depend on, from what the manager says of the other jobs. Pure.

A manager looks at the dependencies of a held job only now and then (Slurm: after 20 to 60 s), so a chain of held jobs
would wait at every link. What cannot be told for certain is left to the manager: it says so by dropping the dependency.
The words are Slurm's.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from cohabit.backend.protocol import DONE
from cohabit.backend.steered.shapes import STATUS, ManagerJob

MET, UNMET, NEVER = "met", "unmet", "never"
NEVER_MET = "DependencyNeverSatisfied"  # the manager's word for it
_STATE = re.compile(r"\([a-z_ ]*\)")
_JOB = re.compile(r"([0-9]+)(?:_([0-9]+|\*))?(?:\+([0-9]+))?")
_KINDS = ("after", "afterok", "afternotok", "afterany", "aftercorr")


def terms_of(text: str) -> frozenset[str]:
    """Return what a job depends on, term by term and without what the manager found about it."""
    found: set[str] = set()
    for part in re.split("[,?]", _STATE.sub("", text)):
        kind, colon, jobs = part.partition(":")
        found.update(f"{kind}:{one}" for one in jobs.split(":")) if colon else found.add(kind)
    return frozenset(found - {"", "(null)"})


class Others:
    """The jobs of one look, for those that depend on them. It is taken apart when the first one does."""

    def __init__(self, jobs: Iterable[ManagerJob]) -> None:
        self._jobs = jobs
        self._of: dict[str, list[ManagerJob]] = {}  # by number, by array
        self._alike: dict[tuple[int, str], list[ManagerJob]] = {}  # by user and name
        self._read = False

    def standing(self, job: ManagerJob, now_s: float) -> str:
        """Return whether what the job depends on is met, not yet (or not known), or never will be."""
        text = _STATE.sub("", job.dependency)
        if not text:
            return MET
        if not self._read:
            self._take_apart()
        found = {self._part(part, job, now_s) for part in re.split("[,?]", text) if part}
        if "?" in text:
            return MET if MET in found else UNMET if UNMET in found else NEVER
        return _all(found)

    def _take_apart(self) -> None:
        self._read = True
        for job in self._jobs:
            for number in {job.array, str(job.number)} - {""}:
                self._of.setdefault(number, []).append(job)
            self._alike.setdefault((job.user, job.job_name), []).append(job)

    def _part(self, part: str, job: ManagerJob, now_s: float) -> str:
        """Return how one kind of dependency stands: `afterok:1:2_*`, `singleton`."""
        kind, colon, names = part.partition(":")
        if kind == "singleton" and not colon:
            alike = self._alike.get((job.user, job.job_name), [])
            return UNMET if any(_goes_before(one, job) for one in alike) else MET
        if kind not in _KINDS:
            return UNMET
        return _all({self._after(kind, name, job, now_s) for name in names.split(":")})

    def _after(self, kind: str, name: str, job: ManagerJob, now_s: float) -> str:
        said = _JOB.fullmatch(name)
        if said is None:
            return UNMET
        number, task, minutes = said.groups()
        if kind == "aftercorr":
            kind, task = "afterok", job.name.rpartition("_")[2] if job.array and not task else task
        there = self._of.get(number, [])
        if tasks := [one for one in there if one.array == number]:
            there = tasks if task in (None, "*") else [one for one in tasks if one.name == f"{number}_{task}"]
        if not there:  # the manager has forgotten it
            return UNMET
        return _all({_one(kind, one, int(minutes or 0), now_s) for one in there})


def _all(found: set[str]) -> str:
    return NEVER if NEVER in found else UNMET if UNMET in found else MET


def _goes_before(one: ManagerJob, job: ManagerJob) -> bool:
    """Return whether a job of the same name and user keeps a singleton back: it runs or was submitted before."""
    if one.name == job.name or (job.array and one.array == job.array):
        return False
    return one.runs or (one.waits and one.number < job.number)


def _one(kind: str, other: ManagerJob, minutes: int, now_s: float) -> str:
    over = not (other.waits or other.runs)
    if kind == "after":
        begun = over or (other.runs and other.start_s > 0)
        return MET if begun and now_s >= (other.start_s or other.end_s) + 60 * minutes else UNMET
    if not over:
        return UNMET
    well = STATUS.get(other.state) == DONE
    return MET if kind == "afterany" or well == (kind == "afterok") else NEVER


def is_changed(before: Iterable[str], job: ManagerJob) -> bool:
    """Return whether a job depends on more than it did: what is met, the manager drops."""
    return not terms_of(job.dependency) <= frozenset(before)
