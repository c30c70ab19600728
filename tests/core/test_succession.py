"""One core goes on under other policies with every job of the one before: who waits, who runs, and on which nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.core.protocols import Coupling
from cohabit.core.succession import living_of, succeed
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.errors import InputError
from cohabit.model.event import (
    JobFinished,
    JobReleased,
    JobStarted,
    NodeDown,
    NodeDrained,
    NodeUp,
    NodeUsed,
    StartRefused,
    WindowSet,
    Woken,
)
from cohabit.model.units import SECOND
from tests.core.shared_story import ONE_NODE, TWO_NODES, Story, must, story
from tests.support.builders import policies, scheduler, submitted
from tests.support.clusters import PLAIN

SHARE, WHOLE = ("age", "first-fit", None, "share"), ("fcfs", "easy")


def successor(core: SchedulerCore, *choice: object, at_s: float = 50) -> Story:
    """The next core, as a controller has it: loaded from its checkpoint."""
    chosen = policies(*choice)
    cluster = replace(core.state.cluster, sharing="exclusive" if chosen.placer.exclusive else "shared")
    made = succeed(core, cluster, chosen, round(at_s * SECOND))
    return Story(checkpoint.load(checkpoint.save(made), cluster, chosen))


def together(*sizes: int, cluster: Cluster = ONE_NODE) -> Story:
    """Jobs of so many processes beside each other: a, b, c."""
    tell = story(cluster=cluster, placement="share")
    tell(0, *(NodeDrained(node) for node in range(1, cluster.nodes)))
    for name, size in zip("abc", sizes, strict=False):
        assert must(tell.run(0, name, processes=size)).nodes == ((0, 1),)
        tell(0, JobStarted(name, 1))
    tell(0, *(NodeUp(node) for node in range(1, cluster.nodes)))
    return tell


def test_the_queue_keeps_its_order_its_holds_and_what_jobs_wait_for() -> None:
    core = scheduler(2)
    core.step(0, [submitted("runs", nodes=2)])
    core.step(SECOND, [submitted("long", limit_s=900), submitted("held", held=True)])
    core.step(SECOND, [submitted("next", after=("long",))])
    core.step(2 * SECOND, [submitted("short", limit_s=10)])
    tell = successor(core, "sjf", "easy")
    assert living_of(tell.core) == (4, 1)
    assert not tell.starts(50, Woken())
    assert [*tell.starts(51, JobFinished("runs", 1))] == ["short", "long"]
    assert [*tell.starts(52, JobReleased("held"), JobFinished("short", 1))] == ["held"]
    assert [*tell.starts(53, JobFinished("long", 1))] == ["next"]


def test_age_counts_from_the_submission() -> None:
    core = scheduler(1)
    core.step(0, [submitted("runs"), submitted("old", limit_s=100)])
    core.step(SECOND, [submitted("new", limit_s=1)])
    tell = successor(core, "age", "easy")
    assert [*tell.starts(51, JobFinished("runs", 1))] == ["old"]


def test_a_refused_start_is_not_tried_before_its_time_and_attempts_go_on() -> None:
    core = scheduler(1)
    core.step(0, [submitted("a")])
    core.step(SECOND, [StartRefused("a", 1, "no", 60 * SECOND)])
    tell = successor(core, "sjf", "easy")
    assert not tell.starts(50, Woken())
    assert tell.starts(61, Woken())["a"].attempt == 2


def test_a_bounded_array_keeps_its_bound() -> None:
    core = scheduler(8)
    core.step(0, [submitted("a", array_count=3, array_at_most=1)])
    tell = successor(core, "sjf", "easy")
    assert not tell.starts(50, Woken())
    assert [*tell.starts(51, JobFinished("a_0", 1))] == ["a_1"]


def test_drained_nodes_and_windows_stay_closed() -> None:
    core = scheduler(3)
    core.step(0, [NodeDrained(0), WindowSet("w", 0, 500 * SECOND, ((1, 1),))])
    tell = successor(core, *SHARE)
    assert tell.starts(50, submitted("a"), submitted("b"))["a"].nodes == ((2, 1),)
    assert [*tell.starts(51, NodeUp(0))] == ["b"]


def test_what_others_use_closes_a_node_where_nodes_are_given_out_whole() -> None:
    tell = story(cluster=TWO_NODES, placement="share")
    tell(0, NodeUsed(0, 3, 0))
    whole = successor(tell.core, *WHOLE)
    assert whole.starts(50, submitted("a"), submitted("b"))["a"].nodes == ((1, 1),)
    assert whole.starts(51, NodeUp(0))["b"].nodes == ((0, 1),)


def test_a_job_on_whole_nodes_has_them_alone_where_nodes_are_shared() -> None:
    core = scheduler(TWO_NODES)
    core.step(0, [submitted("whole", processes=2)])
    tell = successor(core, *SHARE)
    assert tell.starts(50, submitted("one", processes=2), submitted("two", processes=2))["two"].nodes == ((1, 1),)
    tell(51, JobFinished("whole", 1))
    assert must(tell.run(51, "three", processes=8)).nodes == ((0, 1),)


def test_booked_cores_stay_booked_under_another_way_to_share() -> None:
    tell = successor(together(3, 3).core, "fcfs", "easy", None, "joint")
    ledger = tell.core.state.ledger
    assert ledger is not None
    assert [one.name for one in ledger.dimensions] != ["cores", "memory"]
    assert int(ledger.free[0, ledger.class_of(0)]) == 2


def test_a_node_with_several_jobs_takes_none_until_all_have_left_where_nodes_are_whole() -> None:
    tell = successor(together(3, 3, cluster=TWO_NODES).core, *WHOLE)
    assert must(tell.run(50, "other")).nodes == ((1, 1),)
    assert tell.run(50, "next") is None
    assert not tell(51, JobFinished("a", 1))
    assert [*tell.starts(52, JobFinished("b", 1))] == ["next"]


@pytest.mark.parametrize("second", [WHOLE, ("age", "first-fit", None, "pair")])
def test_what_is_told_of_a_crowded_node_counts_when_its_jobs_have_left(second: tuple[str, ...]) -> None:
    before = together(2, 2, 2)  # a pair is two
    tell = successor(before.core, *second)
    tell(50, submitted("next", processes=8), NodeDrained(0))
    for at_s, name in enumerate("abc", 51):
        assert not tell.starts(at_s, JobFinished(name, 1))
    assert [*tell.starts(60, NodeUp(0))] == ["next"]


def test_jobs_on_a_crowded_node_are_lost_with_it() -> None:
    tell = successor(together(3, 3, cluster=TWO_NODES).core, *WHOLE)
    tell(50, NodeDown(0))
    assert tell.core.state.rows.keys() == {"a", "b"}, "they wait again"
    assert not tell.core.state.crowded


def test_a_run_on_more_nodes_than_it_needs_needs_no_more_when_it_waits_again() -> None:
    tell = story(cluster=TWO_NODES, placement="spread")
    while (wide := must(tell.run(0, "wide", "cached", 8))).purpose != "run":
        tell(1, JobFinished("wide", 1))
    assert (wide.scale, wide.nodes) == (2, ((0, 2),))
    whole = successor(tell.core, *WHOLE)
    assert whole.run(50, "next") is None
    assert whole.starts(51, JobFinished("wide", wide.attempt, "lost"))["wide"].nodes == ((0, 1),)


def test_jobs_that_others_may_not_meet_end_apart() -> None:
    tell = together(2, 2, cluster=TWO_NODES)
    chosen = replace(policies(*SHARE), share_with="user")
    made = Story(succeed(tell.core, tell.core.state.cluster, chosen, 50 * SECOND))
    assert must(made.run(50, "c", processes=2)).nodes == ((1, 1),)


def test_jobs_with_mates_and_other_nodes_are_refused_with_a_remedy() -> None:
    core = scheduler(2)
    with pytest.raises(InputError, match="other nodes"):
        succeed(core, PLAIN, policies(*WHOLE), 0)
    with pytest.raises(InputError, match="domain") as refused:
        succeed(core, core.state.cluster, replace(policies(*WHOLE), mates=Coupling("east")), 0)
    assert refused.value.fix


def test_nodes_that_became_smaller() -> None:
    """A job that would not fit where it runs goes on, and its node takes nothing; one that fits nowhere is named."""

    def nodes(*memory_mb: int) -> Cluster:
        return Cluster(tuple(NodeGroup(1, 8, one << 20) for one in memory_mb), sharing="shared")

    core = SchedulerCore(nodes(800, 900), policies(*SHARE))
    core.step(0, [NodeDrained(1), submitted("large", processes=1, memory_bytes=700 << 20)])
    core.step(SECOND, [JobStarted("large", 1), NodeUp(1)])
    tell = Story(succeed(core, nodes(600, 900), policies(*SHARE), SECOND))
    assert tell.starts(2, submitted("a", processes=8), submitted("b", processes=1)).keys() == {"a"}
    assert tell.starts(3, JobFinished("large", 1))["b"].nodes == ((0, 1),)
    with pytest.raises(InputError, match="fit on no nodes any more: large"):
        succeed(core, nodes(600, 600), policies(*SHARE), SECOND)
