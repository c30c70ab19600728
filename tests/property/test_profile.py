"""The compiled profile of free nodes over time against a brute-force table, one entry per instant."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohabit.core.columns import (
    EXPECTED,
    GAUGES,
    JOB_COLUMNS,
    LIMIT,
    QUEUED,
    RESERVED,
    RUNNING,
    STARTING,
    STATE,
    VOID,
)
from cohabit.core.columns import NODES as NODES_ASKED
from cohabit.core.kernels import conservative, ladder, profile
from cohabit.core.kernels.bundles import Machine
from cohabit.core.timeline import Timeline
from cohabit.model.units import FOREVER, SECOND
from tests.breadth import examples
from tests.support.builders import Choice, scheduler
from tests.support.clusters import PLAIN
from tests.support.rehearsal import Deed, Rehearsal
from tests.support.strategies import choices, deeds

NODES, HORIZON = 8, 200

intervals = st.tuples(st.integers(0, HORIZON - 1), st.integers(1, 15), st.integers(1, NODES))


class Twin:
    """slots and gauges beside one free count per second."""

    def __init__(self) -> None:
        self.slots, self.gauges = profile.make(100, NODES), np.zeros(GAUGES, np.int64)
        profile.reset(self.slots, self.gauges, NODES)
        self.free = np.full(4 * HORIZON, NODES)
        self.taken: list[tuple[int, int, int]] = []

    @property
    def machine(self) -> Machine:
        return Machine(ladder.make(1), np.zeros(1, np.uint64), np.zeros((3, 2), np.int64), self.slots, self.gauges)

    def occupy(self, begin: int, length: int, nodes: int) -> bool:
        if (self.free[begin : begin + length] < nodes).any():
            return False
        profile.occupy(self.slots, self.gauges, begin, begin + length, nodes)
        self.free[begin : begin + length] -= nodes
        self.taken.append((begin, begin + length, nodes))
        return True

    def reserve(self, now: int, length: int, nodes: int) -> None:
        start = profile.reserve(self.slots, self.gauges, now, nodes, length)
        assert start == self.earliest(now, nodes, length)
        self.free[start : start + length] -= nodes
        self.taken.append((start, start + length, nodes))

    def vacate(self, number: int) -> None:
        begin, end, nodes = self.taken.pop(number % len(self.taken))
        profile.vacate(self.slots, self.gauges, begin, end, nodes)
        self.free[begin:end] += nodes

    def check(self) -> None:
        times, idle = profile.points(self.slots, self.gauges)
        assert (np.diff(times) > 0).all()
        at = np.searchsorted(times, np.arange(len(self.free)), "right") - 1
        assert idle[at].tolist() == self.free.tolist()
        assert len(times) <= 1 + 2 * len(self.taken), "points of nobody are left behind"

    def earliest(self, now: int, nodes: int, length: int) -> int:
        return next(t for t in range(now, len(self.free)) if (self.free[t : t + length] >= nodes).all())


@settings(max_examples=examples(150), deadline=None)
@given(st.lists(st.tuples(intervals, st.integers(0, 7)), max_size=80), intervals)
def test_occupying_and_vacating(steps: list[tuple[tuple[int, int, int], int]], asked: tuple[int, int, int]) -> None:
    twin = Twin()
    for interval, kind in steps:
        if kind == 0 and twin.taken:
            twin.vacate(interval[0])
        elif kind < 4:
            twin.occupy(*interval)
        else:
            twin.reserve(*interval)
        twin.check()
    now, length, nodes = asked
    found = profile.earliest(twin.slots, twin.gauges, now, nodes, length)[0]
    assert found == twin.earliest(now, nodes, length)
    profile.forget_past(twin.slots, twin.gauges, now)
    assert profile.earliest(twin.slots, twin.gauges, now, nodes, length)[0] == found
    while twin.taken:
        twin.vacate(0)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(intervals, max_size=20), intervals, st.integers(0, 20))
def test_own_reservation_counts_as_free(taken: list[tuple[int, int, int]], own: tuple[int, int, int], now: int) -> None:
    """Asking for an early start with one's own reservation standing is the same as taking it out first."""
    twin = Twin()
    for interval in taken:
        twin.occupy(*interval)
    begin, length, nodes = own
    if begin < now or not twin.occupy(begin, length, nodes):
        return
    jobs = np.zeros((JOB_COLUMNS, 1), np.int64)
    jobs[[NODES_ASKED, LIMIT, RESERVED], 0] = nodes, length, begin
    twin.slots[profile.LASTING + 1, 0] = conservative.STALE
    found = conservative.could_start_early(0, now, NODES, jobs, twin.machine)
    twin.vacate(len(twin.taken) - 1)
    assert found == (twin.earliest(now, nodes, length) == now < begin)


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(intervals, max_size=12), intervals)
def test_the_readable_timeline_says_the_same(taken: list[tuple[int, int, int]], asked: tuple[int, int, int]) -> None:
    twin, kinds = Twin(), scheduler(NODES).state.kinds
    timeline = Timeline(0, np.array([NODES]), kinds)
    for begin, length, nodes in taken:
        if twin.occupy(begin, length, nodes):
            timeline.add(begin, begin + length, np.array([-nodes]))
    begin, length, nodes = asked
    assert timeline.free_throughout(begin, length).tolist() == [twin.free[begin : begin + length].min()]
    assert timeline.earliest(nodes, np.array([True]), length)[0] == twin.earliest(0, nodes, length)


@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(choices(backfills=("conservative",)), deeds(30))
def test_a_kept_profile_is_what_runs_and_what_is_promised(choice: Choice, played: list[Deed]) -> None:
    """Conservative keeps its profile between passes and changes it bit by bit; it must never drift."""
    rehearsal = Rehearsal(PLAIN, choice)
    for deed in played:
        rehearsal.play([deed])
        state, now_us = rehearsal.core.state, rehearsal.now_us
        if not state.profiled or state.gauges[VOID] or not rehearsal.log:
            continue  # kept elsewhere, or void until the next pass
        rows = list(state.rows.values())
        held = [
            (0, jobs[EXPECTED], jobs[NODES_ASKED]) for jobs in state.jobs.T[rows] if jobs[STATE] in (STARTING, RUNNING)
        ]
        held += [
            (jobs[RESERVED], jobs[RESERVED] + (jobs[LIMIT] or SECOND), jobs[NODES_ASKED])
            for jobs in state.jobs.T[rows]
            if jobs[STATE] == QUEUED and jobs[RESERVED] not in (profile.UNRESERVED, FOREVER)
        ]
        up = int((state.node_state == 0).sum())
        times, idle = profile.points(state.slots, state.gauges)
        for instant in {now_us, *(end for _, end, _ in held if end >= now_us), *(b for b, _, _ in held if b >= now_us)}:
            free = up - sum(nodes for begin, end, nodes in held if begin <= instant < end)
            assert idle[np.searchsorted(times, instant, "right") - 1] == free, f"at {instant}, now {now_us}"
