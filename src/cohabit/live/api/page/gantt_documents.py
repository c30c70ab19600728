"""The data of the page's Gantt chart: what ran, in packed columns (charts.py), and what is planned right of now."""

from __future__ import annotations

from typing import Any, NamedTuple, TypedDict

from numpy.typing import NDArray

_From = TypedDict("_From", {"from": float | None})  # a word of Python


class GanttHeader(_From):
    """The context of the columns of a Gantt chart."""

    ids: list[str]
    programs: list[str]
    users: list[str]
    states: list[str]
    nodes: int
    until: float
    shared: bool


class PlannedBar(TypedDict):
    """A job that waits, on the nodes and at the time of its expected start."""

    job: str
    program: str
    user: str
    size: int  # its nodes
    share: float  # of their cores
    submitted_at: float
    start_at: float
    end_at: float  # by its requested time
    nodes: list[tuple[int, int]]  # first, count


class Planned(TypedDict):
    """What lies right of now in a Gantt chart, if every job takes its requested time."""

    running: dict[str, float]  # the expected end of each job that runs
    planned: list[PlannedBar]
    left_out: int
    why: str  # why there may be more; empty: these are all
    at: float


class GanttColumns(NamedTuple):
    """A row for every job, then (bar_*) a row for every stretch of nodes of a job."""

    submit: NDArray[Any]
    start: NDArray[Any]
    end: NDArray[Any]
    program: NDArray[Any]
    user: NDArray[Any]
    size: NDArray[Any]  # nodes
    share: NDArray[Any]  # of their cores
    state: NDArray[Any]
    bar_job: NDArray[Any]
    bar_first: NDArray[Any]
    bar_count: NDArray[Any]
