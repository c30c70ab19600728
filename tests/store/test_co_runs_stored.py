"""Runs beside others in the store: kept, bounded, summarised by hardware, forgotten with their program."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from cohabit.model.errors import InputError
from cohabit.model.profile import KnownCoRun, Profile
from cohabit.store.co_runs import REMEMBERED, summaries
from cohabit.store.json_form import VERSION, CoRunSample, parse_json
from cohabit.store.profiles import open_store


def sample(program: str, *beside: str, percent: float = 10.0, at: int = 1, hardware: str = "4c") -> CoRunSample:
    return CoRunSample(program, tuple(sorted(beside)), percent, hardware, at)


def test_pairs_and_groups_are_kept_and_summarised_by_hardware(place: str) -> None:
    with open_store(place) as store:
        runs = [sample("MG", "g++", "EP@7", percent=30.0), sample("MG", "EP@7"), sample("MG", "EP@7", percent=20.0)]
        assert store.add_co_runs([*runs, sample("MG", "EP@7", percent=90.0, hardware="64c")]) == 4
    with open_store(place) as store:
        found = store.co_runs()
        assert found[:3] == runs
        assert summaries(found, {"", "4c"}) == (
            KnownCoRun("MG", ("EP@7",), 15.0, 2),
            KnownCoRun("MG", ("EP@7", "g++"), 30.0, 1),
        )
        assert summaries(found)[0].percent == pytest.approx(40.0)


def test_the_latest_runs_of_a_pair_are_kept(place: str) -> None:
    with open_store(place) as store:
        store.add_co_runs(sample("MG", "EP", percent=float(number)) for number in range(REMEMBERED + 7))
        store.add_co_runs([sample("EP", "MG")])
        kept = [one.percent for one in store.co_runs() if one.program == "MG"]
        assert kept == [float(number) for number in range(7, REMEMBERED + 7)]
        assert len(store.co_runs()) == REMEMBERED + 1


def test_forgetting_a_program_forgets_its_co_runs_on_both_sides(place: str) -> None:
    with open_store(place) as store:
        store.put(Profile("MG", 4, owner="7"))
        store.add_co_runs([sample("MG@7", "EP"), sample("EP", "LU", "MG@7"), sample("MG", "EP"), sample("EP", "LU")])
        assert store.delete("MG", owner="7") == 1
        assert store.co_runs() == [sample("MG", "EP"), sample("EP", "LU")]


def test_forgetting_since_an_instant_forgets_the_co_runs_since(place: str) -> None:
    with open_store(place) as store:
        store.add_co_runs([sample("MG", "EP", at=1), sample("MG", "EP", at=5), sample("EP", "LU", at=9)])
        assert store.forget_since("MG", 5, owner="") == 1
        assert [one.measured_at_us for one in store.co_runs()] == [1, 9]


def test_an_export_has_the_runs_and_an_import_puts_them_in_place_of_the_same_pairs(place: str, tmp_path: Path) -> None:
    path, pair = tmp_path / "profiles.json", [sample("MG", "EP", at=3), sample("MG", "EP", percent=20.0, at=4)]
    with open_store(place) as store, open_store(tmp_path / "other.db") as other:
        store.put(Profile("MG", 4))
        store.add_co_runs([*pair, sample("EP@7", "LU", "MG")])
        assert store.export_json(path) == 1
        document = msgspec.json.decode(path.read_bytes())
        assert document["version"] == VERSION
        assert document["co_runs"][0] == {
            "program": "MG", "beside": ["EP"], "percent": 10.0, "hardware": "4c", "measured_at_us": 3,
        }  # fmt: skip
        other.add_co_runs([sample("MG", "EP", percent=90.0), sample("MG", "EP", hardware="64c"), sample("LU", "EP")])
        profiles, runs = parse_json(path.read_bytes(), str(path))
        for _ in range(2):  # the second time changes nothing
            assert other.replace(profiles.values(), runs) == 1
            kept = sorted(other.co_runs())
            assert kept == sorted([*store.co_runs(), sample("MG", "EP", hardware="64c"), sample("LU", "EP")])


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"beside": []}, "beside nothing lacks a program"),
        ({"program": " "}, "lacks a program"),
        ({"percent": -100.0}, "slowed by -100.0 %"),
        ({"measured_at_us": 2**70}, "give microseconds since 1970"),
    ],
)
def test_a_run_that_cannot_be_is_refused(wrong: dict[str, object], said: str) -> None:
    run = {"program": "MG", "beside": ["EP"], "percent": 1.0, "hardware": "", "measured_at_us": 1} | wrong
    text = msgspec.json.encode({"profiles": {}, "format": "cohabit-profiles", "version": 3, "co_runs": [run]})
    with pytest.raises(InputError, match=said):
        parse_json(text, "p.json")
