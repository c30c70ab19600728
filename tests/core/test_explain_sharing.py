"""Why a job waits for shared nodes, in words and numbers."""

from __future__ import annotations

from cohabit.model.event import JobFinished
from cohabit.model.units import counted
from tests.core.shared_story import ONE_NODE, TWO_NODES, must, story
from tests.support.builders import submitted


def test_one_job_and_several_jobs() -> None:
    assert (counted(1, "job"), counted(0, "job"), counted(2, "node")) == ("1 job", "0 jobs", "2 nodes")


def test_the_nearest_node_is_the_one_that_lacks_least() -> None:
    tell = story(placement="share", cluster=TWO_NODES)
    must(tell.run(0, "wide", processes=7, single_node=True))
    must(tell.run(0, "narrow", processes=3, single_node=True))
    assert tell.run(1, "a", processes=6, single_node=True) is None
    said = tell.why("a", 1)
    assert said.startswith("needs 6 cores on one node; none has that free; the nearest, node 1, lacks 1 core:")
    assert "job narrow runs there" in said


def test_jobs_of_the_same_user_are_named_and_those_of_others_are_not() -> None:
    tell = story(placement="share", cluster=ONE_NODE)
    for name, user in (("mine", 1), ("his", 2), ("hers", 3)):
        must(tell.run(0, name, processes=2, user=user))
    assert tell.run(1, "a", processes=3, user=1) is None
    assert "job mine and 2 jobs of other users run there" in tell.why("a", 1)


def test_when_there_is_room_by_requested_times() -> None:
    tell = story(placement="share", cluster=ONE_NODE)
    must(tell.run(0, "short", processes=4, limit_s=30))
    must(tell.run(0, "long", processes=4, limit_s=300))
    assert tell.run(10, "half", processes=4) is None
    assert "by requested times there is room in 20 s" in tell.why("half", 10)
    tell(10, submitted("whole", processes=8))
    assert "by requested times there is room in 4 min 50 s" in tell.why("whole", 10)
    assert tell.why("whole", 10).endswith("; 1 job ahead of it")


def test_a_job_past_the_age_limit_may_not_be_overtaken() -> None:
    tell = story(placement="share", cluster=ONE_NODE, age_limit_s=50.0)
    must(tell.run(0, "first", processes=4))
    assert tell.run(1, "old", processes=8) is None
    assert tell.run(60, "young", processes=2) is None
    assert tell.why("young", 60) == (
        "job old is ahead of it and it has reached the age limit and may not be overtaken; "
        "it is promised a start within 40 s on 1 node"
    )
    assert list(tell.starts(70, JobFinished("first", 1))) == ["old"]
