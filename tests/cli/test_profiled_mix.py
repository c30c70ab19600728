"""`place` and `partition` of programs whose profiles are in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.model.profile import Profile, ScaleProfile
from cohabit.store.profiles import open_store
from tests.cli.cli_calls import cohabit


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.sqlite"
    assert cohabit("profiles", "import", "sns12", "--store", path, "--json").code == 0
    with open_store(path) as opened:
        opened.put(Profile("timed", 16, (ScaleProfile(1, 3.0),), hardware="28c"))
    return path


def test_programs_of_the_store_are_placed(store: Path) -> None:
    answer = cohabit("place", "--programs", "MG, EP,EP", "--store", store, "--nodes", "3", "--json")
    assert answer.code == 0, answer.err
    assert sorted(answer.document["placement"]) == ["EP", "EP#2", "MG"]
    assert all(alone == pytest.approx(1.0, abs=1e-3) for alone in answer.document["ipc_alone"].values())


def test_a_cache_is_divided_between_programs_of_the_store(store: Path) -> None:
    answer = cohabit("partition", "--programs", "CG", "--store", store, "--json")
    assert answer.document["partition"] == {"0": {"CG": 20}}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("place", "--programs", "timed,MG"), "timed has no curve of IPC and bandwidth by cache ways"),
        (("place", "--programs", "MGG"), "there is no program called 'MGG'; did you mean 'MG'?"),
        (("place", "--programs", "MG,EP", "--nodes", "1"), "do not fit on 1 x 28 cores"),
        (("place", "--programs", "MG", "--nodes", "0"), "--nodes 0 is not a positive number"),
        (("place",), "no programs are given"),
        (("partition", "node.json", "--programs", "MG"), "--programs"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(store: Path, words: tuple[str, ...], said: str) -> None:
    answer = cohabit(*words, "--store", store)
    assert (answer.code, answer.err.count("\n")) == (2, 1)
    assert said in answer.err
