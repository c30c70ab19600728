"""Shepherd inside the scheduler: where newcomers go, how the cache is divided after every change, and who moves.

The machine is clusters.SHARED: 4 nodes of 8 cores, 10 ways, 40 GB/s, two nodes a server.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.command import Command, MoveJob
from cohabit.model.event import JobFinished, JobStarted
from cohabit.model.profile import Profile, Tenant
from cohabit.optimise import law
from cohabit.optimise.arrivals import Residents
from cohabit.policy.forecast import Forecast, Kept
from tests.core.shared_story import Story, must
from tests.support.builders import policies, submitted
from tests.support.clusters import SHARED
from tests.support.programs import CACHED, FLAT, KNOWN, PROFILES, STEEP, STREAM, measured, profile

SMALL = (  # two processes each: four fit on a node
    profile("keen", measured(1, 100.0, {1: 0.3, 5: 0.9, 10: 1.0}, {1: 8.0, 10: 1.0}), processes=2),
    profile("calm", measured(1, 100.0, FLAT, 0.5), processes=2),
    profile("busy", measured(1, 100.0, FLAT, 15.0), processes=2),
)
NODE = SHARED.groups[0]


def told(moves: int = 0, cluster: Cluster = SHARED, known: Sequence[Profile] = (*PROFILES, *SMALL)) -> Story:
    chosen = policies("age", "first-fit", None, "shepherd", 0.0, moves)
    return Story(SchedulerCore(cluster, chosen, profiles=known))


def node_of(tell: Story, name: str) -> int:
    ((first, count),) = tell.core.state.ranges_of(tell.core.state.rows[name])
    assert count == 1
    return first


def tenant(one: Profile, cores: int = 2, alpha: float = 0.0) -> Tenant:
    return Tenant(one.program, cores, 1, 0, alpha, 1.0, one)


# ---- where newcomers go -------------------------------------------------------------------------------------------


def test_jobs_that_want_cache_are_kept_apart() -> None:
    tell = told()
    for number, program in enumerate(("keen", "keen", "calm", "calm")):
        must(tell.run(0, f"{program}{number}", program, 2))
    assert sorted(node_of(tell, name) for name in tell.core.state.rows) == [0, 1, 2, 3], "empty nodes first"
    must(tell.run(1, "third", "keen", 2))
    assert node_of(tell, "third") in {node_of(tell, "calm2"), node_of(tell, "calm3")}


def test_a_job_waits_where_a_neighbour_would_fall_below_its_bound() -> None:
    one = Cluster((NodeGroup(1, 8, 0, 10, 2, 4, NODE.bandwidth_gbs),), "shared")
    careful, easy_going = told(cluster=one), told(cluster=one)
    for tell, alpha in ((careful, 0.99), (easy_going, 0.0)):
        must(tell.run(0, "first", "keen", 2, alpha=alpha))
        second = tell.run(1, "second", "keen", 2)
        assert (second is None) == (alpha > 0)
    assert "neighbours would lose more" in careful.why("second", 1)
    assert careful.starts(2, JobFinished("first", 1)).keys() == {"second"}


def test_what_is_not_known_runs_alone_and_is_measured() -> None:
    tell = told()
    start = must(tell.run(0, "a", "unknown", 2))
    assert (start.exclusive, start.purpose) == (True, "time")
    assert must(tell.run(0, "b", "keen", 2)).exclusive is False


# ---- the cache ------------------------------------------------------------------------------------------------------


def test_after_every_change_the_cache_goes_to_whom_it_is_worth_most() -> None:
    tell = told(cluster=Cluster((NodeGroup(1, 8, 0, 10, 2, 4, NODE.bandwidth_gbs),), "shared"))
    must(tell.run(0, "calm", "calm", 2))
    assert tell.shares[0] == {"calm": (0, 10)}
    must(tell.run(1, "keen", "keen", 2))
    assert tell.shares[0]["keen"][1] >= 7, "a job that needs no cache leaves it to the one that does"
    tell(2, JobFinished("keen", 1))
    assert tell.shares[0] == {"calm": (0, 10)}


def test_more_jobs_than_groups_share_masks() -> None:
    tell = told(cluster=Cluster((NodeGroup(1, 8, 0, 10, 2, 3, NODE.bandwidth_gbs),), "shared"))
    for number, program in enumerate(("keen", "calm", "busy", "calm")):
        must(tell.run(0, f"j{number}", program, 2))
    masks = tell.shares[0]
    assert len(masks) == 4
    assert 2 <= len(set(masks.values())) <= 2, "three classes of service, one of them the kernel's"
    ends = sorted(set(masks.values()))
    assert sum(ways for _, ways in ends) == 10
    assert all(ways >= 2 for _, ways in ends)


# ---- moves ----------------------------------------------------------------------------------------------------------


def crowded(tell: Story, **asked: bool) -> list[Command]:
    """Two keen jobs share node 0 while node 1 of the same server has just been left; what happens then."""
    tell(0, *(submitted(name, program="stream", processes=8, exclusive=True) for name in ("w0", "w1", "w2", "w3")))
    running = [JobStarted(name, 1) for name in ("w0", "w1", "w2", "w3")]
    tell(0, *running)
    tell(1, JobFinished("w0", 1), submitted("k0", program="keen", processes=2, **asked))
    tell(1, JobStarted("k0", 1), submitted("k1", program="keen", processes=2, **asked))
    tell(1, JobStarted("k1", 1))
    assert node_of(tell, "k0") == node_of(tell, "k1") == 0
    return tell(2, JobFinished("w1", 1))


def test_a_job_follows_into_room_on_its_server_if_its_owner_lets_it() -> None:
    moved = [one for one in crowded(told(moves=1), movable=True) if isinstance(one, MoveJob)]
    assert [(one.attempt, one.nodes) for one in moved] == [(1, ((1, 1),))]


@pytest.mark.parametrize(("moves", "movable"), [(0, True), (1, False)])
def test_nobody_moves_who_may_not(moves: int, movable: bool) -> None:
    tell = told(moves)
    assert not [one for one in crowded(tell, movable=movable) if isinstance(one, MoveJob)]
    assert node_of(tell, "k0") == node_of(tell, "k1") == 0


def test_nobody_moves_to_another_server() -> None:
    alone = Cluster((NodeGroup(4, 8, 0, 10, 2, 4, NODE.bandwidth_gbs),), "shared")
    assert not [one for one in crowded(told(3, alone), movable=True) if isinstance(one, MoveJob)]


def test_caches_of_both_nodes_are_divided_anew_after_a_move() -> None:
    tell = told(moves=1)
    crowded(tell, movable=True)
    assert tell.shares[0].keys() | tell.shares[1].keys() == {"k0", "k1"}
    assert [len(tell.shares[node]) for node in (0, 1)] == [1, 1]
    assert all(mask == (0, 10) for node in (0, 1) for mask in tell.shares[node].values())


# ---- forecasts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [CACHED, STREAM, *SMALL], ids=lambda one: one.program)
def test_a_forecast_alone_is_the_profile(known: Profile) -> None:
    forecast = Forecast(NODE)
    kind = forecast.kind_of(tenant(known, known.processes))
    tables, scale = forecast.tables(), known.at_scale(1)
    assert scale is not None
    assert scale.ipc is not None
    assert scale.bandwidth_gbs is not None
    assert tables.alone[kind] == pytest.approx(1.0, rel=1e-3)
    for ways in (2, 4, 7, 10):
        misses = tables.mpki[kind, ways * forecast.buckets // NODE.ways]
        load = law.solve_load(1, np.array([misses]), tables.cpi0[[kind]], tables.cost[[kind]], tables.relative)
        ipc = 1.0 / (tables.cpi0[kind] + tables.cost[kind] * misses * law.latency(load))
        assert ipc / tables.alone[kind] == pytest.approx(scale.ipc.at(ways) / scale.ipc.at(10), abs=0.06)
    drawn = tables.mpki[kind, -1] * tables.alone[kind]
    assert drawn == pytest.approx(scale.bandwidth_gbs.at(10), rel=1e-3)


def test_gains_and_losses_are_differences_of_the_same_values() -> None:
    forecast = Forecast(NODE)
    kinds = [forecast.kind_of(tenant(one)) for one in SMALL]
    for size in range(3):
        for others in itertools.combinations_with_replacement(kinds, size):
            for newcomer in kinds:
                gain = forecast.gains(mixed(forecast, others), np.array([0]), newcomer)[0]
                lost = forecast.losses(mixed(forecast, (*others, newcomer)).kinds[0])
                assert gain == pytest.approx(lost[size], abs=1e-12)
    assert forecast.gains(mixed(forecast, ()), np.array([0]), kinds[0])[0] == pytest.approx(1.0)


def mixed(forecast: Forecast, kinds: Sequence[int]) -> Residents:
    kept = Kept(forecast)
    kept.grow(1)
    kept.note(0, (), kinds)
    return kept.nodes


def test_the_order_of_residents_does_not_matter() -> None:
    forecast = Forecast(NODE)
    kinds = [forecast.kind_of(tenant(one)) for one in (*SMALL, SMALL[0])]
    usual = dict(zip(kinds, forecast.divide(kinds), strict=True))
    for order in itertools.permutations(range(len(kinds))):
        chosen = [kinds[place] for place in order]
        assert dict(zip(chosen, forecast.divide(chosen), strict=True)).keys() == usual.keys()
        assert sorted(forecast.divide(chosen)) == sorted(forecast.divide(kinds))


def test_a_program_measured_anew_is_another_kind() -> None:
    forecast = Forecast(NODE)
    first = forecast.kind_of(tenant(KNOWN["cached"]))
    changed = profile("cached", measured(1, 50.0, STEEP, 20.0))
    assert forecast.kind_of(tenant(KNOWN["cached"])) == first
    assert forecast.kind_of(tenant(changed)) != first
