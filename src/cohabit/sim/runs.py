"""A job of the trace, its runs and its outcome: data that only the world knows."""

from __future__ import annotations

from dataclasses import dataclass

from cohabit.model.command import StartJob
from cohabit.model.job import Job
from cohabit.model.units import FOREVER
from cohabit.sim.machine.phases import STEADY, Track
from cohabit.sim.terms import Terms


@dataclass(frozen=True)
class TracedJob:
    """A job of the trace: its owner's request and what only the world knows."""

    job: Job
    submit_us: int
    work_us: int  # run time of the compact exclusive run
    terms: Terms | None = None  # what kept it from its queue in its log, and became of it there


@dataclass
class Run:
    """One run of a job: work left, and how fast it is being done (1.0 = compact and alone on its nodes)."""

    order: StartJob
    started_us: int
    work_us: float
    remaining_us: float
    rate: float = 1.0
    machine_rate: float = 1.0  # its two parts: neighbours on its nodes,
    weather_rate: float = 1.0  # and network and filesystem
    as_of_us: int = 0
    ends_us: int = FOREVER
    killed: bool = False
    fuse_us: int = FOREVER  # it is stopped then, unless a message from its mates changes that
    burnt: bool = False
    track: Track = STEADY  # stages of the program, by fraction of the work
    stage: int = 0
    stage_ends_us: int = FOREVER
    early: float = 0.0  # share of its work in which the weather matters; 0: that part is over, or there is none
    settles_us: int = FOREVER
    queued_us: int = FOREVER  # the time of its next entry on the heap

    def proceed(self, now_us: int) -> None:
        """Account for the work done until now."""
        if now_us > self.as_of_us:  # else it has been ordered, and has not begun yet
            self.remaining_us = max(0.0, self.remaining_us - (now_us - self.as_of_us) * self.rate)
            self.as_of_us = now_us

    def foresee(self, kill: bool) -> None:
        """Compute when the run ends (work done or limit reached) and when its stage ends, if nothing changes."""
        limit_end_us = self.started_us + self.order.limit_us
        done = self._when(self.remaining_us)
        self.killed = kill and done > limit_end_us
        self.ends_us = limit_end_us if self.killed else done
        self.burnt = self.ends_us > self.fuse_us
        self.ends_us = min(self.ends_us, self.fuse_us)
        left_after_stage = (1.0 - self.track.ends[self.stage]) * self.work_us
        last = self.stage + 1 == len(self.track.ends)
        self.stage_ends_us = FOREVER if last else self._when(self.remaining_us - left_after_stage)
        early_left = self.remaining_us - (1.0 - self.early) * self.work_us
        self.settles_us = self._when(early_left) if self.early else FOREVER

    def _when(self, work_us: float) -> int:
        return self.as_of_us + max(0, round(work_us / self.rate)) if self.rate > 0 else FOREVER

    @property
    def next_us(self) -> int:
        """Return the time of its next event if nothing changes."""
        return min(self.ends_us, self.stage_ends_us, self.settles_us)


@dataclass
class Outcome:
    """The outcome of one job."""

    start_us: int | None = None
    end_us: int | None = None
    status: str = "waiting"
    reason: str = ""
    nodes: tuple[tuple[int, int], ...] = ()
    attempts: int = 0
    scale: int = 1
    cores: int = 0  # on each node; 0: all of them
    exclusive: bool = True
    purpose: str = "run"
    ways: int = 0  # booked on each node, as is the bandwidth
    bandwidth_mbs: int = 0
    first_ready_us: int | None = None  # with mates: when there were first nodes for it
    held_us: int = 0  # how long it held nodes without running
    keeps_since_us: int | None = None
    yields: int = 0

    def keep(self, now_us: int) -> None:
        """Record that nodes are held for it while it waits for its mates."""
        self.first_ready_us = now_us if self.first_ready_us is None else self.first_ready_us
        self.keeps_since_us = now_us

    def let_go(self, now_us: int) -> None:
        """Record that its nodes are no longer held."""
        if self.keeps_since_us is not None:
            self.held_us += now_us - self.keeps_since_us
            self.keeps_since_us = None

    def begin(self, now_us: int, order: StartJob) -> None:
        """Record its start."""
        self.let_go(now_us)
        self.start_us, self.end_us, self.status = now_us, None, "running"
        self.nodes, self.attempts = order.nodes, order.attempt
        self.scale, self.cores, self.exclusive, self.purpose = order.scale, order.cores, order.exclusive, order.purpose
        self.ways, self.bandwidth_mbs = order.ways, order.bandwidth_mbs
