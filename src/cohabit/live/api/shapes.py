"""The documents of the API: requests, checked before anything else reads them, and answers.

Every number is bounded and every text is valid in a file name, an environment or a command line. The OpenAPI
description is made of these classes: a check that JSON Schema can state is stated beside it, and types are not
converted, so that a document is refused where the description forbids it. Nothing here depends on the caller or the
scheduler.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from cohabit.backend.launchers.registry import LAUNCHERS, SYNONYMS
from cohabit.live.api.settings import LONGEST_ARRAY
from cohabit.model.job import ACCOUNT_WORDS, is_account
from cohabit.model.peer import MOST_MEMBERS
from cohabit.model.texts import LONGEST_NAME, NOT_IN_NAMES, wrong_in_name, wrong_in_variable, wrong_in_word

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ARRAY = re.compile(r"([0-9]{1,9})-([0-9]{1,9})(?:%([0-9]{1,9}))?")
LONGEST_S = 366 * 86400.0
LEAST_S = 1e-6  # instants are whole microseconds
FRAMEWORKS = (*LAUNCHERS, *SYNONYMS)
_MOST = 1_000_000  # of anything that is counted
_LONGEST_WORD = 200_000

# The checks as patterns, for the description
_WORD = r"^[^\u0000]*$"
_SHOWN = f"^[^{NOT_IN_NAMES}]*$"
_VARIABLE = f"^[^={NOT_IN_NAMES}]+$"
_ABSOLUTE = f"^(/[^{NOT_IN_NAMES}]*)?$"
_FILE = f"^([^%{NOT_IN_NAMES}]|%[jAa%])*$"
_NOT_OF_ARRAYS = f"^([^%{NOT_IN_NAMES}]|%[j%])*$"
_JOB_NAME = "^(?![0-9]+$)(?!.*_[0-9]+$)[A-Za-z0-9][A-Za-z0-9._-]{0,63}$"
_ACCOUNT = "^[A-Za-z0-9_][A-Za-z0-9_.@-]{0,63}$"
_ARRAY = "^[0-9]{1,9}-[0-9]{1,9}(%(?=0*[1-9])[0-9]{1,9})?$"


def _job_name(text: str) -> str:
    if not NAME.fullmatch(text):
        raise ValueError("a name has 1 to 64 letters, digits, dots, hyphens and underscores and begins with a letter")
    if text.isdigit():
        raise ValueError("a name of digits only is one the server gives; add a letter")
    if re.search(r"_[0-9]+$", text):
        raise ValueError("a name that ends in _NUMBER is one of an array's member; choose another")
    return text


def _account(text: str) -> str:
    if not is_account(text):
        raise ValueError(f"an account has {ACCOUNT_WORDS}")
    return text


def _sound(wrong_in: Callable[[str], str]) -> AfterValidator:
    def check(text: str) -> str:
        if wrong := wrong_in(text):
            raise ValueError(wrong)
        return text

    return AfterValidator(check)


def _framework(text: str) -> str:
    if text not in FRAMEWORKS:
        raise ValueError(f"there is no framework called {text!r}; known: {', '.join(FRAMEWORKS)}")
    return text


def _absolute(text: str) -> str:
    if text and not text.startswith("/"):
        raise ValueError("is not an absolute path; begin it with /")
    return text


def _whole(value: object) -> object:
    """Convert whole floats: 4.0 is an integer in JSON."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _stated(pattern: str) -> dict[str, Any]:
    return {"pattern": pattern}


def _keys(pattern: str, most: int) -> dict[str, Any]:
    return {"propertyNames": {"pattern": pattern, "maxLength": most}}


