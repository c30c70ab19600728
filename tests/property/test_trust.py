"""Sharing by trust: under `account` (`user`) no node ever has jobs of two accounts (users) at once."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohabit.app.scenario import policies as policy_names
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core import invariants
from cohabit.core.checkpoint import load, save
from cohabit.core.core import SchedulerCore
from cohabit.model.command import StartJob
from cohabit.model.event import Event, JobFinished
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from tests.breadth import examples
from tests.support.builders import policies, submitted
from tests.support.clusters import SHARED
from tests.support.programs import PROFILES
from tests.support.tenancy import nodes_in

PAIRINGS = ("greedy", "saving", "intensity", "consecutive")
PLACEMENTS = ("share", "spread", "shepherd", "joint", *(f"pair {one}" for one in PAIRINGS))
asked = st.tuples(
    st.sampled_from(["", "physics", "chemistry"]),
    st.sampled_from([-1, 1, 2, 3]),
    st.sampled_from([1, 2, 4, 8, 16]),
    st.sampled_from(["", "neutral", "compact", "single"]),
    st.booleans(),  # whether the job that has run longest ends after it came
)


def circle(share_with: str, job: Job) -> object:
    """What jobs on one node have in common; a new object for a job that trusts no other."""
    if share_with == "account" and job.account:
        return job.account
    return job.user if job.user >= 0 else object()


@pytest.mark.parametrize("share_with", ["account", "user"])
@pytest.mark.parametrize("placement", PLACEMENTS)
@settings(deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.too_slow])
@given(jobs=st.lists(asked, max_size=25), backfill=st.sampled_from(["none", "easy", "2", "conservative", "first-fit"]))
def test_no_node_is_shared_with_a_stranger(
    placement: str, share_with: str, jobs: list[tuple[str, int, int, str, bool]], backfill: str
) -> None:
    name, _, pairing = placement.partition(" ")
    config = PolicyConfig(placement=name, backfill=backfill, share_with=share_with, pairing=pairing or None)
    core = SchedulerCore(SHARED, policy_names.build(config), profiles=PROFILES)
    running: list[StartJob] = []
    known: dict[str, Job] = {}

    def step(now_s: int, event: Event) -> None:
        began = [one for one in core.step(now_s * SECOND, [event]) if isinstance(one, StartJob)]
        running.extend(began)
        invariants.check(core.state, now_s * SECOND)
        for node in range(SHARED.nodes):
            there = [known[one.job_id] for one in running if node in nodes_in(one.nodes)]
            assert len({circle(share_with, job) for job in there}) <= 1, there

    for number, (account, user, processes, program, ends) in enumerate(jobs):
        one = submitted(f"j{number}", processes=processes, program=program, user=user, account=account, limit_s=60.0)
        known[one.job.job_id] = one.job
        step(2 * number, one)
        if ends and running:
            step(2 * number + 1, JobFinished(running.pop(0).job_id, 1))
        if number == len(jobs) // 2:
            core = load(save(core), SHARED, core.policies)
    now_s = 2 * len(jobs)
    while running:
        now_s += 1
        step(now_s, JobFinished(running.pop(0).job_id, 1))
    assert not core.state.rows, "every job has run"


@pytest.mark.parametrize(("share_with", "together"), [("anybody", 6), ("account", 4), ("user", 2)])
def test_as_many_share_a_node_as_trust_each_other(share_with: str, together: int) -> None:
    """Jobs of a stranger before them in the queue, described alike, do not keep them back."""
    chosen = replace(policies("fcfs", "first-fit", None, "share"), share_with=share_with)
    core = SchedulerCore(SHARED, chosen)
    whole = [submitted(f"whole{number}", processes=8, exclusive=True) for number in range(3)]
    core.step(0, [*whole, submitted("own", processes=1, user=1, account="physics")])
    people = [(2, "chemistry"), (1, "physics"), (3, "physics"), (2, ""), (2, "physics")]
    arrived: list[Event] = [
        submitted(f"j{at}", processes=1, user=user, account=account) for at, (user, account) in enumerate(people)
    ]
    begun = [one.job_id for one in core.step(SECOND, arrived) if isinstance(one, StartJob)]
    assert len(begun) + 1 == together
    assert share_with == "anybody" or "j1" in begun
