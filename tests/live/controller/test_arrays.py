"""Arrays in a core that runs for long: many members cost little, and a checkpoint does not change who comes next."""

from __future__ import annotations

import time

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core import checkpoint
from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import uniform_cluster
from cohabit.model.command import StartJob
from cohabit.model.event import JobFinished, JobSubmitted, NodeDown
from cohabit.model.job import Job
from cohabit.model.units import SECOND


def started(commands: list[object]) -> list[StartJob]:
    return [one for one in commands if isinstance(one, StartJob)]


def test_members_go_in_the_same_order_from_a_checkpoint() -> None:
    """By name the eleventh would come second."""
    cluster, policies = uniform_cluster(4), build(PolicyConfig())
    core = SchedulerCore(cluster, policies)
    core.step(0, [JobSubmitted(Job("many", SECOND, array_count=15, array_at_most=2))])
    for number in range(3):
        again = checkpoint.load(checkpoint.save(core), cluster, policies)
        ends = [JobFinished(f"many_{number}", 1)]
        orders = core.step(number + 1, ends)
        assert again.step(number + 1, ends) == orders
        assert [one.job_id for one in started(list(orders))] == [f"many_{number + 2}"]
    assert checkpoint.save(checkpoint.load(checkpoint.save(core), cluster, policies)) == checkpoint.save(core)


def test_a_lost_node_takes_the_same_jobs_from_a_checkpoint() -> None:
    cluster, policies = uniform_cluster(12), build(PolicyConfig())
    core = SchedulerCore(cluster, policies)
    core.step(0, [JobSubmitted(Job(f"j{number}", SECOND)) for number in range(12)])
    again = checkpoint.load(checkpoint.save(core), cluster, policies)
    lost = [NodeDown(node) for node in (11, 3, 7)]
    assert again.step(1, lost) == core.step(1, lost)


def test_a_large_bounded_array_is_taken_and_ended_soon() -> None:
    core = SchedulerCore(uniform_cluster(8), build(PolicyConfig()))
    began = time.process_time()
    running = started(list(core.step(0, [JobSubmitted(Job("many", SECOND, array_count=2000, array_at_most=4))])))
    ended = 0
    while running:
        ended += len(running)
        running = started(list(core.step(ended, [JobFinished(one.job_id, 1) for one in running])))
    assert (ended, core.state.finished["many"], core.state.members) == (2000, "done", {})
    assert time.process_time() - began < 20  # it took minutes when every member looked at all others
