"""The state as policies see it: nothing can be changed through it, and its answers are right."""

from __future__ import annotations

import numpy as np
import pytest

from cohabit.core.columns import NODES
from cohabit.core.core import SchedulerCore
from cohabit.model.event import JobFinished, JobStarted, NodeDown
from cohabit.model.profile import SHARED, ScaleProfile
from cohabit.model.units import SECOND
from tests.core.shared_story import story
from tests.support.builders import policies, scheduler, submitted
from tests.support.clusters import MEMORY
from tests.support.programs import FLAT, measured, profile


def test_nothing_can_be_changed_through_a_view() -> None:
    view = scheduler(4).view(0)
    for array in (view.jobs, view.gauges, view.node_state, view.columns().usage):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_queue_in_order_leaves_out_who_was_refused_lately() -> None:
    core = scheduler(4, "sjf")
    core.step(0, [submitted("all", nodes=4)])
    core.step(1, [submitted("long", limit_s=50), submitted("short", limit_s=20), submitted("middle", limit_s=30)])
    state = core.state
    state.refused_until[state.rows["short"]] = 10
    names = [[core.view(now).job_id(int(row)) for row in core.view(now).queue(core.policies.order)] for now in (9, 10)]
    assert names == [["middle", "long"], ["short", "middle", "long"]]


def test_ranked_rows_are_in_order_of_score_then_of_submission() -> None:
    core = scheduler(4, "sjf")
    core.step(0, [submitted("all", nodes=4)])
    core.step(1, [submitted(name, limit_s=limit) for name, limit in (("a", 9), ("b", 5), ("c", 9), ("d", 5))])
    rows = np.array([core.state.rows[name] for name in "dcba"])
    assert [core.view(1).job_id(int(row)) for row in core.view(1).ranked(rows, core.policies.order)] == list("bdac")


def test_running_jobs_return_only_nodes_that_are_up() -> None:
    core = scheduler(MEMORY)
    core.step(0, [submitted("a", nodes=4)])
    assert core.view(0).kind_counts(core.state.rows["a"]).tolist() == [3, 1]
    assert core.view(0).idle_by_kind().tolist() == [0, 1]
    core.state.node_state[3] = 1
    core.state.nodes_by_kind.clear()
    assert core.view(0).kind_counts(core.state.rows["a"]).tolist() == [3, 0]


def test_expected_ends_are_sorted() -> None:
    core = scheduler(4)
    core.step(0, [submitted("a", limit_s=30), submitted("b", limit_s=10), submitted("c", limit_s=20)])
    assert core.view(0).expected_ends().tolist() == [10 * SECOND, 20 * SECOND, 30 * SECOND]


def test_states_of_a_job() -> None:
    core = scheduler(2)
    core.step(0, [submitted("runs", nodes=2), submitted("waits"), submitted("held", held=True)])
    rows, view = core.state.rows, core.view(0)
    assert [view.is_queued(rows[name]) for name in ("runs", "waits", "held")] == [False, True, False]
    assert [view.is_running(rows[name]) for name in ("runs", "waits", "held")] == [True, False, False]
    assert [view.waits(name) for name in ("runs", "waits", "held", "unknown")] == [False, True, True, False]
    core.step(1, [JobStarted("runs", 1)])
    assert core.view(1).is_running(rows["runs"])


def test_a_wait_begins_when_the_job_could_first_have_run() -> None:
    core = SchedulerCore(scheduler(2).state.cluster, policies("age", "first-fit", None, "exclusive", 5.0))
    core.step(0, [submitted("all", nodes=2), submitted("later", after=("all",)), submitted("now")])
    core.step(3 * SECOND, [submitted("big", nodes=2)])
    view, rows = core.view(5 * SECOND), core.state.rows
    assert [view.waited_us(rows[name]) for name in ("now", "big")] == [5 * SECOND, 2 * SECOND]
    assert view.aged(np.array([rows["now"], rows["big"]])).tolist() == [True, False], "from the limit of 5 s on"
    assert view.age_limit_us() == 5 * SECOND


def test_the_least_capable_node_a_job_may_use() -> None:
    core = scheduler(MEMORY)
    core.step(0, [submitted("small"), submitted("fat", memory_bytes=9)])
    view, rows = core.view(0), core.state.rows
    assert [view.smallest_node(rows[name]) for name in ("small", "fat")] == [2, 4]
    assert [view.usable(rows[name]).tolist() for name in ("small", "fat")] == [[True, True], [False, True]]


def test_the_most_complete_profile_is_used_then_the_nearest_in_processes() -> None:
    full = measured(1, 10.0, FLAT, 1.0)
    known = [
        profile("p", scale, processes=processes)
        for processes, scale in ((8, full), (64, full), (16, ScaleProfile(1, 5.0)))
    ]
    view = story(profiles=known).core.view(0)
    found = [view.profile("p", processes, SHARED) for processes in (16, 30, 40)]
    assert [one.processes if one else 0 for one in found] == [8, 8, 64]
    assert view.profile("q", 8, SHARED) is None


def test_a_job_may_move_if_it_runs_alone_on_one_node_and_its_owner_lets_it() -> None:
    tell = story()
    tell(0, *(submitted(name, program="single", processes=2, movable=name != "fixed") for name in ("a", "fixed")))
    rows = tell.core.state.rows
    assert not tell.core.view(0).may_move(rows["a"]), "its start is not confirmed"
    tell(1, JobStarted("a", 1), JobStarted("fixed", 1))
    assert [tell.core.view(1).may_move(rows[name]) for name in ("a", "fixed")] == [True, False]


def test_answers_follow_the_nodes() -> None:
    core = scheduler(4)
    core.step(0, [submitted("a", nodes=2)])
    assert np.flatnonzero(core.view(0).idle_nodes()).tolist() == [2, 3]
    core.step(1, [NodeDown(3)])
    assert np.flatnonzero(core.view(1).idle_nodes()).tolist() == [2]
    core.step(2, [JobFinished("a", 1)])
    assert core.view(2).timeline().free_throughout(2, 5).tolist() == [3]
    assert (core.view(2).need(0), core.view(2).cluster_nodes) == (int(core.state.jobs[NODES, 0]), 4)


def test_the_timeline_has_the_ends_of_the_running_jobs() -> None:
    core = scheduler(4)
    core.step(0, [submitted("a", nodes=2, limit_s=10), submitted("b", limit_s=20)])
    timeline = core.view(5 * SECOND).timeline()
    assert [timeline.free_throughout(s * SECOND, 1).tolist() for s in (5, 9, 10, 20)] == [[1], [1], [3], [4]]
