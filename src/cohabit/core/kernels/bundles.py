"""The bundles that kernels pass to each other: arrays that belong together, under one name.

Between kernels a bundle costs nothing. From Python every array in it costs half a microsecond, so a pass is one call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from cohabit.core.kernels.ladder import Ladder

if TYPE_CHECKING:
    from cohabit.compiled import ScoreEntry

FIRST_FIT, STRICT, EASY = -1, 0, 1  # reservation depths with a special meaning
CONSERVATIVE = 2**31  # every queued job keeps a reservation


class Rule(NamedTuple):
    """The rules by which a pass decides, and how the ladders of its queue are sorted."""

    depth: int  # how many blocked jobs get a reservation
    changing: bool  # scores depend on the time: the pass computes them
    falling: bool = False  # no score rises while its job waits: the queue is kept in order of bounds (shortlist.py)
    alone: bool = False  # some rows can be scored without the others
    two_orders: bool = False  # jobs that pass the head go by a second order
    by_score: bool = True  # the queue is sorted by keys[SCORE], else by keys[ARRIVAL]
    by_size: bool = False  # the second ladder, under conservative backfilling the first, is sorted by size


class Queue(NamedTuple):
    """The job table and the queued jobs in order."""

    jobs: NDArray[np.int64]  # [column, row], see core/columns.py
    keys: NDArray[np.float64]  # what ladders are sorted by
    order: Ladder
    second: Ladder  # the queue by the second order or by size; empty if neither is used


class Machine(NamedTuple):
    """The nodes and the jobs that run on them."""

    running: Ladder  # by expected end
    idle: NDArray[np.uint64]  # one bit per node
    pool: NDArray[np.int64]  # ranges of nodes, as linked lists
    slots: NDArray[np.int64]  # free nodes over time (profile.py)
    gauges: NDArray[np.int64]  # the few scalars, see core/columns.py


class Shortlist(NamedTuple):
    """Lower bounds of scores within a window of time (shortlist.py)."""

    marks: NDArray[np.int64]
    bounds: NDArray[np.float64]
    least: NDArray[np.float64]  # by user: the least share of usage while the bounds hold


class Scorer(NamedTuple):
    """The orders as a pass calls them."""

    entry: ScoreEntry
    parameters: NDArray[np.float64]
    second_entry: ScoreEntry
    second_parameters: NDArray[np.float64]
    usage: NDArray[np.float64]  # by user (fair_share.py)
    shortlist: Shortlist


class Workspace(NamedTuple):
    """Room for one pass; every array has room for the whole queue and one more."""

    arrivals: NDArray[np.int64]  # rows that came since the last pass
    waiting: NDArray[np.int64]  # rows to be scored
    fresh: NDArray[np.float64]  # [2, row] their scores, by the order and by the second order
    rows: NDArray[np.int64]  # [3, row]
    scores: NDArray[np.float64]  # [2, row]
    started: NDArray[np.int64]  # rows that a pass has started


def make_workspace(room: int) -> Workspace:
    """Room for a queue of this length, less one."""
    return Workspace(
        np.empty(room, np.int64),
        np.empty(room, np.int64),
        np.zeros((2, room)),
        np.empty((3, room), np.int64),
        np.empty((2, room)),
        np.empty(room, np.int64),
    )
