"""Compare two pictures of the manager and derive events: what changed since the last one, in the order to report it.

The actions that follow for the manager (hold a job, give a job back) are returned as wishes, which the back end carries
out. The watcher knows which jobs the core has and the phase of each; all other jobs belong to the manager alone. It
runs no command.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import msgspec

from cohabit.backend.protocol import FAILED, STOPPED
from cohabit.backend.steered.closings import Closings
from cohabit.backend.steered.dependencies import MET, NEVER, NEVER_MET, Others, is_changed, terms_of
from cohabit.backend.steered.holds import holder
from cohabit.backend.steered.known import ORDERED, PARKED, QUEUED, RUNS, Known, Picture, Wishes
from cohabit.backend.steered.latency import Latency
from cohabit.backend.steered.marks import (
    BACK,
    FREE,
    HOLD,
    NOTED,
    STOP,
    flag_of,
    read_mark,
    unknown_type,
)
from cohabit.backend.steered.node_facts import NodeFact, node_facts
from cohabit.backend.steered.noting import FREED, NEW
from cohabit.backend.steered.shapes import (
    STATUS,
    ManagerJob,
    Terms,
)
from cohabit.backend.steered.translate import (
    asked_whole,
    before_of,
    goes_on_waiting,
    has_come,
    is_others,
    is_ours,
    job_of,
    limit_of,
    shape_of,
    why_not,
)
from cohabit.model.event import (
    Event,
    JobCancelled,
    JobChanged,
    JobFinished,
    JobReleased,
    JobStarted,
    JobSubmitted,
    NodeDrained,
    NodeUp,
    NodeUsed,
    StartRefused,
)
from cohabit.model.job import WORKLOAD_TYPES
from cohabit.model.units import SECOND

TYPES = ", ".join(WORKLOAD_TYPES)
log = logging.getLogger(__name__)

BACK_OFF_US = 30 * SECOND
NOT_LAUNCHED = 53  # the "signal" of a job that Slurm could not launch
TROUBLE = {
    "NODE_FAIL": "its node was lost", "BOOT_FAIL": "its node did not boot", "DEADLINE": "its deadline had passed",
    "OUT_OF_MEMORY": "it went over its memory", "PREEMPTED": "{title} preempted it",
}  # fmt: skip


class Watcher:
    """Keep track of what the core was told."""

    def __init__(
        self,
        node_names: Sequence[str],
        terms: Terms,
        title: str,
        patience_s: float,
        mates_within_s: float = 2.0,
        burnt: Callable[[str, int], bool] = lambda name, attempt: False,
    ) -> None:
        self.number = {name: at for at, name in enumerate(node_names)}
        self.closings = Closings(title, self.number)
        self._title = title  # of the manager, in messages
        self.terms, self.patience_s, self.mates_within_s = terms, patience_s, min(mates_within_s, patience_s)
        self._burnt = burnt  # whether a run was to be stopped because messages from its mates were missing
        self.guarded = False  # programs of mates wait for each other at a threshold, so none of them can be late
        self.known: dict[str, Known] = {}
        self.left: set[str] = set()  # given back or never taken; kept until the manager forgets them
        self.canaries: set[str] = set()  # small jobs that measure nodes which the core has given to another job
        self.over: set[str] = set()  # names the core has had and will never take again
        self._said: set[str] = set()  # held jobs that are not ours
        self.lasted: dict[tuple[str, int], float] = {}  # seconds, of runs whose end was reported
        self.latency, self._begun_s, self._now_s = Latency(), 0.0, 0.0  # since when we look, and when we last did
        self.told: list[NodeFact] = [NodeUp(number) for number in range(len(node_names))]
        self.back_s = 0.0  # since when the manager answers again; it may have forgotten the last orders before that

    def look(self, picture: Picture) -> tuple[list[Event], Wishes]:
        """Return events in order: ends first, so that a lost node has no jobs left; then nodes; then new jobs."""
        facts: list[Event] = []
        wishes = Wishes()
        self._now_s = time.time()  # a look takes its time, too: the latency ends when its facts are there
        self._begun_s = self._begun_s or picture.begun_s
        for known in list(self.known.values()):
            if not known.busy and picture.begun_s > known.touched_s:
                facts += self._old(known, picture.jobs.get(known.name), picture.begun_s, wishes)
        facts += self._nodes(picture)
        facts += self.closings.look(picture.windows)
        facts += self._new(picture, wishes)
        self.left &= picture.jobs.keys()
        self.canaries &= self.left
        return facts, wishes

    def away(self) -> list[Event]:
        """Handle a manager that does not answer: no job can be started on any node or promised to mates elsewhere."""
        facts = [NodeDrained(one.node) for one in self.told if isinstance(one, NodeUp | NodeUsed)]
        for one in facts:
            self.told[one.node] = one
        return list[Event](facts)

    def _forget(self, name: str) -> list[Event]:
        """Drop a job that is not ours any more."""
        self.known.pop(name, None)
        self.left.add(name)
        return [JobCancelled(name)]

    # ---- jobs the core has ------------------------------------------------------------------------------------------

    def _old(self, known: Known, job: ManagerJob | None, now_s: float, wishes: Wishes) -> list[Event]:
        if known.phase == RUNS:
            return self._run(known, job, wishes)
        if known.phase == ORDERED:
            return self._ordered(known, job, now_s, wishes)
        if job is None or not (job.waits or job.runs):
            return self._forget(known.name)
        if job.runs:
            wishes.said.append(f"job {known.name} was released elsewhere and runs; it is {self._title}'s own now")
            return self._forget(known.name)
        if (mark := read_mark(job.mark)) is not None and mark.kind == BACK:
            return self._given_back(known, job, wishes)
        flag = flag_of(job.mark)
        if known.phase == PARKED and job.held and (holder(job) or not flag):
            if not flag:
                wishes.note[known.name] = known.parked_as
            return []
        if known.phase == PARKED or (flag in (NOTED, FREE) and not holder(job)):
            wishes.note[known.name] = FREED
            known.phase = QUEUED
            return [JobReleased(known.name)]
        if not job.held:
            wishes.said.append(f"job {known.name} was released elsewhere; it is {self._title}'s own now")
            return self._forget(known.name)
        if who := holder(job):
            wishes.said.append(f"job {known.name} is held by {who}, and waits until that is lifted")
            return self._park(known, job, wishes)
        return self._queued(known, job, wishes)

    def _given_back(self, known: Known, job: ManagerJob, wishes: Wishes) -> list[Event]:
        """Take a job again that waits as its owner asked for it; one with mates or held is its owner's."""
        if goes_on_waiting(job, self.terms) and not known.mates:
            wishes.take_again.append(known.name)
            was_held, known.phase = known.phase == PARKED, QUEUED
            return [JobReleased(known.name)] if was_held else []
        others = ", and is held by others" if job.held else ""
        wishes.said.append(f"job {known.name} was given back when the lease was over{others}")
        return self._forget(known.name)

    def _park(self, known: Known, job: ManagerJob, wishes: Wishes) -> list[Event]:
        """Leave a job alone that is held by others; its mark says so, for a later controller."""
        held = known.park(NOTED if holder(job) else HOLD)
        if not flag_of(job.mark):
            wishes.note[known.name] = known.parked_as
        return [held]

    def _queued(self, known: Known, job: ManagerJob, wishes: Wishes) -> list[Event]:
        new = not known.attempt and (why_not(job, self.terms) or before_of(job) != known.before)
        if shape_of(job) != known.shape or new:
            wishes.pass_on[known.name] = "was changed by its owner"
            return self._forget(known.name)
        if is_changed(known.depends, job):
            wishes.pass_on[known.name] = f"depends on others now ({job.dependency})"
            return self._forget(known.name)
        limit_us = limit_of(job)
        if limit_us != known.limit_us:
            known.limit_us = limit_us
            return [JobChanged(known.name, limit_us=limit_us)]
        return []

    def _ordered(self, known: Known, job: ManagerJob | None, now_s: float, wishes: Wishes) -> list[Event]:
        key = (known.name, known.attempt)
        if job is None:
            wishes.vanished.append(known.name)
            return []
        if job.runs:
            if job.nodes and set(job.nodes) != set(known.nodes):
                wishes.stop.append(known.name)
                known.phase = QUEUED
                return [StartRefused(*key, f"{self._title} gave it {','.join(job.nodes)}", BACK_OFF_US)]
            if (
                known.mates
                and not self.guarded
                and known.ordered_s
                and job.start_s > known.ordered_s + self.mates_within_s
            ):
                wishes.stop.append(known.name)
                known.phase = QUEUED
                return [StartRefused(*key, "it began too late beside its mates", 1)]
            known.phase, known.restarts = RUNS, job.restarts
            self.latency.started(known.ordered_s, job.start_s)
            return [JobStarted(*key)]
        if not job.waits:
            self.known.pop(known.name)
            return [*([JobStarted(*key)] if job.nodes else []), self._finished(known, job)]
        held = job.held and (not known.to_place or bool(holder(job)))  # what is not placed yet is held by us
        if held and self._burnt(known.name, known.attempt):
            known.phase = QUEUED
            return [StartRefused(*key, "its mates were not heard before it began", 1)]
        if held and self._forgotten(known, job) and not holder(job):
            known.to_place = True  # the manager came back without our last order
            return []
        if held:
            known.to_place = False
            wishes.said.append(f"job {known.name} was held while it was about to start")
            return [StartRefused(*key, "it is held", 1), *self._park(known, job, wishes)]
        if job.reason == NEVER_MET:
            wishes.pass_on[known.name] = f"will never meet its dependency ({NEVER_MET}: {job.dependency})"
            return [StartRefused(*key, job.reason, 1), *self._forget(known.name)]
        known.kept_by = job.reason
        if now_s - known.touched_s > (self.mates_within_s if known.mates else self.patience_s):
            wishes.take_back.append(known.name)
        return []

    def _run(self, known: Known, job: ManagerJob | None, wishes: Wishes) -> list[Event]:
        if job is None:
            wishes.vanished.append(known.name)
            return []
        if job.runs:
            if job.restarts > known.restarts and job.nodes and set(job.nodes) != set(known.nodes):
                wishes.stop.append(known.name)  # the manager has restarted it by itself on other nodes
                known.phase = QUEUED
                return [JobFinished(known.name, known.attempt, STOPPED)]
            return []
        if not job.waits:
            self.known.pop(known.name)
            return [self._finished(known, job)]
        facts: list[Event] = [JobFinished(known.name, known.attempt, STOPPED)]
        known.phase, known.limit_us = QUEUED, limit_of(job)
        if not job.held:
            wishes.hold.append(known.name)
        elif not (known.stopping or self._forgotten(known, job) or self.was_stopped(known, job)):
            facts += self._park(known, job, wishes)  # an operator's requeuehold
        known.stopping = False
        return facts

    def was_stopped(self, known: Known, job: ManagerJob) -> bool:
        """Return whether it is in the queue, held, because we or the watchdog have stopped its run."""
        return not holder(job) and (flag_of(job.mark) == STOP or self._burnt(known.name, known.attempt))

    def _finished(self, known: Known, job: ManagerJob) -> JobFinished:
        if job.end_s > job.start_s > 0:
            self.lasted[known.name, known.attempt] = job.end_s - job.start_s
            self.latency.ended(job.end_s, self._now_s)
        return finished(known.attempt, job, self._title)

    def _forgotten(self, known: Known, job: ManagerJob) -> bool:
        """Return whether the manager died and came back in a state before our order, and the job is not held on
        purpose."""
        mark = read_mark(job.mark)
        return mark is None or mark.attempt != known.attempt or known.touched_s < self.back_s

    # ---- what is new ------------------------------------------------------------------------------------------------

    def _new(self, picture: Picture, wishes: Wishes) -> list[Event]:
        found = [job for job in picture.jobs.values() if job.name not in self.known and job.name not in self.left]
        self._say_others(found, wishes)
        ours = [job for job in found if is_ours(job, self.terms) and has_come(job, picture.begun_s)]
        room, others = self._room_in_arrays(picture), Others(picture.jobs.values())
        facts: list[Event] = []
        for job in sorted(ours, key=_age):
            stands = others.standing(job, picture.begun_s)
            never = f"will never meet its dependency ({NEVER_MET}: {job.dependency})" if stands == NEVER else ""
            if reason := self._used(job.name) or why_not(job, self.terms) or never:
                wishes.pass_on[job.name] = reason
                self.left.add(job.name)
                continue
            if stands != MET:
                continue
            if job.array and job.array_at_most:
                if room[job.array] >= job.array_at_most:
                    continue
                room[job.array] += 1
            if unknown := unknown_type(job.comment):
                log.warning("job %s: %.60s is not known and counts as not stated: write %s", job.name, unknown, TYPES)
            known, submitted = self.take(job), job_of(job, self.terms)
            if who := holder(job):  # since it came, or while a dependency or a begin time kept it
                wishes.said.append(f"job {known.name} is held by {who}, and waits until that is lifted")
                self._park(known, job, wishes)
                submitted = msgspec.structs.replace(submitted, held=True)
            if not job.mark and self.terms.since_s:
                wishes.note[job.name] = NEW
            if job.submit_s > self._begun_s and not job.dependency and job.begin_s <= job.submit_s + 1:
                self.latency.submitted(job.submit_s, self._now_s)
            facts.append(JobSubmitted(submitted))
        return facts

    def _say_others(self, found: Iterable[ManagerJob], wishes: Wishes) -> None:
        """Say once which held jobs are not taken, though every held job is: they were held before."""
        names = [job.name for job in found if job.name not in self._said and is_others(job, self.terms)]
        self._said.update(names)
        if names:
            few = ", ".join(names[:10]) + (" and others" if len(names) > 10 else "")
            wishes.said.append(f"held by others and left held: {few}; `scontrol release` gives them to {self._title}")

    def take(self, job: ManagerJob, attempt: int = 0, phase: str = QUEUED) -> Known:
        """Add a job that the core has from now on."""
        nodes = job.required_nodes if phase == ORDERED else job.nodes
        known = Known(
            job.name,
            phase,
            attempt,
            nodes,
            before_of(job),
            limit_of(job),
            shape_of(job),
            job.restarts,
            mates=job.mates,
            depends=terms_of(job.dependency),
            asked_whole=asked_whole(job),
        )
        self.known[job.name] = known
        self.over.add(job.name)
        self.left.discard(job.name)
        return known

    def _used(self, name: str) -> str:
        """Return why the name is taken: a manager reuses a number when it has lost its state or after millions of
        jobs."""
        return "has the name of an earlier job" if name in self.over else ""

    def _room_in_arrays(self, picture: Picture) -> Counter[str]:
        """Count the tasks per array that the core has or the manager runs: an array may bound them."""
        taken = {job.array: set[str]() for job in picture.jobs.values() if job.array}
        for job in picture.jobs.values():
            if job.array and (job.name in self.known or job.runs):
                taken[job.array].add(job.name)
        return Counter({array: len(names) for array, names in taken.items()})

    # ---- nodes ------------------------------------------------------------------------------------------------------

    def _nodes(self, picture: Picture) -> list[Event]:
        foreign = [job for job in picture.jobs.values() if self._is_foreign(job)]
        facts: list[Event] = []
        for now in node_facts(picture, self.number, foreign, self.terms.memory, tuple(self.told)):
            if now != self.told[now.node]:
                self.told[now.node] = now
                facts.append(now)
        return facts

    def _is_foreign(self, job: ManagerJob) -> bool:
        known = self.known.get(job.name)
        if job.name in self.canaries:
            return False
        return job.runs and (known is None or (known.phase in (QUEUED, PARKED) and not known.busy))


def finished(attempt: int, job: ManagerJob, title: str) -> JobFinished:
    """Return the end of a run that the manager, called `title`, still remembers."""
    status, reason = STATUS.get(job.state, FAILED), TROUBLE.get(job.state, "").format(title=title)
    if job.exit_signal == NOT_LAUNCHED and not reason:
        reason = f"{title} could not launch it: can its folder and its output file be opened on its node?"
    return JobFinished(job.name, attempt, status, job.exit_status, job.exit_signal, reason)


def _age(job: ManagerJob) -> tuple[float, int, str]:
    """Sort key: the oldest job first, tasks of an array in their order."""
    return job.submit_s, job.number, f"{job.name.rpartition('_')[2]:>12}"
