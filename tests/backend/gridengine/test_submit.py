"""`cohabit submit` to a cluster under a real Grid Engine: an ordinary user submits, asks, cancels, reads.

The controller runs beside qmaster, in its namespaces: only there can it run qsub as somebody else.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.backend.gridengine.steering import jobs_of, until, write_site
from tests.backend.slurm.steering import log_of
from tests.support.gridengine_cluster import MASTER, PROGRAMS, GridEngineCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("gridengine-submit")]
NOBODY, CONTROLLER = 65534, "controller"


@dataclass
class Desk:
    """A steered cluster and the commands of its users."""

    ge: GridEngineCluster
    folder: Path

    @property
    def out(self) -> Path:
        """Where jobs may write."""
        return self.folder / "out"

    def say(self, *words: str, fails: bool = False, user: int = NOBODY) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tests.backend.slurm.as_user", str(user), *words], capture_output=True, text=True,
            timeout=120, check=False, env=os.environ | {"COHABIT_SERVER": str(self.folder / "door")},
        )  # fmt: skip
        assert (done.returncode != 0) == fails, done.stderr + self.story()
        assert "Traceback" not in done.stderr
        return done.stderr if fails else done.stdout

    def story(self) -> str:
        """What the controller said, what Grid Engine has, and how jobs of late ended."""
        kept = self.ge.run("qacct", "-j", check=False).splitlines()
        told = [line for line in kept if line.startswith(("jobnumber", "failed", "exit_status", "hostname"))]
        return "\n".join([log_of(self.folder)(), self.ge.run("qstat", "-f"), *told[-40:]])

    def submit(self, *words: str) -> str:
        return str(json.loads(self.say("submit", "--json", "--chdir", str(self.out), *words))["job"])

    def show(self, job: str) -> dict[str, Any]:
        found = json.loads(self.say("show", job, "--json"))
        assert isinstance(found, dict)
        return found

    def until(self, job: str, *states: str) -> None:
        until(lambda: self.show(job)["state"] in states, lambda: f"{self.show(job)} {self.story()}")


@pytest.fixture(scope="module")
def steered(gridengine: GridEngineCluster) -> Iterator[Desk]:
    """In a folder that all users can read, as a real site's are."""
    folder = gridengine.folder / "desk"
    (folder / "out").mkdir(parents=True)
    (folder / "out").chmod(0o777)
    site = write_site(gridengine, folder, "cs", more=f'[api]\nsocket = "{folder}/door"\n')
    site.write_text(site.read_text().replace(str(gridengine.bin), str(PROGRAMS)))
    log = folder / "attach.log"
    words = (sys.executable, "-m", "tests.backend.gridengine.attach", "gridengine", "attach", str(site))
    gridengine.start_on(MASTER, CONTROLLER, *words, log=log, folder=Path(__file__).parents[3])
    try:

        def steers() -> bool:
            assert gridengine.daemons[CONTROLLER].poll() is None, log.read_text()
            return "cohabit: steering" in log.read_text()

        until(steers, log.read_text)
        yield Desk(gridengine, folder)
    finally:
        gridengine.stop(CONTROLLER)


@pytest.fixture
def desk(steered: Desk) -> Desk:
    """Without jobs."""
    steered.ge.run("qdel", "-u", "*", check=False)
    until(lambda: not jobs_of(steered.ge), lambda: str(jobs_of(steered.ge)))
    return steered


def test_a_job_runs_as_its_owner_and_grid_engine_knows_it(desk: Desk) -> None:
    out = desk.out / "first.out"
    words = ("-n", "2", "--limit", "5m", "--name", "1st", "-o", str(out))
    told = '#!/bin/sh\n#$ -pe mpi 3\nid -u; echo "$NSLOTS"; echo "$0"; echo "$MINE"; pwd'  # no option of qsub
    job = desk.submit(*words, "--", "env", "MINE=a,b c", "sh", "-c", told, "it's  two  words")
    desk.until(job, "done")
    assert out.read_text().splitlines() == [str(NOBODY), "2", "it's  two  words", "a,b c", str(desk.out)]
    assert desk.say("logs", job).splitlines()[0] == str(NOBODY)
    kept = desk.ge.run("qacct", "-j", job)  # the same number
    assert [line.split()[1] for line in kept.splitlines() if line.startswith(("owner", "jobname"))] == [
        "nobody",
        "J1st",
    ]
    found = desk.show(job)
    assert (found["user"], found["exit_status"], found["limit_s"]) == ("nobody", 0, 300)


def test_waiting_asking_changing_and_cancelling(desk: Desk) -> None:
    long = [desk.submit("-n", "4", "--", "sleep", "300") for _ in range(4)]
    for job in long:
        desk.until(job, "running")
    waits = desk.submit("-n", "4", "--limit", "10m", "--mem", "100", "--", "sleep", "1")
    after = desk.submit("--after", waits, "-o", "/dev/null", "--", "sh", "-c", "exit 3")
    assert waits in desk.say("why", waits)
    assert f"job {waits}" in desk.say("why", after)
    asked = desk.ge.run("qstat", "-j", waits)
    assert "h_rt=600" in asked
    assert f"h_vmem={100 * 2**20}" in asked
    desk.say("change", waits, "--limit", "3m")
    until(lambda: "h_rt=180" in desk.ge.run("qstat", "-j", waits), log_of(desk.folder))
    desk.say("cancel", long[0])
    desk.until(long[0], "cancelled", "failed")  # Grid Engine tells a deleted run by the signal that ended it
    desk.until(waits, "done")
    desk.until(after, "failed")
    assert desk.show(after)["exit_status"] == 3
    last = desk.submit("-n", "4", "--hold", "--", "sleep", "1")
    assert desk.show(last)["state"] == "held"
    desk.say("cancel", last)
    until(lambda: last not in jobs_of(desk.ge), log_of(desk.folder))
    for job in long[1:]:
        desk.say("cancel", job)


def test_a_run_that_reaches_its_limit_is_told_so(desk: Desk) -> None:
    job = desk.submit("--limit", "2s", "-o", "/dev/null", "--", "sleep", "300")
    desk.until(job, "killed")


def test_an_array_is_grid_engines_own(desk: Desk) -> None:
    pattern = str(desk.out / "part-%a.out")
    words = ("--array", "1-3%2", "-o", pattern, "--", "sh", "-c", "echo $COHABIT_ARRAY_MEMBER of $COHABIT_ARRAY_SIZE")
    job = desk.submit(*words)
    until(lambda: job not in jobs_of(desk.ge), lambda: str(jobs_of(desk.ge)))
    for member in range(1, 4):
        part = desk.out / f"part-{member}.out"
        until(part.exists, str(part))
        assert part.read_text() == f"{member} of 3\n"
        assert part.stat().st_uid == NOBODY


def test_what_cannot_be_is_one_sentence_and_leaves_nothing(desk: Desk) -> None:
    for words, said in (
        (("--partition", "none.q"), "Grid Engine refuses it"), (("--framework", "mpi"), "starts its own processes"),
        (("-n", "5", "--single-node"), "no host has 5 slots"), (("--array", "0-3"), "counts from 1"),
        (("-o", "/tmp/a,b"), "comma"),
    ):  # fmt: skip
        assert said in desk.say("submit", *words, "--", "true", fails=True)
    assert not jobs_of(desk.ge)
