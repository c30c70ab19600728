"""The store of profiles, the same tests in SQLite and in PostgreSQL: merging, history, cache, other writers."""

from __future__ import annotations

import json
import math
import statistics
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from profile_strategies import curves_of, profiles, run_of

from cohabit.model.curve import Curve
from cohabit.model.errors import InputError
from cohabit.model.merging import merged
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.store.json_form import Key, key_of, parse_json, write_json
from cohabit.store.profiles import default_path, empty_store, open_store
from tests.breadth import examples


def test_what_is_put_is_got_again_after_reopening(place: str) -> None:
    with open_store(place) as store:
        assert store.get("MG") is None
        assert store.profiles() == []
        store.put(run_of(97.0, 5))
        store.put(curves_of(at_us=6))
    with open_store(place) as store:
        profile = store.get("MG", 16, "28c-20w")
        assert profile is not None
        one = profile.at_scale(1)
        assert one is not None
        assert (one.time_s, one.samples, one.measured_at_us, one.complete) == (97.0, 1, 6, True)
        assert store.get("MG", 28) is None
        assert store.get("MG", hardware="other") is None
        assert store.get("mg") is None


def test_times_are_a_running_mean_and_variance(place: str) -> None:
    times = [97.0, 99.5, 96.25, 101.0, 97.5]
    with open_store(place) as store:
        for at, time_s in enumerate(times):
            known = store.put(run_of(time_s, at))
        one = known.at_scale(1)
        assert one is not None
        assert one.samples == 5
        assert one.time_s == pytest.approx(statistics.fmean(times))
        assert one.time_variance == pytest.approx(statistics.pvariance(times))
        assert one.measured_at_us == 4
        assert [sample.measured.time_s for sample in store.history("MG")] == times
        assert {sample.key for sample in store.history("MG", 16)} == {Key("MG", 16, "28c-20w")}
        assert store.history("MG", scale=2) == []


def test_measured_replaces_calibrated_and_history_keeps_both(place: str) -> None:
    with open_store(place) as store:
        store.put(msgspec.structs.replace(run_of(90.0), provenance="calibrated"))
        known = store.put(run_of(97.0))
        assert known == store.get("MG")
        assert known.scales[0].samples == 1
        assert known.provenance == "measured"
        assert [sample.provenance for sample in store.history("MG")] == ["calibrated", "measured"]


def test_the_best_of_several(place: str) -> None:
    with open_store(place) as store:
        store.replace([
            run_of(1.0, 7, hardware="a"), run_of(2.0, 9, hardware="b"), Profile("MG", 28, hardware="a"),
            run_of(3.0, 1, "EP"),
        ])  # fmt: skip
        best = store.get("MG")
        assert best is not None
        assert best.hardware == "b"
        assert [key_of(one)[1:3] for one in store.profiles("MG")] == [(16, "a"), (16, "b"), (28, "a")]
        assert len(store.profiles(hardware="a")) == 2


def test_forgetting(place: str) -> None:
    with open_store(place) as store:
        store.replace([run_of(1.0), run_of(1.0, hardware="b"), run_of(2.0, program="EP")])
        assert store.delete("MG", hardware="b") == 1
        assert [one.program for one in store.profiles()] == ["EP", "MG"]
        assert store.delete("MG") == 1
        assert store.history("MG") == []
        assert store.delete("MG") == 0
        assert [one.program for one in store.profiles()] == ["EP"]


def test_a_second_reader_notices_every_write(place: str) -> None:
    with open_store(place) as writer, open_store(place) as reader:
        assert reader.get("MG") is None
        writer.put(run_of(1.0))
        assert reader.get("MG") is not None
        before = reader.cached()
        assert reader.cached() is before
        reader.put(run_of(3.0))
        known = writer.get("MG")
        assert known is not None
        assert known.scales[0].time_s == 2.0
        writer.delete("MG")
        assert reader.get("MG") is None


WRITER = """
import sys
from cohabit.model.profile import Profile, ScaleProfile
from cohabit.store.profiles import open_store
with open_store(sys.argv[1]) as store:
    for run in range(10):
        store.put(Profile("MG", 16, (ScaleProfile(1, 100.0 + run),)))
"""


def test_writers_in_several_processes_lose_nothing(place: str) -> None:
    """They also race to make the tables."""
    writers = [subprocess.Popen([sys.executable, "-c", WRITER, place]) for _ in range(3)]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0]
    with open_store(place) as store:
        known = store.get("MG")
        assert known is not None
        assert known.scales[0].samples == 30
        assert known.scales[0].time_s == pytest.approx(104.5)
        assert known.scales[0].time_variance == pytest.approx(statistics.pvariance(range(10)))
        assert len(store.history("MG")) == 30


