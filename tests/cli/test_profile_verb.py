"""`cohabit profile` and `cohabit measure capacity`, as a person calls them, with real programs."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from cli_calls import cohabit


@pytest.fixture(autouse=True)
def own_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COHABIT_STORE", str(tmp_path / "profiles.db"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


def test_a_program_is_run_stored_and_shown() -> None:
    answer = cohabit("profile", "--program", "nap", "--repeats", "2", "--json", "--", "sleep", "0.3")
    document = answer.document
    assert (document["program"], document["processes"], document["runs"]) == ("nap", 1, 2)
    assert document["time_s"] >= 0.3
    assert document["curves"]["ipc"] is None
    assert "task_clock_mean" in document["counters"] or "user_time_mean" in document["counters"]
    shown = cohabit("profiles", "show", "nap", "--json").document
    assert shown["by_scale"][0]["time_s"] == pytest.approx(document["mean_time_s"])
    again = cohabit("profile", "--", "sleep", "0.3")
    assert "sleep with 1 process: 0.3" in again.out
    assert "cohabit profiles show sleep" in again.out


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("--curve", "guess", "--", "true"), "there are no curves by 'guess'"),
        (("--sample", "x", "--", "true"), "--sample is for --curve valgrind"),
        (("--curve", "valgrind", "--sample", "'", "--", "true"), "--sample cannot be read"),
        (("--limit", "0", "--", "true"), "--limit 0 is no time"),
        (("-n", "4096", "--", "true"), "4096 processes"),
        (("--", "no-such-program"), "there is no program 'no-such-program'"),
        (("--", "false"), "'false' fails alone"),
    ],
)
def test_wrong_calls_are_one_sentence_and_store_nothing(call: tuple[str, ...], words: str) -> None:
    answer = cohabit("profile", *call)
    assert answer.code == 2
    assert words in answer.err
    assert "Traceback" not in answer.err
    assert "nap" not in cohabit("profiles", "list").out


def test_the_capacity_is_measured_and_kept_under_the_name_of_the_hardware(tmp_path: Path) -> None:
    out = tmp_path / "capacity.json"
    document = cohabit("measure", "capacity", "--seconds", "0.2", "--size", "16", "--out", out, "--json").document
    kept = json.loads(out.read_text())["machines"][document["hardware"]]
    assert kept["gbs"] == document["bandwidth_gbs"]
    assert str(len(os.sched_getaffinity(0))) in kept["gbs"]
    assert all(gbs > 0 for gbs in kept["gbs"].values())


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("--seconds", "0"), "is too short or too long"),
        (("--size", "0"), "out of range"),
        (("--out", "{wrong}"), "capacities"),
    ],
)
def test_a_wrong_capacity_call_is_refused_before_anything_runs(
    call: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    wrong = tmp_path / "wrong.json"
    wrong.write_text("[]")
    answer = cohabit("measure", "capacity", *(word.format(wrong=wrong) for word in call))
    assert answer.code == 2
    assert words in answer.err
    assert wrong.read_text() == "[]"
