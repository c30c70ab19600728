"""What a site file may change while a controller steers, and what is refused with its key and a remedy."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cohabit.app.steer.reloading import _changed, contents_of
from cohabit.app.steer.slurm_site import SlurmSite, read_slurm_site
from cohabit.model.errors import InputError

SITE = """place = "state"
[policy]
name = "cs"
[slurm]
partitions = ["all"]
lease_s = 60
"""


def site_of(folder: Path, before: str = "", after: str = "", more: str = "") -> SlurmSite:
    assert before in SITE
    path = folder / "site.toml"
    path.write_text(SITE.replace(before, after) + more if before else SITE + more)
    return read_slurm_site(path)


def test_policy_and_profiles_are_taken_with_whole_paths(tmp_path: Path) -> None:
    (tmp_path / "known.json").write_text("{}")
    running = site_of(tmp_path)
    now = site_of(tmp_path, 'name = "cs"', 'name = "pair-greedy"\ndegradation = "pairs.csv"')
    found = _changed(running, *contents_of(now))
    assert (found.policy.name, found.policy.degradation) == ("pair-greedy", str(tmp_path / "pairs.csv"))
    assert (found.config.policy, found.place) == (found.policy, running.place)
    profiles = site_of(tmp_path, 'place = "state"', 'place = "state"\nprofiles = "known.json"')
    assert _changed(running, *contents_of(profiles)).profiles == tmp_path / "known.json"


@pytest.mark.parametrize(
    ("before", "after", "more", "named", "remedy"),
    [
        ('place = "state"', 'place = "other"', "", "place cannot", "detach"),
        ('partitions = ["all"]', 'partitions = ["gpu"]', "", "slurm.partitions cannot", "detach"),
        ("lease_s = 60", "lease_s = 90\npoll_s = 2.0", "", "slurm.poll_s, slurm.lease_s cannot", "start it again"),
        ("", "", '[api]\nlisten = "127.0.0.1:9"\n', "api cannot", "start it again"),
        ("", "", '[domain]\nname = "east"\n', "domain cannot", "detach"),
        ("", "", "[node]\nways = 20\n", "node cannot", "start it again"),
    ],
)
def test_what_cannot_change_while_it_steers_is_named(
    tmp_path: Path, before: str, after: str, more: str, named: str, remedy: str
) -> None:
    running, now = site_of(tmp_path), site_of(tmp_path, before, after, more)
    with pytest.raises(InputError) as refused:
        _changed(running, *contents_of(now))
    assert named in refused.value.what
    assert remedy in refused.value.fix


def test_a_file_of_another_folder_and_contents_of_another_version_are_refused(tmp_path: Path) -> None:
    running = site_of(tmp_path)
    folder, tables = contents_of(running)
    with pytest.raises(InputError, match="paths are relative to it"):
        _changed(running, "/elsewhere", tables)
    with pytest.raises(InputError, match="cannot be read"):
        _changed(running, folder, '{"place": 1}')


def test_without_a_controller_there_is_one_sentence(tmp_path: Path) -> None:
    site_of(tmp_path)
    words = [sys.executable, "-m", "cohabit.cli", "slurm", "reload", str(tmp_path / "site.toml")]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "no controller steers here; start one: cohabit slurm attach site.toml" in done.stderr
