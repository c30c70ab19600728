"""The answers about starts to come: of a dry run, and of the jobs that wait."""

from __future__ import annotations

from pydantic import BaseModel


class Foreseen(BaseModel):
    """A dry run: where and when the job would start if every job took its requested time."""

    job: None
    start_at: float | None
    start_in_s: float | None
    nodes: list[int] | None
    node_names: list[str] | None
    why: str


class ExpectedStart(BaseModel):
    """A waiting job's start if every job took its requested time."""

    job: str
    start_at: float
    nodes: list[int]
    node_names: list[str]


class StartList(BaseModel):
    """The expected starts of waiting jobs; one that is missing does not start by itself, unless `why` says more."""

    at: float
    starts: list[ExpectedStart]
    why: str
