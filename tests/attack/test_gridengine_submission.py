"""A controller of root's on top of a real Grid Engine: an account submits with an environment, or an answer of qsub,
that would make root act on another account's jobs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.attack.accounts import Account, act_as
from tests.backend.gridengine.conftest import end_watchdogs, verifier
from tests.backend.gridengine.steering import jobs_of, until, write_site
from tests.backend.slurm.steering import log_of
from tests.live.api.serving import Answer, UnixConnection, ask
from tests.support.gridengine_cluster import MASTER, PROGRAMS, GridEngineCluster, missing, running_gridengine

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("gridengine-attack-submission")]
LIBRARY = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
__attribute__((constructor)) static void begin(void) {
    char program[4096] = {0};
    readlink("/proc/self/exe", program, sizeof program - 1);
    FILE *kept = fopen("%s", "a");
    if (kept != NULL) { fprintf(kept, "%%d %%s\n", (int) getuid(), program); fclose(kept); }
    if (strstr(program, "qsub") != NULL) { puts("%s"); fflush(stdout); _exit(0); }
}
"""
LIAR = '#!/bin/sh\n[ -e {folder}/lie ] || exec {programs}/qsub "$@"\ncat > /dev/null; exec sh {folder}/lie\n'


@dataclass
class Stage:
    """A steered cluster. While there is a file `lie`, qsub is whatever that says."""

    ge: GridEngineCluster
    folder: Path

    def submit(self, account: Account, script: str, **others: Any) -> Answer:
        body = {"command": ["/bin/sh", "-c", script], "limit_s": 600, "folder": str(account.home), **others}

        def call() -> list[Any]:
            return list(ask(UnixConnection(str(self.folder / "door")), "POST", "/v1/jobs", body))

        return Answer(*act_as(account, call))

    def running(self, account: Account) -> str:
        answer = self.submit(account, "sleep 300", stdout="/dev/null")
        assert answer.status == 201, f"{answer} {log_of(self.folder)()}"
        job = str(answer.body["job"])
        until(lambda: jobs_of(self.ge)[job].active, log_of(self.folder))
        return job


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """The controller runs beside qmaster, in its namespaces."""
    if reason := missing():
        pytest.skip(reason)
    if shutil.which("cc") is None:
        pytest.skip("no compiler (Debian: apt-get install gcc)")
    folder = Path(tempfile.mkdtemp(prefix="cohabit-attack-ge-"))
    folder.chmod(0o755)
    try:
        with running_gridengine(folder / "ge", hosts=1, jsv=verifier(folder / "ge" / "lease")) as ge:
            (folder / "bin").mkdir()
            for program in PROGRAMS.glob("q*"):
                (folder / "bin" / program.name).symlink_to(program)
            (folder / "bin" / "qsub").unlink()
            (folder / "bin" / "qsub").write_text(LIAR.format(folder=folder, programs=PROGRAMS))
            (folder / "bin" / "qsub").chmod(0o755)
            site = write_site(ge, folder, "cs", more=f'[api]\nsocket = "{folder}/door"\n')
            site.write_text(site.read_text().replace(str(ge.bin), str(folder / "bin")))
            log = folder / "attach.log"
            words = (sys.executable, "-m", "tests.backend.gridengine.attach", "gridengine", "attach", str(site))
            ge.start_on(MASTER, "controller", *words, log=log, folder=Path(__file__).parents[2])
            until(lambda: "cohabit: steering" in log.read_text(), log.read_text)
            yield Stage(ge, folder)
            ge.stop("controller")
        end_watchdogs(folder / "ge")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_library_of_the_owners_acts_on_nobody_else(stage: Stage, ann: Account, bob: Account) -> None:
    running = stage.running(bob)
    planted = Path(tempfile.mkdtemp(dir=ann.home))
    out = planted / "said"
    (planted / "kept").touch()
    (planted / "library.c").write_text(LIBRARY % (planted / "kept", running))
    subprocess.run(["cc", "-shared", "-fPIC", "-o", planted / "library.so", planted / "library.c"], check=True)
    for path in (planted, *planted.iterdir()):
        os.chown(path, ann.uid, ann.gid)
    hostile = {
        "LD_PRELOAD": str(planted / "library.so"), "PATH": f"{planted}:/usr/bin:/bin", "MINE": "it's,mine\nall",
        "SGE_ROOT": "/nowhere", "JOB_ID": "1", "BASH_FUNC_f%%": "() { echo from a function; }",
    }  # fmt: skip
    told = 'echo "$MINE"; echo "$JOB_ID"; echo "$LD_PRELOAD"; echo "$PATH"; f'
    answer = stage.submit(ann, "", command=["/bin/bash", "-c", told], environment=hostile, stdout=str(out))
    assert answer.status == 201, answer
    job = str(answer.body["job"])
    assert jobs_of(stage.ge)[running].active
    until(lambda: out.exists() and "from a function" in out.read_text(), log_of(stage.folder))
    assert out.read_text().splitlines() == [
        *hostile["MINE"].splitlines(), job, hostile["LD_PRELOAD"], hostile["PATH"], "from a function",
    ]  # fmt: skip
    ran = [line.split() for line in (planted / "kept").read_text().splitlines()]
    assert {uid for uid, _ in ran} == {str(ann.uid)}, ran
    assert not [program for _, program in ran if Path(program).parent == PROGRAMS], ran
    assert jobs_of(stage.ge)[running].active


def test_what_qsub_answers_is_proven_before_anything_is_done(stage: Stage, ann: Account, bob: Account) -> None:
    running = stage.running(bob)
    before = context(stage.ge, running)
    for lie in (f"echo {running}", f"echo {running}.1-2:1", "echo '*'", "echo", f"echo x; echo {running},1", "yes"):
        (stage.folder / "lie").write_text(f"{lie}\n")
        answer = stage.submit(ann, "true")
        assert answer.status in (422, 503), (lie, answer)
    assert jobs_of(stage.ge)[running].active
    assert context(stage.ge, running) == before
    (stage.folder / "lie").unlink()
    assert stage.submit(ann, "true", stdout="/dev/null").status == 201


def context(ge: GridEngineCluster, job: str) -> list[str]:
    """What was done with a job stands there."""
    return [line for line in ge.run("qstat", "-j", job).splitlines() if line.startswith(("context:", "version:"))]
