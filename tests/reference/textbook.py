"""Textbook space-sharing schedulers: slow, plain, and independent of the product.

Written only from the command contract (section "Simulating") and the literature, so that the product can be compared
with something that does not share its mistakes. Nothing here is optimised: every pass recomputes everything.

Times are integers in any unit; `tick` is one second in that unit (1 for seconds, 1_000_000 for microseconds).

Sources
- EASY: Lifka, "The ANL/IBM SP scheduling system", JSSPP 1995; Mu'alem and Feitelson, IEEE TPDS 12(6), 2001.
- Conservative backfilling: Mu'alem and Feitelson 2001, Feitelson and Weil 1998. They move every reservation up when a
  job ends early; here, as in the product, a promise stays until its job can start at once (docs/adr/0004).
- WFP, UNICEF: Tang, Lan, Desai, Buettner, "Fault-aware, utility-based job scheduling on Blue Gene/P", Cluster 2009;
  WFP exponent 3 with plain size. UNICEF = wait / (log2(size) * request). On Blue Gene/P the smallest size is 64, so the
  paper never meets log2(1) = 0. RLScheduler (Zhang et al., SC 2020) adds 1e-15 inside the logarithm, which makes every
  one-node job win over everything by a factor of 1e15; here the logarithm is at least 1 (sizes 1 and 2 weigh the same).
- F1 to F4: Carastan-Santos and de Camargo, SC 2017: r request in seconds, n size, s submit time in seconds;
  smaller first. The logarithm of anything below 1 is taken as 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Job(NamedTuple):
    job_id: int
    submit: int
    run: int  # how long it really runs
    limit: int  # how long it asked for
    size: int  # nodes


class Result(NamedTuple):
    start: int | None
    end: int | None
    status: str  # done, killed or rejected


class Note(NamedTuple):
    """One planning fact, for tests: at `now`, job number `index` was promised the instant `when`."""

    now: int
    kind: str  # "shadow" (EASY) or "reserve" (depth k, conservative)
    index: int
    when: int


class Block(NamedTuple):
    """`size` nodes are taken during begin <= t < end."""

    begin: int
    end: int
    size: int


Score = Callable[[Job, int], float]

# ---------------------------------------------------------------------------------------------------------- orders


def _log10(x: float) -> float:
    return math.log10(max(x, 1.0))


def _ratio(job: Job, now: int, second: int) -> float:
    """Wait over request; a request below one second counts as one second."""
    return (now - job.submit) / max(job.limit, second)


def _fcfs(job: Job, now: int, second: int) -> float:
    return job.submit


def _sjf(job: Job, now: int, second: int) -> float:
    return job.limit


def _ljf(job: Job, now: int, second: int) -> float:
    return -job.limit


def _saf(job: Job, now: int, second: int) -> float:
    return job.limit * job.size


def _wfp(job: Job, now: int, second: int) -> float:
    return -(_ratio(job, now, second) ** 3 * job.size)


def _unicef(job: Job, now: int, second: int) -> float:
    return -(_ratio(job, now, second) / max(math.log2(job.size), 1.0))


def _f1(job: Job, now: int, second: int) -> float:
    return _log10(job.limit / second) * job.size + 870 * _log10(job.submit / second)


def _f2(job: Job, now: int, second: int) -> float:
    return math.sqrt(job.limit / second) * job.size + 25_600 * _log10(job.submit / second)


def _f3(job: Job, now: int, second: int) -> float:
    return job.limit / second * job.size + 6_860_000 * _log10(job.submit / second)


def _f4(job: Job, now: int, second: int) -> float:
    return job.limit / second * math.sqrt(job.size) + 530_000 * _log10(job.submit / second)


ORDERS: dict[str, Callable[[Job, int, int], float]] = {
    "fcfs": _fcfs,
    "sjf": _sjf,
    "ljf": _ljf,
    "saf": _saf,
    "wfp": _wfp,
    "unicef": _unicef,
    "f1": _f1,
    "f2": _f2,
    "f3": _f3,
    "f4": _f4,
}


def _score_of(order: str | Score, second: int) -> Score:
    if callable(order):
        return order
    named = ORDERS[order]
    return lambda job, now: named(job, now, second)


# --------------------------------------------------------------------------------------------- free nodes over time


def free_at(t: int, nodes: int, blocks: Sequence[Block]) -> int:
    return nodes - sum(b.size for b in blocks if b.begin <= t < b.end)


def fits_at(t: int, length: int, size: int, nodes: int, blocks: Sequence[Block]) -> bool:
    """Are `size` nodes free during all of [t, t + length)? They can only become fewer where a block begins."""
    points = [t] + [b.begin for b in blocks if t < b.begin < t + length]
    return all(free_at(p, nodes, blocks) >= size for p in points)


def earliest_fit(now: int, length: int, size: int, nodes: int, blocks: Sequence[Block]) -> int:
    """The earliest feasible start is now or the end of some block."""
    for t in sorted({now} | {b.end for b in blocks if b.end > now}):
        if fits_at(t, length, size, nodes, blocks):
            return t
    raise AssertionError("a job that is not larger than the machine fits after the last block")


# -------------------------------------------------------------------------------------------------------- simulation


def is_runnable(job: Job, nodes: int) -> bool:
    return job.run >= 0 and 0 < job.size <= nodes


def simulate(
    jobs: Sequence[Job],
    nodes: int,
    *,
    order: str | Score = "fcfs",
    backfill: str | int = "easy",
    backfill_order: str | Score | None = None,
    kill: bool = True,
    tick: int = 1,
    look_always: bool = False,
    log: list[Note] | None = None,
) -> list[Result]:
    """Replay `jobs` (in file order) on `nodes` equal nodes; one result per job, in file order.

    backfill: "none" (= 0), "easy" (shadow and extra), an integer depth (profile; 1 is EASY again), "conservative".
    look_always: conservative looks for early starts in every pass, not only after a release.
    """
    return _Simulation(jobs, nodes, order, backfill, backfill_order, kill, tick, look_always, log).run()


class _Simulation:
    def __init__(
        self,
        jobs: Sequence[Job],
        nodes: int,
        order: str | Score,
        backfill: str | int,
        backfill_order: str | Score | None,
        kill: bool,
        tick: int,
        look_always: bool,
        log: list[Note] | None,
    ) -> None:
        self.jobs = jobs
        self.nodes = nodes
        self.r1 = _score_of(order, tick)
        self.r2 = None if backfill_order is None else _score_of(backfill_order, tick)
        self.backfill = backfill
        self.kill = kill
        self.tick = tick
        self.look_always = look_always
        self.log = log
        # Everywhere below a job is its index in the file; `rank` is its place in the trace (stable by submit time).
        trace = sorted(range(len(jobs)), key=lambda i: jobs[i].submit)
        self.rank = {i: place for place, i in enumerate(trace)}
        self.coming = [i for i in trace if is_runnable(jobs[i], nodes)]
        self.waiting: list[int] = []
        self.running: list[int] = []
        self.start: dict[int, int] = {}
        self.end: dict[int, int] = {}
        self.reserved: dict[int, int] = {}  # conservative only: job -> promised start
        self.released = False  # some job ended since the last pass
        self.plan_broken = False  # some job ran, or still runs, past the end it had asked for (only without kill)
        self.started_in_pass: set[int] = set()
        self.now = 0

    # The clock ---------------------------------------------------------------------------------------------------

    def run(self) -> list[Result]:
        while True:
            # One pass per instant unless something ends in it: a promise of now that could not be kept because a job
            # of request 0 is still there is looked at again when that job, if it overruns, is expected to end.
            promised = [t if t > self.now else self.now + self.tick for t in self.reserved.values()]
            instants = [self.end[i] for i in self.running] + promised
            if self.coming:
                instants.append(self.jobs[self.coming[0]].submit)
            if not instants:
                break
            self.now = min(instants)
            self.complete()
            self.submit()
            self.one_pass()  # if it starts jobs of run time 0, the loop comes back to this instant
        assert not self.waiting
        return [self.result(i) for i in range(len(self.jobs))]

    def complete(self) -> None:
        self.released = self.plan_broken = False
        for i in [i for i in self.running if self.end[i] == self.now]:
            self.running.remove(i)
            asked = self.jobs[i].limit
            self.released = True
            self.plan_broken |= self.now > self.start[i] + asked
        self.plan_broken |= any(self.start[i] + self.jobs[i].limit <= self.now for i in self.running)

    def submit(self) -> None:
        while self.coming and self.jobs[self.coming[0]].submit == self.now:
            self.waiting.append(self.coming.pop(0))

    def launch(self, i: int) -> None:
        job = self.jobs[i]
        assert job.size <= self.free()
        self.waiting.remove(i)
        self.reserved.pop(i, None)
        self.running.append(i)
        self.started_in_pass.add(i)
        self.start[i] = self.now
        self.end[i] = self.now + (min(job.run, job.limit) if self.kill else job.run)

    def result(self, i: int) -> Result:
        if i not in self.start:
            return Result(None, None, "rejected")
        cut = self.kill and self.jobs[i].run > self.jobs[i].limit
        return Result(self.start[i], self.end[i], "killed" if cut else "done")

    # What a scheduler may know -----------------------------------------------------------------------------------

    def free(self) -> int:
        return self.nodes - sum(self.jobs[i].size for i in self.running)

    def expected_end(self, i: int) -> int:
        """By request; a job that is still there at or after that instant is overrunning (only without kill).

        A job of request 0 is not overrunning in the pass that starts it: its completion has not had its turn yet.
        """
        asked = self.start[i] + self.jobs[i].limit
        overrunning = asked <= self.now and i not in self.started_in_pass
        return self.now + self.tick if overrunning else asked

    def planned_length(self, job: Job) -> int:
        """A reservation of a job that asked for no time at all still needs its instant: it holds one second."""
        return job.limit or self.tick

    def running_blocks(self) -> list[Block]:
        return [Block(self.start[i], self.expected_end(i), self.jobs[i].size) for i in self.running]

    def in_order(self, which: list[int], score: Score) -> list[int]:
        return sorted(which, key=lambda i: (score(self.jobs[i], self.now), self.jobs[i].submit, self.rank[i]))

    def candidates(self, rest: list[int]) -> list[int]:
        """The rest of the queue behind the reservations, in the backfill order if there is one."""
        return rest if self.r2 is None else self.in_order(rest, self.r2)

    def note(self, kind: str, i: int, when: int) -> None:
        if self.log is not None:
            self.log.append(Note(self.now, kind, i, when))

    # One scheduling pass -----------------------------------------------------------------------------------------

    def one_pass(self) -> None:
        self.started_in_pass.clear()
        queue = self.in_order(self.waiting, self.r1)
        if self.backfill == "easy":
            self.pass_easy(queue)
        elif self.backfill == "conservative":
            self.pass_conservative(queue)
        elif self.backfill in ("none", 0):
            self.pass_strict(queue)
        elif isinstance(self.backfill, int):
            self.pass_depth(queue, self.backfill)
        else:
            raise ValueError(f"unknown backfill {self.backfill!r}")

    def pass_strict(self, queue: list[int]) -> list[int]:
        """Start from the front while the front fits; the jobs that are left."""
        while queue and self.jobs[queue[0]].size <= self.free():
            self.launch(queue[0])
            queue = queue[1:]
        return queue

    def pass_easy(self, queue: list[int]) -> None:
        queue = self.pass_strict(queue)
        if not queue:
            return
        head, rest = queue[0], queue[1:]
        shadow, extra = self.shadow_and_extra(head)
        self.note("shadow", head, shadow)
        for i in self.candidates(rest):
            job = self.jobs[i]
            if job.size > self.free():
                continue
            if self.now + job.limit <= shadow:
                self.launch(i)
            elif job.size <= extra:
                self.launch(i)
                extra -= job.size

    def shadow_and_extra(self, head: int) -> tuple[int, int]:
        need = self.jobs[head].size
        for instant in sorted(self.expected_end(i) for i in self.running):
            released = sum(self.jobs[i].size for i in self.running if self.expected_end(i) <= instant)
            if self.free() + released >= need:
                return instant, self.free() + released - need
        raise AssertionError("the head is larger than the machine")

    def pass_depth(self, queue: list[int], depth: int) -> None:
        """From scratch each time. Reservations go by the queue order; once there are `depth`, the rest by R2."""
        reservations: list[Block] = []
        while queue and len(reservations) < depth:
            i, queue = queue[0], queue[1:]
            job = self.jobs[i]
            if self.may_start(job, reservations):
                self.launch(i)
                continue
            length = self.planned_length(job)
            when = earliest_fit(self.now, length, job.size, self.nodes, self.running_blocks() + reservations)
            reservations.append(Block(when, when + length, job.size))
            self.note("reserve", i, when)
        for i in self.candidates(queue):
            if self.may_start(self.jobs[i], reservations):
                self.launch(i)

    def may_start(self, job: Job, reservations: list[Block]) -> bool:
        if job.size > self.free():
            return False
        blocks = self.running_blocks() + reservations
        return job.limit == 0 or fits_at(self.now, job.limit, job.size, self.nodes, blocks)

    def pass_conservative(self, queue: list[int]) -> None:
        """Every waiting job keeps the reservation of its first pass, or starts before it.

        One sweep in queue order. A job without a reservation gets one; if some job ended, a job with a reservation
        starts if it can do so now beside the running jobs and ALL other reservations. If a job overran its request (no
        kill), promises are void and the whole plan is made again.
        """
        if self.plan_broken:
            self.reserved.clear()
        for i in queue:
            job, length = self.jobs[i], self.planned_length(self.jobs[i])
            if i not in self.reserved:
                self.reserved[i] = earliest_fit(self.now, length, job.size, self.nodes, self.all_blocks())
                self.note("reserve", i, self.reserved[i])
            elif self.released or self.look_always:
                promised = self.reserved.pop(i)
                now_is_possible = job.size <= self.free() and fits_at(
                    self.now, length, job.size, self.nodes, self.all_blocks()
                )
                self.reserved[i] = self.now if now_is_possible else promised
            # The size can exceed the free nodes only beside a job of request 0 that ends within this instant.
            if self.reserved[i] <= self.now and job.size <= self.free():
                self.launch(i)

    def all_blocks(self) -> list[Block]:
        held = [Block(t, t + self.planned_length(self.jobs[i]), self.jobs[i].size) for i, t in self.reserved.items()]
        return self.running_blocks() + held


# ------------------------------------------------------------------------------------------------------------- traces


def parse_swf(text: str) -> tuple[list[Job], int | None]:
    """Jobs in file order (in seconds) and the machine size of the header, by the contract's trace rules."""
    jobs: list[Job] = []
    header: dict[str, int] = {}
    for line in text.splitlines():
        line = line.strip()
        if line.startswith(";"):
            key, _, value = line.lstrip("; ").partition(":")
            words = value.split()
            if key.strip() in ("MaxNodes", "MaxProcs") and words and words[0].isdigit():
                header.setdefault(key.strip(), int(words[0]))
            continue
        if not line:
            continue
        fields = [int(float(word)) for word in line.split()]
        fields += [-1] * (18 - len(fields))
        job_id, submit, run, used, wanted, request = (fields[n - 1] for n in (1, 2, 4, 5, 8, 9))
        size = wanted if wanted > 0 else used
        limit = request if request > 0 else run
        jobs.append(Job(job_id, submit, run, limit, size))
    return jobs, header.get("MaxNodes", header.get("MaxProcs"))
