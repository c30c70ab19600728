"""A scene: domains, jobs, what goes wrong, and the right answer. It is played simulated, live and under real managers.

The answer of a scene (`starts`, `deadlock`) comes from the paper or from arithmetic on paper, never from a run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import permutations

TRACE_END_S = 48 * 3600.0
INSTANT_S = 0.1  # what starts so near to each other starts at one instant


@dataclass(frozen=True)
class Domain:
    """A cluster of nodes with one core, FCFS with EASY, and its scheme; the defaults are the product's."""

    name: str
    nodes: int
    scheme: str = "hold"
    release_s: float = 1200.0
    min_hold_s: float = 600.0
    max_held: float = 1.0
    max_yields: int = 0
    bounded_hold_s: float = 0.0
    raise_per_yield: float = 0.0
    on_deadlock: str = "release"
    enabled: bool = True
    clock_offset_s: float = 0.0


@dataclass(frozen=True)
class Job:
    """A job; `run_s` is what only the world knows. Jobs of one group in different domains are mates."""

    name: str
    domain: str
    submit_s: float
    nodes: int
    run_s: float
    limit_s: float
    group: str = ""


@dataclass(frozen=True)
class Trouble:
    """`cancel` by its owner or `refuse` its next start (a job), `dead` until then (a controller)."""

    what: str
    domain: str
    at_s: float
    job: str = ""
    until_s: float | None = None


@dataclass(frozen=True)
class Terms:
    """Of all groups."""

    lead_s: float = 0.2
    lease_s: float = 180.0
    ask_s: float = 60.0
    retry_s: float = 30.0
    dead_after_s: float = 86_400.0
    when_dead: str = "wait"
    overlap_s: float = 0.0


@dataclass(frozen=True)
class Window:
    """Domain `second` starts from `least_s` to `most_s` after domain `first`."""

    first: str
    second: str
    least_s: float
    most_s: float


@dataclass(frozen=True)
class Scene:
    """One play. `starts`: when jobs must start, give or take the clock's grain; None: never."""

    name: str
    domains: tuple[Domain, ...]
    jobs: tuple[Job, ...]
    trouble: tuple[Trouble, ...] = ()
    terms: Terms = Terms()
    windows: tuple[Window, ...] = ()
    as_live: bool = False  # simulated with a site's ask_s and retry_s, and with messages that take a millisecond
    starts: Mapping[str, float | None] = field(default_factory=dict)
    deadlock: bool | None = None  # whether one must be named; None: not said
    policy: str = "ce-easy"
    until_s: float = TRACE_END_S  # who has not started by then never does

    @property
    def groups(self) -> dict[str, dict[str, Job]]:
        """The members of every group by domain."""
        found: dict[str, dict[str, Job]] = {}
        for job in self.jobs:
            if job.group:
                found.setdefault(job.group, {})[job.domain] = job
        return found


@dataclass
class Course:
    """What became of a job, in seconds of true time. Only the last run counts."""

    start_s: float | None = None
    end_s: float | None = None
    ready_s: float | None = None  # when there were first nodes for it
    status: str = "waiting"

    @property
    def waited_for_mates_s(self) -> float:
        """The paper's synchronisation time."""
        return 0.0 if self.start_s is None or self.ready_s is None else self.start_s - self.ready_s


@dataclass
class Played:
    """What became of a scene."""

    courses: dict[str, Course]
    deadlocks: list[tuple[float, str, str]] = field(default_factory=list)  # when, by whom, in words


def disagreements(scene: Scene, one: Played, other: Played, grain_s: float) -> list[str]:
    """In what two plays of a scene differ by more than the grain: ends, starts, synchronisation, order."""
    found = []
    for job in scene.jobs:
        a, b = one.courses[job.name], other.courses[job.name]
        if a.status != b.status:
            found.append(f"{job.name} is {a.status} and {b.status}")
        for what, x, y in [("starts at", a.start_s, b.start_s), ("is ready at", a.ready_s, b.ready_s)]:
            if (x is None) != (y is None) or (x is not None and y is not None and abs(x - y) > grain_s):
                found.append(f"{job.name} {what} {x} and {y}")
        if abs(a.waited_for_mates_s - b.waited_for_mates_s) > grain_s:
            found.append(f"{job.name} waits {a.waited_for_mates_s:g} s and {b.waited_for_mates_s:g} s for its mates")
    found += swapped(scene, one, other)
    if bool(one.deadlocks) != bool(other.deadlocks):
        found.append(f"deadlocks: {one.deadlocks} and {other.deadlocks}")
    return found


def swapped(scene: Scene, one: Played, other: Played, instant_s: float = INSTANT_S) -> list[str]:
    """Jobs of one domain that start one after the other in one play, and the other way round in the other."""
    found = []
    for first, second in permutations(scene.jobs, 2):
        starts = [[play.courses[job.name].start_s for job in (first, second)] for play in (one, other)]
        (a, b), (c, d) = starts
        if first.domain != second.domain or a is None or b is None or c is None or d is None:
            continue
        if (a + instant_s < b and c > d) or (c + instant_s < d and a > b):
            found.append(f"{first.domain} starts {first.name} at {a} and {c}, {second.name} at {b} and {d}")
    return found


def wrong(scene: Scene, played: Played, grain_s: float, apart_s: float = INSTANT_S) -> list[str]:
    """In what a play departs from the scene's own answer, and from what holds in every scene: mates start together."""
    found = []
    for name, right_s in scene.starts.items():
        start_s = played.courses[name].start_s
        if (start_s is None) != (right_s is None) or (right_s is not None and abs((start_s or 0) - right_s) > grain_s):
            found.append(f"{name} starts at {start_s}, not at {right_s}")
    if scene.deadlock is not None and bool(played.deadlocks) != scene.deadlock:
        found.append(f"a deadlock {'must' if scene.deadlock else 'must not'} be named: {played.deadlocks}")
    if not scene.trouble and not scene.windows:
        off = {one.name for one in scene.domains if not one.enabled}
        for group, members in scene.groups.items():
            starts = [played.courses[job.name].start_s for job in members.values() if job.domain not in off]
            known = [at for at in starts if at is not None]
            together = len(known) == len(starts) and max(known) - min(known) <= apart_s
            if known and not together and not off:
                found.append(f"group {group} starts at {starts}")
    return found
