"""Runs beside others in the store: kept, bounded, summarised by hardware, forgotten with their program."""

from __future__ import annotations

import pytest

from cohabit.model.profile import KnownCoRun, Profile
from cohabit.store.co_runs import REMEMBERED, CoRunSample, summaries
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
