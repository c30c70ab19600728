"""The textbook reference with one known bug of a published simulator each, to prove that the cases can fail."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.reference.textbook import Job, Result, _Simulation


class HeadDelayed(_Simulation):
    """First fit: whatever fits now starts, the head has no reservation."""

    def pass_easy(self, queue: list[int]) -> None:
        for i in queue:
            if self.jobs[i].size <= self.free():
                self.launch(i)


class ShadowByActual(_Simulation):
    """The plan looks at the real ends of running jobs."""

    def expected_end(self, i: int) -> int:
        return self.end[i]


class CandidateByActual(_Simulation):
    """A candidate is judged by its real run time."""

    def pass_easy(self, queue: list[int]) -> None:
        honest = self.jobs
        queue = self.pass_strict(queue)
        if queue:
            shadow, extra = self.shadow_and_extra(queue[0])
            for i in self.candidates(queue[1:]):
                in_time = self.now + honest[i].run <= shadow
                if honest[i].size <= self.free() and (in_time or honest[i].size <= extra):
                    self.launch(i)
                    extra -= 0 if in_time else honest[i].size


class NoExtra(_Simulation):
    """Only jobs that end by the shadow may be backfilled."""

    def shadow_and_extra(self, head: int) -> tuple[int, int]:
        return super().shadow_and_extra(head)[0], 0


class _Accumulate(_Simulation):
    """Shadow by adding up releases one running job at a time, as many simulators do."""

    in_start_order = False

    def shadow_and_extra(self, head: int) -> tuple[int, int]:
        free = self.free()
        jobs = list(self.running)
        if not self.in_start_order:
            jobs.sort(key=self.expected_end)
        for i in jobs:
            free += self.jobs[i].size
            if free >= self.jobs[head].size:
                return self.expected_end(i), free - self.jobs[head].size
        raise AssertionError


class UnsortedEnds(_Accumulate):
    """Releases are added up in the order the jobs were started, not in the order they end."""

    in_start_order = True


class ExtraWithoutTies(_Accumulate):
    """Extra counts jobs up to the one that makes the head fit, not all that end at that instant."""


class HeadWaitsForPromise(_Simulation):
    """The head starts at the shadow it was first given, even when jobs end early."""

    def pass_easy(self, queue: list[int]) -> None:
        while queue and self.jobs[queue[0]].size <= self.free() and self.reserved.get(queue[0], self.now) <= self.now:
            self.launch(queue[0])
            queue = queue[1:]
        if queue and self.jobs[queue[0]].size > self.free():
            self.reserved.setdefault(queue[0], self.shadow_and_extra(queue[0])[0])
            super().pass_easy(queue)


class Exclusive(_Simulation):
    """now + request < shadow instead of <=."""

    def shadow_and_extra(self, head: int) -> tuple[int, int]:
        shadow, extra = super().shadow_and_extra(head)
        return shadow - 1, extra


class ExtraNotReduced(_Simulation):
    """A job that runs past the shadow does not use up extra nodes."""

    def pass_easy(self, queue: list[int]) -> None:
        queue = self.pass_strict(queue)
        if queue:
            shadow, extra = self.shadow_and_extra(queue[0])
            for i in self.candidates(queue[1:]):
                job = self.jobs[i]
                if job.size <= self.free() and (self.now + job.limit <= shadow or job.size <= extra):
                    self.launch(i)


class SubmissionsFirst(_Simulation):
    """A submission is handled, with its own pass, before a completion of the same instant."""

    def complete(self) -> None:
        if self.coming and self.jobs[self.coming[0]].submit == self.now:
            self.submit()
            self.one_pass()
        super().complete()


class NoSecondPass(_Simulation):
    """Nodes of a job of run time 0 come back, but nobody looks at the queue again in that instant."""

    last: int | None = None

    def one_pass(self) -> None:
        if self.now != self.last:
            self.last = self.now
            super().one_pass()


class ReleaseWithinPass(_Simulation):
    """A job of run time 0 gives its nodes back to the very pass that started it."""

    def launch(self, i: int) -> None:
        super().launch(i)
        if self.end[i] == self.now:
            self.running.remove(i)


class ZeroRunsOneSecond(_Simulation):
    """A run time of 0 is rounded up to one second."""

    def launch(self, i: int) -> None:
        super().launch(i)
        self.end[i] = max(self.end[i], self.now + self.tick)


class NotKilled(_Simulation):
    """A run longer than its request is not cut."""

    def launch(self, i: int) -> None:
        super().launch(i)
        self.end[i] = self.now + self.jobs[i].run


class OverrunInThePast(_Simulation):
    """The expected end of an overrunning job stays where it was, in the past."""

    def expected_end(self, i: int) -> int:
        return self.start[i] + self.jobs[i].limit


class OverrunForever(_Simulation):
    """An overrunning job is expected never to end (an end too far away to matter)."""

    def expected_end(self, i: int) -> int:
        end = super().expected_end(i)
        return end if end == self.start[i] + self.jobs[i].limit else self.now + 10**9


class PassPerSubmission(_Simulation):
    """A pass after each submission instead of one for the whole instant."""

    def submit(self) -> None:
        while self.coming and self.jobs[self.coming[0]].submit == self.now:
            self.waiting.append(self.coming.pop(0))
            self.one_pass()


class PassPerCompletion(_Simulation):
    """A pass after each completion instead of one for the whole instant."""

    def complete(self) -> None:
        for i in [i for i in self.running if self.end[i] == self.now]:
            self.running.remove(i)
            self.one_pass()


class BackfillOrderIgnored(_Simulation):
    """Candidates are taken in queue order although R2 is given."""

    def candidates(self, rest: list[int]) -> list[int]:
        return rest


class BackfillOrderForAll(_Simulation):
    """R2 sorts the whole queue, so it also chooses the head."""

    def one_pass(self) -> None:
        self.r1 = self.r2 or self.r1
        super().one_pass()


class TiesByJobId(_Simulation):
    """Equal submit times are ordered by job number instead of by their place in the file."""

    def in_order(self, which: list[int], score: Any) -> list[int]:
        return sorted(which, key=lambda i: (score(self.jobs[i], self.now), self.jobs[i].submit, self.jobs[i].job_id))


class OversizeClipped(_Simulation):
    """A job larger than the machine is cut to the machine's size instead of being rejected."""

    def __init__(self, jobs: Sequence[Job], nodes: int, *rest: Any) -> None:
        super().__init__([job._replace(size=min(job.size, nodes)) for job in jobs], nodes, *rest)


