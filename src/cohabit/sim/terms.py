"""What keeps a job of a log from its queue: begin times, dependencies, bounds of arrays; and what became of it there.

The log says that a job failed, or that its owner cancelled it before it began; how it would have gone on is not known.
Such a job is not submitted to the core before its terms are met, as a resource manager does not consider it either.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from cohabit.model.command import CancelJob, Command, StartJob
from cohabit.model.event import Event, JobCancelled, JobFinished, JobSubmitted

OK, ANY, NOT, START = "ok", "any", "not", "start"
UNMET = "the job it depends on did not end as required"


class Needed(NamedTuple):
    """Another job and what must have become of it: it ended well, ended, ended badly, or began."""

    how: str
    job_id: str


@dataclass(frozen=True)
class Terms:
    """The terms of one job; instants are those of the world's clock, 0: none."""

    begin_us: int = 0
    needed: tuple[Needed, ...] = ()
    array: str = ""
    at_most: int = 0
    cancel_us: int = 0
    fails: bool = False

    @property
    def wait(self) -> bool:
        """Return whether the job may have to wait before it is submitted to the core."""
        return bool(self.begin_us or self.needed or self.at_most)


class Released(NamedTuple):
    """The jobs that an event lets in, and those that can never come in any more."""

    ready: list[str]
    hopeless: list[str]


@dataclass
class Told:
    """What becomes of the events of an instant: those for the core, jobs to look at again, and jobs that are over."""

    events: list[Event] = field(default_factory=list)
    later: list[tuple[int, str]] = field(default_factory=list)
    over: list[tuple[str, str]] = field(default_factory=list)  # with the reason


@dataclass
class WaitingRoom:
    """The jobs that were submitted in the log, and are kept from the core."""

    _terms: dict[str, Terms] = field(default_factory=dict)  # of the jobs that wait here
    _let_in: set[str] = field(default_factory=set)
    _gone: set[str] = field(default_factory=set)
    _begun: set[str] = field(default_factory=set)
    _ended: dict[str, bool] = field(default_factory=dict)  # whether it ended well
    _followers: dict[str, list[str]] = field(default_factory=dict)
    _inside: dict[str, int] = field(default_factory=dict)  # jobs of an array that the core has
    _array_of: dict[str, Terms] = field(default_factory=dict)  # of the jobs that count there
    _full: dict[str, list[str]] = field(default_factory=dict)  # jobs of an array that wait for others of it, in order

    def sift(self, now_us: int, events: Iterable[Event], terms_of: Mapping[str, Terms]) -> Told:
        """Keep back the jobs that must wait; take those out that are cancelled here."""
        told = Told()
        for event in events:
            match event:
                case JobSubmitted(job) if (terms := terms_of.get(job.job_id)) is not None and terms.wait:
                    if job.job_id in self._gone or job.job_id in self._let_in:
                        told.events += [event] if job.job_id in self._let_in else []
                        continue
                    first = job.job_id not in self._terms
                    found = self.arrives(now_us, job.job_id, terms) if first else self.due(now_us, job.job_id)
                    if first and terms.begin_us > now_us:
                        told.later.append((terms.begin_us, job.job_id))
                    self.pass_on(now_us, found, told)
                case JobCancelled(job_id) if job_id in self._terms:
                    del self._terms[job_id]
                    self._gone.add(job_id)
                    told.over.append((job_id, "cancelled"))
                    self.pass_on(now_us, self.ends(now_us, job_id, False), told)
                case _:
                    told.events.append(event)
        return told

    def watch(self, now_us: int, events: Iterable[Event], commands: Iterable[Command]) -> Told:
        """Return what follows from a step of the core."""
        told = Told()
        for event in events:
            if isinstance(event, JobFinished) and event.status not in ("lost", "stopped"):
                self.pass_on(now_us, self.ends(now_us, event.job_id, event.status == "done"), told)
        for command in commands:
            if isinstance(command, StartJob):
                self.pass_on(now_us, self.begins(now_us, command.job_id), told)
            elif isinstance(command, CancelJob) and command.job_id not in self._begun:
                self.pass_on(now_us, self.ends(now_us, command.job_id, False), told)
        return told

    def pass_on(self, now_us: int, found: Released, told: Told) -> None:
        """Let jobs in; those that can never come in are over, and so perhaps others that wait for them."""
        for job_id in found.ready:
            self._let_in.add(job_id)
            told.later.append((now_us, job_id))
        for job_id in found.hopeless:
            self._gone.add(job_id)
            told.over.append((job_id, UNMET))
            self.pass_on(now_us, self.ends(now_us, job_id, False), told)

    def arrives(self, now_us: int, job_id: str, terms: Terms) -> Released:
        """Take a job that is submitted now."""
        self._terms[job_id] = terms
        for one in terms.needed:
            self._followers.setdefault(one.job_id, []).append(job_id)
        return self._look(now_us, [job_id])

    def due(self, now_us: int, job_id: str) -> Released:
        """Look at a job again, whose begin time has come."""
        return self._look(now_us, [job_id])

    def begins(self, now_us: int, job_id: str) -> Released:
        """Note that a job has begun."""
        self._begun.add(job_id)
        return self._look(now_us, self._followers.get(job_id, ()))

    def ends(self, now_us: int, job_id: str, well: bool) -> Released:
        """Note that a job has ended, or will never run."""
        self._ended[job_id] = well
        waiting = list(self._followers.pop(job_id, ()))
        inside = self._array_of.pop(job_id, None)
        if inside is not None:
            self._inside[inside.array] -= 1
            waiting += self._full.pop(inside.array, ())
        return self._look(now_us, waiting)

    def _look(self, now_us: int, jobs: Iterable[str]) -> Released:
        found = Released([], [])
        for job_id in jobs:
            terms = self._terms.get(job_id)
            if terms is None or terms.begin_us > now_us:
                continue
            met = [self._is_met(one) for one in terms.needed]
            if None in met:
                continue
            if False in met:
                del self._terms[job_id]
                found.hopeless.append(job_id)
            elif terms.at_most and self._inside.get(terms.array, 0) >= terms.at_most:
                self._full.setdefault(terms.array, []).append(job_id)
            else:
                del self._terms[job_id]
                if terms.at_most:
                    self._inside[terms.array] = self._inside.get(terms.array, 0) + 1
                    self._array_of[job_id] = terms
                found.ready.append(job_id)
        return found

    def _is_met(self, one: Needed) -> bool | None:
        """Return whether what is needed has come about; None: it may still."""
        if one.how == START:
            return True if one.job_id in self._begun else False if one.job_id in self._ended else None
        well = self._ended.get(one.job_id)
        if well is None or one.how == ANY:
            return None if well is None else True
        return well is (one.how == OK)
