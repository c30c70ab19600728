"""Jobs that are not the core's take what they use of a node, and no more; whole nodes have no other job beside them."""

from __future__ import annotations

import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.core.invariants import check_shared
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import StartJob
from cohabit.model.event import JobFinished, JobSubmitted, NodeDrained, NodeUp, NodeUsed
from cohabit.model.job import Job
from cohabit.model.units import SECOND

GIB = 2**30


def a_core(policy: str = "cs", nodes: int = 2, **keys: object) -> SchedulerCore:
    policies = build(PolicyConfig(name=policy, **keys))  # type: ignore[arg-type]
    sharing = "exclusive" if policies.placer.exclusive else "shared"
    return SchedulerCore(Cluster((NodeGroup(nodes, 4, 8 * GIB),), sharing=sharing), policies)


def started(core: SchedulerCore, now_us: int, *events: object) -> dict[str, tuple[tuple[int, int], ...]]:
    commands = core.step(now_us, list(events))  # type: ignore[arg-type]
    if core.state.ledger is not None:
        check_shared(core.state)
    return {one.job_id: one.nodes for one in commands if isinstance(one, StartJob)}


def job(name: str, cores: int = 1, **own: object) -> JobSubmitted:
    return JobSubmitted(Job(name, 60 * SECOND, cores, **own))  # type: ignore[arg-type]


def test_the_rest_of_the_node_is_used() -> None:
    core = a_core()
    assert not started(core, 0, NodeUsed(0, 3), NodeDrained(1))
    found = started(core, 1, job("a"), job("b"))
    assert found == {"a": ((0, 1),)}  # one core was left
    assert core.state.ledger is not None
    assert core.state.ledger.others_on(0) == (3, 0)
    again = checkpoint.load(checkpoint.save(core), core.state.cluster, core.policies)
    for one in (core, again):
        assert started(one, 2, NodeUp(0)) == {"b": ((0, 1),)}
        assert one.state.ledger is not None
        assert one.state.ledger.others_on(0) == (0, 0)


def test_memory_and_whole_nodes() -> None:
    core = a_core()
    started(core, 0, NodeUsed(0, 1, 7 * 1024), NodeUsed(1, 1))
    assert started(core, 1, job("a", memory_bytes=2 * GIB), job("w", nodes=1, exclusive=True)) == {"a": ((1, 1),)}
    assert started(core, 2, NodeUp(0)) == {"w": ((0, 1),)}


def test_both_take_the_same_cores_at_the_same_time() -> None:
    """Slurm starts a job of its own where ours is about to start: nothing is free, and nothing breaks."""
    core = a_core(nodes=1)
    assert started(core, 0, job("a", 3)) == {"a": ((0, 1),)}
    assert not started(core, 1, NodeUsed(0, 3), job("b"))
    assert started(core, 2, JobFinished("a", 1, "stopped")) == {"b": ((0, 1),)}  # one core is left for it


@pytest.mark.parametrize(("policy", "keys"), [("ce", {}), ("cs", {"share_with": "user"})])
def test_a_node_with_others_takes_no_job_where_nodes_are_not_shared_with_anybody(
    policy: str, keys: dict[str, object]
) -> None:
    core = a_core(policy, **keys)
    assert started(core, 0, NodeUsed(0, 1), job("a", user=1), job("b", 4, user=2)) == {"a": ((1, 1),)}
    assert started(core, 1, NodeUp(0)) == {"b": ((0, 1),)}
