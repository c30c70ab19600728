"""Going back to before a bad measurement, and what merging one more run does, in each kind of store."""

from __future__ import annotations

from cohabit.model.profile import Profile, ScaleProfile
from cohabit.store.learning import keep
from cohabit.store.profiles import open_store


def run(time_s: float, at_us: int, scale: int = 1, owner: str = "7") -> Profile:
    return Profile("MG", 4, (ScaleProfile(scale, time_s, measured_at_us=at_us),), hardware="4c", owner=owner)


def test_forgetting_since_an_instant_rebuilds_profiles_from_what_was_measured_before(place: str) -> None:
    with open_store(place) as store:
        for one in (run(10.0, 1), run(10.4, 2), run(6.0, 3, scale=2), run(10.8, 4), run(5.0, 5, owner="8")):
            keep(store, one)
        assert store.forget_since("MG", 3, owner="7") == 2
        (mine,) = store.profiles(owner="7")
        assert [(one.scale, one.time_s, one.samples) for one in mine.scales] == [(1, 10.2, 2)]
        assert [one.measured.time_s for one in store.history("MG") if one.key.owner == "7"] == [10.0, 10.4]
        assert store.forget_since("MG", 3, owner="7") == 0
        assert store.forget_since("MG", 0, owner="7") == 2
        assert store.profiles(owner="7") == []
        assert len(store.profiles(owner="8")) == 1
    with open_store(place) as store:
        assert [one.owner for one in store.profiles()] == ["8"]


def test_a_run_that_began_a_profile_afresh_is_forgotten_with_its_effect(place: str) -> None:
    with open_store(place) as store:
        keep(store, run(10.0, 1))
        _, why = keep(store, run(20.0, 2))
        assert why
        assert store.forget_since("MG", 2) == 1
        (mine,) = store.profiles()
        assert mine.scales[0].time_s == 10.0


def test_a_run_at_another_scale_is_no_change_of_the_program(place: str) -> None:
    with open_store(place) as store:
        keep(store, run(10.0, 1))
        both, why = keep(store, run(5.0, 2, scale=2))
        assert (why, [one.scale for one in both.scales]) == ("", [1, 2])
