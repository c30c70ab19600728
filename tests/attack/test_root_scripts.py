"""Scripts that root runs for jobs of others, in an environment and a folder that the job's owner chose."""

from __future__ import annotations

import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.live.peers.keys import write_new_key
from tests.attack.accounts import Account
from tests.backend.slurm.steering import until
from tests.support.gridengine_cluster import GridEngineCluster, missing, running_gridengine

PACKAGED = Path(__file__).parents[2] / "packaging"
INSTALL = PACKAGED / "install.sh"
PLANTED = ("cat", "chown", "env", "cd", "printf", "python3", "dirname", "sed", "sh", "test", "[", "threshold")
SPOOLER = "daemon"  # as sgeadmin would be: neither root nor the job's owner
TOKEN = re.compile("[0-9a-f]{64}")
CONFIG = "add_grp_id=1\nstdout_path={out}\njob_owner={owner}\njob_name=x\njob_id={job}\n"


@pytest.fixture
def installed(folder: Path) -> Path:
    """`install.sh gridengine` and `install.sh node`, with a key for the threshold; the folder of scripts."""
    install(folder)
    return folder / "etc"


def install(folder: Path) -> None:
    paths = {f"COHABIT_{name}": str(folder / name.lower()) for name in ("ETC", "STATE", "RUN", "UNITS", "PREFIX")}
    for step in ("gridengine", "node"):
        subprocess.run([INSTALL, step], env=paths, check=True, capture_output=True)
    write_new_key(folder / "etc" / "threshold.key")
    (folder / "etc").chmod(0o755)


def plant(account: Account, folder: Path) -> Path:
    """Commands of the account's that note who runs them."""
    planted = folder / "planted"
    planted.mkdir()
    (planted / "ran").touch()
    for name in PLANTED:
        (planted / name).write_text(f'#!/bin/sh -p\necho "$(/usr/bin/id -u) $0" >> {planted}/ran\n')
    (planted / "start").write_text(f'echo "$(/usr/bin/id -u) start file" >> {planted}/ran\n')
    (planted / "hashlib.py").write_text(f'open("{planted}/ran", "a").write("python\\n")\n')
    for path in (planted, *planted.iterdir()):
        path.chmod(0o777)
        os.chown(path, account.uid, account.gid)
    return planted


def hostile(planted: Path, **others: str) -> dict[str, str]:
    return {
        "PATH": str(planted), "ENV": f"{planted}/start", "BASH_ENV": f"{planted}/start", "PYTHONPATH": str(planted),
        "PYTHONHOME": str(planted), "IFS": "/", "CDPATH": str(planted), "USER": "root", "HOME": str(planted),
        "BASH_FUNC_chown%%": f"() {{ echo function >> {planted}/ran; }}", "COHABIT_THRESHOLD": "127.0.0.1:1", **others,
    }  # fmt: skip


def spool(folder: Path, account: Account, job: str = "7", text: str = "") -> Path:
    """As Grid Engine makes one."""
    place = folder / "active_jobs" / f"{job}.1"
    place.mkdir(parents=True)
    (place / "config").write_text(text or CONFIG.format(out="/dev/null", owner=account.name, job=job))
    spooler = pwd.getpwnam(SPOOLER)
    for path in (place, place / "config"):
        os.chown(path, spooler.pw_uid, spooler.pw_gid)
    return place


def call(script: Path, environment: dict[str, str], folder: Path) -> None:
    """As Grid Engine does, in the owner's folder: it always ends with 0 and says nothing."""
    done = subprocess.run([script], env=environment, cwd=folder, capture_output=True, check=False, timeout=30)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_prolog_runs_nothing_of_the_owners(installed: Path, folder: Path, ann: Account) -> None:
    planted, place = plant(ann, folder), spool(folder, ann)
    around = hostile(planted, SGE_JOB_SPOOL_DIR=str(place), JOB_ID="8")
    call(installed / "gridengine" / "prolog.sh", around, planted)
    assert (planted / "ran").read_text() == ""
    token = place / "cohabit.token"
    assert (token.stat().st_uid, token.stat().st_mode & 0o777) == (ann.uid, 0o600)
    told = subprocess.run([installed / "threshold", "--token", installed / "threshold.key", "7"], check=True,
                          capture_output=True, text=True).stdout.strip()  # fmt: skip
    assert token.read_text() == told  # of job 7, not of the one the owner's environment names


def test_the_prolog_follows_no_link_and_believes_no_folder_of_the_owners(
    installed: Path, folder: Path, ann: Account, bob: Account
) -> None:
    planted, victim = plant(ann, folder), folder / "victim"
    victim.write_text("root's")
    prolog = installed / "gridengine" / "prolog.sh"
    of_ann = CONFIG.format(out="/dev/null", owner=ann.name, job="7")
    forged = CONFIG.format(out=f"/x\njob_owner={bob.name}\njob_id=9", owner=ann.name, job="9")
    for number, (text, own, linked) in enumerate(((of_ann, True, True), (forged, False, False), (of_ann, False, True))):
        place = spool(folder / str(number), ann, "9" if text is forged else "7", text)
        if own:  # the owner made it all
            for path in (place, place / "config"):
                os.chown(path, ann.uid, ann.gid)
        if linked:
            (place / "cohabit.token").symlink_to(victim)
            os.chown(place / "cohabit.token", ann.uid, ann.gid, follow_symlinks=False)
        call(prolog, hostile(planted, SGE_JOB_SPOOL_DIR=str(place)), planted)
        assert (victim.read_text(), victim.stat().st_uid) == ("root's", 0)
        token = place / "cohabit.token"
        assert token.is_symlink() if own else token.exists() == linked
    (folder / "link").symlink_to(place)
    (place / "cohabit.token").unlink()
    for wrong in (str(folder / "link"), "", "/", "relative", str(folder / "none")):
        call(prolog, hostile(planted, SGE_JOB_SPOOL_DIR=wrong), planted)
    assert not (place / "cohabit.token").exists()
    assert (planted / "ran").read_text() == ""