def test_all_or_nothing(place: str) -> None:
    bad = Profile("XX", 16, (ScaleProfile(1, math.nan),))
    with open_store(place) as store:
        with pytest.raises(InputError, match="XX at scale 1"):
            store.replace([run_of(1.0), bad])
        assert store.profiles() == []
        with pytest.raises(InputError, match="XX at scale 1"):
            store.put(bad)
        store.put(run_of(1.0))
        assert len(store.profiles()) == 1


def test_replacing_is_idempotent(place: str) -> None:
    given_profiles = [run_of(1.0, 3), curves_of("EP")]
    with open_store(place) as store:
        for _ in range(3):
            assert store.replace(given_profiles) == 2
        assert sorted(store.profiles(), key=key_of) == sorted(given_profiles, key=key_of)
        assert len(store.history("MG")) == 1


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(profiles(), max_size=5, unique_by=key_of))
def test_any_profile_survives_the_database(given_profiles: list[Profile]) -> None:
    with empty_store() as store:
        assert store.replace(given_profiles) == len(given_profiles)
        assert store.cached() == {key_of(one): one for one in given_profiles}
        again = type(store)(store._engine, "again")
        assert again.cached() == store.cached()


@settings(max_examples=examples(25), deadline=None)
@given(given_profiles=st.lists(profiles(), max_size=5, unique_by=key_of))
def test_any_profile_survives_json(tmp_path_factory: pytest.TempPathFactory, given_profiles: list[Profile]) -> None:
    path = tmp_path_factory.getbasetemp() / "round.json"
    assert write_json(given_profiles, path) == len(given_profiles)
    assert parse_json(path.read_bytes(), str(path)) == ({key_of(one): one for one in given_profiles}, [])


def test_export_and_import_between_stores(place: str, tmp_path: Path) -> None:
    path = tmp_path / "deep" / "profiles.json"
    with open_store(place) as store, empty_store() as other:
        store.put(run_of(97.0, 5))
        store.put(curves_of("EP"))
        assert store.export_json(path) == 2
        other.put(run_of(1.0))
        assert other.replace(parse_json(path.read_bytes(), str(path))[0].values()) == 2
        assert other.cached() == store.cached()
    assert list(msgspec.json.decode(path.read_bytes())["profiles"]) == ["EP/16/28c-20w", "MG/16/28c-20w"]


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=20), st.integers(1, 19))
def test_merging_in_any_grouping_gives_the_moments_of_all(times: list[float], cut: int) -> None:
    def folded(some: list[float]) -> Profile:
        known = run_of(some[0])
        for time_s in some[1:]:
            known = merged(known, run_of(time_s))
        return known

    whole = folded(times).scales[0]
    parts = [part for part in (times[:cut], times[cut:]) if part]
    pooled = (merged(*map(folded, parts)) if len(parts) == 2 else folded(times)).scales[0]
    assert whole.samples == pooled.samples == len(times)
    assert whole.time_s == pytest.approx(pooled.time_s) == pytest.approx(statistics.fmean(times))
    expected = statistics.pvariance(times)
    assert whole.time_variance == pytest.approx(expected, rel=1e-6, abs=1e-6)
    assert pooled.time_variance == pytest.approx(expected, rel=1e-6, abs=1e-6)


def test_merging_takes_the_later_curve_even_if_it_comes_first() -> None:
    late, early = curves_of(at_us=9, full=2.0), curves_of(at_us=3, full=1.0)
    for known, new in ((late, early), (early, late)):
        one = merged(known, new).scales[0]
        assert one.ipc == Curve((2, 20), (0.5, 2.0))
        assert one.measured_at_us == 9
        assert one.time_s == 0
    timed = merged(merged(run_of(10.0), late), run_of(20.0)).scales[0]
    assert (timed.samples, timed.time_s, timed.ipc) == (2, 15.0, late.scales[0].ipc)
    with pytest.raises(ValueError, match="different"):
        merged(run_of(1.0), run_of(1.0, program="EP"))


# ---- places and bad files -------------------------------------------------------------------------------------------


def test_the_default_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    assert default_path() == tmp_path / "data" / "cohabit" / "profiles.db"
    with open_store() as store:
        store.put(run_of(1.0))
    assert default_path().is_file()
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_path() == Path.home() / ".local" / "share" / "cohabit" / "profiles.db"


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("mysql://host/x", "mysql are not known"),
        ("postgresql+asyncpg://host/x", "are not known"),
        ("://", "not a URL"),
        ("postgresql://nobody:secret@127.0.0.1:1/x", "cannot be used"),
        ("/proc/cohabit/profiles.db", "cannot be made"),
    ],
)
def test_places_that_cannot_be(place: str, words: str) -> None:
    if place.startswith("postgresql://"):
        pytest.importorskip("psycopg")
    with pytest.raises(InputError, match=words) as caught:
        open_store(place)
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_psycopg_the_url_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(InputError, match=r"cohabit\[postgres\]"):
        open_store("postgresql://host/x")


