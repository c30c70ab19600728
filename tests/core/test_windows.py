"""Windows announced, changed and lifted while jobs wait and run: one small story per rule."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cohabit.core import checkpoint, invariants
from cohabit.core.explain import why_waiting
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.codec import decode_events, encode
from cohabit.model.command import StartJob, WakeAt
from cohabit.model.event import Event, JobFinished, JobStarted, NodeDrained, WindowCleared, WindowSet, Woken
from cohabit.model.units import SECOND
from tests.core.shared_story import TWO_NODES, must, story
from tests.core.test_steps import Checked
from tests.support.builders import scheduler, submitted


def window(begin_s: float, end_s: float, *nodes: tuple[int, int], name: str = "w") -> WindowSet:
    return WindowSet(name, round(begin_s * SECOND), round(end_s * SECOND), nodes or ((0, 4),))


@pytest.fixture(params=[False, True], ids=["compiled", "readable"])
def step(request: pytest.FixtureRequest) -> Checked:
    """Four nodes; jobs ask for 100 s."""
    return Checked(scheduler(4, readable=bool(request.param)))


def nodes_of(commands: object) -> dict[str, object]:
    assert isinstance(commands, list)
    return {one.job_id: one.nodes for one in commands if isinstance(one, StartJob)}


def test_a_job_waits_for_the_end_of_a_window_that_it_would_run_into(step: Checked) -> None:
    assert step(0, window(50, 70)) == [WakeAt(70 * SECOND)]
    assert nodes_of(step(1, submitted("a"), submitted("short", limit_s=49))) == {"short": ((0, 1),)}
    assert step.starts(69, submitted("b", nodes=4)) == []
    assert step.starts(70, Woken()) == ["a"]


def test_nodes_outside_a_window_are_used(step: Checked) -> None:
    step(0, window(50, 70, (0, 1), (2, 1)))
    assert nodes_of(step(1, submitted("a"), submitted("b"), submitted("c"))) == {"a": ((1, 1),), "b": ((3, 1),)}


def test_a_running_job_goes_on_into_a_window_that_is_announced_later(step: Checked) -> None:
    assert step.starts(0, submitted("a", nodes=4)) == ["a"]
    assert not [one for one in step(1, window(50, 70)) if not isinstance(one, WakeAt)]
    assert step.starts(100, JobFinished("a", 1), submitted("b")) == ["b"]


def test_a_window_that_is_changed_or_lifted_frees_its_nodes(step: Checked) -> None:
    step(0, window(50, 70))
    assert step.starts(1, submitted("a"), submitted("b", nodes=2)) == []
    assert nodes_of(step(2, window(50, 70, (1, 3)))) == {"a": ((0, 1),)}
    assert step.starts(3, WindowCleared("w"), WindowCleared("w")) == ["b"]


def test_telling_the_same_window_again_changes_nothing(step: Checked) -> None:
    step(0, window(50, 70), submitted("a"))
    before = step.core.state.kinds
    assert step(1, window(50, 70)) == []
    assert step.core.state.kinds is before


def test_windows_of_the_past_are_dropped_and_the_compiled_pass_comes_back(step: Checked) -> None:
    step(0, window(50, 70), window(5, 10, name="v"))
    assert not step.core.compiled
    step(10, Woken())
    assert list(step.core.state.windows) == ["w"]
    step(20, window(15, 20), window(15, 20, name="u"))
    assert not step.core.state.windows, "told when it was over: of w that it is not planned any more"
    step(72, submitted("a"))
    assert step.core.compiled != step.core.readable


def test_a_promise_is_made_anew_when_a_window_takes_its_nodes() -> None:
    for readable in (False, True):
        step = Checked(scheduler(2, backfill="conservative", readable=readable))
        step(0, submitted("a", nodes=2), submitted("b", nodes=2))
        step(1, window(150, 300, (0, 2)))
        assert step.starts(100, JobFinished("a", 1)) == [], "b would run into the window"
        assert step.starts(101, submitted("c", limit_s=49)) == ["c"], "it ends before the window begins"
        assert step.starts(300, JobFinished("c", 1), Woken()) == ["b"]


def test_under_conservative_backfilling_a_past_window_stays_while_there_are_promises() -> None:
    """To number the kinds anew would make all promises anew, maybe later."""
    step = Checked(scheduler(2, backfill="conservative"))
    step(0, window(5, 10, (1, 1)), submitted("a", nodes=2), submitted("b", nodes=2))
    assert step.starts(10, Woken()) == ["a"]
    assert "w" in step.core.state.windows
    assert step.starts(110, JobFinished("a", 1)) == ["b"]
    step(210, JobFinished("b", 1))
    assert not step.core.state.windows


def test_facts_about_nodes_that_do_not_exist_change_nothing(step: Checked) -> None:
    for bad in (window(5, 9, (3, 2)), window(5, 9, (0, 0)), window(9, 5), replace_nodes(window(5, 9))):
        assert step(0, bad) == []
    assert step.starts(1, submitted("a", nodes=4)) == ["a"]


def replace_nodes(told: WindowSet) -> WindowSet:
    return WindowSet(told.name, told.begin_us, told.end_us, ())


def test_why_names_the_window_its_nodes_and_when(step: Checked) -> None:
    step(0, window(60 * 60, 2 * 60 * 60, (0, 2), (3, 1), name="cooling"), submitted("a", nodes=3, limit_s=4000))

    def why(now_s: float) -> str:
        return why_waiting(step.core.state, step.core.policies, "a", round(now_s * SECOND))

    assert why(0) == (
        "needs 3 nodes, 4 idle, but not for its whole requested time; promised a start within 2 h on 3 nodes; "
        "window cooling closes nodes 0-1,3 in 1 h for 1 h"
    )
    assert why(60 * 60 + 60).endswith("window cooling closes nodes 0-1,3 for another 59 min")


def test_the_events_keep_their_form() -> None:
    told: list[Event] = [window(5, 9, (0, 2)), WindowCleared("w")]
    assert decode_events(encode(told)) == told


# ---- shared nodes ---------------------------------------------------------------------------------------------------


def test_bookings_stay_when_a_window_splits_the_kinds() -> None:
    tell = story(cluster=TWO_NODES)
    must(tell.run(0, "a", "neutral", 2, limit_s=50))
    must(tell.run(0, "b", "neutral", 12, limit_s=50))
    shares = dict(tell.shares)
    tell(1, window(40, 80, (1, 1)))
    assert tell.core.state.kinds.count == 2
    assert tell.shares == shares, "no cache is divided anew for that"
    assert tell.run(2, "c", "neutral", 8, limit_s=50) is None
    assert "window w closes node 1 in 38 s for 40 s" in tell.why("c", 2)
    assert tell.starts(50, JobFinished("a", 1), JobFinished("b", 1)).keys() == {"c"}
    assert tell.core.state.ranges_of(tell.core.state.rows["c"]) == ((0, 1),)


def test_a_checkpoint_keeps_windows_and_bookings() -> None:
    tell = story(cluster=TWO_NODES)
    must(tell.run(0, "a", "neutral", 12, limit_s=50))
    tell(1, window(40, 80, (1, 1)))
    saved = checkpoint.save(tell.core)
    again = checkpoint.load(saved, TWO_NODES, tell.core.policies)
    invariants.check(again.state)
    assert checkpoint.save(again) == saved
    assert again.state.windows == tell.core.state.windows
    assert again.state.kinds.windows_of == tell.core.state.kinds.windows_of


def test_a_checkpoint_without_windows_has_no_word_of_them() -> None:
    core = scheduler(2)
    core.step(0, [submitted("a")])
    assert b"windows" not in checkpoint.save(core)
    core.step(1, [window(5, 9, (0, 1))])
    assert b"windows" in checkpoint.save(core)


def test_drained_nodes_stay_drained_when_kinds_are_numbered_anew() -> None:
    tell = story(cluster=TWO_NODES)
    tell(0, NodeDrained(0))
    tell(1, window(40, 80, (1, 1)))
    assert tell.run(2, "a", "neutral", 2, limit_s=50) is None
    assert tell.starts(3, WindowCleared("w")).keys() == {"a"}
    assert tell.core.state.ranges_of(tell.core.state.rows["a"]) == ((1, 1),)


def test_a_running_job_may_not_move_where_a_window_would_catch_it() -> None:
    """What a running job may take on a node of another kind is known by kind, too."""
    cluster = Cluster((replace(TWO_NODES.groups[0], domains=2),))
    tell = story(cluster=cluster)
    must(tell.run(0, "a", "neutral", 2, limit_s=50))
    row = tell.core.state.rows["a"]
    (mine,) = tell.core.state.ledger.nodes_of(row).tolist()  # type: ignore[union-attr]
    tell(1, JobStarted("a", 1), window(40, 80, (1 - mine, 1)))
    ledger = tell.core.state.ledger
    assert ledger is not None
    assert not ledger.move(row, 1 - mine)
    tell(2, WindowCleared("w"))
    ledger = tell.core.state.ledger
    assert ledger is not None
    assert ledger.move(row, 1 - mine)


def test_groups_of_nodes_and_windows_make_kinds_as_before() -> None:
    cluster = Cluster((NodeGroup(3), NodeGroup(2, 2)))
    step = Checked(scheduler(cluster))
    step(0, window(5, 9, (2, 2)))
    assert step.core.state.kinds.of_node.tolist() == [0, 0, 1, 2, 3]
