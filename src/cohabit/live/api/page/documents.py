"""The page's data: one type per document, filled by a live controller and by a finished run (app/view).

The page does not know which of the two answers. Keys that only one of them has are marked NotRequired. The types are
dictionaries, so that each side keeps the order of its keys. Instants are in seconds: of Unix time in a live controller,
since the first submission in a finished run.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypedDict

from cohabit.report.predicted import Compared
from cohabit.report.variation import Variation

_From = TypedDict("_From", {"from": float | None})  # a word of Python, as `class` below
_Class = TypedDict("_Class", {"class": str})

# ---- the machine ----------------------------------------------------------------------------------------------------


class RunName(TypedDict):
    """One of several finished runs."""

    name: str
    policy: str


class About(_From):
    """The controller or the run, and the caller."""

    source: str  # "live" or "finished"
    version: str
    title: str
    user: str
    role: str
    nodes: int
    node_names: NotRequired[list[str]]  # as a resource manager calls them; left out: they have numbers only
    cores: int
    policy: str
    runs: list[RunName]
    until: float | None
    coupled: bool
    at: NotRequired[float]  # finished: the instant that is shown first
    programs: NotRequired[bool]  # finished: whether there is anything to show of programs
    predictions: NotRequired[bool]  # finished: whether there is anything to show of predictions


class NodeColumns(TypedDict):
    """Every node in columns; None: not divided, or not known."""

    state: list[int]
    cores: list[int]
    used_cores: list[int]
    tenants: list[int]
    ways: list[int] | None
    used_ways: list[int] | None
    bandwidth_gbs: list[float] | None
    used_bandwidth_gbs: list[float] | None


class Counts(TypedDict):
    """Jobs that have not ended, by state."""

    running: int
    held: int
    queued: int


class Overview(TypedDict):
    """The machine at an instant."""

    nodes: NodeColumns
    counts: Counts
    at: float | None


class Series(_From):
    """Jobs and cores over time, a number for every bin."""

    step_s: float
    waiting_at_end: int
    started: list[int]
    ended: list[int]
    waiting: list[float]
    busy_cores: list[float]


class NodeTenant(TypedDict):
    """A job on a node; unnamed: the caller may not see it."""

    job: str | None
    program: str | None
    cores: int
    first_way: int | None
    ways: int | None
    booked_ways: int
    bandwidth_gbs: float
    exclusive: bool
    state: str
    started_at: float | None


class Closing(TypedDict):
    """A window in which the node starts no job that would run into it."""

    name: str
    begin_at: float
    end_at: float


class Node(TypedDict):
    """A node and the jobs on it."""

    node: int
    state: str
    cores: int
    ways: int
    min_ways: int
    memory_bytes: int
    tenants: list[NodeTenant]
    divided: bool
    bandwidth_curve: list[list[float]]
    server: int
    domains: int
    windows: NotRequired[list[Closing]]
    actions: list[str]
    at: float | None


# ---- jobs -----------------------------------------------------------------------------------------------------------


class _Job(TypedDict):
    job: str
    user: str
    program: str
    state: str
    why: str
    processes: int
    limit_s: float
    submitted_at: float | None
    started_at: float | None
    ended_at: float | None


class JobLine(_Job):
    """A line of a list of jobs. Ended jobs of a live controller have the other keys of JobDetails, too."""

    nodes: int
    seq: NotRequired[int]  # live: the order of submission


class JobList(TypedDict):
    """A part of the jobs, and how many there are."""

    jobs: list[JobLine]
    total: int
    more: NotRequired[bool]  # live: there are older ones that ended


class JobDetails(_Job):
    """A job; in a live controller also the JobView of docs/api.md."""

    nodes: list[int]
    cores: int
    scale: int
    command: list[str] | None
    attempt: int | None
    exit_status: int | None
    exit_signal: int | None
    array: str | None
    after: list[str]
    predicted_slowdown: float | None
    actual_slowdown: float | None
    node_names: NotRequired[list[str]]  # this and the next seven: live
    name: NotRequired[str]
    used_cores: NotRequired[int]
    stdout: NotRequired[str]
    stderr: NotRequired[str]
    slowdown_why: NotRequired[str]
    whole_nodes: NotRequired[int]
    account: NotRequired[str]
    mate: NotRequired[str | None]  # finished: the group of its mates


class Neighbour(TypedDict):
    """A job on the same nodes, and on how many of them."""

    job: str | None
    program: str | None
    nodes: int


class Speed(TypedDict):
    """Measured shares of the speed alone."""

    mean: float
    last: float


class Reason(TypedDict):
    """The reason why a job waited from this instant on, or what was done for its speed."""

    at: float | None
    why: str


class Placement(TypedDict):
    """A job's share of its nodes, its neighbours and its speed."""

    holds: NotRequired[bool]  # live: it has nodes and waits for its mates
    nodes: list[int]
    cores: int
    ways: int
    bandwidth_gbs: float
    exclusive: bool
    purpose: str
    scale: int
    beside: list[Neighbour]
    expected_end_at: float | None
    promised: float | None
    measured: Speed | None
    story: list[Reason]


