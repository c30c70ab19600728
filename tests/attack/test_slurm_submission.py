"""A controller of root's on top of a real Slurm: an account submits with an environment, or an answer of sbatch, that
would make root act on another account's jobs."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.attack.accounts import Account, act_as, shell
from tests.attack.test_separation import status_of
from tests.backend.gridengine.conftest import watchdogs_of
from tests.backend.slurm.steering import attached, jobs_of, log_of, until, write_site
from tests.live.api.serving import Answer, UnixConnection, ask
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("slurm-attack")]
LUA = Path(__file__).parents[2] / "packaging" / "slurm" / "job_submit.lua"
LIBRARY = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void) {
    char program[4096] = {0};
    readlink("/proc/self/exe", program, sizeof program - 1);
    FILE *kept = fopen("%s", "a");
    if (kept != NULL) { fprintf(kept, "%%d %%s\n", (int) getuid(), program); fclose(kept); }
    if (strstr(program, "sbatch") != NULL) { puts("--user=cohabit-bob"); fflush(stdout); _exit(0); }
}
"""
FAKE = '#!/bin/sh\necho "$(/usr/bin/id -u) $0" >> {kept}\necho --user=cohabit-bob\n'
LIAR = '#!/bin/sh\n[ -e {folder}/lie ] || exec {sbatch} "$@"\ncat > /dev/null; exec sh {folder}/lie\n'
COMMANDS = ("sbatch", "scontrol", "scancel", "squeue")


@dataclass
class Stage:
    """A steered cluster. While there is a file `lie`, sbatch is whatever that says: an account can take over a process
    that runs under its uid."""

    slurm: SlurmCluster
    folder: Path
    pid: int  # of the controller

    def ask(self, account: Account, method: str, path: str, body: Any = None) -> Answer:
        def call() -> list[Any]:
            return list(ask(UnixConnection(str(self.folder / "door")), method, path, body))

        return Answer(*act_as(account, call))

    def submit(self, account: Account, script: str, **others: Any) -> Answer:
        body = {"command": ["/bin/sh", "-c", script], "limit_s": 600, "folder": str(account.home), **others}
        return self.ask(account, "POST", "/v1/jobs", body)

    def job(self, account: Account, script: str, **others: Any) -> str:
        answer = self.submit(account, script, **others)
        assert answer.status == 201, f"{answer} {log_of(self.folder)()}"
        return str(answer.body["job"])

    def until(self, job: str, state: str) -> None:
        until(lambda: jobs_of(self.slurm)[job].state == state, 60, log_of(self.folder))

    def planted(self, account: Account) -> Path:
        """A folder of the account's with a library and commands of its own; `kept` says who ran any of it."""
        folder = Path(tempfile.mkdtemp(dir=account.home))
        (folder / "kept").touch()
        (folder / "library.c").write_text(LIBRARY % (folder / "kept"))
        subprocess.run(["cc", "-shared", "-fPIC", "-o", folder / "library.so", folder / "library.c"], check=True)
        for name in COMMANDS:
            (folder / name).write_text(FAKE.format(kept=folder / "kept"))
            (folder / name).chmod(0o755)
        for path in (folder, *folder.iterdir()):
            os.chown(path, account.uid, account.gid)
        return folder


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """In a folder that all accounts can pass."""
    if reason := missing():
        pytest.skip(reason)
    if shutil.which("cc") is None:
        pytest.skip("no compiler (Debian: apt-get install gcc)")
    folder = Path(tempfile.mkdtemp(prefix="cohabit-attack-slurm-"))
    folder.chmod(0o755)
    (folder / "bin").mkdir()
    (folder / "bin" / "sbatch").write_text(LIAR.format(folder=folder, sbatch=shutil.which("sbatch")))
    (folder / "bin" / "sbatch").chmod(0o755)
    text = LUA.read_text().replace("/var/lib/cohabit/lease", str(folder / "slurm" / "lease"))
    before = os.environ["PATH"]
    try:
        with running_slurm(folder / "slurm", nodes=1, cores=4, job_submit=text, name="attack") as slurm:
            site = write_site(slurm, folder, "cs")
            site.write_text(site.read_text() + f'[api]\nsocket = "{folder}/door"\n')
            os.environ["PATH"] = f"{folder}/bin:{before}"
            with attached(site) as process:
                os.environ["PATH"] = before
                yield Stage(slurm, folder, process.pid)
    finally:
        os.environ["PATH"] = before
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def clean(stage: Stage, ann: Account, bob: Account) -> Iterator[Stage]:
    """Without jobs, before and after."""
    yield stage
    (stage.folder / "lie").unlink(missing_ok=True)
    for account in (ann, bob):
        stage.slurm.run("scancel", f"--user={account.name}", check=False)
    until(lambda: not stage.slurm.run("squeue", "--noheader").strip(), 60, lambda: stage.slurm.run("squeue"))