@pytest.mark.parametrize(("name", "file"), [("prolog.sh", "7"), ("epilog.sh", "7.ended")])
def test_slurms_scripts_write_where_they_should_and_nowhere_else(
    installed: Path, folder: Path, ann: Account, name: str, file: str
) -> None:
    planted, place = plant(ann, folder), folder / "run" / "node" / "n0"
    place.mkdir(parents=True)
    script = installed / name
    told = {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n0", "SLURM_JOB_UID": str(ann.uid)}
    call(script, hostile(planted, **told), planted)
    assert [path.name for path in place.iterdir()] == [file]
    for wrong in ({"SLURM_JOB_ID": "../../x"}, {"SLURMD_NODENAME": "../node/n0"}, {"SLURM_JOB_ID": ""},
                  {"SLURMD_NODENAME": ""}):  # fmt: skip
        call(script, hostile(planted, **(told | {"SLURM_JOB_ID": "8"} | wrong)), planted)
    assert [path.name for path in place.iterdir()] == [file]
    assert not (folder / "run" / "x").exists()
    (place / file).unlink()
    os.chown(place, ann.uid, ann.gid)
    (place / file).symlink_to(folder / "etc" / "victim")
    call(script, hostile(planted, **told), planted)
    assert not (folder / "etc" / "victim").exists()
    assert (planted / "ran").read_text() == ""


def test_the_installer_runs_nothing_from_a_path(folder: Path, ann: Account) -> None:
    planted = plant(ann, folder)
    paths = {f"COHABIT_{name}": str(folder / name.lower()) for name in ("ETC", "STATE", "RUN", "UNITS", "PREFIX")}
    for step in ("node", "gridengine", "remove"):
        subprocess.run([INSTALL, step], env=hostile(planted) | paths, cwd=planted, check=True, capture_output=True)
        if step == "node":
            unit = (folder / "units" / "cohabit-node.service").read_text()
            assert f"ExecStart={folder}/prefix/bin/cohabit node serve {folder}/etc/slurm.toml\n" in unit
    assert (planted / "ran").read_text() == ""


# ---- on a real Grid Engine ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gridengine() -> Iterator[tuple[GridEngineCluster, Path]]:
    """One host whose queue has our prolog and starter."""
    if reason := missing():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="cohabit-attack-ge-"))
    folder.chmod(0o755)
    try:
        install(folder)
        with running_gridengine(folder / "ge", hosts=1) as ge:
            ge.run("qconf", "-mattr", "queue", "prolog", f"root@{folder}/etc/gridengine/prolog.sh", "all.q")
            yield ge, folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
@pytest.mark.cluster
@pytest.mark.xdist_group("gridengine-attack")
def test_a_job_with_a_path_of_its_own_on_a_real_grid_engine(
    gridengine: tuple[GridEngineCluster, Path], ann: Account
) -> None:
    ge, folder = gridengine
    planted = plant(ann, folder)
    out = folder / "out"
    out.mkdir()
    os.chown(out, ann.uid, ann.gid)
    given = hostile(planted, SGE_JOB_SPOOL_DIR=str(planted), JOB_ID="1", LD_PRELOAD=f"{planted}/none.so")
    variables = ",".join(f"{key}={value}" for key, value in given.items() if "%" not in key)
    words = ("qsub", "-terse", "-b", "y", "-wd", str(out), "-o", str(out / "said"), "-j", "y", "-v", variables)
    script = out / "job"
    file = "$SGE_JOB_SPOOL_DIR/cohabit.token"
    script.write_text(f"#!/bin/sh\n/bin/ls -ln {file}\n/bin/cat {file}\n")
    script.chmod(0o755)
    job = ge.run(*words, str(script), user=ann.name).strip()
    until(lambda: job not in ge.run("qstat", "-u", "*"), 60, lambda: ge.run("qstat", "-j", job))
    until(lambda: (out / "said").exists() and TOKEN.search((out / "said").read_text()), 30)
    said = (out / "said").read_text()
    listed = next(line for line in said.splitlines() if "cohabit.token" in line)
    assert (listed.split()[0], listed.split()[2]) == ("-rw-------", str(ann.uid))
    told = subprocess.run([folder / "etc" / "threshold", "--token", folder / "etc" / "threshold.key", job],
                          check=True, capture_output=True, text=True).stdout.strip()  # fmt: skip
    assert told in said
    assert not [line for line in (planted / "ran").read_text().splitlines() if line.startswith("0 ")]
