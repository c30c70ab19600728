"""Programs without a profile under the joint placement: alone and measured, or side by side by cores."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Cluster
from cohabit.model.errors import InputError
from cohabit.model.event import JobFinished
from cohabit.model.units import SECOND
from tests.core.shared_story import ONE_NODE, TWO_NODES, Story, must
from tests.support.programs import PROFILES


def told(cluster: Cluster = ONE_NODE, **keys: object) -> Story:
    chosen = build(PolicyConfig(**{"name": "cohabit", "unknown": "cores", **keys}))  # type: ignore[arg-type]
    return Story(SchedulerCore(cluster, chosen, profiles=PROFILES))


@pytest.mark.parametrize("program", ["", "newcomer", "half"])
def test_on_one_server_unknown_programs_run_side_by_side(program: str) -> None:
    tell = told()
    starts = [tell.run(0, f"j{number}", program, processes=2) for number in range(4)]
    assert [must(one).purpose for one in starts] == ["run"] * 4
    assert not any(must(one).exclusive for one in starts)
    assert tell.run(0, "more", program, processes=1) is None


def test_by_default_they_run_alone_and_are_measured() -> None:
    tell = told(unknown="alone")
    first = must(tell.run(0, "first", "newcomer", processes=2))
    assert (first.exclusive, first.purpose) == (True, "time")
    assert tell.run(1, "second", "other", processes=2) is None
    assert tell.why("second", 1).endswith("no complete profile, so it runs alone and is measured (policy.unknown)")
    tell = told(unknown="alone", learn=False)
    must(tell.run(0, "first", "newcomer", processes=2))
    assert tell.run(1, "second", "other", processes=2) is None
    assert tell.why("second", 1).endswith("so it runs alone (policy.unknown)")


def test_ways_and_bandwidth_go_with_the_cores() -> None:
    tell = told()
    half = must(tell.run(0, "half-a-node", "newcomer", processes=4))
    assert (half.ways, half.bandwidth_mbs) == (5, 20_000)
    must(tell.run(0, "eighth", "newcomer", processes=1))
    assert tell.shares[0]["eighth"][1] >= 2, "no job has fewer ways than the hardware allows"


def test_where_the_cache_is_not_divided_there_are_as_many_jobs_as_cores() -> None:
    divided, undivided = told(), told(partition="none")
    for tell, most in ((divided, 4), (undivided, 8)):
        starts = [tell.run(0, f"j{number}", "newcomer", processes=1) for number in range(8)]
        assert sum(one is not None for one in starts) == most, "each job needs a class of service where it is divided"


def test_known_programs_keep_their_footprints_beside_unknown_ones() -> None:
    tell = told()
    must(tell.run(0, "known", "single", processes=4))
    assert must(tell.run(0, "strange", "newcomer", processes=4)).nodes == ((0, 1),)
    assert tell.run(0, "more", "neutral", processes=8) is None
    assert "policy.unknown" not in tell.why("more")


def test_whole_nodes_stay_whole() -> None:
    tell = told()
    must(tell.run(0, "first", "newcomer", processes=2))
    assert tell.run(0, "alone", "newcomer", processes=2, exclusive=True) is None
    assert "policy.unknown" not in tell.why("alone")


def test_why_says_what_is_known() -> None:
    tell = told()
    must(tell.run(0, "first", "newcomer", processes=6))
    assert tell.run(0, "second", "newcomer", processes=4) is None
    said = tell.why("second")
    assert "lacks 2 cores" in said
    assert said.endswith("its program has no complete profile, so it shares nodes by cores (policy.unknown)")


def test_a_two_minute_job_does_not_wait_beside_an_idle_node() -> None:
    """A job on both nodes waits for the first to be left. Under cs it stops all others once it is old."""
    began = {}
    for name in ("cs", "cohabit"):
        keys = {"unknown": "alone"} if name == "cs" else {}
        tell = told(TWO_NODES, name=name, **keys)
        must(tell.run(0, "brief", "", processes=8, limit_s=10.0))
        tell(10, JobFinished("brief", 1))
        must(tell.run(10, "long", "", processes=8, limit_s=600.0))
        assert tell.run(20, "wide", "", processes=16, limit_s=600.0) is None
        began[name] = tell.run(200, "two-minutes", "", processes=8, limit_s=120.0)
    assert began["cs"] is None
    assert must(began["cohabit"]).nodes == ((1, 1),)


def test_no_job_outruns_its_promise() -> None:
    tell = told(TWO_NODES)
    must(tell.run(0, "long", "", processes=8, limit_s=600.0))
    assert tell.run(0, "wide", "", processes=16, limit_s=600.0) is None
    row = tell.core.state.rows["wide"]
    assert tell.core.state.promises[row].latest_us == 600 * SECOND
    assert tell.run(1, "late", "", processes=8, limit_s=600.0) is None
    must(tell.run(2, "short", "", processes=8, limit_s=590.0))
    assert list(tell.starts(600, JobFinished("long", 1), JobFinished("short", 1))) == ["wide"]


def test_a_wrong_word_is_refused() -> None:
    with pytest.raises(InputError, match="unknown"):
        told(unknown="core")


def test_nodes_that_state_nothing_are_shared_by_cores() -> None:
    plain = Cluster(tuple(replace(one, ways=0, closids=0, bandwidth_gbs=()) for one in ONE_NODE.groups))
    tell = told(plain)
    assert [must(tell.run(0, f"j{number}", processes=1)).ways for number in range(8)] == [0] * 8
