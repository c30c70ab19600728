"""Until when a job waits at most: the start it is promised, or that of the job which keeps it back."""

from __future__ import annotations

import pytest

from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import uniform_cluster
from cohabit.model.event import JobFinished, NodeDown, NodeDrained, WindowSet, Woken
from cohabit.model.units import SECOND
from tests.core.shared_story import TWO_NODES, Story, must, story
from tests.support.builders import policies, submitted

WINDOW = WindowSet("upkeep", 50 * SECOND, 150 * SECOND, ((2, 2),))


def whole(backfill: str | int = "easy", order: str = "fcfs", age_limit_s: float = 0.0) -> Story:
    """Four nodes, two of them taken for 100 s by the job "runs"."""
    chosen = policies(order, str(backfill), age_limit_s=age_limit_s)
    tell = Story(SchedulerCore(uniform_cluster(4), chosen))
    assert tell.starts(0, submitted("runs", nodes=2))["runs"].nodes == ((0, 2),)
    return tell


def test_the_first_job_under_easy_is_promised_a_start_behind_a_window() -> None:
    tell = whole()
    tell(0, WINDOW, submitted("wide", nodes=4, limit_s=60.0))
    assert "; promised a start within 2 min 20 s on 4 nodes" in tell.why("wide", 10)
    tell(10, submitted("next", nodes=3, limit_s=60.0), submitted("long", nodes=1, limit_s=600.0))
    assert "1 job ahead of it, one of them promised a start within 2 min 20 s on 4 nodes" in tell.why("next", 10)
    assert "2 jobs ahead of it, one of them promised a start within 2 min 20 s on 4 nodes" in tell.why("long", 10)
    assert [*tell.starts(150, JobFinished("runs", 1))] == ["wide"]


def test_a_promise_needs_nodes_that_are_up() -> None:
    tell = whole()
    tell(0, submitted("wide", nodes=4), NodeDrained(3))
    assert "promise" not in tell.why("wide", 1)
    tell(1, NodeDown(3))
    assert "promise" not in tell.why("wide", 1)


@pytest.mark.parametrize(
    ("backfill", "promised"), [("easy", ["a"]), (2, ["a", "b"]), ("conservative", ["a", "b", "c"]), ("first-fit", [])]
)
def test_as_many_jobs_are_promised_a_start_as_the_policy_says(backfill: str | int, promised: list[str]) -> None:
    tell = whole(backfill)
    tell(0, *(submitted(name, nodes=4, limit_s=60.0) for name in "abc"))
    found = {name: tell.why(name, 10).endswith(f"promised a start within {when} on 4 nodes") for name, when in
             (("a", "1 min 30 s"), ("b", "2 min 30 s"), ("c", "3 min 30 s"))}  # fmt: skip
    assert [name for name, says in found.items() if says] == promised


def test_a_whole_job_that_may_not_be_overtaken_any_more_tells_when_it_starts() -> None:
    tell = whole("first-fit", "age", age_limit_s=50.0)
    tell(0, submitted("wide", nodes=4), submitted("next", nodes=3))
    assert "promise" not in tell.why("wide", 10)
    assert "promised a start within 40 s on 4 nodes" in tell.why("wide", 60)
    assert "1 job ahead of it, one of them promised a start within 40 s on 4 nodes" in tell.why("next", 60)


def test_a_job_past_the_age_limit_tells_when_it_starts_and_so_do_those_behind_it() -> None:
    tell = story(placement="share", cluster=TWO_NODES, age_limit_s=50.0)
    must(tell.run(0, "first", processes=4, limit_s=100))
    tell(0, WindowSet("upkeep", 50 * SECOND, 150 * SECOND, ((1, 1),)))
    assert tell.run(1, "old", processes=16, limit_s=20) is None
    assert tell.run(60, "young", processes=2) is None
    assert tell.why("old", 60).endswith("promised a start within 1 min 30 s on 2 nodes; window upkeep closes node 1 "
                                        "for another 1 min 30 s")  # fmt: skip
    assert tell.why("young", 60).startswith(
        "job old is ahead of it and it has reached the age limit and may not be overtaken; "
        "it is promised a start within 1 min 30 s on 2 nodes"
    )
    assert not tell.starts(100, JobFinished("first", 1))
    assert [*tell.starts(150, Woken())] == ["old"]
