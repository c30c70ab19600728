"""The framework of reproductions: bands, judgements, intervals and seeds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from cohabit.reproduce.papers import SALT_VARIABLE, Options, salt_from
from cohabit.reproduce.rows import (
    EMERGENT,
    Expected,
    check_rows,
    contract,
    expected,
    missing,
    noted,
    own,
    row,
    row_over_sets,
)
from cohabit.reproduce.tasks import Task, run_tasks
from tests.public_data import pinned

ROOT = Path(__file__).resolve().parents[2]
BAND = Expected("X1.thing", "a thing", 10.0, 5.0, 15.0)


def test_the_bands_are_those_of_the_specification() -> None:
    ours = ROOT / "src" / "cohabit" / "reproduce" / "rows.csv"
    stated = pinned(ours, "7bfe2850b624941de8bf4d250e2956862912ac324f6cacdca27be790e2224873", "rows.csv")
    assert stated in ("", ours.read_text(encoding="utf-8"))


def test_the_bands_of_the_joint_policy_are_those_of_the_specification() -> None:
    ours = ROOT / "src" / "cohabit" / "reproduce" / "rows-joint.csv"
    stated = pinned(ours, "945851072d4ba90907a702b00799fea21dfbe8bac50a760a0b87b58a35d3d8b5", "rows-joint.csv")
    assert stated in ("", ours.read_text(encoding="utf-8"))


def test_the_contract_is_read() -> None:
    about = contract()["S54.sns_gain_pct"]
    assert (about.paper, about.low, about.high, about.role) == (19.8, 14.0, 26.0, EMERGENT)
    assert contract()["P-ways.kept_pct"].paper is None
    assert (contract()["J.fcfs_gain_pct"].low, contract()["J.fcfs_losses_to_ce"].high) == (20.0, 0.5)


def test_the_band_of_a_contract_row_is_not_ours() -> None:
    with pytest.raises(AssertionError, match="not ours to set"):
        own("S54.sns_gain_pct", "a thing", sum, 10.0, 5.0, 15.0)
    with pytest.raises(AssertionError, match="needs a claim"):
        expected("S99.unheard_of")


@pytest.mark.parametrize(
    ("value", "holds"), [(5.0, True), (15.0, True), (4.999, False), (15.001, False), (None, None), (float("nan"), None)]
)
def test_a_row_holds_inside_its_band(value: float | None, holds: bool | None) -> None:
    assert row(BAND, value).holds is holds


def test_open_bands_and_no_bands() -> None:
    assert row(Expected("a", "", low=0.0), 1e9).holds is True
    assert row(Expected("a", "", high=0.0), 1e9).holds is False
    assert row(Expected("a", ""), 1.0).holds is None


def test_a_missing_row_says_why_and_counts_no_seeds() -> None:
    one = missing(BAND, "no data")
    assert (one.measured, one.holds, one.n_seeds, one.note) == (None, None, 0, "no data")
    assert noted(one, "and more").note == "no data; and more"


def test_several_seeds_give_an_interval_over_seeds() -> None:
    sets = [[float(seed + place) for place in range(4)] for seed in range(20)]
    one = row_over_sets(BAND, sets, lambda members: sum(members) / len(members), np.random.default_rng(1))
    assert one.n_seeds == 20
    assert one.measured == pytest.approx(11.0)
    assert one.ci_low is not None
    assert one.ci_high is not None
    assert one.ci_low < 11.0 < one.ci_high


def test_one_seed_gives_an_interval_over_its_members_and_says_so() -> None:
    one = row_over_sets(BAND, [[8.0, 10.0, 12.0]], lambda members: sum(members) / 3, np.random.default_rng(1))
    assert one.n_seeds == 1
    assert "over its 3 members" in one.note
    assert one.ci_low is not None
    assert 8.0 <= one.ci_low <= 10.0


def test_rows_come_once() -> None:
    with pytest.raises(AssertionError, match="twice"):
        check_rows([row(BAND, 1.0), row(BAND, 2.0)])


def test_development_seeds_are_themselves_and_a_salt_hides_them() -> None:
    assert Options(7).seed_of("sequences") == 7
    salted = {Options(7, salt=salt).seed_of(name) for salt in ("a", "b") for name in ("sequences", "mixes")}
    assert len(salted) == 4
    assert not salted & set(range(100))
    assert Options(7, salt="a").seed_of("mixes") in salted


def test_the_salt_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SALT_VARIABLE, "secret")
    assert salt_from(None) == "secret"
    assert salt_from("given") == "given"


def test_tasks_are_gathered_by_name() -> None:
    seen: list[tuple[int, int]] = []
    tasks = [Task(f"power {n}", _power, {"base": n}, float(n)) for n in range(4)]
    assert run_tasks(tasks, 1, lambda done, total: seen.append((done, total))) == {
        f"power {n}": n * n for n in range(4)
    }
    assert seen[-1] == (4, 4)


def test_a_run_that_was_stopped_goes_on_with_the_answers_it_has(tmp_path: Path) -> None:
    file, seen = tmp_path / "answers.jsonl", list[int]()
    tasks = [Task(f"power {n}", _power, {"base": n}, float(n)) for n in range(4)]
    first = run_tasks(tasks[:3], 1, kept=file)
    file.write_bytes(b'{"task": 3}\n' + file.read_bytes()[:-3])  # killed while it wrote the last one
    assert run_tasks(tasks, 1, lambda done, _: seen.append(done), kept=file) == first | {"power 3": 9}
    assert seen == [3, 4]  # two were there
    others = [Task("power 1", _power, {"base": 5})]  # the same name with other arguments
    assert run_tasks(others, 1, kept=file) == {"power 1": 25}


def test_answers_that_are_not_plain_data_are_found_again_by_running(tmp_path: Path) -> None:
    file, tasks = tmp_path / "answers.jsonl", [Task("pair", _pair, {})]
    for _ in range(2):
        assert run_tasks(tasks, 1, kept=file) == {"pair": (1, 2)}
    assert not file.exists()


def _power(base: int) -> int:
    return base * base


def _pair() -> tuple[int, int]:
    return 1, 2
