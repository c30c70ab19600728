"""What callers may send and what they get: the documents of the API, checked before anything else looks at them.

Every number is bounded and every text is something a file name, an environment or a command line can hold. Nothing
here knows who calls or what the scheduler would say.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from cohabit.live.api.settings import LONGEST_ARRAY
from cohabit.model.texts import wrong_in_name, wrong_in_variable, wrong_in_word

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ARRAY = re.compile(r"([0-9]{1,9})-([0-9]{1,9})(?:%([0-9]{1,9}))?")
LONGEST_S = 366 * 86400.0
_MOST = 1_000_000  # of anything that is counted


def _job_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError("a name has 1 to 64 letters, digits, dots, hyphens and underscores and begins with a letter")
    if text.isdigit():
        raise ValueError("a name of digits only is one the server gives; add a letter")
    if re.search(r"_[0-9]+$", text):
        raise ValueError("a name that ends in _NUMBER is one of an array's member; choose another")
    return text


def _sound(wrong_in: Callable[[str], str]) -> AfterValidator:
    def check(text: str) -> str:
        if wrong := wrong_in(text):
            raise ValueError(wrong)
        return text

    return AfterValidator(check)


Text = Annotated[str, Field(max_length=200_000), _sound(wrong_in_word)]
Short = Annotated[str, Field(max_length=255), _sound(wrong_in_name)]
Variable = Annotated[str, Field(max_length=1024), _sound(wrong_in_variable)]
FilePath = Annotated[str, Field(max_length=4096), _sound(wrong_in_name)]
JobId = Annotated[str, Field(min_length=1, max_length=80), _sound(wrong_in_name)]
UserName = Annotated[str, Field(max_length=64), _sound(wrong_in_name)]
Framework = Annotated[str, Field(max_length=40), _sound(wrong_in_name)]
GroupName = Annotated[str, Field(min_length=1, max_length=64), _sound(wrong_in_name)]
Seconds = Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)]


class _Shape(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False)


class WindowShape(_Shape):
    """Domain `second` starts from `least_s` to `most_s` after domain `first`."""

    first: Short
    second: Short
    least_s: Annotated[float, Field(ge=-LONGEST_S, le=LONGEST_S, allow_inf_nan=False)] = 0.0
    most_s: Annotated[float, Field(ge=-LONGEST_S, le=LONGEST_S, allow_inf_nan=False)] = 0.0


class GroupShape(_Shape):
    """Jobs in several domains that start together: the keys of a site file's [group.NAME], and its name."""

    name: GroupName
    members: Annotated[dict[Short, Short], Field(min_length=2, max_length=64)]
    lease_s: Seconds = 60.0
    lead_s: Seconds = 2.0
    late_s: Seconds = 0.05
    round_trip_s: Seconds = 0.05
    ask_s: Seconds = 10.0
    retry_s: Seconds = 30.0
    dead_after_s: Seconds = 180.0
    when_dead: Short = "start_alone"
    overlap_s: Annotated[float, Field(ge=-1, le=LONGEST_S, allow_inf_nan=False)] = -1.0
    window: Annotated[list[WindowShape], Field(max_length=64)] = []


class Submission(_Shape):
    """A job to be run. Only the command is needed."""

    command: Annotated[list[Text], Field(min_length=1, max_length=10_000)]
    name: Annotated[str, Field(max_length=64, description="the job's id; else the server gives a number"),
                    AfterValidator(_job_name)] | None = None  # fmt: skip
    environment: Annotated[dict[Variable, Text], Field(max_length=10_000)] = {}
    folder: FilePath = ""
    stdout: FilePath = ""
    stderr: FilePath = ""
    processes: Annotated[int, Field(ge=1, le=_MOST)] = 1
    nodes: Annotated[int, Field(ge=0, le=_MOST)] = 0
    limit_s: Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)] = 3600.0
    memory_mb: Annotated[int, Field(ge=0, le=2**40, description="per process")] = 0
    program: Short = ""
    alpha: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    exclusive: bool = False
    single_node: bool = False
    after: Annotated[list[JobId], Field(max_length=1000)] = []
    after_any: bool = False
    array: Annotated[str, Field(max_length=40, description="A-B or A-B%K: numbers, at most K at a time")] | None = None
    hold: bool = False
    requeue: bool = True
    partition: Short = ""
    qos: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    workload_type: Annotated[str, Field(pattern="^(|compute|network|io)$")] = ""
    skip_threshold: Annotated[int, Field(ge=-1, le=_MOST)] = -1
    reprofile: bool = False
    framework: Framework = "plain"
    threads: Annotated[int, Field(ge=0, le=_MOST)] = 0
    oversubscribe: bool = False
    group: GroupShape | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Submission:
        if not self.command[0]:
            raise ValueError("the first word of the command is empty")
        if self.array is not None:
            first, count, _ = array_of(self.array)
            if count > LONGEST_ARRAY:
                raise ValueError(f"an array of {count} jobs; at most {LONGEST_ARRAY}, starting at {first}")
            if self.name is not None and len(f"{self.name}_{first + count - 1}") > 64:
                raise ValueError("the names of the array's members would be longer than 64 characters")
        return self


