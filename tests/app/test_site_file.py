"""Site files: what they come to, and that what is wrong is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.scenario.typed_toml import refuse_unknown
from cohabit.app.serve.site_file import read_site
from cohabit.app.steer.mates import MatesTable
from cohabit.live.peers.keys import write_new_key
from cohabit.model.errors import InputError

WHOLE = """
nodes = 4
[policy]
name = "fcfs"
[domain]
name = "alpha"
listen = "127.0.0.1:7001"
scheme = "yield"
[peer.beta]
url = "http://127.0.0.1:7002"
key = "pair.key"
[group.pair]
members = { alpha = "left", beta = "right" }
when_dead = "wait"
lease_s = 30
[[group.pair.window]]
first = "alpha"
second = "beta"
least_s = 5
most_s = 9
[[job]]
name = "left"
command = ["sleep", "1"]
limit = "15m"
nodes = 2
group = "pair"
stdout = "left.out"
environment = { A = "b" }
"""


def site(tmp_path: Path, text: str) -> Path:
    if not (tmp_path / "pair.key").exists():
        write_new_key(tmp_path / "pair.key")
    path = tmp_path / "site.toml"
    path.write_text(text)
    return path


def test_a_whole_file(tmp_path: Path) -> None:
    read = read_site(site(tmp_path, WHOLE))
    config, ((job, launch),) = read.config, read.jobs
    assert (config.nodes, config.place, config.port) == (4, tmp_path / "state", 7001)
    assert config.coupling is not None
    assert (config.coupling.domain, config.coupling.rank, config.coupling.scheme.scheme) == ("alpha", 0, "yield")
    assert config.peers["beta"].url == "http://127.0.0.1:7002"
    assert job.mates is not None
    assert (job.mates.offsets_us, job.mates.terms.lease_us) == ((0, 5_000_000), 30_000_000)
    assert (job.nodes, job.limit_us) == (2, 900_000_000)
    assert launch.stdout == str(tmp_path / "left.out")
    assert launch.environment["A"] == "b"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("nodes = 4", "nods = 4", "unknown key 'nods'; did you mean 'nodes'"),
        ("nodes = 4", "nodes = ", "not valid TOML"),
        ('url = "http://127.0.0.1:7002"', "", "missing required field `url`"),
        ('key = "pair.key"', "", "has no key"),
        ('key = "pair.key"', 'key = "no.key"', "no such file"),
        ('listen = "127.0.0.1:7001"', 'listen = "7001"', "HOST:PORT"),
        ("beta = \"right\" }", "gamma = \"right\" }", "unknown domain gamma"),
        ("[peer.beta]", "[peer.alpha]", "its own peer"),
        ('when_dead = "wait"', 'when_dead = "weep"', "weep"),
        ("lease_s = 30", "lease_s = 1", "lease"),
        ("least_s = 5", "least_s = 50", "cannot hold together"),
        ('limit = "15m"', 'limit = "soon"', "not a duration"),
        ('group = "pair"', 'group = "trio"', "unknown group"),
        ('scheme = "yield"', 'scheme = "grab"', "grab"),
        ('name = "alpha"\nlisten = "127.0.0.1:7001"\nscheme = "yield"', "", "name"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(tmp_path: Path, old: str, new: str, said: str) -> None:
    assert old in WHOLE
    with pytest.raises(InputError, match=said):
        read_site(site(tmp_path, WHOLE.replace(old, new)))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        read_site(tmp_path / "nowhere.toml")


def test_a_key_that_is_a_word_of_python_is_known_by_its_name_in_the_file() -> None:
    refuse_unknown({"with": ["beta"]}, MatesTable, "site.toml")
    with pytest.raises(InputError, match="unknown key 'beside'"):
        refuse_unknown({"beside": ["beta"]}, MatesTable, "site.toml")
