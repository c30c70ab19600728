"""Corners of the core that were once open: contradictions, arrays as wholes, requests of nothing."""

from __future__ import annotations

import pytest

from cohabit.core.explain import why_waiting
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import StartJob
from cohabit.model.event import JobFinished, JobSubmitted
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from tests.support.builders import scheduler, submitted
from tests.support.clusters import MEMORY


@pytest.mark.parametrize(
    "job", [Job("a", -5 * SECOND), Job("a", SECOND, processes=0), Job("a", SECOND, after=("a",))], ids=str
)
def test_a_job_that_contradicts_itself_is_refused(job: Job) -> None:
    core = scheduler(4)
    core.step(0, [JobSubmitted(job)])
    assert core.state.finished == {"a": "rejected"}


def test_more_processes_than_the_nodes_asked_for_have_cores() -> None:
    core = scheduler(Cluster((NodeGroup(2, cores=4),)))
    told = core.step(0, [JobSubmitted(Job("a", SECOND, processes=100, nodes=1))])
    assert not any(isinstance(command, StartJob) for command in told)


def test_a_job_after_an_array_waits_for_all_its_members() -> None:
    core = scheduler(4)
    core.step(0, [submitted("a", array_count=2), submitted("b", after=("a",))])
    assert core.step(1, [JobFinished("a_0", 1)]) == []
    assert [command.job_id for command in core.step(2, [JobFinished("a_1", 1)])] == ["b"]  # type: ignore[union-attr]


def test_a_bounded_array_says_why_its_members_wait() -> None:
    core = scheduler(4)
    core.step(0, [submitted("a", array_count=2, array_at_most=1)])
    assert why_waiting(core.state, core.policies, "a_1", 0)


def test_a_zero_request_does_not_hide_idle_nodes_of_another_kind() -> None:
    """Both fit: z takes the three small nodes, n one of the two large ones, in the same pass."""
    core = scheduler(MEMORY)
    told = core.step(0, [submitted("z", nodes=3, limit_s=0), submitted("n", limit_s=10)])
    assert [command.job_id for command in told if isinstance(command, StartJob)] == ["z", "n"]
