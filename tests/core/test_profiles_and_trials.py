"""What is known of a program: demands, classes, drift, and the trials that find it out (S6, S10 to S24)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.model.cluster import NodeGroup
from cohabit.model.curve import Curve
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobFinished, JobSubmitted, ProfileLearned
from cohabit.model.job import Job
from cohabit.model.merging import drifted, learned
from cohabit.model.profile import Profile, ScaleProfile, classify, demand
from cohabit.policy.exploration import Trial, Trials
from cohabit.policy.options import ALL_SCALES, PAPERS_RULES, PlacementOptions, TrialRules
from cohabit.policy.placement.spread import Spread
from tests.core.shared_story import TWO_NODES, must, story
from tests.support.builders import submitted
from tests.support.clusters import SHARED
from tests.support.programs import FLAT, KNOWN, NEUTRAL, SINGLE, STREAM, curve, measured, profile

NODE = SHARED.groups[0]
FIG_10 = profile("fig10", measured(1, 100.0, {2: 1.0, 4: 1.6, 8: 1.9, 10: 2.0}, {2: 20.0, 4: 12.0, 10: 6.0}))


# ---- demands --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "tolerable", "ways", "gbs"),
    [(0.9, 1.8, 7, 9.0), (0.8, 1.6, 4, 12.0), (0.5, 1.0, 2, 20.0), (0.4, 0.8, 2, 20.0), (1.0, 2.0, 10, 6.0)],
)
def test_s23_five_steps_from_full_ipc_to_ways_and_bandwidth(
    alpha: float, tolerable: float, ways: int, gbs: float
) -> None:
    """Full IPC 2.0; alpha of it; the fewest ways that reach that; the bandwidth drawn there."""
    found = demand(FIG_10, 1, 8, alpha, NODE)
    assert found is not None
    assert (found.full_ipc, found.tolerable_ipc) == (2.0, pytest.approx(tolerable))
    assert (found.ways, found.bandwidth_gbs) == (ways, pytest.approx(gbs))
    assert (found.nodes, found.cores, found.time_s) == (1, 8, 100.0)


curves = st.lists(st.floats(0.05, 4.0), min_size=4, max_size=4).map(sorted)


@given(curves, st.lists(st.floats(0.0, 39.0), min_size=4, max_size=4), st.floats(0.01, 1.0))
def test_s23_ways_are_the_fewest_that_keep_alpha(ipc: list[float], gbs: list[float], alpha: float) -> None:
    points = (2, 4, 8, 10)
    any_program = Profile("any", 8, (ScaleProfile(1, 1.0, Curve(points, tuple(ipc)), Curve(points, tuple(gbs))),))
    found = demand(any_program, 1, 8, alpha, NODE)
    assert found is not None
    enough = [ways for ways in range(2, 11) if Curve(points, tuple(ipc)).at(ways) >= alpha * ipc[-1] - 1e-9]
    assert found.ways == enough[0]
    assert found.bandwidth_gbs == pytest.approx(Curve(points, tuple(gbs)).at(found.ways))


def test_s22_bandwidth_may_rise_or_fall_with_ways() -> None:
    for drawn in ({2: 4.0, 10: 8.0}, {2: 8.0, 10: 4.0}):
        found = demand(profile("any", measured(1, 9.0, {2: 0.5, 6: 1.0, 10: 1.0}, drawn)), 1, 8, 1.0, NODE)
        assert found is not None
        assert (found.ways, found.bandwidth_gbs) == (6, 6.0)


def test_s24_never_less_than_the_least_practical_allocation() -> None:
    for least in (1, 2, 3):
        node = NodeGroup(1, 8, ways=10, min_ways=least)
        found = demand(profile("any", measured(1, 9.0, FLAT, 1.0)), 1, 8, 0.5, node)
        assert found is not None
        assert found.ways == least


def test_s6_alpha_may_be_given_with_the_job() -> None:
    ways = {alpha: must(story().run(0, "a", "cached", alpha=alpha)).ways for alpha in (0.0, 0.7, 0.8, 1.0)}
    assert ways == {0.0: 4, 0.7: 2, 0.8: 2, 1.0: 10}


def test_a_job_that_asks_for_more_nodes_gets_them_at_every_scale() -> None:
    found = demand(NEUTRAL, 2, 8, 0.9, NODE, least_nodes=2)
    assert found is not None
    assert (found.nodes, found.cores) == (4, 2)
    started = story().starts(0, JobSubmitted(Job("a", 10**8, processes=8, nodes=2, program="neutral")))["a"]
    assert (started.nodes, started.cores, started.exclusive) == (((0, 2),), 4, False)


def test_unprofiled_scales_have_no_demand() -> None:
    assert demand(STREAM, 8, 8, 0.9, NODE) is None
    assert demand(KNOWN["half"], 1, 8, 0.9, NODE) is None


# ---- classes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "kind", "ideal", "constraint"),
    [
        ("stream", "scaling", 4, "bandwidth"), ("cached", "scaling", 2, "cache"), ("compact", "compact", 1, ""),
        ("neutral", "neutral", 4, ""), ("single", "compact", 1, ""), ("half", "unknown", 1, ""),
    ],
)  # fmt: skip
def test_s19_classes(name: str, kind: str, ideal: int, constraint: str) -> None:
    found = classify(KNOWN[name], NODE)
    assert found[:3] == (kind, ideal, constraint)
    assert found.why


@pytest.mark.parametrize(
    ("times", "kind"),
    [
        ((100.0, 105.0), "neutral"), ((100.0, 105.1), "compact"), ((100.0, 95.3), "neutral"),
        ((100.0, 95.2), "scaling"), ((100.0, 97.0, 103.0), "compact"), ((100.0, 90.0, 120.0), "scaling"),
    ],
)  # fmt: skip
def test_s19_within_five_percent_over_all_scales_is_neutral(times: tuple[float, ...], kind: str) -> None:
    scales = [measured(scale, time_s, FLAT, 1.0) for scale, time_s in zip((1, 2, 4), times, strict=False)]
    assert classify(profile("any", *scales)).kind == kind


# ---- trials ---------------------------------------------------------------------------------------------------------


def test_s11_candidate_scales() -> None:
    assert Trials().scales == PlacementOptions().scales == (1, 2, 4, 8)


def trials_of(times: dict[int, float], processes: int = 16, cores: int = 28) -> list[Trial]:
    """All trials of a program whose times are these."""
    known, made = Profile("new", processes), []
    while trial := Trials().next_for(Job("a", 1, processes), known, cores, ()):
        made.append(trial)
        assert len(made) <= 8, "at most two runs at four scales (S14)"
        taken = ScaleProfile(trial.scale, times[trial.scale]) if trial.purpose == "time" else ScaleProfile(
            trial.scale, ipc=curve(FLAT), bandwidth_gbs=curve(FLAT)
        )  # fmt: skip
        known = learned(known, taken)
    return made


def scales_of(made: list[Trial]) -> list[int]:
    return [trial.scale for trial in made if trial.purpose == "time"]


def test_s16_one_scale_after_the_other_a_run_for_the_time_and_one_for_the_curves() -> None:
    made = trials_of({1: 100.0, 2: 80.0, 4: 60.0, 8: 50.0})
    assert made == [Trial(scale, purpose) for scale in (1, 2, 4, 8) for purpose in ("time", "curve")]


def test_s16_until_fewer_than_x_cores_would_be_used() -> None:
    falling = {1: 100.0, 2: 80.0, 4: 60.0, 8: 50.0}
    assert scales_of(trials_of(falling, processes=8, cores=8)) == [1, 2, 4]


def test_s16_until_it_gets_slower_by_y() -> None:
    made = trials_of({1: 100.0, 2: 80.0, 4: 106.0, 8: 50.0})
    assert scales_of(made) == [1, 2, 4]
    assert Trial(4, "curve") not in made, "a scale nobody will use needs no curves"


def test_s16_until_scaling_saturates() -> None:
    assert scales_of(trials_of({1: 100.0, 2: 88.0, 4: 88.0, 8: 87.9})) == [1, 2, 4, 8]
    assert scales_of(trials_of({1: 100.0, 2: 100.0, 4: 100.0, 8: 50.0})) == [1, 2, 4]


def test_s9_a_single_node_program_is_tried_at_scale_one_only() -> None:
    known = Profile("new", 16, (STREAM.scales[0],))
    assert Trials().next_for(Job("a", 1, 16), known, 28, ()) == Trial(2, "time")
    assert Trials().next_for(Job("a", 1, 16, single_node=True), known, 28, ()) is None
    told = Profile("new", 16, (STREAM.scales[0],), single_node=True)
    assert Trials().next_for(Job("a", 1, 16), told, 28, ()) is None


def test_s9_a_program_single_node_with_other_processes_never_gets_two_nodes() -> None:
    """What a profile with another number of processes says of the program holds for this one, too."""
    half = Profile("new", 8, (ScaleProfile(1, 100.0),), single_node=True)
    mine = Profile("new", 16, (STREAM.scales[0],))
    assert Trials().due(Job("a", 1, 16), {8: half, 16: mine}, 28, ()) is None
    tell = story(placement="share", cluster=TWO_NODES, profiles=(SINGLE,))
    must(tell.run(0, "there", processes=6, single_node=True))
    must(tell.run(0, "and there", processes=6, single_node=True))
    assert tell.run(1, "a", "single", 4) is None, "two cores on each of two nodes would do"
    assert must(tell.run(1, "b", "stream", 4)).scale == 2


def test_s11_scales_are_explored_until_a_program_no_longer_gains() -> None:
    def tried(scales: tuple[int, ...], best: int, rules: TrialRules = PAPERS_RULES) -> list[int]:
        known, found = Profile("new", 256), []
        while (trial := Trials(scales, rules).next_for(Job("a", 1, 256), known, 32, ())) is not None:
            found.append(trial.scale)
            done = ScaleProfile(trial.scale, 100.0 / min(trial.scale, best), ipc=curve(FLAT), bandwidth_gbs=curve(FLAT))
            known = known.with_scale(done)
        return found

    assert tried((1, 2, 4, 8), 16) == [1, 2, 4, 8]
    assert tried(ALL_SCALES, 8) == [1, 2, 4, 8, 16], "x: of two cores on a node"
    assert tried(ALL_SCALES, 64, TrialRules(least_cores=1)) == [1, 2, 4, 8, 16, 32]
    assert tried(ALL_SCALES, 2, TrialRules(least_cores=1)) == [1, 2, 4, 8], "two in a row brought nothing"
    assert build(PolicyConfig(name="sns", scales=[], least_cores=4, worst_loss=0.1)).placer.trials.rules == (4, 0.1)  # type: ignore[union-attr]


@pytest.mark.parametrize("wrong", [{"least_cores": 0}, {"worst_loss": 1.0}, {"worst_loss": -0.1}])
def test_s16_wrong_rules_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=next(iter(wrong))):
        build(PolicyConfig(name="sns", **wrong))


def test_s20_an_unknown_program_runs_ce_and_is_learned_run_by_run() -> None:
    tell, seen = story(profiles=()), []
    for number in range(8):
        started = must(tell.run(10 * number, f"j{number}", "new"))
        seen.append((started.scale, started.purpose, started.exclusive))
        events: list[Event] = [JobFinished(f"j{number}", 1)]
        if started.purpose == "time":
            events.append(ProfileLearned("new", 8, ScaleProfile(started.scale, 100.0 / started.scale)))
        elif started.purpose == "curve":
            curves_only = ScaleProfile(started.scale, ipc=curve(FLAT), bandwidth_gbs=curve({2: 3.0, 10: 3.0}))
            events.append(ProfileLearned("new", 8, curves_only))
        tell(10 * number + 5, *events)
    trials = [(scale, purpose, True) for scale in (1, 2, 4) for purpose in ("time", "curve")]
    assert seen == [*trials, (4, "run", False), (4, "run", False)], "two cores on each of four nodes are the end"


def test_s20_without_learning_it_stays_ce() -> None:
    tell = story(profiles=(), placer=Spread(PlacementOptions(learn=False)))
    for number in range(3):
        started = must(tell.run(number, f"j{number}", "new", 4))
        assert (started.scale, started.purpose, started.exclusive) == (1, "run", True)


def test_s17_only_exclusive_runs_measure_and_each_trial_is_made_once_at_a_time() -> None:
    tell = story(profiles=())
    started = tell.starts(0, *(submitted(name, program="new", processes=8) for name in "abc"))
    assert [(one.purpose, one.exclusive) for one in started.values()] == [("time", True), ("run", True), ("run", True)]
    tell(1, JobFinished("a", 1, "failed"))
    assert must(tell.run(2, "d", "new")).purpose == "time", "it came to nothing: once more"


# ---- change ---------------------------------------------------------------------------------------------------------


def test_s21_small_differences_are_averaged() -> None:
    known = learned(learned(STREAM, ScaleProfile(1, 104.0)), ScaleProfile(1, 102.0))
    one = known.at_scale(1)
    assert one is not None
    assert (one.time_s, one.samples) == (pytest.approx(102.0), 3)
    assert one.ipc == STREAM.scales[0].ipc, "a run for the time leaves the curves alone"
    assert known.at_scale(4) == STREAM.at_scale(4)


@pytest.mark.parametrize(
    "new",
    [
        ScaleProfile(1, 115.0), ScaleProfile(1, 85.0), ScaleProfile(1, ipc=curve({2: 0.7, 10: 0.7})),
        ScaleProfile(1, bandwidth_gbs=curve({2: 50.0, 10: 50.0})),
    ],
    ids=["slower", "faster", "IPC", "bandwidth"],
)  # fmt: skip
def test_s21_a_program_that_has_changed_is_learned_afresh(new: ScaleProfile) -> None:
    old = STREAM.at_scale(1)
    assert old is not None
    assert drifted(old, new)
    assert learned(STREAM, new).scales == (new,), "other scales were measured on the old program"
    tell = story()
    assert must(tell.run(0, "a", "stream")).purpose == "run"
    tell(1, JobFinished("a", 1), ProfileLearned("stream", 8, new))
    assert must(tell.run(2, "b", "stream")).purpose != "run"


def test_s21_the_owner_may_say_that_the_program_has_changed() -> None:
    tell = story()
    assert must(tell.run(0, "a", "stream")).purpose == "run"
    tell(1, JobFinished("a", 1))
    started = must(tell.run(2, "b", "stream", reprofile=True))
    assert (started.purpose, started.scale, started.exclusive) == ("time", 1, True)
    assert must(tell.run(3, "c", "neutral", 8)).purpose == "run", "others are not affected"
