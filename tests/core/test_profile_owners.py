"""Whose profile a job goes by, and who changes it: runs and reprofiling their owner's, an operator the shared one."""

from __future__ import annotations

import msgspec
import pytest

from cohabit.core import checkpoint
from cohabit.model import codec
from cohabit.model.event import (
    Event,
    JobFinished,
    JobSubmitted,
    ProfileForgotten,
    ProfileLearned,
    ProfileShared,
    ProfileStored,
    ProgramDrifted,
)
from cohabit.model.job import Job
from cohabit.model.profile import Profile, ScaleProfile, Tenant, owner_of
from cohabit.policy.forecast import Forecasts
from cohabit.policy.options import PlacementOptions
from cohabit.policy.placement.spread import Spread
from tests.core.shared_story import ONE_NODE, UNLEARNED, Story, must, story
from tests.support.programs import FLAT, STREAM, measured

ANN, BOB = "1001", "1002"


def job(name: str, owner: str, reprofile: bool = False, processes: int = 8) -> JobSubmitted:
    return JobSubmitted(
        Job(name, 10**9, processes, program="stream", profile_owner=owner, user=int(owner or -1), reprofile=reprofile)
    )


def used(tell: Story, owner: str) -> Profile | None:
    return tell.core.view(0).profile("stream", 8, owner)


def learned(owner: str, time_s: float, scale: int = 1) -> ProfileLearned:
    return ProfileLearned("stream", 8, ScaleProfile(scale, time_s), owner=owner)


def saved_and_loaded(tell: Story) -> None:
    core = tell.core
    tell.core = checkpoint.load(checkpoint.save(core), core.state.cluster, core.policies)
    assert (tell.core.state.profiles, tell.core.state.own_profiles) == (core.state.profiles, core.state.own_profiles)


def test_a_job_uses_its_owners_profile_else_the_shared_one() -> None:
    tell = story()
    assert used(tell, ANN) == used(tell, "") == STREAM
    tell(0, ProgramDrifted("stream", owner=ANN), learned(ANN, 7.0))
    known = used(tell, ANN)
    assert known is not None
    assert (known.owner, [one.time_s for one in known.scales]) == (ANN, [7.0])
    assert used(tell, BOB) == used(tell, "") == STREAM


def test_a_first_own_measurement_that_fits_joins_a_copy_of_the_shared_profile() -> None:
    """One run must not cost an owner the curves and scales that an operator has shared."""
    tell, time_s = story(), STREAM.scales[0].time_s
    tell(0, learned(ANN, 1.02 * time_s))
    known = used(tell, ANN)
    assert known is not None
    assert known.usable_scales == STREAM.usable_scales
    assert known.scales[0].time_s == pytest.approx(1.01 * time_s)
    assert used(tell, BOB) == STREAM


def test_a_first_own_measurement_that_does_not_fit_starts_the_owners_profile_afresh() -> None:
    tell = story()
    tell(0, learned(ANN, 0.3 * STREAM.scales[0].time_s))
    known = used(tell, ANN)
    assert known is not None
    assert known.usable_scales == 0
    assert used(tell, BOB) == STREAM


@pytest.mark.parametrize("how", ["reprofile", "drift"])
def test_who_reprofiles_without_an_own_profile_is_measured_again_and_nobody_else(how: str) -> None:
    """The shared profile is not of the program that has changed; for others it holds."""
    tell = story(placer=Spread(PlacementOptions(scales=(1,))))
    if how == "drift":
        tell(0, ProgramDrifted("stream", "it changed", ANN))
    assert must(tell.starts(1, job("a", ANN, reprofile=how == "reprofile"))["a"]).purpose == "time"
    saved_and_loaded(tell)
    assert used(tell, ANN) is None
    assert must(tell.starts(2, job("b", BOB))["b"]).purpose == "run"
    assert used(tell, BOB) == STREAM


def test_measuring_runs_of_others_are_not_waited_for() -> None:
    """Each owner's runs write that owner's profile: a trial of one is no trial of the other."""
    tell = story(placer=Spread(PlacementOptions(scales=(1,))), profiles=())
    starts = tell.starts(0, job("a", ANN), job("b", BOB), job("c", ANN))
    assert {name: one.purpose for name, one in starts.items()} == {"a": "time", "b": "time", "c": "run"}
    assert tell.core.view(3).trials_of("stream", ANN) == tell.core.view(3).trials_of("stream", BOB) == {(1, "time")}
    assert tell.core.view(3).trials_of("stream", "") == set()


