"""Machines whose nodes differ: partitions, memory, packing, maintenance; and settings that contradict each other."""

from __future__ import annotations

import re
from typing import Any

import pytest

from cohabit.core.explain import why_waiting
from cohabit.model.cluster import Cluster, NodeGroup, Window
from cohabit.model.command import CancelJob, StartJob, WakeAt
from cohabit.model.errors import InputError
from cohabit.model.event import JobFinished, Woken
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from tests.support.builders import scheduler, submitted

GIB = 2**30


def nodes_of(commands: list[Any], name: str) -> list[int]:
    (found,) = [command for command in commands if isinstance(command, StartJob) and command.job_id == name]
    return [node for first, count in found.nodes for node in range(first, first + count)]


def test_processes_are_packed_into_nodes() -> None:
    core = scheduler(Cluster((NodeGroup(3, cores=4),)))
    assert nodes_of(core.step(0, [submitted("a", processes=5)]), "a") == [0, 1]
    assert nodes_of(core.step(0, [submitted("b", processes=4)]), "b") == [2]
    (told,) = core.step(0, [submitted("c", processes=13)])
    assert isinstance(told, CancelJob)
    assert told.reason.startswith("can never run: needs 4 nodes")


def test_partitions_keep_apart() -> None:
    cluster = Cluster((NodeGroup(2, partitions=("gpu",), name="gpu"), NodeGroup(2)))
    core = scheduler(cluster)
    assert nodes_of(core.step(0, [submitted("a")]), "a") == [2]
    assert nodes_of(core.step(0, [submitted("b", partition="gpu")]), "b") == [0]
    assert core.step(0, [submitted("c", nodes=2)]) == [], "only one open node is left, a gpu node does not help"
    (told,) = core.step(0, [submitted("d", partition="cpu")])
    assert isinstance(told, CancelJob), "there is no such partition"


def test_a_job_without_partition_may_use_all_where_none_is_open() -> None:
    core = scheduler(Cluster((NodeGroup(2, partitions=("a",)), NodeGroup(2, partitions=("b",), name="b"))))
    assert nodes_of(core.step(0, [submitted("x", nodes=4)]), "x") == [0, 1, 2, 3]


def test_memory_chooses_nodes_and_large_ones_are_kept() -> None:
    groups = (NodeGroup(1, cores=2, memory_bytes=64 * GIB, name="large"), NodeGroup(2, cores=2, memory_bytes=16 * GIB))
    core = scheduler(Cluster(groups))
    assert nodes_of(core.step(0, [submitted("small")]), "small") == [1], "the least capable node that will do"
    assert nodes_of(core.step(0, [submitted("fat", memory_bytes=20 * GIB)]), "fat") == [0]
    assert core.step(0, [submitted("fat2", memory_bytes=20 * GIB)]) == []
    assert re.match(r"needs 1 node\w*, 0 (are )?idle", why_waiting(core.state, core.policies, "fat2", 0))
    (told,) = core.step(0, [submitted("huge", memory_bytes=65 * GIB)])
    assert isinstance(told, CancelJob)
    assert nodes_of(core.step(1, [JobFinished("fat", 1)]), "fat2") == [0]


def test_memory_counts_per_node_of_packed_processes() -> None:
    core = scheduler(Cluster((NodeGroup(4, cores=4, memory_bytes=16 * GIB),)))
    assert nodes_of(core.step(0, [submitted("a", processes=4, memory_bytes=4 * GIB)]), "a") == [0]
    (told,) = core.step(0, [submitted("b", processes=4, memory_bytes=5 * GIB)])
    assert isinstance(told, CancelJob), "four processes of 5 GiB do not fit a node of 16"


def test_small_jobs_do_not_block_the_head_on_other_nodes() -> None:
    """EASY on two kinds of nodes: what the head cannot use anyway is free for all."""
    cluster = Cluster((NodeGroup(2), NodeGroup(2, partitions=("gpu",), name="gpu")))
    core = scheduler(cluster)
    core.step(0, [submitted("a"), submitted("head", nodes=2)])
    started = core.step(1, [submitted("long", limit_s=9999), submitted("gpu", limit_s=9999, partition="gpu")])
    assert [command.job_id for command in started if isinstance(command, StartJob)] == ["gpu"]


