"""How a started job runs, in words: scale, share, neighbours, profile; and no capacity that no machine has."""

from __future__ import annotations

from dataclasses import replace

from cohabit.core.explain_running import how_it_runs
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import CancelJob
from cohabit.model.event import NodeDown, ProfileLearned
from cohabit.model.units import SECOND
from tests.core.shared_story import ONE_NODE, TWO_NODES, Story, must, story
from tests.support.programs import FLAT, measured


def how(tell: Story, name: str, now_s: float = 1, *, names_all: bool = False) -> str:
    return how_it_runs(tell.core.state, tell.core.policies, name, round(now_s * SECOND), names_all)


def test_a_job_of_an_unknown_program_on_a_shared_node() -> None:
    tell = story(placement="share", cluster=ONE_NODE)
    must(tell.run(0, "mine", processes=2, user=1, program="lbm"))
    must(tell.run(0, "his", processes=3, user=2))
    said = how(tell, "mine")
    assert said.startswith("runs at scale 1 on node 0 with 2 cores; beside a job of another user;")
    assert said.endswith("there is no profile of lbm")
    assert "beside job his" in how(tell, "mine", names_all=True)
    assert how(tell, "his").endswith("it has no program name, so no profile")


def test_a_job_by_itself_on_a_shared_node_says_so() -> None:
    tell = story(placement="share", cluster=TWO_NODES)
    must(tell.run(0, "a", processes=2))
    assert "no other job is there now" in how(tell, "a")


def test_a_trial_says_what_it_measures() -> None:
    tell = story(cluster=TWO_NODES)
    must(tell.run(0, "a", program="cg", processes=8))
    said = how(tell, "a")
    assert "node 0, which it has to itself; to measure its time at this scale" in said


def test_nothing_of_jobs_that_wait_or_are_not_there() -> None:
    tell = story(placement="share", cluster=ONE_NODE)
    must(tell.run(0, "a", processes=8))
    assert tell.run(1, "b", processes=8) is None
    assert how(tell, "b") == how(tell, "nobody") == ""


def test_resources_without_a_stated_limit_are_not_told() -> None:
    plain = Cluster((NodeGroup(1, 8),))  # neither ways, bandwidth nor memory
    tell = story(cluster=plain)
    must(tell.run(0, "a", processes=4, exclusive=True))
    for name, program, exclusive in (("b", "", False), ("c", "", True), ("d", "cached", False)):
        assert tell.run(1, name, processes=4, program=program, exclusive=exclusive) is None
        said = tell.why(name, 1)
        assert "10995" not in said
        assert "way" not in said
        assert "GB/s" not in said


def test_the_profile_of_its_user_and_how_it_was_measured() -> None:
    tell = story(cluster=TWO_NODES, profiles=())
    own = measured(1, 100.0, FLAT, 4.0)
    tell(0, ProfileLearned("lbm", 8, own, owner="7"), ProfileLearned("lbm", 8, measured(1, 90.0, FLAT, 4.0)))
    must(tell.run(1, "a", program="lbm", processes=4, user=7, profile_owner="7"))
    assert "its profile: lbm with 8 processes, its user's own, measured in 1 run at this scale" in how(tell, "a", 2)


def test_nodes_are_called_as_their_manager_calls_them() -> None:
    tell = story(placement="share", cluster=replace(TWO_NODES, names=("red", "blue")))
    must(tell.run(0, "a", processes=8))
    must(tell.run(0, "b", processes=16 - 8))
    assert "on node red" in how(tell, "a")
    assert "on node blue" in how(tell, "b")
    assert tell.run(1, "c", processes=4) is None
    assert "the nearest, node red, lacks" in tell.why("c", 1)
    lost = tell.core.step(2 * SECOND, [NodeDown(1)])
    assert [one.reason for one in lost if isinstance(one, CancelJob)] == ["node blue was lost"]