def array_of(text: str) -> tuple[int, int, int]:
    """(first number, how many, at most so many at once; 0: no bound)."""
    found = ARRAY.fullmatch(text)
    if not found:
        raise ValueError(f"array {text!r} is not A-B or A-B%K")
    first, last, at_most = int(found[1]), int(found[2]), int(found[3] or 0)
    if last < first or (found[3] is not None and at_most < 1):
        raise ValueError(f"array {text!r} has no members")
    return first, last - first + 1, at_most


class Change(_Shape):
    """What of a queued job is to be different; a longer limit or another qos needs an operator."""

    limit_s: Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)] | None = None
    qos: Annotated[int, Field(ge=-1000, le=1000)] | None = None


class TokenWish(_Shape):
    """A token for somebody; the caller, unless an admin names another."""

    user: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@-]*$")] | None = None
    label: Short = ""
    expires_in_s: Annotated[float, Field(gt=0, le=10 * LONGEST_S, allow_inf_nan=False)] = 90 * 86400.0


class Overlap(_Shape):
    """How long the old token goes on beside the new one."""

    overlap_s: Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)] = 86400.0


# ---- answers (for the description; they are written by live/api/views.py) -----------------------------------------


class Problem(BaseModel):
    """Every answer that is not what was asked for."""

    error: str
    where: str
    fix: str


class Ping(BaseModel):
    """Who serves, and as whom one is known there."""

    version: str
    domain: str | None
    policy: str
    user: str
    role: str
    controller_uid: int  # as which the process runs that answers
    launcher_uid: int  # as which the process runs that starts jobs


class Portion(BaseModel):
    """How much of one kind."""

    count: int
    bytes: int


class Pruned(BaseModel):
    """What retention removed; as a dry run, what it would remove."""

    dry_run: bool
    records: Portion  # of jobs
    outputs: Portion  # files
    audit: Portion  # files
    journal: Portion  # batches


class Taken(BaseModel):
    """A job was taken and is durable."""

    job: str
    members: int


class Foreseen(BaseModel):
    """A dry run: where and when the job would start if everything took its requested time."""

    job: None
    start_at: float | None
    start_in_s: float | None
    nodes: list[int] | None
    why: str


class JobView(BaseModel):
    """A job as callers see it."""

    job: str
    name: str
    user: str
    program: str
    command: list[str] | None
    state: str
    why: str
    processes: int
    nodes: list[int]
    cores: int
    used_cores: int
    scale: int
    limit_s: float
    submitted_at: float
    started_at: float | None
    ended_at: float | None
    attempt: int
    exit_status: int | None
    exit_signal: int | None
    stdout: str
    stderr: str
    array: str | None
    after: list[str]
    predicted_slowdown: float | None
    actual_slowdown: float | None


class JobList(BaseModel):
    """Some jobs, and where to go on."""

    jobs: list[JobView]
    next: str | None


class Why(BaseModel):
    """Why a job waits, and what became of it so far."""

    job: str
    state: str
    why: str
    history: list[dict[str, Any]]


class NodeView(BaseModel):
    """A node as callers see it."""

    node: int
    state: str
    cores: int
    used_cores: int
    jobs: list[str]
    ways: int | None
    used_ways: int | None
    used_bandwidth_gbs: float | None
    bandwidth_gbs: float | None


class NodeList(BaseModel):
    """All nodes."""

    nodes: list[NodeView]


class TokenView(BaseModel):
    """A token without the token."""

    id: str
    user: str
    label: str
    made_at: float
    expires_at: float
    revoked_at: float | None
    valid: bool
    parents: list[str]
    page: bool
    token: str | None = None


class TokenList(BaseModel):
    """Tokens."""

    tokens: list[TokenView]


class Slowdowns(BaseModel):
    """Predicted against actual slowdown over time."""

    points: list[dict[str, Any]]
    mean_abs_error: float | None


class AuditList(BaseModel):
    """Who did what."""

    entries: list[dict[str, Any]]