# ---- maintenance ----------------------------------------------------------------------------------------------------

CLOSED = Cluster((NodeGroup(3),), windows=(Window(50 * SECOND, 80 * SECOND, 0, 2),))


def test_a_job_that_would_reach_into_a_window_goes_elsewhere_or_waits_for_its_end() -> None:
    core = scheduler(CLOSED)
    told = core.step(0, [submitted("a", limit_s=60), submitted("b", limit_s=50), submitted("c", nodes=2, limit_s=60)])
    assert nodes_of(told, "a") == [2]
    assert nodes_of(told, "b") == [0]
    assert told[-1] == WakeAt(80 * SECOND)
    assert core.step(50 * SECOND, [JobFinished("b", 1)]) == []
    assert core.step(60 * SECOND, [JobFinished("a", 1)]) == []
    told = core.step(80 * SECOND, [Woken()])
    assert nodes_of(told, "c") == [0, 1]
    assert not any(isinstance(command, WakeAt) for command in told)  # the wake that came is used up, none is due


@pytest.mark.parametrize("limit_s", [0.0, 1e-6, 10.0])
def test_nothing_starts_inside_a_window(limit_s: float) -> None:
    core = scheduler(CLOSED)
    told = core.step(50 * SECOND, [submitted(f"j{n}", limit_s=limit_s) for n in range(3)])
    assert [nodes_of(told, "j0"), told[1:]] == [[2], [WakeAt(80 * SECOND)]]
    assert core.step(80 * SECOND - 1, [JobFinished("j0", 1)])[0].job_id == "j1"


def test_a_zero_request_may_start_when_a_window_has_just_ended_or_not_begun() -> None:
    core = scheduler(CLOSED)
    assert nodes_of(core.step(50 * SECOND - 1, [submitted("a", nodes=3, limit_s=0)]), "a") == [0, 1, 2]
    core.step(50 * SECOND - 1, [JobFinished("a", 1)])
    assert nodes_of(core.step(80 * SECOND, [submitted("b", nodes=3, limit_s=0)]), "b") == [0, 1, 2]


# ---- contradictions -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"groups": ()}, "no nodes"),
        ({"groups": (NodeGroup(2),), "oversubscribe": True}, "contradicts oversubscribe"),
        ({"groups": (NodeGroup(2),), "sharing": "sometimes"}, "sharing = 'sometimes'"),
        ({"groups": (NodeGroup(2),), "on_node_loss": "weep"}, "on_node_loss"),
        ({"groups": (NodeGroup(2),), "windows": (Window(0, 1, 1, 2),)}, "names nodes 1 to 2"),
        ({"groups": (NodeGroup(2),), "windows": (Window(0, 1, -1, 1),)}, "maintenance window"),
        ({"groups": (NodeGroup(2),), "windows": (Window(0, 1, 0, 0),)}, "maintenance window"),
    ],
)
def test_contradictory_clusters_are_refused(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Cluster(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"count": 0}, {"count": 1, "cores": 0}, {"count": 1, "memory_bytes": -1},
        {"count": 1, "ways": 4, "min_ways": 5}, {"count": 1, "bandwidth_gbs": ((2, 1.0), (1, 2.0))},
        {"count": 1, "bandwidth_gbs": ((1, 0.0),)},
    ],
)  # fmt: skip
def test_contradictory_nodes_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        NodeGroup(**settings)


def test_a_window_must_have_a_length() -> None:
    with pytest.raises(InputError, match="ends before it begins"):
        Window(5, 5, 0, 1)


@pytest.mark.parametrize(
    "job",
    [
        Job("a", 1, processes=0), Job("a", 1, nodes=-1), Job("a", -1), Job("a", 1, after=("a",)),
        Job("a", 1, array_count=-1), Job("a", 1, array_at_most=-1),
    ],
)  # fmt: skip
def test_contradictory_jobs_are_refused(job: Job) -> None:
    with pytest.raises(InputError):
        job.check()


def test_sharing_may_be_oversubscribed() -> None:
    assert Cluster((NodeGroup(2, cores=4),), sharing="shared", oversubscribe=True).cores == 8
