"""What is known of a job that the core has, what a look at the manager shows, and the actions that follow from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cohabit.backend.steered.marks import CORES, NOTED, SHARED, WHOLE, Before
from cohabit.backend.steered.shapes import BY_CORES, BY_REQUEST, Discovered, ManagerJob, ManagerNode, ManagerWindow
from cohabit.model.command import StartJob
from cohabit.model.event import JobHeld

QUEUED, PARKED, ORDERED, RUNS = "queued", "parked", "ordered", "runs"  # parked: held on purpose by a user or operator


@dataclass
class Known:
    """A job the core has."""

    name: str
    phase: str = QUEUED
    attempt: int = 0
    nodes: tuple[str, ...] = ()  # where it was ordered to run, and what it must get
    before: Before = field(default_factory=Before)
    limit_us: int = 0
    shape: tuple[object, ...] = ()
    restarts: int = 0
    touched_s: float = 0.0  # when we last acted on it: older pictures say nothing about it
    busy: bool = False  # an order about it is being carried out
    to_place: bool = False  # the manager did not answer: repeat the order
    cores: int = 0  # on each node, of that order
    bandwidth_mbs: int = 0  # booked on each node, by that order
    stopping: bool = False  # we have stopped its run
    mates: str = ""  # the group it belongs to
    ordered_s: float = 0.0  # when its start was ordered; Unix time, as managers have it
    waits_since_s: float = 0.0  # the same on the monotonic clock
    kept_by: str = ""  # why the manager has not started it yet, in its words
    depends: frozenset[str] = frozenset()  # what it depended on when it was taken
    asked_whole: bool = False  # its owner wants nodes for itself
    parked_as: str = NOTED  # the flag its mark gets while it is parked

    def park(self, flag: str) -> JobHeld:
        """Leave it alone until a hold that is not ours is lifted."""
        self.phase, self.parked_as = PARKED, flag
        return JobHeld(self.name)

    def take_down(self, order: StartJob, found: Discovered) -> None:
        """Record where the job is to run, and with how much of each node. Of whole nodes it asks for no more cores than
        it needs: a job with a number of tasks per node, or of CPUs per task, would never start (Slurm, all versions but
        22.05)."""
        numbers = [number for first, count in order.nodes for number in range(first, first + count)]
        self.nodes = tuple(found.names[number] for number in numbers)
        whole, by = order.exclusive or not order.cores, found.whole_by
        self.cores, self.bandwidth_mbs = order.cores, order.bandwidth_mbs
        if whole and by == BY_CORES and not self.asked_whole:
            self.cores = min(found.cpus[number] for number in numbers)
        elif whole:
            self.cores = max(-(-self.before.cpus // len(numbers)), 1)
        if whole and by == BY_REQUEST and not self.asked_whole:
            self.before = self.before._replace(made=WHOLE)
        elif self.before.made in (WHOLE, SHARED):
            self.before = self.before._replace(made=SHARED)
        elif found.shares_cores and not whole:
            self.before = self.before._replace(made=CORES)


@dataclass
class Wishes:
    """Actions to be taken in the manager."""

    pass_on: dict[str, str] = field(default_factory=dict)  # job -> why it is left to the manager
    take_back: list[str] = field(default_factory=list)  # released, not started: hold them again
    hold: list[str] = field(default_factory=list)  # back in the queue, waiting for a decision
    take_again: list[str] = field(default_factory=list)  # given back, still waiting: hold them for us again
    note: dict[str, str] = field(default_factory=dict)  # job -> what its mark is to say (noting.py)
    stop: list[str] = field(default_factory=list)  # runs where it must not
    vanished: list[str] = field(default_factory=list)  # was running, and the manager does not know it any more
    said: list[str] = field(default_factory=list)  # for the operator

    def in_order(self, kept: Iterable[str]) -> list[tuple[str, str]]:
        """Return them as (what, job), in the order in which they are carried out. `kept`: not given back yet."""
        lists = {
            "pass on": (*self.pass_on, *kept),
            "hold": self.hold,
            "stop": self.stop,
            "take back": self.take_back,
            "take again": self.take_again,
        }
        found = [(what, name) for what, names in lists.items() for name in names]
        found += [(f"note {what}", name) for name, what in self.note.items()]
        return found + [("ask", name) for name in self.vanished]


@dataclass(frozen=True)
class Picture:
    """The part of the manager that we look at; the look began at this instant (Unix time)."""

    begun_s: float
    jobs: Mapping[str, ManagerJob]
    nodes: Sequence[ManagerNode]
    windows: Sequence[ManagerWindow] = ()
