"""A machine of a few equal nodes with its queue, as kernels see them. Instants are whole microseconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from cohabit.core.columns import (
    ELIGIBLE,
    FREE,
    GAUGES,
    JOB_COLUMNS,
    KEY_COLUMNS,
    LIMIT,
    NODES,
    PROMISED,
    RANGE_COUNT,
    RANGE_FIRST,
    RANGE_NEXT,
    RANGES,
    RELEASED,
    RESERVED,
    SCORE,
    SEQ,
    STARTED,
)
from tests.core.kernels.plain import kernel

bundles, ladder, profile, moves, nodes, fair_share, shortlist, schedule = (
    kernel(name) for name in ("bundles", "ladder", "profile", "moves", "nodes", "fair_share", "shortlist", "schedule")
)
FIRST_FIT, STRICT, EASY, CONSERVATIVE = bundles.FIRST_FIT, bundles.STRICT, bundles.EASY, bundles.CONSERVATIVE


def rule(depth: int = EASY, changing: bool = False, **more: bool) -> Any:
    """Return a rule; a queue whose scores change is sorted by arrival."""
    return bundles.Rule(depth, changing, **({"by_score": not changing} | more))


class World:
    """One machine; jobs are rows, numbered in the order of submission."""

    def __init__(self, machine: int = 10, rule: Any = rule(), room: int = 256) -> None:  # noqa: B008
        self.rule, self.rows, self.arrivals = rule, 0, list[int]()
        self.jobs, self.keys = np.zeros((JOB_COLUMNS, room), np.int64), np.zeros((KEY_COLUMNS, room))
        self.gauges, self.idle = np.zeros(GAUGES, np.int64), np.zeros((machine + 63) // 64, np.uint64)
        self.pool, self.slots = np.zeros((3, machine + 1), np.int64), profile.make(room, machine)
        self.slots[:] = 0
        nodes.initialise(self.idle, self.pool, self.gauges, machine)
        profile.reset(self.slots, self.gauges, machine)
        self.queue = bundles.Queue(self.jobs, self.keys, ladder.make(room), ladder.make(room))
        self.machine = bundles.Machine(ladder.make(room), self.idle, self.pool, self.slots, self.gauges)
        self.work, self.usage = bundles.make_workspace(max(room, 1024) + 1), fair_share.make(4)
        self.short = shortlist.make(self.usage.shape[1])
        self.asked: list[list[int]] = []  # the rows of each call for scores

    def job(self, nodes: int, limit: int, score: float | None = None, second: float = 0.0) -> int:
        """A new job; without a score the earlier one goes first."""
        row, self.rows = self.rows, self.rows + 1
        self.jobs[[NODES, LIMIT, SEQ], row] = nodes, limit, row
        self.jobs[[RANGES, RESERVED, PROMISED], row] = -1
        self.keys[:2, row] = row if score is None else score, second
        return row

    def submit(self, nodes: int, limit: int, score: float | None = None, second: float = 0.0, now: int = 0) -> int:
        """A new job in the queue."""
        row = self.job(nodes, limit, score, second)
        self.jobs[ELIGIBLE, row] = now
        moves.enqueue(row, self.rule, self.queue)
        self.arrivals.append(row)
        return row

    def run(self, nodes: int, limit: int, now: int = 0) -> int:
        """A new job that runs from now on."""
        row = self.job(nodes, limit)
        self.gauges[STARTED] = 0
        moves.begin(row, now, self.queue, self.machine, self.work.started)
        if self.rule.depth == CONSERVATIVE:
            profile.occupy(self.slots, self.gauges, now, now + limit, nodes)
        return row

    def finish(self, row: int, now: int) -> None:
        moves.finish(row, now, self.rule.depth, self.queue, self.machine)

    def scorer(
        self, score: Callable[[int, int], float] | None = None, second: Callable[[int, int], float] | None = None
    ) -> Any:
        """Orders by a function of row and time; none: the score that each job was given."""

        def entry(place: int, function: Callable[[int, int], float]) -> Any:
            def write(count: int, now: int) -> None:
                rows = self.work.waiting[:count].tolist()
                self.asked.append(rows)
                self.work.fresh[place, :count] = [function(row, now) for row in rows]

            return kernel("compiled").ScoreEntry(write)

        first = entry(0, score or (lambda row, _: self.keys[SCORE, row]))
        behind = entry(1, second or (lambda row, _: self.keys[SCORE + 1, row]))
        return bundles.Scorer(first, np.zeros(1), behind, np.zeros(1), self.usage, self.short)

    def starts(self, now: int, scorer: Any = None) -> list[int]:
        """The jobs that a pass starts."""
        arrived, self.arrivals = self.arrivals, []
        self.work.arrivals[: len(arrived)] = arrived
        run = schedule.pass_of(self.rule)
        run(now, self.rule, len(arrived), self.queue, self.machine, scorer or self.scorer(), self.work)
        found: list[int] = self.work.started[: self.gauges[STARTED]].tolist()
        return found

    def released(self) -> None:
        """Let the next pass look at the whole queue."""
        self.gauges[RELEASED] = 1

    @property
    def queued(self) -> list[int]:
        found: list[int] = ladder.all_rows(self.queue.order).tolist()
        return found

    @property
    def running(self) -> list[int]:
        found: list[int] = ladder.all_rows(self.machine.running).tolist()
        return found

    @property
    def free(self) -> int:
        return int(self.gauges[FREE])

    def ranges(self, row: int) -> list[tuple[int, int]]:
        """The nodes of a job, as (first, count)."""
        found, link = [], int(self.jobs[RANGES, row])
        while link >= 0:
            found.append((int(self.pool[RANGE_FIRST, link]), int(self.pool[RANGE_COUNT, link])))
            link = int(self.pool[RANGE_NEXT, link])
        return found

    def free_at(self, *instants: int) -> list[int]:
        """Free nodes at these instants, by the profile."""
        times, idle = profile.points(self.slots, self.gauges)
        return [int(idle[np.searchsorted(times, instant, "right") - 1]) for instant in instants]
