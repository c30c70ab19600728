"""What a domain remembers of its own jobs with mates, as plain data in the state and in every checkpoint."""

from __future__ import annotations

import msgspec
import numpy as np
from numpy.typing import NDArray

from cohabit.core.mates.state import MatesState
from cohabit.model.group import Terms
from cohabit.model.job import Job
from cohabit.model.peer import IDLE, NEVER, UNSUBMITTED, Standing
from cohabit.model.scheme import Scheme
from cohabit.model.units import FOREVER, SECOND


class MateJob(msgspec.Struct):
    """A local job with mates elsewhere."""

    group: str
    first_chosen_us: int = NEVER  # when there were first nodes for it
    first_hold_us: int = NEVER  # when it first held them without running
    yields: int = 0
    yielded_us: int = NEVER  # out of the queue since then, until a local event
    attempt: int = 0  # the attempt of the protocol its nodes are promised to; 0: none
    run: int = 0  # the attempt in which it runs, or has run
    refused_us: int = NEVER  # when its mates last said that they cannot start now; each word from them clears it
    mates_expect_us: int = NEVER  # when its mates could start, as they report
    agreed_us: int = NEVER  # nodes are reserved for it from then on
    agreed_kinds: tuple[int, ...] = ()  # how many of each kind
    scheme: Scheme | None = None  # its own; None: the domain's

    @property
    def agreed_due_us(self) -> int:
        """When its reservation is due: at its time, or a second after the last try that failed."""
        return self.agreed_us if self.yielded_us < self.agreed_us else self.yielded_us + SECOND


class CoupledState(msgspec.Struct):
    """One domain among others."""

    scheme: Scheme
    rank: int
    protocol: MatesState
    jobs: dict[str, MateJob] = {}
    aside: dict[str, bool] = {}  # jobs that hold, are out of the queue, or have a reservation
    wanted: list[tuple[str, int]] = []  # (job, attempt): it gets nodes now; 0: to begin an attempt
    early: list[str] = []  # may start before the time agreed on, with what all others leave in this pass
    repeats: dict[str, bool] = {}  # tried again though nothing has happened here: a message may be lost
    last: list[str] = []  # just released: behind all other jobs in this pass
    released_us: int = NEVER  # when holds were last released
    asking: str = ""  # the pass pauses until the mates of this job have answered, within this instant
    asking_us: int = NEVER
    pass_wake_us: int = FOREVER
    file_scheme: Scheme | None = None  # the latest from the site file; it may have been changed since
    told: Standing | None = None  # the last that mates were told because it had changed
    deadlock: str = ""  # the groups that wait for each other's nodes, in words; empty: none known
    deadlocked: list[str] = []  # those groups
    served: str = ""  # one of them, for which others release their holds in the next pass
    served_us: int = NEVER  # when that was last done
    refused: list[str] = []  # the latest messages that were refused, and why

    def raised(self, names: list[str], scores: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return an order's scores (smallest first), moved up by a fraction of themselves for every yield."""
        if not self.scheme.raise_per_yield:
            return scores
        yields = np.array([self.jobs[name].yields if name in self.jobs else 0 for name in names])
        return np.asarray(scores - np.abs(scores) * self.scheme.raise_per_yield * yields)

    def what_is_wrong(self, job: Job) -> str:
        """Return why a job cannot have the mates it names; empty if it can."""
        domain, group = self.protocol.domain, job.mates
        if group is None:
            return ""
        if domain not in group.domains():
            return f"its group {group.name} has no member in domain {domain}"
        if group.job(domain) != job.job_id:
            return f"its group {group.name} names job {group.job(domain)} in domain {domain}"
        unknown = [other for other in group.domains() if other not in (domain, *self.protocol.peers)]
        if unknown and self.protocol.peers:
            return f"its group {group.name} names the unknown domain {unknown[0]}"
        return f"group {group.name} is already here" if group.name in self.protocol.groups else ""

    def scheme_of(self, name: str) -> Scheme:
        """Return the scheme for a job."""
        return self.jobs[name].scheme or self.scheme if name in self.jobs else self.scheme

    def phase_of(self, job: MateJob) -> str:
        """Return the phase of the job in the protocol."""
        known = self.protocol.groups.get(job.group)
        return IDLE if known is None else known.record.phase

    def retry_us(self, job: MateJob) -> int:
        """Return when to try again, because a message from the mates may have been lost."""
        if job.yielded_us == NEVER or job.agreed_us != NEVER:
            return FOREVER
        return job.yielded_us + self.terms_of(job).ask_us

    def terms_of(self, job: MateJob) -> Terms:
        """Return the terms of the job's group."""
        return self.protocol.groups[job.group].group.terms

    def refusal_is_known(self, job: MateJob, now_us: int, wants_estimate: bool) -> bool:
        """Return whether a mate cannot start now, as it said and has not changed since; asking would tell nothing new.

        A mate that waits may have a new estimate, which `wants_estimate` asks for; one that is not submitted has none.
        A message may be lost, so a refusal counts for no longer than after which mates are asked again.
        """
        if job.refused_us == NEVER or now_us >= job.refused_us + self.terms_of(job).ask_us:
            return False
        silent = (UNSUBMITTED,) if wants_estimate else (IDLE, UNSUBMITTED)
        return any(view.phase in silent for view in self.protocol.groups[job.group].views.values())

    def forget_refusal(self, group: str) -> None:
        """Ask the mates of this group again: one of them has sent a message."""
        known = self.protocol.groups.get(group)
        job = None if known is None else self.jobs.get(known.group.job(self.protocol.domain))
        if job is not None:
            job.refused_us = NEVER

    def want_early(self) -> bool:
        """Want nodes for the next job that may start before the time agreed on; False if there is none."""
        while self.early:
            name = self.early.pop(0)
            if name in self.jobs and self.jobs[name].agreed_us != NEVER:
                self.wanted.append((name, 0))
                return True
        return False

    @property
    def agreed(self) -> list[tuple[str, MateJob]]:
        """Return the jobs with a reservation by their groups' names: the same order in every domain."""
        found = [(name, self.jobs[name]) for name in self.aside if self.jobs[name].agreed_us != NEVER]
        return sorted(found, key=lambda one: one[1].group)
