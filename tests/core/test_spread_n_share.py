"""Spread-n-Share's scheduling, one small story per numbered requirement (S1 to S41, S80 to S83).

The machine is clusters.SHARED: 4 nodes of 8 cores, 10 ways, 40 GB/s, 4 cache partitions, at least 2 ways for a job.
What the programs need is in support/programs.py. Demands, classes and trials are tested in test_profiles_and_trials.py.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.core.columns import AGE_RUNS
from cohabit.core.core import SchedulerCore
from cohabit.core.kinds import Kinds
from cohabit.core.ledger import Ledger
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import CancelJob, SetShares, StartJob
from cohabit.model.event import Event, JobFinished, NodeDown, NodeDrained, StartRefused
from cohabit.model.profile import Tenant, footprint
from cohabit.model.resources import CORES
from cohabit.model.units import SECOND
from cohabit.policy.options import PlacementOptions
from cohabit.policy.partition.equal import Equal
from cohabit.policy.placement.spread import Spread
from tests.core.shared_story import ONE_NODE, TWO_NODES, UNLEARNED, must, story
from tests.support.builders import policies, sharing_scheduler, submitted
from tests.support.programs import FLAT, NEUTRAL, PROFILES, STREAM, measured, profile

# ---- footprints and the three strategies ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("processes", "cores", "scale", "nodes", "per_node"),
    [(32, 28, 1, 2, 16), (16, 28, 8, 8, 2), (28, 28, 8, 8, 4), (28, 28, 1, 1, 28), (57, 28, 2, 6, 10)],
)
def test_s3_nodes_and_cores_of_a_footprint(processes: int, cores: int, scale: int, nodes: int, per_node: int) -> None:
    assert footprint(processes, cores, scale) == (nodes, per_node)
    if (processes, scale) == (32, 1):
        assert nodes * cores - processes == 24, "idle cores under CE"


@given(st.integers(1, 300), st.integers(1, 64), st.sampled_from([1, 2, 4, 8]))
def test_s3_a_footprint_holds_all_processes_and_no_more_than_a_node_has(processes: int, cores: int, scale: int) -> None:
    nodes, per_node = footprint(processes, cores, scale)
    assert nodes == scale * -(-processes // cores)
    assert processes <= nodes * per_node < processes + nodes
    assert per_node <= cores


def test_s1_three_strategies_for_one_queue() -> None:
    """A full node's worth of stream and two halves of neutral on two nodes.

    CE gives whole nodes and lets the third wait. CS packs each job into one node, beside others. SNS spreads stream
    over both, where it is faster, and the others beside it.
    """
    found = {}
    for placement in ("exclusive", "share", "spread"):
        core = SchedulerCore(TWO_NODES, policies("age", "first-fit", None, placement), profiles=PROFILES)
        jobs = [submitted("a", program="stream", processes=8)]
        jobs += [submitted(name, program="neutral", processes=4) for name in "bc"]
        found[placement] = {one.job_id: one.nodes for one in core.step(0, jobs) if isinstance(one, StartJob)}
    assert found["exclusive"] == {"a": ((0, 1),), "b": ((1, 1),)}
    assert found["share"] == {"a": ((0, 1),), "b": ((1, 1),), "c": ((1, 1),)}
    assert found["spread"] == {"a": ((0, 2),), "b": ((0, 1),), "c": ((1, 1),)}


def test_s4_cs_uses_the_lowest_scale_that_fits_now() -> None:
    tell = story(placement="share")
    for node in range(4):
        must(tell.run(0, f"half{node}", "stream", 5))
    started = must(tell.run(0, "a", "stream", 8))
    assert (started.scale, started.cores, started.nodes) == (4, 2, ((0, 4),)), "3 free cores on every node"
    tell(1, JobFinished("half2", 1))
    assert must(tell.run(1, "b", processes=6)).scale == 1, "not forced to spread"


def test_s4_cs_knows_no_profile_and_divides_no_cache() -> None:
    tell = story(placement="share", cluster=ONE_NODE)
    commands = tell(0, *(submitted(name, program="stream", processes=4) for name in "ab"))
    assert [type(command) for command in commands] == [StartJob, StartJob], "36 GB/s twice on one node of 40"
    assert not tell.shares


def test_s9_a_single_node_program_is_never_spread() -> None:
    tell = story()
    for node in range(4):
        must(tell.run(0, f"half{node}", "neutral", 5))
    assert must(tell.run(0, "other", "neutral", 8)).scale == 4
    assert tell.run(1, "whole", "single", 8) is None, "it waits for a node with 8 free cores"
    assert must(tell.run(2, "two", "neutral", 1)).scale == 1
    assert tell.run(3, "told", "neutral", 4, single_node=True) is None


def test_s9_who_cannot_span_nodes_but_needs_several_is_refused() -> None:
    for placement in ("share", "spread"):
        (told,) = story(placement=placement)(0, submitted("a", processes=9, single_node=True))
        assert isinstance(told, CancelJob)
        assert "cannot span nodes" in told.reason


def test_an_exclusive_job_is_alone() -> None:
    tell = story(cluster=ONE_NODE)
    must(tell.run(0, "a", "neutral", 2))
    assert tell.run(1, "b", "neutral", 2, exclusive=True) is None
    assert "empty" in tell.why("b")
    assert tell.starts(2, JobFinished("a", 1))["b"].exclusive
    assert tell.run(3, "c", "neutral", 2) is None
    assert tell.shares == {0: {"b": (0, 10)}}


def test_whole_nodes_are_whole_nodes() -> None:
    for placement in ("share", "spread"):
        tell = story(placement=placement)
        started = tell.starts(0, submitted("a", nodes=2), submitted("b", nodes=1), submitted("c", nodes=2))
        assert {name: (one.nodes, one.exclusive) for name, one in started.items()} == {
            "a": (((0, 2),), True), "b": (((2, 1),), True)
        }  # fmt: skip


# ---- where and at which scale ---------------------------------------------------------------------------------------


def test_s27_scales_are_tried_by_profiled_performance() -> None:
    """stream: 60 s on four nodes, 70 s on two, 100 s on one; each needs 14, 24 or 36 GB/s of every node."""
    tell = story()
    assert must(tell.run(0, "a", "stream")).scale == 4
    tell(0, NodeDrained(3))
    assert must(tell.run(0, "b", "stream")).scale == 2, "the second best, with three nodes"
    tell(0, NodeDrained(2), NodeDrained(1))
    assert tell.run(0, "c", "stream") is None
    assert [part.split(":")[0] for part in tell.why("c").split("; ") if part.startswith("scale")] == [
        "scale 4", "scale 2", "scale 1"
    ]  # fmt: skip


def test_s28_a_node_needs_cores_and_ways_and_bandwidth() -> None:
    fat = profile("fat", measured(1, 10.0, {2: 0.1, 8: 0.9, 10: 1.0}, 1.0), processes=2)
    tell = story(cluster=ONE_NODE, profiles=(fat, STREAM, NEUTRAL))
    assert must(tell.run(0, "ways", "fat", 2)).ways == 8
    assert tell.run(1, "more ways", "fat", 2) is None
    assert "lacks 6 ways" in tell.why("more ways")
    assert must(tell.run(2, "few ways", "neutral", 2)).ways == 2
    tell = story(cluster=ONE_NODE, profiles=(fat, STREAM, NEUTRAL))
    assert must(tell.run(0, "gbs", "stream", 4)).bandwidth_mbs == 18_000
    assert must(tell.run(0, "gbs2", "stream", 4)).bandwidth_mbs == 18_000
    assert tell.run(1, "cores", "neutral", 1) is None
    assert "lacks 1 core: job gbs and job gbs2 run there" in tell.why("cores")
    tell = story(cluster=ONE_NODE, profiles=(fat, profile("gulps", measured(1, 10.0, FLAT, 25.0), processes=2)))
    assert must(tell.run(0, "a", "gulps", 2)).bandwidth_mbs == 25_000
    assert tell.run(1, "b", "gulps", 2) is None
    assert "lacks 10.0 GB/s" in tell.why("b")


def small_ledger(nodes: int) -> Ledger:
    return Ledger(Kinds(Cluster((NodeGroup(nodes, cores=8),))), (CORES,))


def occupied(*cores: int) -> Ledger:
    """One node for each, so many cores taken."""
    ledger = small_ledger(len(cores))
    for row, taken in enumerate(cores):
        for other in range(len(cores)):
            ledger.set_condition(other, int(other != row))
        parts = ledger.find(((taken,),), 1) if taken else None
        if parts:
            ledger.book(row, parts, ((taken,),))
    for node in range(len(cores)):
        ledger.set_condition(node, 0)
    return ledger


@pytest.mark.parametrize(
    ("cores", "need", "nodes", "expected"),
    [
        ((0, 4, 4), 2, 2, [1, 2]),  # one group of equal idle cores, though node 0 is idler
        ((0, 4, 5), 2, 2, [0, 1]),  # no group is enough: the idlest of all
        ((6, 4, 4, 6), 2, 2, [1, 2]),  # two groups are enough: the idler one
        ((4, 4, 4), 2, 2, [0, 1]),  # a tie goes to the lowest numbers
        ((4, 0, 4, 0), 4, 3, [0, 1, 3]),
    ],
)
def test_s29_one_group_of_equal_idle_cores_first(
    cores: tuple[int, ...], need: int, nodes: int, expected: list[int]
) -> None:
    ledger, takes = occupied(*cores), ((need,),)
    parts = ledger.find(takes, nodes)
    assert parts is not None
    assert ledger.lowest(parts).tolist() == expected


@pytest.mark.parametrize(("beta", "node"), [(2.0, 0), (0.0, 1), (1.0, 1), (4.0, 0)])
def test_s30_the_idlest_node_by_cores_bandwidth_and_beta_times_ways(beta: float, node: int) -> None:
    """Node 0: 1/2 + 20/40 + beta 2/10. Node 1: 1/2 + 4/40 + beta 5/10. They are equal at beta 4/3."""
    draws = profile("draws", measured(1, 9.0, FLAT, 20.0), processes=4)
    caches = profile("caches", measured(1, 9.0, {2: 0.1, 5: 0.9, 10: 1.0}, 4.0), processes=4)
    tell = story(cluster=TWO_NODES, profiles=(draws, caches, NEUTRAL), placer=Spread(UNLEARNED._replace(beta=beta)))
    assert must(tell.run(0, "a", "draws", 4)).nodes == ((0, 1),)
    assert must(tell.run(0, "b", "caches", 4)).nodes == ((1, 1),)
    assert must(tell.run(0, "c", "neutral", 2)).nodes == ((node, 1),)


def test_s31_what_a_job_takes_is_deducted_on_each_of_its_nodes() -> None:
    tell = story()
    started = must(tell.run(0, "a", "stream"))
    assert (started.cores, started.ways, started.bandwidth_mbs, started.nodes) == (2, 2, 14_000, ((0, 4),))
    ledger = tell.core.state.ledger
    assert ledger is not None
    (only,) = ledger.classes()
    left = dict(zip((one.name for one in ledger.dimensions), ledger.free[:, only].tolist(), strict=True))
    assert {name: left[name] for name in ("cores", "ways", "bandwidth", "partitions")} == {
        "cores": 6, "ways": 8, "bandwidth": 26_000, "partitions": 3
    }  # fmt: skip


def test_s32_a_job_that_fits_at_no_scale_is_passed_over() -> None:
    tell = story(cluster=ONE_NODE)
    must(tell.run(0, "a", "neutral", 4))
    assert list(tell.starts(1, submitted("wide", processes=8), submitted("b", program="neutral", processes=4))) == ["b"]


def test_without_backfilling_nobody_is_passed_over() -> None:
    tell = story(cluster=ONE_NODE, backfill="none")
    must(tell.run(0, "a", "neutral", 4))
    assert not tell.starts(1, submitted("wide", processes=8), submitted("b", program="neutral", processes=4))
    assert "nothing may overtake" in tell.why("b")


@pytest.mark.parametrize("placement", ["exclusive", "share", "spread"])
def test_s33_nobody_overtakes_who_has_reached_the_age_limit(placement: str) -> None:
    core = SchedulerCore(TWO_NODES, policies("age", "first-fit", None, placement, 10.0), profiles=PROFILES)

    def starts(now_s: int, *events: Event) -> list[str]:
        return [one.job_id for one in core.step(now_s * SECOND, events) if isinstance(one, StartJob)]

    assert starts(0, submitted("a", processes=8)) == ["a"]
    assert starts(1, submitted("wide", processes=16, exclusive=True)) == []
    assert starts(2, submitted("b", processes=8)) == ["b"], "it may be overtaken as yet"
    assert starts(10, JobFinished("b", 1), submitted("c", processes=8)) == ["c"], "after 9 s as well"
    assert starts(11, JobFinished("c", 1), submitted("d", processes=8)) == [], "after 10 s no more"
    assert starts(12, JobFinished("a", 1)) == ["wide"]
    assert starts(13, JobFinished("wide", 1)) == ["d"]


def test_s33_the_age_limit_may_be_so_many_mean_run_times() -> None:
    """Refused starts and lost runs are no runs: they would make everybody old."""
    tell = story()
    tell.core.state.gauges[AGE_RUNS] = 4000
    assert tell.core.view(0).age_limit_us() > 10**15, "nothing has run yet"
    must(tell.run(0, "a"))
    must(tell.run(0, "b"))
    must(tell.run(0, "c"))
    tell(10, JobFinished("a", 1), NodeDown(1))
    tell(10, StartRefused("c", 1))
    assert tell.core.view(0).age_limit_us() == 40 * SECOND


def test_s34_neutral_jobs_spread_only_to_use_what_is_left_over() -> None:
    tell = story()
    assert must(tell.run(0, "a", "neutral")).scale == 1, "though it is 3 % faster on four nodes"
    for number in range(3):
        must(tell.run(0, f"half{number}", "neutral", 6))
    tell(0, JobFinished("a", 1))
    must(tell.run(1, "b", "neutral", 6))
    assert must(tell.run(1, "c", "neutral", 8)).scale == 4, "two cores are left on each node"


def test_s34_compact_jobs_stay_compact() -> None:
    """8 % slower on two nodes is within alpha; it waits for one node all the same."""
    tell = story()
    for number in range(4):
        must(tell.run(0, f"half{number}", "neutral", 4))
    assert tell.run(1, "a", "compact", 8) is None
    assert must(tell.run(1, "b", "neutral", 8)).scale == 2


def test_scales_that_lose_more_than_alpha_allows_are_not_tried() -> None:
    slow = profile("slow", measured(1, 100.0, FLAT, 30.0), measured(2, 80.0, FLAT, 1.0), measured(4, 115.0, FLAT, 1.0))
    core = sharing_scheduler(profiles=(slow,), placer=Spread(UNLEARNED))
    core.step(0, [submitted("a", program="slow", processes=8), submitted("b", program="slow", processes=8, alpha=0.8)])
    view, spread = core.view(0), core.policies.placer
    assert isinstance(spread, Spread)
    scales = {
        name: [one.scale for one in spread.demands(core.state.rows[name], slow, view)] for name in core.state.rows
    }
    assert scales == {"a": [2, 1], "b": [2, 1, 4]}


# ---- the cache ------------------------------------------------------------------------------------------------------


def test_s24_at_least_two_ways_and_no_more_jobs_than_partitions() -> None:
    tell = story(cluster=ONE_NODE)
    found = [tell.run(0, f"j{number}", "neutral", 1) for number in range(5)]
    assert [one.ways if one else None for one in found] == [2, 2, 2, 2, None], "four partitions, two ways each"
    assert "a cache partition" in tell.why("j4")


def test_s25_one_mask_for_all_sockets() -> None:
    """A share is (job, first way, ways): there is no way to say something else for the other socket."""
    tell = story(cluster=ONE_NODE)
    (_, told) = tell(0, submitted("a", program="neutral", processes=1))
    assert told == SetShares(((0, 1),), (("a", 0, 10),))


def test_s35_spare_ways_are_given_away_and_reclaimed() -> None:
    tell = story(cluster=ONE_NODE)
    booked = must(tell.run(0, "a", "neutral", 2)).ways
    assert (booked, tell.shares[0]) == (2, {"a": (0, 10)}), "what is booked is one thing, what it has another"
    must(tell.run(1, "b", "neutral", 2))
    assert tell.shares[0] == {"a": (0, 5), "b": (5, 5)}
    must(tell.run(2, "c", "neutral", 2))
    assert tell.shares[0] == {"a": (0, 4), "b": (4, 3), "c": (7, 3)}
    tell(3, JobFinished("a", 1))
    assert tell.shares[0] == {"b": (0, 5), "c": (5, 5)}
    must(tell.run(4, "d", "cached", 2, alpha=0.7))
    assert {name: ways for name, (_, ways) in tell.shares[0].items()} == {"b": 3, "c": 3, "d": 4}


def test_s35_only_nodes_whose_residents_changed_are_divided_anew() -> None:
    tell = story()
    must(tell.run(0, "wide", "stream"))
    assert set(tell.shares) == {0, 1, 2, 3}
    told = tell(1, submitted("a", program="neutral", processes=1))
    assert [one.nodes for one in told if isinstance(one, SetShares)] == [((0, 1),)]
    told = tell(2, JobFinished("a", 1))
    assert [one.nodes for one in told if isinstance(one, SetShares)] == [((0, 1),)]


def test_s35_every_node_is_divided_anew_when_several_change_at_once() -> None:
    tell = story()
    must(tell.run(0, "wide", "stream"))
    must(tell.run(1, "a", "neutral", 1))
    must(tell.run(1, "b", "neutral", 1))
    assert (tell.shares[0], tell.shares[1]) == ({"wide": (0, 5), "a": (5, 5)}, {"wide": (0, 5), "b": (5, 5)})
    tell(2, JobFinished("a", 1), JobFinished("b", 1))
    assert tell.shares == {node: {"wide": (0, 10)} for node in range(4)}


@given(st.lists(st.integers(0, 6), min_size=1, max_size=10), st.integers(0, 10))
def test_s80_give_away_and_reclaim_conserve_every_way(booked: list[int], spare: int) -> None:
    ways = sum(booked) + spare
    tenants = [Tenant("p", 1, 1, own, 0.0, 1.0, None) for own in booked]
    shares = Equal(PlacementOptions()).split(tenants, NodeGroup(1, 16, ways=ways))
    assert sum(own for _, own in shares) == ways
    assert [first for first, _ in shares] == [sum(own for _, own in shares[:place]) for place in range(len(shares))]
    extra = [own - least for (_, own), least in zip(shares, booked, strict=True)]
    assert max(extra) - min(extra) <= 1, "equal shares"
    assert min(extra) >= 0
