"""Shared nodes over time: bookings, losses, last resorts, ablations, and the convergence of SNS to CE (S36 to S83)."""

from __future__ import annotations

import heapq
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cohabit.core.commit import commit
from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Cluster, NodeGroup, Window
from cohabit.model.command import CancelJob, SetShares, StartJob, WakeAt
from cohabit.model.event import JobFinished, JobStarted, NodeDown, NodeDrained, NodeUp, StartRefused, Woken
from cohabit.model.plan import Placement, Plan, Start
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.model.resources import Dimension, Wish
from cohabit.model.units import SECOND
from cohabit.policy.placement.spread import Spread
from tests.breadth import examples
from tests.core.shared_story import ONE_NODE, TWO_NODES, UNLEARNED, must, story
from tests.support.builders import policies, submitted
from tests.support.clusters import MIB, SHARED
from tests.support.programs import FLAT, KNOWN, NEUTRAL, PROFILES, curve, measured, profile

# ---- bookings -------------------------------------------------------------------------------------------------------


def test_s36_bandwidth_is_booked_by_solo_averages_and_told_for_those_who_can_enforce_it() -> None:
    """cached on two nodes: 2 GB/s of each; its curve at the ways it books, not at all ways."""
    started = must(story().run(0, "a", "cached"))
    assert (started.scale, started.ways, started.bandwidth_mbs) == (2, 4, 2000)
    started = must(story(cluster=ONE_NODE).run(0, "a", "cached"))
    assert (started.scale, started.ways, started.bandwidth_mbs) == (1, 8, 4500), "9 at 2 ways, 3 at 10: 4.5 at 8"


def test_s36_who_draws_more_than_a_node_has_gets_it_alone() -> None:
    tell = story(placer=Spread(UNLEARNED))
    started = must(tell.run(0, "a", "hungry"))
    assert started.exclusive
    assert (started.scale, started.nodes, started.bandwidth_mbs) == (2, ((0, 2),), 0)
    assert must(tell.run(0, "b", "neutral", 1)).nodes == ((2, 1),)


def test_s38_a_running_job_is_never_resized_or_moved() -> None:
    tell = story()
    first = must(tell.run(0, "a", "stream", limit_s=1000))
    ledger = tell.core.state.ledger
    assert ledger is not None
    for number in range(1, 12):
        commands = tell(number, submitted(f"j{number}", program="neutral", processes=2))
        commands += tell(number + 0.5, JobFinished(f"j{number - 3}", 1))
        assert all(one.job_id != "a" for one in commands if isinstance(one, StartJob | CancelJob))
        assert ledger.nodes_of(tell.core.state.rows["a"]).tolist() == [0, 1, 2, 3]
    assert first.nodes == ((0, 4),)
    assert tell.shares[0]["a"][1] >= 2, "only its ways change"


NETWORK = Dimension(
    "network", "network MB/s", lambda node: 5000,
    lambda wish: round(1000 * network_gbs(wish)), weight=1.0,
)  # fmt: skip


def network_gbs(wish: Wish) -> float:
    known = wish.profile.at_scale(wish.scale) if wish.profile is not None else None
    return known.counters.get("network_gbs", 0.0) if known is not None else 0.0


def test_s39_one_more_dimension_without_touching_the_algorithm() -> None:
    """A node has 5 GB/s of network, a job takes two: two fit, the third waits for network and for nothing else."""
    once = ScaleProfile(1, 9.0, curve(FLAT), curve({2: 0.1, 10: 0.1}), counters={"network_gbs": 2.0})
    chatty = Profile("chatty", 2, (once,))
    tell = story(cluster=ONE_NODE, profiles=(chatty, NEUTRAL), placer=Spread(UNLEARNED, more=(NETWORK,)))
    assert [tell.run(0, name, "chatty", 2) is not None for name in "abc"] == [True, True, False]
    assert "lacks 1000 network MB/s" in tell.why("c")
    assert tell.run(1, "quiet", "neutral", 2) is not None, "who needs none is not kept out"
    without = story(cluster=ONE_NODE, profiles=(chatty, NEUTRAL), placer=Spread(UNLEARNED))
    assert [without.run(0, name, "chatty", 2) is not None for name in "abc"] == [True, True, True]