def test_files_that_are_no_stores(tmp_path: Path) -> None:
    text = tmp_path / "text.db"
    text.write_text("this is not a database, and long enough to be looked at" * 20)
    with pytest.raises(InputError, match="not a database") as caught:
        open_store(text)
    assert str(text) in str(caught.value)
    with pytest.raises(InputError, match="is a folder"):
        open_store(tmp_path)
    with pytest.raises(InputError, match="no profile store"):
        open_store(tmp_path / "absent.db", create=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["text.db"]


WITH_SCALES = '{"profiles": {"x": {"program": "MG", "processes": 16, "scales": [%s]}}}'


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a file of profiles"),
        ("[]", "not a file of profiles"),
        ('{"programs": {}}', "profiles"),
        ('{"profiles": {"x": 5}}', r"profiles\[...\]"),
        ('{"profiles": {}, "version": 99}', "version 99"),
        ('{"profiles": {}, "format": "other"}', "format other"),
        ('{"profiles": {"x": {"program": " ", "processes": 16}}}', "no program"),
        ('{"profiles": {"x": {"program": "MG", "processes": 0}}}', "MG is for 0 processes"),
        (WITH_SCALES % '{"scale": 2}, {"scale": 1}', r"scales of MG are \[2, 1\]"),
        (WITH_SCALES % '{"scale": 1, "time_s": -1}', "MG at scale 1"),
        (WITH_SCALES % '{"scale": 1, "samples": 0}', "0 samples"),
        (WITH_SCALES % '{"scale": 1, "ipc": {"ways": [2], "values": [1]}}', "1 ways"),
        (WITH_SCALES % '{"scale": 1, "ipc": {"ways": [2, 2], "values": [1, 1]}}', "rising"),
        (WITH_SCALES % '{"scale": 1, "ipc": {"ways": [2, 4], "values": [1, -1]}}', "-1.0 at"),
    ],
)  # fmt: skip
def test_json_that_is_no_profiles(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words) as caught:
        parse_json(text, "p.json")
    assert str(caught.value).startswith("p.json")


# ---- owners ---------------------------------------------------------------------------------------------------------


def owned(owner: str, time_s: float, processes: int = 16, hardware: str = "a") -> Profile:
    return Profile("MG", processes, (ScaleProfile(1, time_s),), hardware=hardware, owner=owner)


def test_owners_have_profiles_of_their_own(place: str) -> None:
    with open_store(place) as store:
        for owner, time_s in (("", 10.0), ("1001", 20.0), ("1002", 30.0)):
            store.put(owned(owner, time_s))
        both = store.put(owned("1001", 20.2))
        assert (both.owner, both.scales[0].samples) == ("1001", 2)
        assert store.profiles("MG", owner="1002") == [owned("1002", 30.0)]
        assert store.get("MG", owner="") == owned("", 10.0)
        assert [sample.key.owner for sample in store.history("MG")] == ["", "1001", "1002", "1001"]
    with open_store(place) as store:
        assert [one.owner for one in store.profiles("MG")] == ["", "1001", "1002"]
        assert store.delete("MG", owner="1001") == 1
        assert [one.owner for one in store.profiles("MG")] == ["", "1002"]


def test_sharing_replaces_what_was_shared_on_the_same_hardware(place: str) -> None:
    with open_store(place) as store:
        store.replace([owned("", 1.0), owned("", 2.0, 28), owned("", 3.0, hardware="b"), owned("1001", 20.0)])
        assert store.share("MG", "1001") == 1
        assert store.share("MG", "1002") == store.share("EP", "1001") == 0
        expected = [owned("", 20.0), owned("1001", 20.0), owned("", 3.0, hardware="b")]
        assert store.profiles() == expected
        assert [one.measured.time_s for one in store.history("MG", 16, "a")] == [1.0, 20.0, 20.0]
    with open_store(place) as store:
        assert store.profiles() == expected


def test_a_file_with_owners_is_one_that_older_programs_refuse(tmp_path: Path) -> None:
    """They would take everybody's profiles for shared ones."""
    path, profiles = tmp_path / "profiles.json", [owned("", 1.0), owned("1001", 2.0)]
    write_json(profiles, path)
    document = json.loads(path.read_text())
    assert (document["version"], list(document["profiles"])) == (2, ["MG/16/a", "MG/16/a/1001"])
    assert list(parse_json(path.read_bytes(), str(path))[0].values()) == profiles
    write_json(profiles[:1], path)
    assert json.loads(path.read_text())["version"] == 1


def test_an_owner_is_a_number(tmp_path: Path) -> None:
    with empty_store() as store, pytest.raises(InputError, match="'ann'; give the number of a user"):
        store.put(owned("ann", 1.0))
