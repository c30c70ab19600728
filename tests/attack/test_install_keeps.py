"""`packaging/install.sh remove` deletes nothing that somebody may want back, unless it is told to."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

INSTALL = Path(__file__).parents[2] / "packaging" / "install.sh"


def call(folder: Path, *words: str, **others: str) -> subprocess.CompletedProcess[str]:
    paths = {f"COHABIT_{name}": str(folder / name.lower()) for name in ("ETC", "STATE", "RUN", "UNITS", "PREFIX")}
    paths["SLURM_CONF"] = str(folder / "slurm.conf")
    return subprocess.run([INSTALL, *words], env=paths | others, capture_output=True, text=True, check=False)


@pytest.fixture
def installed(folder: Path) -> Path:
    """All of it, with an edited site file, keys and a journal."""
    (folder / "prefix" / "bin").mkdir(parents=True)
    (folder / "prefix" / "bin" / "cohabit").touch(0o755)
    (folder / "slurm.conf").write_text("ClusterName=x\n")
    for step in ("node", "controller", "gridengine"):
        done = call(folder, step)
        assert done.returncode == 0, done.stderr
    for name in ("slurm.toml", "gridengine.toml"):
        with (folder / "etc" / name).open("a") as stream:
            stream.write("# ours\n")
    (folder / "etc" / "pair.key").write_text("secret\n")
    (folder / "state" / "slurm").mkdir()
    (folder / "state" / "slurm" / "journal.db").write_text("all that ever happened")
    (folder / "run" / "node" / "n0").mkdir(parents=True)
    return folder


def test_site_files_keys_and_state_are_kept(installed: Path) -> None:
    done = call(installed, "remove")
    assert done.returncode == 0, done.stderr
    kept = sorted(path.name for path in (installed / "etc").iterdir())
    assert kept == ["gridengine.toml", "pair.key", "slurm.toml"]
    assert (installed / "etc" / "slurm.toml").read_text().endswith("# ours\n")
    assert (installed / "state" / "slurm" / "journal.db").read_text() == "all that ever happened"
    for path in (*(installed / "etc").iterdir(), installed / "state"):
        assert f"kept: {path}" in done.stdout
    assert (installed / "slurm.conf").read_text() == "ClusterName=x\n"
    assert not list((installed / "units").iterdir())
    assert not (installed / "run").exists()
    assert call(installed, "controller").returncode == 0  # and again, with the site file that was kept
    assert (installed / "etc" / "slurm.toml").read_text().endswith("# ours\n")


def test_they_go_when_that_is_asked_for(installed: Path) -> None:
    assert call(installed, "remove").returncode == 0
    done = call(installed, "remove", "--purge")
    assert (done.returncode, done.stdout) == (0, "")
    assert not (installed / "etc").exists()
    assert not (installed / "state").exists()


def test_a_plugin_that_was_changed_is_kept(installed: Path) -> None:
    with (installed / "job_submit.lua").open("a") as stream:
        stream.write("-- ours\n")
    assert f"kept: {installed}/job_submit.lua" in call(installed, "remove").stdout
    assert (installed / "job_submit.lua").read_text().endswith("-- ours\n")


def test_what_is_not_ours_is_never_removed(installed: Path) -> None:
    precious = installed / "precious"
    precious.mkdir()
    (installed / "link").symlink_to(precious)
    for wrong, said in (  # none of them is there: a mistake here must not cost this machine anything
        ("/cohabit-none", "no folder of Cohabit's own"), ("/var/cohabit-none", "no folder of Cohabit's own"),
        ("/usr/x/../cohabit-none/", "no folder of Cohabit's own"), (str(installed / "link"), "is a link"),
    ):  # fmt: skip
        done = call(installed, "remove", "--purge", COHABIT_STATE=wrong)
        assert done.returncode == 2
        assert said in done.stderr
    assert precious.exists()
    assert (installed / "etc" / "slurm.toml").exists()  # nothing was done at all
    for words in (("remove", "--purged"), ("--purge",), ("remove", "--purge", "x"), ()):
        done = call(installed, *words)
        assert (done.returncode, done.stderr.count("\n")) == (2, 1)
