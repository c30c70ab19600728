"""Jobs that are not the core's take what they use of a node, and no more; whole nodes have no other job beside them."""

from __future__ import annotations

import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.core.explain import why_waiting
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


# ---- until when -----------------------------------------------------------------------------------------------------


def why(core: SchedulerCore, name: str, now_s: float) -> str:
    return why_waiting(core.state, core.policies, name, round(now_s * SECOND))


@pytest.mark.parametrize(("policy", "keys"), [("ce-easy", {}), ("cohabit", {"unknown": "cores"})])
def test_a_job_on_all_nodes_is_promised_a_start_when_others_are_to_leave(policy: str, keys: dict[str, object]) -> None:
    core = a_core(policy, **keys)
    assert not started(core, 0, NodeUsed(0, 1, 0, 200 * SECOND), job("wide", 8))
    assert "promised a start within 3 min 10 s on 2 nodes" in why(core, "wide", 10)
    core = checkpoint.load(checkpoint.save(core), core.state.cluster, core.policies)
    short, long = job("short", 4), JobSubmitted(Job("long", 600 * SECOND, 4))
    assert [*started(core, 10 * SECOND, long, short)] == ["short"], "the long one would run into the promise"
    assert not started(core, 20 * SECOND, JobFinished("short", 1), NodeUsed(0, 1, 0, 300 * SECOND))
    assert "promised a start within" in why(core, "wide", 20)
    assert [*started(core, 30 * SECOND, NodeUp(0))] == ["wide"], "they left early"


@pytest.mark.parametrize(("policy", "keys"), [("ce-easy", {}), ("cohabit", {"unknown": "cores"})])
def test_without_an_instant_nothing_is_promised_and_one_that_has_passed_is_soon(
    policy: str, keys: dict[str, object]
) -> None:
    core = a_core(policy, **keys)
    assert not started(core, 0, NodeUsed(0, 1), job("wide", 8))
    assert "promise" not in why(core, "wide", 1)
    started(core, 10 * SECOND, NodeUsed(0, 1, 0, 40 * SECOND))
    assert "promised a start within 30 s" in why(core, "wide", 10)
    started(core, 50 * SECOND, NodeUsed(0, 2, 0, 40 * SECOND))
    assert "promised a start within" in why(core, "wide", 50)
    started(core, 51 * SECOND, NodeDrained(0))
    assert not core.state.used_until


def test_others_on_some_nodes_of_a_class_leave_with_the_last_of_them() -> None:
    core = a_core("cohabit", nodes=3, unknown="cores")
    started(core, 0, NodeUsed(0, 1, 0, 100 * SECOND), NodeUsed(1, 1, 0, 200 * SECOND), job("wide", 12), job("a", 2))
    assert "promised a start within 3 min 10 s on 3 nodes" in why(core, "wide", 10)
    started(core, 10 * SECOND, NodeUsed(1, 1))
    assert "promise" not in why(core, "wide", 10)
