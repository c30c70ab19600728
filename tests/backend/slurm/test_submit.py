"""`cohabit submit` to a cluster under a real Slurm: an ordinary user submits, asks, cancels, reads."""

from __future__ import annotations

import json
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

from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import attached, jobs_of, log_of, submit, until, write_site
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("slurm-submit")]
NOBODY = 65534


@dataclass
class Desk:
    """A steered cluster and the commands of its users."""

    slurm: SlurmCluster
    folder: Path
    socket: Path

    def say(self, *words: str, fails: bool = False, user: int = NOBODY) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tests.backend.slurm.as_user", str(user), *words], capture_output=True, text=True,
            timeout=120, check=False, env=os.environ | {"COHABIT_SERVER": str(self.socket)},
        )  # fmt: skip
        assert (done.returncode != 0) == fails, done.stderr + log_of(self.folder)()
        assert "Traceback" not in done.stderr
        return done.stderr if fails else done.stdout

    def submit(self, *words: str) -> str:
        return str(json.loads(self.say("submit", "--json", "--chdir", str(self.folder / "out"), *words))["job"])

    def show(self, job: str) -> dict[str, Any]:
        found = json.loads(self.say("show", job, "--json"))
        assert isinstance(found, dict)
        return found

    def queue(self, user: int) -> dict[str, dict[str, Any]]:
        return {one["job"]: one for one in json.loads(self.say("queue", "--json", user=user))["jobs"]}

    def until(self, job: str, *states: str) -> None:
        until(lambda: self.show(job)["state"] in states, 90, lambda: f"{self.show(job)} {log_of(self.folder)()}")


@pytest.fixture
def desk(steered: Desk) -> Desk:
    """Without jobs."""
    steered.slurm.run("scancel", "--user=root,nobody", check=False)
    until(lambda: not steered.slurm.run("squeue", "--noheader").strip(), 60)
    return steered


@pytest.fixture(scope="module")
def steered() -> Iterator[Desk]:
    """In a folder that all users can read, as a real site's are."""
    if reason := missing():
        pytest.skip(reason)
    folder = Path(tempfile.mkdtemp(prefix="cohabit-submit-"))
    folder.chmod(0o755)
    text = LUA.read_text().replace("/var/lib/cohabit/lease", str(folder / "slurm" / "lease"))
    try:
        with running_slurm(folder / "slurm", nodes=2, cores=4, job_submit=text, name="submit") as slurm:
            (folder / "out").mkdir()
            (folder / "out").chmod(0o777)
            site = write_site(slurm, folder, "cs")
            site.write_text(site.read_text() + f'[api]\nsocket = "{folder}/door"\n')
            with attached(site):
                yield Desk(slurm, folder, folder / "door")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def test_a_job_runs_as_its_owner_and_slurm_knows_it(desk: Desk) -> None:
    out = desk.folder / "out" / "first.out"
    words = ("-n", "2", "--limit", "5m", "--name", "first", "-o", str(out))
    job = desk.submit(*words, "--", "sh", "-c", 'id -u; echo "$SLURM_NTASKS"; echo "$0"', "it's  two  words")
    desk.until(job, "done")
    assert out.read_text().splitlines() == [str(NOBODY), "2", "it's  two  words"]
    assert desk.say("logs", job).splitlines()[0] == str(NOBODY)
    there = jobs_of(desk.slurm)[job]  # the same number
    assert (there.user, there.job_name, there.state) == (NOBODY, "first", "COMPLETED")
    assert there.mark.startswith("cohabit:run:1:")
    found = desk.show(job)
    assert (found["user"], found["exit_status"], found["limit_s"]) == ("nobody", 0, 300)


def test_waiting_asking_changing_and_cancelling(desk: Desk) -> None:
    long = [desk.submit("-n", "4", "--", "sleep", "300") for _ in range(2)]
    for job in long:
        desk.until(job, "running")
    waits = desk.submit("-n", "4", "--limit", "10m", "--", "sleep", "1")
    after = desk.submit("--after", waits, "-o", "/dev/null", "--", "true")
    plain = submit(desk.slurm, desk.folder, 1, "-n4")  # by sbatch, of root
    until(lambda: plain in desk.queue(0), 60, log_of(desk.folder))
    assert {desk.queue(0)[job]["state"] for job in (waits, plain)} == {"queued"}
    assert waits in desk.queue(NOBODY)
    assert plain not in desk.queue(NOBODY)  # root's is none of nobody's business
    assert waits in desk.say("why", waits)
    assert f"job {waits}" in desk.say("why", after)
    assert "there is no such job" in desk.say("cancel", plain, fails=True)
    desk.say("change", waits, "--limit", "3m")
    until(lambda: jobs_of(desk.slurm)[waits].limit_s == 180, 30)
    desk.say("cancel", long[0])
    desk.until(long[0], "cancelled")
    desk.until(waits, "done")
    desk.until(after, "done")
    assert jobs_of(desk.slurm)[after].start_s >= jobs_of(desk.slurm)[waits].end_s
    last = desk.submit("-n", "4", "--hold", "--", "sleep", "1")
    assert desk.show(last)["state"] == "held"
    desk.say("cancel", last)
    until(lambda: jobs_of(desk.slurm)[last].state == "CANCELLED", 60, log_of(desk.folder))
    desk.say("cancel", long[1])
    until(lambda: jobs_of(desk.slurm)[plain].state == "COMPLETED", 60, log_of(desk.folder))


