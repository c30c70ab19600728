"""What follows a decision on shared nodes: the cache is divided where residents changed and there is one."""

from __future__ import annotations

from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import SetShares
from cohabit.model.event import JobFinished
from tests.core.shared_story import TWO_NODES, Story, must, story
from tests.support.builders import submitted

BARE = Cluster((NodeGroup(1, 8), NodeGroup(1, 8, 0, 10, 2, 4, name="cached")))


def divided(tell: Story, now_s: int, *events: object) -> list[tuple[tuple[tuple[int, int], ...], list[str]]]:
    """The nodes of every division, and the jobs on them."""
    told = tell(now_s, *events)  # type: ignore[arg-type]
    return [(one.nodes, [name for name, *_ in one.shares]) for one in told if isinstance(one, SetShares)]


def test_nodes_without_a_divisible_cache_are_not_divided() -> None:
    tell = story(cluster=BARE)
    assert tell.core.policies.partitioner is not None
    found = divided(tell, 0, *(submitted(name, program="neutral", processes=8) for name in "ab"))
    assert sorted(tell.core.state.rows) == ["a", "b"]
    assert [nodes for nodes, _ in found] == [((1, 1),)]


def test_a_division_follows_every_change_of_residents() -> None:
    tell = story(cluster=TWO_NODES)
    assert divided(tell, 0, submitted("a", program="neutral", processes=4)) == [(((0, 1),), ["a"])]
    must(tell.run(1, "b", "neutral", 4))
    found = divided(tell, 2, submitted("c", program="neutral", processes=4))
    assert found == [(((0, 1),), ["a", "c"])]
    assert divided(tell, 3, JobFinished("a", 1)) == [(((0, 1),), ["c"])]
    assert divided(tell, 4, JobFinished("b", 1)) == [], "an empty node needs no division"