class DepthOne(_Simulation):
    """Only the head is protected, whatever depth was asked for."""

    def one_pass(self) -> None:
        self.backfill = "easy"
        super().one_pass()


class ReplanFromScratch(_Simulation):
    """Conservative: when a job ends all reservations are dropped and made again in queue order."""

    def pass_conservative(self, queue: list[int]) -> None:
        if self.released:
            self.reserved.clear()
        super().pass_conservative(queue)


class NoEarlyStart(_Simulation):
    """Conservative: an early end lets nobody start before his promise."""

    def pass_conservative(self, queue: list[int]) -> None:
        self.released = False
        super().pass_conservative(queue)


class NoTimer(_Simulation):
    """Conservative: nobody looks at the queue at the instant of a reservation unless a job ends or arrives then."""

    def run(self) -> list[Result]:
        while True:
            instants = [self.end[i] for i in self.running]
            if self.coming:
                instants.append(self.jobs[self.coming[0]].submit)
            if not instants:
                instants = list(self.reserved.values())
            if not instants:
                return [self.result(i) for i in range(len(self.jobs))]
            self.now = min(instants)
            self.complete()
            self.submit()
            self.one_pass()


BUGS: dict[str, type[_Simulation]] = {
    kind.__name__: kind
    for kind in (
        HeadDelayed,
        ShadowByActual,
        CandidateByActual,
        NoExtra,
        UnsortedEnds,
        ExtraWithoutTies,
        HeadWaitsForPromise,
        Exclusive,
        ExtraNotReduced,
        SubmissionsFirst,
        NoSecondPass,
        ReleaseWithinPass,
        ZeroRunsOneSecond,
        NotKilled,
        OverrunInThePast,
        OverrunForever,
        PassPerSubmission,
        PassPerCompletion,
        BackfillOrderIgnored,
        BackfillOrderForAll,
        TiesByJobId,
        OversizeClipped,
        DepthOne,
        ReplanFromScratch,
        NoEarlyStart,
        NoTimer,
    )
}


def simulate_with_bug(
    jobs: Sequence[Job],
    nodes: int,
    *,
    bug: str | None,
    order: str = "fcfs",
    backfill: str | int = "easy",
    backfill_order: str | None = None,
    kill: bool = True,
    tick: int = 1,
) -> list[Result]:
    """`simulate`, but with the named bug (None: without)."""
    kind = BUGS[bug] if bug else _Simulation
    return kind(jobs, nodes, order, backfill, backfill_order, kill, tick, False, None).run()
