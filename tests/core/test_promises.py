"""Promises on shared nodes: a blocked job is promised nodes, cores, ways, bandwidth and memory; others may pass only if
they leave them to it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cohabit.core.checkpoint import load, save
from cohabit.core.core import SchedulerCore
from cohabit.core.sharing import may_move
from cohabit.core.trust import Trust
from cohabit.model.event import JobCancelled, JobFinished, NodeDown, NodeDrained, NodeUp, StartRefused, Woken
from cohabit.model.plan import Move, Promise
from cohabit.model.units import SECOND
from tests.core.shared_story import Story, must, story
from tests.support.builders import policies, submitted
from tests.support.clusters import SHARED
from tests.support.programs import PROFILES

SHARING = ("share", "spread", "shepherd", "joint", "pair")


def promise_of(tell: Story, name: str) -> Promise | None:
    """The start promised to a job."""
    return tell.core.state.promises.get(tell.core.state.rows[name])


def latest_s(tell: Story, name: str) -> float:
    """When it starts at the latest."""
    one = promise_of(tell, name)
    assert one is not None, f"{name} has no promise"
    return one.latest_us / SECOND


def whole(name: str, nodes: int, limit_s: float) -> object:
    return submitted(name, nodes, limit_s, exclusive=True)


def three_busy(backfill: str = "easy", placement: str = "share") -> Story:
    """Nodes 0 to 2 are busy until 100, 200 and 300 by request; a job that needs three nodes waits."""
    tell = story(placement=placement, backfill=backfill)
    for number in range(3):
        must(tell.run(0, f"long{number}", limit_s=100.0 * (number + 1), processes=8, exclusive=True))
    assert tell.run(1, "wide", processes=24, exclusive=True, limit_s=50.0) is None
    return tell


@pytest.mark.parametrize("placement", SHARING)
def test_a_wide_job_is_not_starved_by_narrow_ones(placement: str) -> None:
    """One-node jobs come for ever; a job on all nodes starts when the first four have ended."""
    tell = story(placement=placement, backfill="easy")
    for number in range(4):
        must(tell.run(0, f"n{number}", processes=8, exclusive=True, limit_s=100.0 + number))
    assert tell.run(1, "wide", processes=32, exclusive=True, limit_s=100.0) is None
    began = None
    for number in range(4):
        tell(50 + number, submitted(f"m{number}", processes=8, exclusive=True, limit_s=200.0))
    for number in range(4):
        starts = tell.starts(90 + number, JobFinished(f"n{number}", 1))
        assert not {name for name in starts if name.startswith("m")}, "a later job takes a promised node"
        began = 90 + number if "wide" in starts else began
    assert began == 93


def test_the_promise_rests_on_requested_times() -> None:
    assert latest_s(three_busy(), "wide") == 200.0


def test_a_short_job_may_pass_and_a_long_one_may_not() -> None:
    tell = three_busy()
    assert tell.run(2, "late", processes=8, exclusive=True, limit_s=199.0) is None
    assert tell.run(3, "short", processes=8, exclusive=True, limit_s=197.0) is not None


def test_a_long_job_may_pass_beside_the_promised_nodes() -> None:
    """Two nodes are promised from 100 on; with three free then, one is left over."""
    tell = story(placement="share", backfill="easy")
    for number, limit_s in enumerate((100.0, 100.0, 100.0)):
        must(tell.run(0, f"long{number}", limit_s=limit_s, processes=8, exclusive=True))
    assert tell.run(1, "two", processes=16, exclusive=True, limit_s=50.0) is None
    assert latest_s(tell, "two") == 100.0
    assert tell.run(2, "month", processes=8, exclusive=True, limit_s=2.6e6) is not None
    assert latest_s(tell, "two") == 100.0


def test_cores_of_promised_nodes_may_be_used_as_far_as_the_promise_leaves_them() -> None:
    """A job of six cores on one node is promised a node at 100; two cores of each node stay over."""
    tell = story(placement="share", backfill="easy")
    for number in range(4):
        must(tell.run(0, f"long{number}", limit_s=100.0, processes=6))
    assert tell.run(1, "six", processes=6, single_node=True, limit_s=50.0) is None
    assert latest_s(tell, "six") == 100.0
    for number in range(4):
        assert tell.run(2 + number, f"month{number}", processes=2, single_node=True, limit_s=2.6e6) is not None
    assert latest_s(tell, "six") == 100.0
    assert set(tell.starts(50, JobFinished("long2", 1))) == {"six"}


@pytest.mark.parametrize("backfill", ["easy", "2", "conservative"])
def test_an_early_end_moves_the_promise_earlier_and_never_later(backfill: str) -> None:
    tell = three_busy(backfill)
    tell(10, JobFinished("long2", 1))
    if backfill != "conservative":  # there the job starts early or as promised
        assert latest_s(tell, "wide") == 100.0
    assert set(tell.starts(20, JobFinished("long0", 1))) == {"wide"}
    assert promise_of_nobody(tell)


def promise_of_nobody(tell: Story) -> bool:
    return not tell.core.state.promises and not tell.core.state.ledger.promised_in  # type: ignore[union-attr]


def test_the_depth_is_the_number_of_promises() -> None:
    for backfill, expected in (("first-fit", 0), ("easy", 1), ("2", 2), ("conservative", 4)):
        tell = three_busy(backfill)
        tell(2, *(submitted(f"w{number}", processes=24, exclusive=True, limit_s=50.0) for number in range(3)))
        assert len(tell.core.state.promises) == expected, backfill


def test_conservative_promises_follow_each_other() -> None:
    tell = three_busy("conservative")
    tell(2, submitted("next", processes=24, exclusive=True, limit_s=50.0), submitted("one", processes=8, limit_s=500.0))
    assert (latest_s(tell, "wide"), latest_s(tell, "next")) == (200.0, 250.0)
    assert tell.core.state.rows["one"] not in tell.core.view(2 * SECOND).running(), "it would delay both"


def test_a_promise_survives_a_checkpoint() -> None:
    tell = three_busy()
    again = load(save(tell.core), SHARED, tell.core.policies)
    assert again.state.promises == tell.core.state.promises
    for now_s, name in ((50, "long0"), (60, "long1")):
        event = JobFinished(name, 1)
        assert again.step(now_s * SECOND, [event]) == tell.core.step(now_s * SECOND, [event])


def test_a_refused_start_keeps_a_promise() -> None:
    """The back end refuses the start for 30 s: a long job that could take the nodes meanwhile does not get them."""
    tell = three_busy()
    tell(10, JobFinished("long0", 1))
    assert set(tell.starts(20, JobFinished("long1", 1))) == {"wide"}
    assert tell.run(21, "greedy", processes=16, exclusive=True, limit_s=1000.0) is None
    assert tell.starts(22, StartRefused("wide", 1, "no", 30 * SECOND)) == {}
    assert latest_s(tell, "wide") == 52.0
    assert set(tell.starts(52, Woken())) == {"wide"}


def test_lost_nodes_move_a_promise_and_nodes_that_return_do_not() -> None:
    tell = three_busy()
    tell(10, NodeDrained(3))
    assert latest_s(tell, "wide") == 300.0
    tell(11, NodeUp(3))
    assert latest_s(tell, "wide") == 200.0
    tell(12, NodeDown(3))
    tell(13, JobFinished("long2", 1))
    assert latest_s(tell, "wide") == 200.0


def test_a_job_that_leaves_takes_its_promise_with_it() -> None:
    tell = three_busy()
    tell(10, JobCancelled("wide"))
    assert promise_of_nobody(tell)
    assert tell.run(11, "month", processes=8, exclusive=True, limit_s=2.6e6) is not None


@pytest.mark.parametrize("placement", SHARING)
@pytest.mark.parametrize("backfill", ["easy", "2", "conservative"])
def test_a_run_beyond_its_request_is_not_looked_at_every_second(placement: str, backfill: str) -> None:
    """Its end is an event; until then there is nothing to decide."""
    tell = three_busy(backfill, placement)
    wakes = []
    while (next_us := tell.core.state.wake_us) < 10_000 * SECOND:
        wakes.append(next_us / SECOND)
        tell(next_us / SECOND, Woken())
        assert len(wakes) < 20
    assert wakes[0] <= 200.0
    tell(20_000, JobFinished("long0", 1))
    assert set(tell.starts(20_001, JobFinished("long1", 1))) == {"wide"}


def test_a_run_beyond_its_request_moves_the_promise_and_the_job_still_starts() -> None:
    tell = three_busy()
    tell(100, JobFinished("long0", 1))
    tell(200, Woken())
    assert latest_s(tell, "wide") > 200.0
    assert set(tell.starts(230, JobFinished("long1", 1))) == {"wide"}


def test_an_expected_start_is_not_delayed_by_a_job_that_keeps_the_promise() -> None:
    """By request the nodes are busy until 1000, by profile until 100: a job of 500 s would keep the promise, and still
    waits, because it would make the first one wait for four times as long as expected."""
    tell = story(placement="joint", backfill="easy")
    for number in range(3):
        must(tell.run(0, f"long{number}", "compact", limit_s=1000.0, processes=8, exclusive=True))
    assert tell.run(1, "wide", "compact", processes=32, exclusive=True, limit_s=1000.0) is None
    one = promise_of(tell, "wide")
    assert one is not None
    assert (one.expected_us / SECOND, one.latest_us / SECOND) == (100.0, 1000.0)
    assert tell.run(2, "short", "single", processes=8, exclusive=True, limit_s=500.0) is not None, "50 s by profile"
    tell = story(placement="joint", backfill="easy")
    for number in range(3):
        must(tell.run(0, f"long{number}", "compact", limit_s=1000.0, processes=8, exclusive=True))
    assert tell.run(1, "wide", "compact", processes=32, exclusive=True, limit_s=1000.0) is None
    assert tell.run(2, "late", "compact", processes=8, exclusive=True, limit_s=500.0) is None


def test_nodes_are_shared_within_a_user_only_if_the_site_says_so() -> None:
    chosen = replace(policies("fcfs", "easy", None, "share"), share_with="user")
    core = SchedulerCore(SHARED, chosen, profiles=PROFILES)
    tell = Story(core)
    for number, user in enumerate((1, 2, 3, 4, 1, 2)):  # an empty node for each, then only beside their own
        must(tell.run(number, f"j{number}", processes=2, user=user))
    assert tell.core.state.ledger is not None
    users = [
        {tell.core.state.spec(row).user for row in tell.core.state.ledger.rows_on(node)} for node in range(SHARED.nodes)
    ]
    assert users == [{1}, {2}, {3}, {4}]
    assert tell.run(9, "fifth", processes=2, user=5, limit_s=50.0) is None
    assert latest_s(tell, "fifth") == 102.0
    assert must(tell.run(10, "sixth", processes=4, user=1, limit_s=1000.0)).nodes == ((0, 1),)
    assert set(tell.starts(20, JobFinished("j3", 1))) == {"fifth"}


def test_why_names_the_promise() -> None:
    tell = three_busy()
    assert "promised a start within 3 min 19 s" in tell.why("wide", 1)
    tell(2, submitted("late", processes=8, exclusive=True, limit_s=500.0))
    assert "would delay" in tell.why("late", 2)
    assert "job wide" in tell.why("late", 2) or "another user" in tell.why("late", 2)


@pytest.mark.parametrize("placement", SHARING)
@pytest.mark.parametrize("backfill", ["none", "easy", "3", "conservative", "first-fit"])
def test_every_placement_goes_with_every_kind_of_backfilling(placement: str, backfill: str) -> None:
    tell = story(placement=placement, backfill=backfill)
    names = [f"j{number}" for number in range(12)]
    asked = [
        submitted(name, processes=(8, 16, 4)[number % 3], limit_s=10.0 + number, program="neutral")
        for number, name in enumerate(names)
    ]
    running, ended, now_s = list(tell.starts(0, *asked)), [], 0
    while running:
        now_s += 5
        ended.append(running.pop(0))
        running += tell.starts(now_s, JobFinished(ended[-1], 1))
    assert sorted(ended) == sorted(names)


def test_no_job_is_moved_beside_a_stranger_or_to_a_promised_node() -> None:
    tell = story(placement="share", backfill="easy")
    must(tell.run(0, "own", processes=2, user=1))
    must(tell.run(1, "other", processes=2, user=2))
    state, ledger = tell.core.state, tell.core.state.ledger
    assert ledger is not None
    own, there = state.rows["own"], int(ledger.nodes_of(state.rows["other"])[0])
    assert may_move(Move(own, there), ledger, tell.core.view(SECOND))
    state.trust = Trust("user", len(state.specs))
    state.trust.restore(state.specs)
    assert not may_move(Move(own, there), ledger, tell.core.view(SECOND))
    state.trust = Trust("anybody", len(state.specs))
    ledger.promise(99, ((ledger.class_of(there), 1),))
    assert not may_move(Move(own, there), ledger, tell.core.view(SECOND))
