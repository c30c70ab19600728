"""Site files for Grid Engine: what is refused in one sentence, and a page that explains every key."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.steer.gridengine_site import read_gridengine_site
from cohabit.app.steer.gridengine_switch import GridEngineTable
from cohabit.model.errors import InputError
from tests.cli.cli_calls import program

PAGE = Path(__file__).parents[3] / "docs" / "gridengine.md"


def site(folder: Path, text: str) -> Path:
    path = folder / "site.toml"
    path.write_text(text)
    return path


def test_every_key_is_explained() -> None:
    page = PAGE.read_text()
    assert [key for key in GridEngineTable.__struct_fields__ if f"{key} = " not in page] == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[gridengine]\nheld = 'some'\n", "use marked, all"),
        ("[gridengine]\nprogram = 'path'\n", "use name, command, comment, none"),
        ("[gridengine]\nlease_s = 1\n", "give at least 5"),
        ("[gridengine]\npartitions = ['a']\n", "partitions"),
        ("[slurm]\n", "slurm"),
        ("[peer.beta]\nurl = 'http://b'\n", "no \\[domain\\]"),
    ],
)
def test_what_is_refused(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_gridengine_site(site(tmp_path, text))


def test_defaults_and_paths(tmp_path: Path) -> None:
    found = read_gridengine_site(site(tmp_path, "place = 'here'\n[gridengine]\nqueue = 'long.q'\n"))
    assert (found.place, found.lease) == (tmp_path / "here", tmp_path / "here" / "lease")
    assert found.table.queues == ("long.q",)
    assert found.domain == ""


@pytest.mark.parametrize("verb", ["attach", "status", "handback", "detach"])
def test_where_grid_engine_is_not(tmp_path: Path, verb: str) -> None:
    path = site(tmp_path, f"[gridengine]\nbin = '{tmp_path}/nowhere'\n")
    answer = program("gridengine", verb, path)  # a process of its own: root gives up its rights in it
    sentence = answer.err.splitlines()[-1]  # attach has said before that as which account it runs
    assert (answer.code, answer.out) == (2, "")
    assert "Grid Engine does not answer: qconf cannot be run" in sentence