class Mate(TypedDict):
    """A job of the same group in another domain."""

    domain: str
    job: str
    phase: str
    heard_s: float | None


class Mates(TypedDict):
    """The group of a job."""

    group: str
    mates: list[Mate]


class OneJob(TypedDict):
    """Everything about one job."""

    job: JobDetails
    placement: Placement | None
    why: str
    history: list[Reason]
    actions: list[str]
    at: float
    mates: NotRequired[Mates | None]  # live
    expected_start_at: NotRequired[float | None]  # live, of a job that waits, by requested times
    expected_nodes: NotRequired[list[int]]
    segments: NotRequired[list[list[float]]]  # finished: [since, speed, ...]
    replay: NotRequired[bool]  # finished: whether its waits can be explained
    summary: NotRequired[str]  # finished


# ---- profiles and predictions ---------------------------------------------------------------------------------------


class Trial(TypedDict):
    """The next run that measures a program."""

    scale: int
    purpose: str


class ProgramScale(TypedDict):
    """A program at one scale; a curve is [ways, values]."""

    scale: int
    time_s: float | None
    samples: int
    ipc: list[list[float]] | None
    bandwidth_gbs: list[list[float]] | None
    miss_rate: list[list[float]] | None
    communication: float | None


class Program(_Class):
    """A profile and the progress of its exploration."""

    program: str
    owner: str
    processes: int
    why: str
    ideal_scale: int
    constraint: str
    provenance: str
    complete_scales: int
    under_way: list[list[Any]]
    planned_scales: list[int]
    next_trial: Trial | None
    scales: list[ProgramScale]


class Programs(TypedDict):
    """All profiles that the caller may see."""

    programs: list[Program]
    learns: bool
    ways: int
    variation: list[Variation]  # how far run times vary


class Matrix(TypedDict):
    """By how many percent each program slows beside each other one."""

    programs: list[str]
    owners: NotRequired[list[str]]  # finished; live names them beside the programs
    percent: list[list[float | None]]
    by: str
    left_out: int


class Verdict(TypedDict):
    """The present verdict of a gate on jobs of one type."""

    workload_type: str
    label: str
    probability: float
    slowdown: float


class PassedOver(TypedDict):
    """A job that a gate lets wait."""

    job: str
    skips: int


class VariabilityGate(TypedDict):
    """A gate: its rule, its tallies and its verdicts."""

    gate: str
    labels: list[str]
    skip_threshold: int
    tallies: dict[str, int]
    without_data: str
    now: list[Verdict]
    passed_over: list[PassedOver]
    looks_at: NotRequired[list[str]]  # live: counters
    missing: NotRequired[list[str]]  # live: counters that the model needs


class Counters(TypedDict):
    """The newest counters; a row is [name, min, mean, max, whether a gate looks at it]."""

    at: float
    age_s: float
    rows: list[list[str | float | bool | None]]
    left_out: int


class BesideJob(TypedDict):
    """A job on shared nodes; unnamed: the caller may not see it."""

    job: str | None
    program: str | None
    slowed_percent: list[float | None]  # by each job of the set, in its order; None: itself, or not known
    expected: float | None  # run time against alone, as booked
    measured: Speed | None


class SharedNodes(TypedDict):
    """Jobs that share nodes now."""

    nodes: list[int]
    jobs: list[BesideJob]


class Predictions(TypedDict):
    """Predicted slowdowns, gates and counters."""

    matrix: Matrix | None
    gates: list[VariabilityGate]
    counters: Counters | None
    together: NotRequired[list[SharedNodes]]  # live
    slowdowns: NotRequired[Compared | None]  # finished; a running controller tells them at /v1/slowdowns


# ---- domains --------------------------------------------------------------------------------------------------------


class MateGroup(TypedDict):
    """A group of mates that is not over."""

    group: str
    job: str
    state: str
    phase: str
    attempt: int
    coordinator: str
    lease_end_at: float | None
    start_at: float | None
    ready_since: float | None
    failures: int
    holds_since: float | None
    yields: int
    nodes: int
    mates: list[Mate]


class PastJob(TypedDict):
    """A job of a group that has started."""

    domain: str
    job: str


class PastGroup(TypedDict):
    """A group of mates that has started."""

    group: str
    jobs: list[PastJob]
    first_ready: float | None
    start: float | None
    apart_s: float | None
    waited_s: float | None


class Coupling(TypedDict):
    """The domains and their groups of mates: the present ones of a live controller, the past ones of a finished run."""

    domain: str
    peers: list[str]
    scheme: str
    enabled: NotRequired[bool]
    deadlock: NotRequired[str]
    release_s: NotRequired[float]
    most_held: NotRequired[float]
    groups: NotRequired[list[MateGroup]]
    past: NotRequired[list[PastGroup]]
    left_out: NotRequired[int]


class Domains(TypedDict):
    """Jobs with mates in other domains; None: there are no other domains."""

    coupling: Coupling | None
    at: NotRequired[float]  # live