def test_a_library_and_a_path_of_the_owners_act_on_nobody_else(clean: Stage, ann: Account, bob: Account) -> None:
    running = clean.job(bob, "sleep 300", processes=4)
    clean.until(running, "RUNNING")
    folder = clean.planted(ann)
    out = folder / "said"
    hostile = {
        "LD_PRELOAD": str(folder / "library.so"), "PATH": f"{folder}:/usr/bin:/bin", "MINE": "two\nlines, it's mine",
        "SBATCH_PARTITION": "none", "SBATCH_EXCLUSIVE": "user", "SLURM_CONF": str(folder / "no.conf"),
        "SLURM_JOB_ID": "1", "IFS": "/", "BASH_FUNC_f%%": "() { echo from a function; }",
    }  # fmt: skip
    told = 'echo "$MINE"; echo "$SBATCH_PARTITION"; echo "$SLURM_JOB_ID"; echo "$LD_PRELOAD"; echo "$PATH"; f'
    answer = clean.submit(ann, "", command=["/bin/bash", "-c", told], environment=hostile, stdout=str(out))
    assert jobs_of(clean.slurm)[running].state == "RUNNING", f"ann ended bob's job: {answer}"
    assert answer.status == 201, answer
    clean.ask(bob, "POST", f"/v1/jobs/{running}/cancel")
    clean.until(str(answer.body["job"]), "COMPLETED")
    ran = [line.split() for line in (folder / "kept").read_text().splitlines()]
    assert ran, "the library belongs to ann's job, and does its work there"
    assert {uid for uid, _ in ran} == {str(ann.uid)}, ran
    assert not [program for _, program in ran if Path(program).name in COMMANDS], ran
    assert out.read_text().splitlines() == [
        *hostile["MINE"].splitlines(), "none", str(answer.body["job"]), hostile["LD_PRELOAD"], hostile["PATH"],
        "from a function",
    ]  # fmt: skip


@pytest.mark.parametrize("array", [None, "1-2"])
def test_what_sbatch_answers_is_proven_before_anything_is_done(
    clean: Stage, ann: Account, bob: Account, array: str | None
) -> None:
    running = clean.job(bob, "sleep 300", processes=4)
    clean.until(running, "RUNNING")
    waiting = clean.job(bob, "sleep 300", processes=4, **({} if array is None else {"array": array}))
    held = {name: job for name, job in jobs_of(clean.slurm).items() if name.startswith(waiting)}
    plain = clean.slurm.run("sbatch", "--parsable", "--hold", f"--uid={bob.uid}", "--chdir=/", "--wrap=true").strip()
    lies = (
        f"echo {running}", f"echo {waiting}", f"echo {plain}", "echo --user=cohabit-bob", "echo", "echo 1 2", "yes",
        f"echo {running}; echo {waiting}", f"echo {waiting},{running}", "setsid sleep 60 & exit 0",
    )  # fmt: skip
    before = jobs_of(clean.slurm)
    for lie in lies:
        (clean.folder / "lie").write_text(f"{lie}\n")
        answer = clean.submit(ann, "true", **({} if array is None else {"array": array}))
        assert answer.status in (422, 503), (lie, answer)
    now = jobs_of(clean.slurm)
    assert set(now) == set(before)
    for name in (running, plain, *held):
        kept = (now[name].state, now[name].mark, now[name].held, now[name].partition)
        assert kept == (before[name].state, before[name].mark, before[name].held, before[name].partition), name
    (clean.folder / "lie").unlink()
    mine = clean.submit(ann, "true")
    assert mine.status == 201, mine  # the controller lives


def test_the_controller_that_steers_is_not_root(clean: Stage, ann: Account) -> None:
    job = clean.job(ann, "sleep 300", processes=2)
    clean.until(job, "RUNNING")
    found = status_of(clean.pid)
    uids = {int(word) for word in found["Uid"].split()}
    assert (len(uids), 0 in uids, ann.uid in uids) == (1, False, False)
    assert 0 not in {int(word) for word in (found["Gid"] + " " + found["Groups"]).split()}
    assert [int(found[key], 16) for key in ("CapInh", "CapPrm", "CapEff", "CapAmb")] == [0, 0, 0, 0]
    assert found["NoNewPrivs"] == "1"
    (uid,), lease = uids, clean.slurm.folder / "lease"
    assert (os.readlink(lease), lease.stat().st_uid) == (f"{lease}.d/lease", uid)
    assert lease.read_text().split()[2] == "0"  # whom Slurm sees
    owned = {path.name for path in (clean.folder / "state").iterdir() if path.lstat().st_uid == uid}
    assert owned == {"private"}
    held = clean.folder / "state" / "launcher" / "watchdog.lock"
    with held.open("ab") as lock, pytest.raises(BlockingIOError):
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # by the launcher of the watchdog
    (watchdog,) = watchdogs_of(lease)
    assert [int(word) for word in status_of(watchdog)["Uid"].split()] == [uid] * 4
    service = Account("", uid, uid, Path("/"))
    conf = clean.slurm.environment["SLURM_CONF"]
    said = shell(service, f"SLURM_CONF={conf} scancel {job}; echo > {lease}; ln -sf /x {lease}")
    assert said.returncode != 0
    assert jobs_of(clean.slurm)[job].state == "RUNNING", "its account has no rights of its own in Slurm"
    clean.ask(ann, "POST", f"/v1/jobs/{job}/cancel")
    clean.until(job, "CANCELLED")


def test_without_its_launcher_the_controller_ends_with_a_sentence(
    stage: Stage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("second")
    text = write_site(stage.slurm, folder, "cs").read_text().replace(f"{stage.slurm.folder}/lease", f"{folder}/lease")
    (folder / "site.toml").write_text(text)
    with attached(folder / "site.toml") as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        (launcher,) = [one for one in children if b"launcher/serve.py" in Path(f"/proc/{one}/cmdline").read_bytes()]
        os.kill(int(launcher), 9)
        assert process.wait(60) == 1
    said = log_of(folder)()
    assert "the launcher, which runs the manager's commands, has ended; start it again" in said
    assert "Traceback" not in said