_Whole = BeforeValidator(_whole)
Text = Annotated[str, Field(max_length=_LONGEST_WORD, json_schema_extra=_stated(_WORD)), _sound(wrong_in_word)]
Short = Annotated[str, Field(max_length=LONGEST_NAME, json_schema_extra=_stated(_SHOWN)), _sound(wrong_in_name)]
Variable = Annotated[str, Field(min_length=1, max_length=1024), _sound(wrong_in_variable)]
Domain = Annotated[str, Field(max_length=LONGEST_NAME), _sound(wrong_in_name)]
Folder = Annotated[
    str, Field(max_length=4096, json_schema_extra=_stated(_ABSOLUTE)), _sound(wrong_in_name), AfterValidator(_absolute)
]
FilePath = Annotated[str, Field(max_length=4096, json_schema_extra=_stated(_FILE)), _sound(wrong_in_name)]
JobName = Annotated[
    str,
    Field(min_length=1, max_length=64, description="the job's id; else the server gives a number",
          json_schema_extra=_stated(_JOB_NAME)),
    AfterValidator(_job_name),
]  # fmt: skip
AccountName = Annotated[
    str,
    Field(max_length=64, description="the account it is charged to; else the first the caller may use",
          json_schema_extra=_stated(_ACCOUNT)),
    AfterValidator(_account),
]  # fmt: skip
JobId = Annotated[str, Field(min_length=1, max_length=80, json_schema_extra=_stated(_SHOWN)), _sound(wrong_in_name)]
UserName = Annotated[str, Field(max_length=64, json_schema_extra=_stated(_SHOWN)), _sound(wrong_in_name)]
Framework = Annotated[
    str, Field(max_length=40, json_schema_extra={"enum": list(FRAMEWORKS)}), AfterValidator(_framework)
]
GroupName = Annotated[str, Field(min_length=1, max_length=64, json_schema_extra=_stated(_SHOWN)), _sound(wrong_in_name)]
Seconds = Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)]
Positive = Annotated[float, Field(ge=LEAST_S, le=LONGEST_S, allow_inf_nan=False)]
Offset = Annotated[float, Field(ge=-LONGEST_S, le=LONGEST_S, allow_inf_nan=False)]
Priority = Annotated[int, Field(ge=-1000, le=1000), _Whole]
Count = Annotated[int, Field(ge=0, le=_MOST), _Whole]


class Shape(BaseModel):
    """A document that callers send: no other keys, no other types."""

    model_config = ConfigDict(extra="forbid", strict=True)


class WindowShape(Shape):
    """Domain `second` starts from `least_s` to `most_s` after domain `first`."""

    first: Short
    second: Short
    least_s: Offset = 0.0
    most_s: Offset = 0.0


class GroupShape(Shape):
    """Jobs in several domains that start together: the keys of a site file's [group.NAME], and its name."""

    name: GroupName
    members: Annotated[
        dict[Domain, Short],
        Field(min_length=2, max_length=MOST_MEMBERS, json_schema_extra=_keys(_SHOWN, LONGEST_NAME)),
    ]
    lease_s: Positive = 60.0
    lead_s: Seconds = 2.0
    late_s: Seconds = 0.05
    round_trip_s: Seconds = 0.05
    ask_s: Positive = 10.0
    retry_s: Positive = 30.0
    dead_after_s: Positive = 180.0
    when_dead: Literal["start_alone", "wait", "fail"] = "start_alone"
    give_up_s: Positive = 86_400.0
    overlap_s: Annotated[float, Field(ge=-1, le=LONGEST_S, allow_inf_nan=False)] = -1.0
    window: Annotated[list[WindowShape], Field(max_length=64)] = []