def test_s39_the_idlest_node_counts_the_new_dimension_too() -> None:
    flat, little = curve(FLAT), curve({2: 4.0, 10: 4.0})
    chatty = Profile("chatty", 4, (ScaleProfile(1, 9.0, flat, little, counters={"network_gbs": 4.0}),))
    quiet = Profile("quiet", 4, (ScaleProfile(1, 9.0, flat, curve({2: 8.0, 10: 8.0})),))
    for placer, node in ((Spread(UNLEARNED, more=(NETWORK,)), 1), (Spread(UNLEARNED), 0)):
        tell = story(cluster=TWO_NODES, profiles=(chatty, quiet), placer=placer)
        must(tell.run(0, "a", "chatty", 4))
        must(tell.run(0, "b", "quiet", 4))
        assert must(tell.run(0, "c", "quiet", 2)).nodes == ((node, 1),)


def test_s41_operators_see_what_each_node_has_left_and_what_a_waiting_job_lacks() -> None:
    tell = story(cluster=TWO_NODES)
    must(tell.run(0, "a", "stream", 8))
    must(tell.run(0, "b", "neutral", 3))
    assert tell.run(1, "c", "single", 8) is None
    said = tell.why("c")
    assert said.startswith("needs 8 cores, 8.0 GB/s and 2 ways on one node; none has that free")
    assert "the nearest, node 1, lacks 4 cores: job a runs there" in said
    assert "by requested times there is room in 1 min 40 s" in said


def test_what_other_users_call_their_jobs_is_not_said() -> None:
    tell = story(cluster=ONE_NODE)
    must(tell.run(0, "secret", "neutral", 8, user=1))
    assert tell.run(1, "mine", "neutral", 8, user=2) is None
    assert "lacks 8 cores: a job of another user runs there; by requested times there is room in" in tell.why("mine", 1)
    assert tell.run(2, "next", "neutral", 8, user=1) is None
    assert "job secret runs there" in tell.why("next", 2)
    assert tell.why("next", 2).endswith("; 1 job ahead of it")


# ---- what goes wrong ------------------------------------------------------------------------------------------------


def test_a_lost_node_frees_the_others_of_its_jobs() -> None:
    tell = story()
    must(tell.run(0, "wide", "stream"))
    must(tell.run(0, "near", "neutral", 4))
    told = tell(1, NodeDown(0))
    assert {one.job_id for one in told if isinstance(one, CancelJob)} == {"wide", "near"}
    again = {one.job_id: one for one in told if isinstance(one, StartJob)}
    assert again["wide"].scale == 2, "three nodes are left"
    assert 0 not in {first for first, _ in again["wide"].nodes}
    assert tell.starts(2, NodeUp(0)) == {}
    assert must(tell.run(3, "c", "neutral", 8)).nodes == ((0, 1),)


def test_a_drained_node_keeps_its_jobs_and_takes_no_more() -> None:
    tell = story(cluster=ONE_NODE)
    must(tell.run(0, "a", "neutral", 2))
    tell(1, NodeDrained(0))
    assert tell.run(2, "b", "neutral", 2) is None
    assert tell.starts(3, NodeUp(0)).keys() == {"b"}
    assert tell.shares[0] == {"a": (0, 5), "b": (5, 5)}


def test_a_refused_start_gives_everything_back_and_waits() -> None:
    tell = story(cluster=ONE_NODE)
    must(tell.run(0, "a", "neutral", 2))
    must(tell.run(0, "b", "neutral", 2))
    told = tell(1, StartRefused("b", 1, "no", 5 * SECOND))
    assert told == [WakeAt(6 * SECOND), SetShares(((0, 1),), (("a", 0, 10),))]
    assert tell.starts(6, Woken())["b"].attempt == 2
    assert tell(7, JobStarted("b", 2)) == []


