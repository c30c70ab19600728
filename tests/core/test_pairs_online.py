"""Two jobs a node: who is paired, that pairs start together, and what happens to those who should not share.

One node of 8 cores unless said otherwise; degradations are given, in percent, so that outcomes are reckoned by hand.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.event import JobFinished
from cohabit.model.features import TIME
from cohabit.model.profile import Profile, ScaleProfile, Tenant
from cohabit.model.units import SECOND
from cohabit.policy.degradation import KnownPairs, PredictedPairs, ProfiledPairs, busy_cores
from cohabit.policy.options import PlacementOptions
from cohabit.policy.placement.pair import MEMORY_NAME, METHODS, Pair
from cohabit.predict.features import Schema
from cohabit.predict.pooling import Judged
from tests.core.shared_story import Story
from tests.support.builders import policies, submitted
from tests.support.programs import PROFILES, measured, profile

NODE = NodeGroup(1, 8, ways=10, min_ways=2, closids=4, bandwidth_gbs=((8, 40.0),))
NAMES = ("a", "b", "c", "d")
PERCENT = np.array([
    [0.0, 10.0, 60.0, 300.0],
    [20.0, 0.0, 30.0, 90.0],
    [60.0, 30.0, 0.0, 40.0],
    [300.0, 90.0, 40.0, 0.0],
])  # fmt: skip
KNOWN_PAIRS = PlacementOptions(degradations=KnownPairs(NAMES, PERCENT))
KNOWN = tuple(
    Profile(name, 8, (ScaleProfile(1, seconds),)) for name, seconds in zip(NAMES, (100, 100, 100, 400), strict=True)
)


def told(method: str = "greedy", nodes: int = 1, percent: Any = PERCENT, **options: Any) -> Story:
    bundle = build(PolicyConfig(name="pair-greedy"))
    placer = Pair(PlacementOptions(pairing=method, degradations=KnownPairs(NAMES, percent), **options))
    cluster = Cluster((replace(NODE, count=nodes),), "shared", oversubscribe=True)
    return Story(SchedulerCore(cluster, replace(bundle, placer=placer), profiles=KNOWN))


def all_at_once(tell: Story, programs: str = "abcd") -> list[str]:
    """Everybody comes at 0 and every run ends a second after it began: who started when, in order."""
    started = sorted(tell.starts(0, *(submitted(name, program=name, processes=8) for name in programs)))
    order = ["".join(started)]
    for second in range(1, 20):
        if not started:
            break
        started = sorted(tell.starts(second, *(JobFinished(name, 1) for name in started)))
        order += ["".join(started)] if started else []
    return order


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("greedy", ["ab", "cd"]),  # 20 for a with b, then 40 for c with d
        ("optimal", ["ab", "cd"]),  # 20 + 40; a with c and b with d would be 60 + 90
    ],
)
def test_pairs_by_degradation(method: str, expected: list[str]) -> None:
    assert all_at_once(told(method)) == expected


def test_no_group_overtakes_one_past_the_age_limit() -> None:
    """Unknown programs run alone; "wide" waits for two nodes and reaches the limit of 50 s."""
    tell = told(nodes=2)
    chosen = replace(tell.core.policies, age_limit_us=50 * SECOND, backfill=policies("age", "first-fit").backfill)
    tell.core = SchedulerCore(tell.core.state.cluster, chosen)
    assert list(tell.starts(0, submitted("a", program="x", processes=8))) == ["a"]
    assert list(tell.starts(1, submitted("wide", program="x", processes=16))) == []
    assert list(tell.starts(2, submitted("early", program="x", processes=8))) == ["early"]
    tell(10, JobFinished("early", 1))
    assert list(tell.starts(60, submitted("late", program="x", processes=8))) == []
    assert list(tell.starts(70, JobFinished("a", 1))) == ["wide"]


def test_optimal_is_not_greedy() -> None:
    percent = np.array([[0, 1, 5, 5], [1, 0, 5, 5], [5, 5, 0, 99], [5, 5, 99, 0]], float)
    assert all_at_once(told("greedy", percent=percent)) == ["ab", "cd"]
    assert all_at_once(told("optimal", percent=percent)) == ["ac", "bd"]


def test_pairs_above_the_threshold_run_one_after_the_other() -> None:
    assert all_at_once(told(threshold_pct=30.0)) == ["ab", "c", "d"]


def test_threshold_zero_is_fifo() -> None:
    assert all_at_once(told(threshold_pct=0.0)) == ["a", "b", "c", "d"]


def test_saving_counts_seconds_and_leaves_bad_pairs_apart() -> None:
    # a and b save 100 + 100 - 118.3 s, c and d 100 + 400 - 400 - ..., a and d together would take longer than apart
    assert all_at_once(told("saving")) == ["ab", "cd"]
    worse = np.where(PERCENT > 0, 250.0, 0.0)
    assert all_at_once(told("saving", percent=worse)) == ["a", "b", "c", "d"]


def test_intensity_pairs_extremes() -> None:
    tell = told("intensity")
    known = [
        Profile(name, 8, (ScaleProfile(1, 10.0, counters={"misses_per_instruction_mean": misses}),))
        for name, misses in zip(NAMES, (0.1, 0.4, 0.2, 0.3), strict=True)
    ]
    tell.core.state.profiles = {one.program: {8: one} for one in known}
    assert all_at_once(tell) == ["ab", "cd"]


def test_members_start_in_one_instant_on_the_same_node_and_others_wait() -> None:
    tell = told(nodes=2)
    starts = tell.starts(0, *(submitted(name, program=name, processes=8) for name in "abcd"))
    assert starts["a"].nodes == starts["b"].nodes == ((0, 1),)
    assert starts["c"].nodes == starts["d"].nodes == ((1, 1),)
    assert not starts["a"].exclusive


def test_a_newcomer_waits_until_a_node_is_empty_then_pairs_are_made_anew() -> None:
    tell = told()
    tell.starts(0, submitted("d", program="d", processes=8))
    assert tell.starts(1, submitted("a", program="a", processes=8)) == {}, "d runs alone: it had no partner at 0"
    assert tell.core.state.memory[MEMORY_NAME] == {"a": ["a"]}
    tell(2, submitted("c", program="c", processes=8))
    assert tell.core.state.memory[MEMORY_NAME] == {"a": ["a", "c"], "c": ["a", "c"]}
    tell(3, submitted("b", program="b", processes=8))
    assert tell.core.state.memory[MEMORY_NAME]["a"] == ["a", "b"]
    assert sorted(tell.starts(4, JobFinished("d", 1))) == ["a", "b"]


def test_what_nobody_knows_runs_alone() -> None:
    tell = told()
    started = tell.starts(0, *(submitted(name, program=name, processes=8) for name in ("new", "a", "b")))
    assert started.keys() == {"new"}
    assert started["new"].exclusive
    assert sorted(tell.starts(1, JobFinished("new", 1))) == ["a", "b"]


def test_jobs_of_different_width_do_not_share() -> None:
    tell = told(nodes=2)
    starts = tell.starts(0, submitted("a", program="a", processes=16), submitted("b", program="b", processes=8))
    assert starts.keys() == {"a"}
    assert starts["a"].exclusive


def test_who_never_fits_together_runs_apart() -> None:
    bundle = build(PolicyConfig(name="pair-greedy"))
    cluster = Cluster((replace(NODE, memory_bytes=12 * 2**20),), "shared", oversubscribe=True)
    core = SchedulerCore(cluster, replace(bundle, placer=Pair(KNOWN_PAIRS)), profiles=KNOWN)
    tell = Story(core)
    jobs = [submitted(name, program=name, processes=8, memory_bytes=2**20) for name in "ab"]
    assert tell.starts(0, *jobs).keys() == {"a"}
    assert tell.starts(1, JobFinished("a", 1)).keys() == {"b"}


def test_who_cannot_start_with_an_earlier_job_keeps_his_own_place() -> None:
    """a and b go best together, but no node holds both: b comes after c and d, as in the queue."""
    bundle = build(PolicyConfig(name="pair-greedy"))
    cluster = Cluster((replace(NODE, count=2, memory_bytes=12 * 2**20),), "shared", oversubscribe=True)
    core = SchedulerCore(cluster, replace(bundle, placer=Pair(KNOWN_PAIRS)), profiles=KNOWN)
    tell = Story(core)
    jobs = [submitted(name, program=name, processes=8, memory_bytes=2**20 * (name in "ab")) for name in "acdb"]
    assert tell.starts(0, *jobs).keys() == {"a", "c", "d"}
    assert tell.starts(1, JobFinished("a", 1)).keys() == {"b"}


def test_groups_of_three() -> None:
    percent = np.where(np.eye(4) > 0, 0.0, 10.0)
    assert all_at_once(told("greedy", percent=percent, group_size=3)) in (
        ["abc", "d"],
        ["abd", "c"],
        ["acd", "b"],
        ["a", "bcd"],
    )


@pytest.mark.parametrize("method", METHODS)
def test_every_method_can_be_named(method: str) -> None:
    assert build(PolicyConfig(name="pair-greedy", pairing=method)).names["pairing"] == method


# ---- refill ---------------------------------------------------------------------------------------------------------


def come(tell: Story, second: int, programs: str, *events: Any) -> list[str]:
    jobs = (submitted(name, program=name, processes=8) for name in programs)
    return sorted(tell.starts(second, *events, *jobs))


def test_a_place_is_left_empty_until_the_other_of_the_pair_ends() -> None:
    tell = told()
    assert come(tell, 0, "abcd") == ["a", "b"]
    assert come(tell, 1, "", JobFinished("a", 1)) == [], "as in the paper"
    assert come(tell, 2, "", JobFinished("b", 1)) == ["c", "d"]


@pytest.mark.parametrize("method", ["greedy", "optimal", "saving"])
def test_with_refill_who_goes_well_with_the_one_left_joins_it(method: str) -> None:
    tell = told(method, refill=True)
    assert come(tell, 0, "abcd") == ["a", "b"]
    joined = tell.starts(1, JobFinished("a", 1))  # b with c: 30 %
    assert joined.keys() == {"c"}
    assert not joined["c"].exclusive
    assert joined["c"].nodes == ((0, 1),)
    assert come(tell, 2, "", JobFinished("b", 1)) == ["d"], "40 % beside c"


def test_refill_keeps_to_the_threshold_and_to_the_order_of_the_queue() -> None:
    tell = told(refill=True, threshold_pct=30.0)
    assert come(tell, 0, "abdc") == ["a", "b"]
    assert come(tell, 1, "", JobFinished("a", 1)) == [], "d comes first and has 90 % beside b: c must not overtake it"
    assert tell.why("d", 2).startswith("it is to run alone, on nodes that are empty")
    assert come(tell, 3, "", JobFinished("b", 1)) == ["d"]


def test_refill_chooses_the_best_of_several_and_never_who_runs_alone() -> None:
    tell = told(nodes=3, refill=True)
    others = [submitted(name, program=name[0], processes=8) for name in ("a", "b", "c", "d")]
    assert len(tell.starts(0, *others, submitted("new", program="new", processes=8))) == 5
    tell(1, JobFinished("a", 1), JobFinished("d", 1))  # left: b on one node, c on another, the unknown one alone
    started = tell.starts(2, submitted("a2", program="a", processes=8))
    assert started["a2"].nodes == ((0, 1),), "a slows by 20 % beside b and by 60 % beside c"


def test_saving_refills_only_what_gets_more_done() -> None:
    percent = np.where(PERCENT > 0, 101.0, 0.0)
    percent[0, 1] = percent[1, 0] = 10.0
    tell = told("saving", percent=percent, refill=True)
    assert come(tell, 0, "abc") == ["a", "b"]
    assert come(tell, 1, "", JobFinished("a", 1)) == []


def test_refill_at_threshold_zero_is_fifo() -> None:
    assert all_at_once(told(threshold_pct=0.0, refill=True)) == ["a", "b", "c", "d"]


def test_who_knows_no_degradations_joins_nobody() -> None:
    tell = told("intensity", refill=True)
    assert come(tell, 0, "abcd") == ["a", "d"], "nothing is known of their misses: the first with the last"
    assert come(tell, 1, "", JobFinished("a", 1)) == []


# ---- where degradations come from -----------------------------------------------------------------------------------


class Sum:
    """A predictor that adds one counter of each."""

    schema = Schema((TIME, "x_mean"), ("x_mean",))

    def estimate(self, primary_rows: Any, other_rows: Any) -> Any:
        raise AssertionError("pairs are asked for at once")

    def judge_pairs(self, names: Any, primary_rows: Any, other_rows: Any) -> Judged:
        return Judged(*[primary_rows[:, 1][:, None] + 10 * other_rows[:, 0]] * 4)


def tenant(one: Profile | None, cores: int = 8) -> Tenant:
    return Tenant("" if one is None else one.program, cores, 1, 0, 0.0, 1.0, one)


def test_a_model_is_asked_with_the_counters_of_both() -> None:
    known = [Profile(name, 8, (ScaleProfile(1, 5.0, counters={"x_mean": x}),)) for name, x in (("p", 1.0), ("q", 2.0))]
    lacking = Profile("r", 8, (ScaleProfile(1, 5.0),))
    found = PredictedPairs(Sum()).between([tenant(known[0]), tenant(known[1]), tenant(lacking), tenant(None)], NODE)
    assert found[:2, :2].tolist() == [[11.0, 21.0], [12.0, 22.0]]
    assert np.isnan(found[2:]).all()
    assert np.isnan(found[:, 2:]).all()


def test_without_a_model_profiles_say_it() -> None:
    stream, neutral = (next(one for one in PROFILES if one.program == name) for name in ("stream", "neutral"))
    found = ProfiledPairs().between([tenant(stream), tenant(neutral)], NODE)
    assert found[1, 1] == pytest.approx(100.0, abs=0.5), "two that need nothing but cores share them evenly"
    assert found[0, 0] > 110.0, "two that want all the bandwidth lose more"
    lazy = profile("lazy", replace_counters(measured(1, 100.0, {2: 1.0, 10: 1.0}, 0.1), {"cpu_usage_mean": 4.0}))
    assert busy_cores(tenant(lazy)) == 4.0
    assert busy_cores(tenant(lazy, 2)) == 2.0, "no more than it has"
    assert busy_cores(tenant(lazy)._replace(load=0.5)) == 2.0, "half the processes of its profile"
    assert busy_cores(tenant(neutral)) == 8.0, "nobody measured it"
    assert ProfiledPairs().between([tenant(lazy), tenant(lazy)], NODE)[0, 1] == pytest.approx(0.0, abs=0.5)
    assert ProfiledPairs().between([tenant(neutral, 4), tenant(neutral, 4)], NODE)[0, 1] == pytest.approx(0.0, abs=0.5)


def replace_counters(one: ScaleProfile, counters: dict[str, float]) -> ScaleProfile:
    return ScaleProfile(one.scale, one.time_s, one.ipc, one.bandwidth_gbs, counters=counters)


def test_why_says_with_whom() -> None:
    tell = told()
    tell.starts(0, *(submitted(name, program=name, processes=8) for name in "abcd"))
    assert tell.why("c", 1) == (
        "it is to start together with job d, on nodes that are empty; "
        "the matrix of measured pairs expects it to slow by 40 % and its partner by 40 %"
    )
    alone = told(threshold_pct=30.0)
    alone.starts(0, *(submitted(name, program=name, processes=8) for name in "abcd"))
    assert alone.why("c", 1).startswith("it is to run alone, on nodes that are empty: no job left")


def test_a_pair_goes_only_to_a_kind_of_node_that_holds_both() -> None:
    small, large = (replace(NODE, memory_bytes=memory) for memory in (1000 << 20, 2000 << 20))
    bundle = build(PolicyConfig(name="pair-greedy"))
    cluster = Cluster((small, large), "shared", oversubscribe=True)
    tell = Story(SchedulerCore(cluster, replace(bundle, placer=Pair(KNOWN_PAIRS)), profiles=KNOWN))
    starts = tell.starts(0, *(submitted(name, program=name, processes=8, memory_bytes=100 << 20) for name in "ab"))
    assert starts["a"].nodes == starts["b"].nodes == ((1, 1),), "each of them fits the first node, both do not"


@pytest.mark.parametrize(("diagonal", "expected"), [("0", ["aa"]), ("90", ["a", "a"]), ("", ["a", "a"])])
def test_copies_of_a_program_are_paired_by_the_diagonal(tmp_path: Path, diagonal: str, expected: list[str]) -> None:
    """What is said of a program beside a copy of itself counts; copies of which nothing is known run alone."""
    (tmp_path / "who.csv").write_text(f",a,b\na,{diagonal},10\nb,10,0\n")
    policies = build(PolicyConfig(name="pair-optimal", degradation=str(tmp_path / "who.csv"), threshold_pct=50.0))
    tell = Story(SchedulerCore(Cluster((NODE,), "shared", oversubscribe=True), policies))
    started = tell.starts(0, *(submitted(f"a{number}", program="a", processes=8) for number in (1, 2)))
    assert [name[0] for name in started] == list(expected[0])