class Submission(Shape):
    """A job to be run. Only the command is needed."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "if": {"properties": {"folder": {"maxLength": 0}}},
                    "then": {"properties": {"stdout": {"pattern": "^(/|$)"}, "stderr": {"pattern": "^(/|$)"}}},
                },
                {
                    "if": {"properties": {"array": {"type": "null"}}},
                    "then": {
                        "properties": {"stdout": {"pattern": _NOT_OF_ARRAYS}, "stderr": {"pattern": _NOT_OF_ARRAYS}}
                    },
                    "else": {"properties": {"group": {"type": "null"}}},
                },
            ]
        }
    )

    command: Annotated[
        list[Text],
        Field(
            min_length=1,
            max_length=10_000,
            json_schema_extra={
                "prefixItems": [{"type": "string", "minLength": 1, "maxLength": _LONGEST_WORD, "pattern": _WORD}]
            },
        ),
    ]
    name: JobName | None = None
    environment: Annotated[
        dict[Variable, Text], Field(max_length=10_000, json_schema_extra=_keys(_VARIABLE, 1024))
    ] = {}
    folder: Folder = ""
    stdout: FilePath = ""
    stderr: FilePath = ""
    processes: Annotated[int, Field(ge=1, le=_MOST), _Whole] = 1
    nodes: Count = 0
    limit_s: Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)] = 3600.0
    memory_mb: Annotated[int, Field(ge=0, le=2**40, description="per process"), _Whole] = 0
    program: Short = ""
    alpha: Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)] = 0.0
    exclusive: bool = False
    single_node: bool = False
    after: Annotated[list[JobId], Field(max_length=1000)] = []
    after_any: bool = False
    array: (
        Annotated[
            str,
            Field(
                max_length=29,
                json_schema_extra=_stated(_ARRAY),
                description=f"A-B or A-B%K: numbers from A to B, at most {LONGEST_ARRAY} of them, K at a time",
            ),
        ]
        | None
    ) = None
    hold: bool = False
    requeue: bool = True
    partition: Short = ""
    account: AccountName | None = None
    qos: Priority | None = None
    workload_type: Literal["", "compute", "network", "io"] = ""
    skip_threshold: Annotated[int, Field(ge=-1, le=_MOST), _Whole] = -1
    reprofile: bool = False
    framework: Framework = "plain"
    threads: Count = 0
    oversubscribe: bool = False
    group: GroupShape | None = None

    @model_validator(mode="after")
    def _fits_together(self) -> Submission:
        if not self.command[0]:
            raise ValueError("the first word of the command is empty")
        if self.array is not None and self.group is not None:
            raise ValueError("an array cannot have mates: submit its members one by one")
        if self.array is not None:
            first, count, _ = array_of(self.array)
            if count > LONGEST_ARRAY:
                raise ValueError(f"an array of {count} jobs; at most {LONGEST_ARRAY}, starting at {first}")
            if self.name is not None and len(f"{self.name}_{first + count - 1}") > 64:
                raise ValueError("the names of the array's members would be longer than 64 characters")
        return self


def array_of(text: str) -> tuple[int, int, int]:
    """Return (first number, count, most that run at once; 0: no bound)."""
    found = ARRAY.fullmatch(text)
    if not found:
        raise ValueError(f"array {text!r} is not A-B or A-B%K")
    first, last, at_most = int(found[1]), int(found[2]), int(found[3] or 0)
    if last < first or (found[3] is not None and at_most < 1):
        raise ValueError(f"array {text!r} has no members")
    return first, last - first + 1, at_most


class Change(Shape):
    """The changes to a queued job; a longer limit or another qos needs an operator."""

    model_config = ConfigDict(
        json_schema_extra={
            "allOf": [
                {
                    "anyOf": [
                        {"required": ["limit_s"], "properties": {"limit_s": {"type": "number"}}},
                        {"required": ["qos"], "properties": {"qos": {"type": "integer"}}},
                    ]
                }
            ]
        }
    )

    limit_s: Annotated[float, Field(gt=0, le=LONGEST_S, allow_inf_nan=False)] | None = None
    qos: Priority | None = None

    @model_validator(mode="after")
    def _something(self) -> Change:
        if self.limit_s is None and self.qos is None:
            raise ValueError("nothing is to be changed; give limit_s or qos")
        return self


class TokenWish(Shape):
    """A request for a token: for the caller, unless an admin names another user."""

    user: Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.@-]*$")] | None = None
    label: Short = ""
    expires_in_s: Annotated[float, Field(gt=0, le=10 * LONGEST_S, allow_inf_nan=False)] = 90 * 86400.0


class Overlap(Shape):
    """The time for which the old token stays valid beside the new one."""

    overlap_s: Annotated[float, Field(ge=0, le=LONGEST_S, allow_inf_nan=False)] = 86400.0


# ---- answers (for the description; they are written by live/api/views.py) -----------------------------------------


class Problem(BaseModel):
    """The document of every refusal."""

    error: str
    where: str
    fix: str


class Ping(BaseModel):
    """The server, and the caller's user and role."""

    version: str
    domain: str | None
    policy: str
    user: str
    role: str
    controller_uid: int  # of the process that answers
    launcher_uid: int  # of the process that starts jobs
    store: str  # of profiles
    store_away: str  # why it cannot be used; empty: it can


class Portion(BaseModel):
    """The count and the size of one kind of data."""

    count: int
    bytes: int


class Pruned(BaseModel):
    """The records that retention removed; as a dry run, those that it would remove."""

    dry_run: bool
    records: Portion  # of jobs
    outputs: Portion  # files
    audit: Portion  # files
    journal: Portion  # batches


class Taken(BaseModel):
    """A job that was accepted and is durable."""

    job: str
    members: int


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
    node_names: list[str]
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
    slowdown_why: str
    whole_nodes: int
    account: str


class JobList(BaseModel):
    """A page of jobs, and where the next one begins."""

    jobs: list[JobView]
    next: str | None


class Why(BaseModel):
    """The reason why a job waits, also in short as lists have it, and its history so far."""

    job: str
    state: str
    why: str
    short: str
    profile: str  # what is known of its program, where the policy plans by that
    history: list[dict[str, Any]]


class TokenView(BaseModel):
    """A token; its secret is included only when it is made."""

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
    """Entries of the audit log."""

    entries: list[dict[str, Any]]