def test_commit_refuses_what_does_not_hold_on_shared_nodes() -> None:
    tell = story(cluster=TWO_NODES)
    must(tell.run(0, "a", "neutral", 8))
    tell(0, submitted("b", program="compact", processes=16))
    state = tell.core.state
    row, ledger = state.rows["b"], state.ledger
    assert ledger is not None
    takes = ((1, 0, 2, 1, 0),)
    good = Placement(((1, 1),), 1, 1, 2, 0, False, "run", takes)
    wrong = [
        good, replace(good, ranges=()), replace(good, ranges=((0, 1),)), replace(good, ranges=((1, 1), (1, 1))),
        replace(good, ranges=((1, 2),)), replace(good, ranges=((0, 2),), takes=((16, 0, 2, 1, 0),)),
    ]  # fmt: skip
    for placement in wrong:  # `good` itself has one node where the job needs two
        action = Start(row, placement)
        assert commit(state, Plan([action]), 0) == ([], [action])
    assert tell.starts(1, JobFinished("a", 1)).keys() == {"b"}


WITH_MEMORY = Cluster((NodeGroup(1, cores=4, memory_bytes=5 * MIB - 1, ways=10, bandwidth_gbs=((4, 33.3333),)),))


@pytest.mark.parametrize("placement", ["share", "spread"])
def test_nobody_waits_for_ever_for_a_rounding(placement: str) -> None:
    """All the memory, or all but a hair of the bandwidth, of a node: rounding up must not shut it out of every node."""
    brim = profile("brim", measured(1, 9.0, FLAT, 33.33325), processes=4)
    for asked in ({"memory_bytes": (5 * MIB - 1) // 4}, {"program": "brim"}):
        tell = story(cluster=WITH_MEMORY, placement=placement, profiles=(brim, NEUTRAL))
        assert tell.run(0, "a", processes=4, **asked) is not None


def test_nobody_waits_for_ever_for_nodes_of_one_kind() -> None:
    """Three nodes with the bandwidth it was promised do not exist; three empty ones do."""
    cluster = Cluster(
        (
            NodeGroup(2, 8, 0, 10, 2, bandwidth_gbs=((8, 100.0),)),
            NodeGroup(2, 8, 0, 10, 2, bandwidth_gbs=((8, 10.0),), name="slow"),
        )
    )
    thirsty = profile("thirsty", measured(1, 9.0, FLAT, 50.0))
    started = must(story(cluster=cluster, profiles=(thirsty,)).run(0, "a", "thirsty", 24))
    assert (started.exclusive, started.nodes) == (True, ((0, 3),))


def test_a_maintenance_window_closes_shared_nodes_in_time() -> None:
    cluster = replace(ONE_NODE, windows=(Window(50 * SECOND, 80 * SECOND, 0, 1),))
    tell = story(cluster=cluster)
    must(tell.run(0, "a", "neutral", 2, limit_s=50))
    assert tell.run(0, "b", "neutral", 2, limit_s=60) is None
    assert "maintenance window" in tell.why("b")
    assert tell.starts(80, JobFinished("a", 1), Woken()).keys() == {"b"}


# ---- ablations and convergence --------------------------------------------------------------------------------------


def test_s83_without_cache_partitioning_nothing_is_booked_or_divided() -> None:
    tell = story(cluster=ONE_NODE, placer=Spread(UNLEARNED._replace(divide_cache=False)))
    tell.core.policies = replace(tell.core.policies, partitioner=None)
    found = [must(tell.run(0, f"j{number}", "cached", 1)) for number in range(6)]
    assert [one.ways for one in found] == [0] * 6, "neither ways nor partitions limit them"
    assert all(one.bandwidth_mbs > 0 for one in found)


def test_s83_without_booking_bandwidth_more_fit() -> None:
    for booked, fit in ((True, 1), (False, 2)):
        tell = story(cluster=ONE_NODE, placer=Spread(UNLEARNED._replace(book_bandwidth=booked)))
        starts = [tell.run(0, name, "stream", 4, alpha=0.9) for name in "ab"]
        assert sum(one is not None for one in starts) >= fit
        assert all((one.bandwidth_mbs > 0) == booked for one in starts if one is not None)


def test_s83_without_spreading() -> None:
    assert must(story(placer=Spread(UNLEARNED._replace(scales=(1,)))).run(0, "a", "stream")).scale == 1


Arrival = tuple[int, int, int]  # submitted at, nodes, run time; in seconds
arrivals = st.lists(st.tuples(st.integers(0, 30), st.integers(1, 4), st.integers(1, 20)), min_size=1, max_size=15)


def played(core: SchedulerCore, jobs: list[Arrival], program: str) -> list[tuple[int, str, object, int]]:
    """A little world: jobs come, run and end; returns who started when, where and at which scale."""
    events = [(at, 0, number) for number, (at, _, _) in enumerate(jobs)]
    heapq.heapify(events)
    starts = []
    while events:
        at, ends, number = heapq.heappop(events)
        told = (
            JobFinished(str(number), 1)
            if ends
            else submitted(str(number), program=program, processes=8 * jobs[number][1], limit_s=jobs[number][2])
        )
        for command in core.step(at * SECOND, [told]):
            if isinstance(command, StartJob):
                starts.append((at, command.job_id, command.nodes, command.scale))
                heapq.heappush(events, (at + jobs[int(command.job_id)][2], 1, int(command.job_id)))
    return starts


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(arrivals, st.sampled_from(["neutral", "compact", "single"]), st.sampled_from([0.0, 5.0]))
def test_s82_full_nodes_of_jobs_that_do_not_scale_give_the_schedule_of_ce(
    jobs: list[Arrival], program: str, age_limit_s: float
) -> None:
    """Ratio 0 of experiment 7: the same jobs on the same nodes at the same times, every one at scale 1."""
    ce, cs, sns = (
        played(
            SchedulerCore(SHARED, policies("age", "first-fit", None, placement, age_limit_s), profiles=PROFILES),
            jobs, program,
        )
        for placement in ("exclusive", "share", "spread")
    )  # fmt: skip
    assert len(ce) == len(jobs), "every job runs"
    assert ce == sns
    assert all(scale == 1 for *_, scale in sns)
    assert [(at, name, nodes) for at, name, nodes, _ in cs] == [(at, name, nodes) for at, name, nodes, _ in ce]


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(arrivals, st.sampled_from(sorted(KNOWN)), st.sampled_from(["share", "spread"]), st.sampled_from([0.0, 1.0, 9.0]))
def test_s80_every_job_of_a_finite_sequence_runs(
    jobs: list[Arrival], program: str, placement: str, age_limit_s: float
) -> None:
    """S32 and S33: no starvation, whatever comes, with and without an age limit."""
    core = SchedulerCore(SHARED, policies("age", "first-fit", None, placement, age_limit_s), profiles=PROFILES)
    assert sorted(name for _, name, _, _ in played(core, jobs, program)) == sorted(map(str, range(len(jobs))))
    assert not core.state.rows


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(60), suppress_health_check=[HealthCheck.too_slow])
@given(arrivals, st.sampled_from(["share", "spread"]))
def test_s33_no_later_job_starts_while_an_aged_one_waits(jobs: list[Arrival], placement: str) -> None:
    limit_s = 5
    core = SchedulerCore(SHARED, policies("age", "first-fit", None, placement, float(limit_s)), profiles=PROFILES)
    starts = {int(name): at for at, name, _, _ in played(core, jobs, "neutral")}
    came = {number: (at, number) for number, (at, _, _) in enumerate(jobs)}
    for old, began in starts.items():
        for young, other in starts.items():
            if came[young] > came[old] and jobs[old][0] + limit_s <= other < began:
                raise AssertionError(f"{young} overtook {old}, which had waited {other - jobs[old][0]} s")