def test_an_owner_with_slurms_own_commands(desk: Desk) -> None:
    def give(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            words, env=desk.slurm.environment, capture_output=True, text=True, timeout=60, check=False, cwd="/",
            extra_groups=[], user=NOBODY, group=NOBODY,
        )  # fmt: skip

    script = desk.folder / "out" / "job.sh"
    script.write_text("#!/bin/sh\nsleep 1\n")
    long = [desk.submit("-n", "4", "--", "sleep", "300") for _ in range(2)]
    for job in long:
        desk.until(job, "running")
    words = ("sbatch", "--parsable", "-n4", "--time=9", "--output=/dev/null", str(script))
    one, two = (give(*words).stdout.strip() for _ in range(2))
    until(lambda: {one, two} <= desk.queue(NOBODY).keys(), 60, log_of(desk.folder))
    refused = give("scontrol", "release", one)
    assert refused.returncode, "only Cohabit releases it while its lease runs"
    assert give("scontrol", "update", f"JobId={one}", "TimeLimit=4").returncode == 0
    until(lambda: desk.show(one)["limit_s"] == 240, 60, log_of(desk.folder))
    assert give("scancel", two).returncode == 0
    desk.until(two, "cancelled")
    assert jobs_of(desk.slurm)[one].held
    assert give("scancel", *long).returncode == 0
    desk.until(one, "done")


def test_a_job_slurm_cannot_launch_says_so(desk: Desk) -> None:
    job = desk.submit("-o", "/proc/closed/file", "--", "true")
    desk.until(job, "failed")
    assert "could not launch it" in desk.say("show", job)


def test_an_array_has_its_members(desk: Desk) -> None:
    pattern = str(desk.folder / "out" / "part-%a.out")
    job = desk.submit(
        "--array", "1-4%2", "-o", pattern, "--", "sh", "-c", "echo $COHABIT_ARRAY_MEMBER of $COHABIT_ARRAY_SIZE"
    )
    for member in range(1, 5):
        desk.until(f"{job}_{member}", "done")
        assert (desk.folder / "out" / f"part-{member}.out").read_text() == f"{member} of 4\n"
    assert all(jobs_of(desk.slurm)[f"{job}_{member}"].mark.startswith("cohabit:run:") for member in range(1, 5))


def test_what_cannot_be_is_one_sentence_and_leaves_nothing(desk: Desk) -> None:
    before = set(jobs_of(desk.slurm))
    assert "Slurm refuses it" in desk.say("submit", "--partition", "none", "--", "true", fails=True)
    assert "starts servers of its own" in desk.say("submit", "--framework", "spark", "--", "true", fails=True)
    assert "Slurm refuses it" in desk.say("submit", "-n", "400", "--", "true", fails=True)
    new = [job for name, job in jobs_of(desk.slurm).items() if name not in before]
    assert not [job.name for job in new if job.waits or job.runs]


def test_nodes_are_called_by_slurms_names(desk: Desk) -> None:
    long = [desk.submit("-n", "4", "--", "sleep", "300") for _ in range(2)]
    for job in long:
        desk.until(job, "running")
    waits = desk.submit("-n", "3", "--", "sleep", "1")
    desk.until(waits, "queued")
    names = {tuple(desk.show(job)["node_names"]) for job in long}
    assert names == {("n0",), ("n1",)}
    first = next(job for job in long if desk.show(job)["node_names"] == ["n0"])
    assert "4 cores on node n0" in desk.say("show", first)
    assert "on node n0" in desk.say("why", first, user=0)
    assert "the nearest, node n0, lacks 3 cores" in desk.say("why", waits, user=0)
    line = next(one for one in desk.say("queue", user=0).splitlines() if f" {first} " in one)
    assert " n0 " in line
    assert " n0 " in desk.say("top", "--once", user=0)
    desk.say("nodes", "--drain", "n1", user=0)
    found = {one["name"]: one for one in json.loads(desk.say("nodes", "--json", user=0))["nodes"]}
    assert (found["n0"]["state"], found["n1"]["state"], found["n1"]["node"]) == ("busy", "drained", 1)
    desk.say("nodes", "--resume", "n1", user=0)
    assert "node n7: there is no such node" in desk.say("nodes", "--drain", "n7", user=0, fails=True)
    desk.say("nodes", "--reserve", "cooling", "--nodes", "n[0-1]", "--from", "+10s", "--for", "1h", user=0)
    assert "n[0-1]" in desk.say("nodes", user=0)
    assert "window cooling closes nodes n[0-1] " in desk.say("why", waits, user=0)
    desk.say("nodes", "--unreserve", "cooling", user=0)
    ahead = json.loads(desk.say("submit", "--dry-run", "--json", "--limit", "1m", "-n", "2", "--", "true"))
    assert ahead["node_names"] == [f"n{node}" for node in ahead["nodes"]]


def test_an_unknown_type_of_work_is_said_at_submission_and_in_the_log(desk: Desk) -> None:
    script = desk.folder / "typed.sh"
    script.write_text("#!/bin/sh\ntrue\n")

    def typed(comment: str) -> str:
        """What sbatch says beside the job's number."""
        words = ["sbatch", "--parsable", "--output=/dev/null", "-n1", f"--comment={comment}", str(script)]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=True, env=desk.slurm.environment)
        job = done.stdout.strip()
        until(lambda: jobs_of(desk.slurm)[job].state == "COMPLETED", 90, log_of(desk.folder))
        return done.stderr

    assert "cohabit:type=foo is not known and counts as not stated" in typed("mine cohabit:type=foo")
    assert "write compute, network, io" in log_of(desk.folder)()
    assert typed("cohabit:type=io,mine") == typed("mine") == ""
    assert log_of(desk.folder)().count("is not known and counts") == 1