def test_jobs_without_an_owner_read_and_write_the_shared_profile() -> None:
    """Simulated users, and jobs of older journals: as before there were owners."""
    tell = story()
    tell(0, job("a", "", reprofile=True))
    assert tell.core.state.profiles.get("stream") is None
    tell(1, JobFinished("a", 1), learned("", 9.0))
    assert tell.core.state.profiles["stream"][8].scales == (ScaleProfile(1, 9.0),)
    assert tell.core.state.own_profiles == {}


def test_an_operator_shares_and_owners_keep_theirs() -> None:
    tell = story()
    tell(0, ProgramDrifted("stream", owner=ANN), ProgramDrifted("stream", owner=BOB), learned(ANN, 7.0))
    tell(1, ProfileShared("stream", ANN))
    shared = used(tell, "1003")
    assert shared is not None
    assert (shared.owner, [one.time_s for one in shared.scales]) == ("", [7.0])
    assert used(tell, BOB) is None, "his program has changed: no other profile describes it"
    tell(2, learned(ANN, 7.1), ProgramDrifted("stream", owner=ANN))
    assert used(tell, "1003") == shared, "it is a copy"
    saved_and_loaded(tell)
    tell(3, ProfileShared("stream", ANN), ProfileShared("stream", BOB), ProfileShared("stream", ""))
    assert used(tell, "1003") == shared, "there is nothing to share"


def test_a_checkpoint_without_owners_has_the_form_it_had() -> None:
    """So that what an older version wrote is what this one writes, byte for byte."""
    saved = msgspec.msgpack.decode(checkpoint.save(story().core), strict=False)
    assert "afresh" not in saved
    assert all("owner" not in one for one in saved["profiles"])


def test_old_facts_are_about_the_shared_profile_and_keep_their_bytes() -> None:
    facts: list[Event] = [
        ProfileLearned("p", 8, measured(1, 5.0, {2: 1.0, 4: 1.0}, 1.0)), ProgramDrifted("p"), JobSubmitted(Job("a", 1)),
    ]  # fmt: skip
    content = codec.encode(facts)
    assert b"owner" not in content
    assert codec.decode_events(content) == facts
    changed: list[Event] = [learned(ANN, 1.0), ProfileShared("p", ANN), job("a", ANN)]
    assert codec.decode_events(codec.encode(changed)) == changed


def test_owners_are_numbers_of_users() -> None:
    assert (owner_of(0), owner_of(1001), owner_of(-1)) == ("0", ANN, "")


def test_two_owners_of_one_program_are_placed_each_by_their_own_profile() -> None:
    tell, compact = story(placer=Spread(UNLEARNED)), measured(1, 100.0, FLAT, 1.0)
    tell(0, ProgramDrifted("stream", owner=ANN), ProfileLearned("stream", 8, compact, owner=ANN))
    starts = tell.starts(1, job("a", ANN), job("b", BOB))
    assert {name: one.scale for name, one in starts.items()} == {"a": 1, "b": 2}, "b spreads over all that is left"


def test_a_forecast_keeps_the_profiles_of_owners_apart() -> None:
    """It compares profiles by identity: kept under one name they would replace each other for ever."""
    forecast = Forecasts().of(ONE_NODE.groups[0])
    tenants = [
        Tenant("stream", 4, 1, 0, 0.0, 1.0, msgspec.structs.replace(STREAM, owner=owner)) for owner in (ANN, BOB, "")
    ]
    first = [forecast.kind_of(one) for one in tenants]
    assert len(set(first)) == 3
    assert [forecast.kind_of(one) for one in tenants] == first


def test_a_stored_profile_takes_the_place_of_what_was_known_of_its_owner_only() -> None:
    tell = story()
    mine = Profile("stream", 8, (ScaleProfile(1, 7.0, samples=3),), owner=ANN)
    tell(0, learned(ANN, 5.0), ProfileStored(mine))
    assert used(tell, ANN) == mine
    assert used(tell, BOB) == used(tell, "") == STREAM
    saved_and_loaded(tell)


def test_a_forgotten_profile_leaves_the_shared_one_and_nothing_where_there_is_none() -> None:
    tell = story()
    tell(0, learned(ANN, 5.0), ProfileForgotten("stream", 4, ANN))
    assert used(tell, ANN) != STREAM, "another number of processes"
    tell(1, ProfileForgotten("stream", 8, ANN), ProfileForgotten("stream", 8, ANN))
    assert used(tell, ANN) == STREAM
    tell(2, ProfileForgotten("stream", 8), ProfileForgotten("nobody", 8, BOB))
    assert used(tell, BOB) is None
    saved_and_loaded(tell)
