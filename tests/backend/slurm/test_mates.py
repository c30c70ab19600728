"""Mates across two real Slurm clusters: they start together or not at all, whoever dies in the middle."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from cohabit.live.peers.keys import write_new_key
from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import forget_lease, jobs_of, log_of, start_attached, stop, until, write_site
from tests.backend.slurm.test_slurms_own_changes import facts
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("slurm-pair")]
SCRIPT = """#!/bin/sh
date +'begin %s.%N' >> {log}
sleep {seconds} || exit
while [ -e {log}.stay ]; do sleep 0.2 || exit; done
date +'end %s.%N' >> {log}
"""
LEASE_S = 8  # of a group: how long a mate may run alone
MATES = f"""
[domain]
name = "{{name}}"
listen = "127.0.0.1:{{port}}"
scheme = "hold"
[peer.{{other}}]
url = "http://127.0.0.1:{{other_port}}"
key = "{{key}}"
[mates]
lease_s = {LEASE_S}
lead_s = 1
late_s = 1
round_trip_s = 1
ask_s = 1
retry_s = 2
dead_after_s = 600
when_dead = "wait"
"""


@dataclass
class Side:
    """One cluster, its site, and whoever steers it."""

    name: str
    slurm: SlurmCluster
    folder: Path
    site: Path = Path()
    process: subprocess.Popen[bytes] | None = None

    def stop(self, hard: bool = False) -> None:
        if self.process is not None:
            stop(self.process, hard)

    def submit(self, mates: str, seconds: float) -> str:
        script = self.folder / "job.sh"
        script.write_text(SCRIPT.format(log=self.log, seconds=seconds))
        words = ("sbatch", "--parsable", "--output=/dev/null", "-n4", f"--comment=cohabit:mates={mates}", str(script))
        return self.slurm.run(*words).strip()

    @property
    def log(self) -> Path:
        return self.folder / "log"

    @property
    def stay(self) -> Path:
        """While this is there its jobs do not end."""
        return self.folder / "log.stay"

    def said(self, word: str) -> list[float]:
        """When its job said so."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [float(line.split()[1]) for line in lines if line.startswith(word)]

    def state(self, job: str) -> str:
        found = jobs_of(self.slurm)[job]
        return "held" if found.waits and found.held else found.state


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[SlurmCluster]]:
    if reason := missing():
        pytest.skip(reason)
    folders = [tmp_path_factory.mktemp(name) for name in ("alpha", "beta")]
    texts = [LUA.read_text().replace("/var/lib/cohabit/lease", str(folder / "lease")) for folder in folders]
    with (
        running_slurm(folders[0], nodes=1, cores=4, job_submit=texts[0], name="alpha") as one,
        running_slurm(folders[1], nodes=1, cores=4, job_submit=texts[1], name="beta") as two,
    ):
        yield [one, two]


@pytest.fixture
def sides(clusters: list[SlurmCluster], tmp_path: Path) -> Iterator[list[Side]]:
    """Both steered, both empty."""
    write_new_key(tmp_path / "key")
    taken = [socket.create_server(("127.0.0.1", 0)) for _ in clusters]
    ports = [one.getsockname()[1] for one in taken]
    for one in taken:
        one.close()
    names, found = ("alpha", "beta"), []
    for at, slurm in enumerate(clusters):
        folder = tmp_path / names[at]
        folder.mkdir()
        forget_lease(slurm.folder)
        site = write_site(slurm, folder, "ce", lease_s=60)
        text = MATES.format(
            name=names[at], port=ports[at], other=names[1 - at], other_port=ports[1 - at], key=tmp_path / "key"
        )
        site.write_text(site.read_text().replace("[slurm]", "[slurm]\nmates_within_s = 5") + text)
        found.append(Side(names[at], slurm, folder, site))
    try:
        for side, process in zip(found, start_attached(*(side.site for side in found)), strict=True):
            side.process = process
        yield found
    finally:
        for side in found:
            side.stop()
            side.slurm.run("scancel", "--user=root", check=False)
        for side in found:
            until(lambda slurm=side.slurm: not slurm.run("squeue", "--noheader").strip(), 60)  # type: ignore[misc]


def told(side: Side, kind: str) -> int:
    """How many facts of a kind its core was told."""
    return sum(type(one).__name__ == kind for one in facts(side.folder))


def why(sides: list[Side]) -> str:
    return "\n".join(f"{side.name}: {log_of(side.folder)()}\n{side.slurm.run('squeue', check=False)}" for side in sides)


def test_a_pair_starts_together(sides: list[Side]) -> None:
    one, two = sides
    first = one.submit("pair", 3)
    until(lambda: one.state(first) == "held", 30)
    second = two.submit("pair", 3)
    until(lambda: one.said("end") and two.said("end"), 90, lambda: why(sides))
    begins = [one.said("begin")[-1], two.said("begin")[-1]]
    assert abs(begins[0] - begins[1]) < 2.0, (begins, why(sides))
    until(lambda: one.state(first) == two.state(second) == "COMPLETED", 30)
    assert jobs_of(one.slurm)[first].mark.endswith("@pair")


def test_a_mate_whose_other_side_dies_is_stopped_and_starts_again_with_it(sides: list[Side]) -> None:
    one, two = sides
    for side in sides:
        side.stay.touch()
    jobs = [side.submit("cut", 1) for side in sides]
    until(lambda: one.said("begin") and two.said("begin"), 90, lambda: why(sides))
    two.stop(hard=True)
    # the controller of `two` is dead: its watchdog stops the job there, the controller of `one` the other
    until(lambda: [side.state(job) for side, job in zip(sides, jobs, strict=True)] == ["held", "held"], 60,
          lambda: why(sides))  # fmt: skip
    assert not one.said("end")
    assert not two.said("end")
    before = len(one.said("begin"))
    for side in sides:
        side.stay.unlink()
    (two.process,) = start_attached(two.site)
    until(lambda: one.said("end") and two.said("end"), 120, lambda: why(sides))
    assert len(one.said("begin")) > before
    assert abs(one.said("begin")[-1] - two.said("begin")[-1]) < 2.0


def test_neither_starts_while_one_slurm_is_gone(sides: list[Side]) -> None:
    one, two = sides
    two.submit("gone", 1)
    until(lambda: told(two, "JobSubmitted"), 60, lambda: why(sides))
    two.slurm.stop("slurmctld")
    try:
        until(lambda: "does not answer" in log_of(two.folder)(), 60)
        first = one.submit("gone", 1)
        until(lambda: told(one, "JobSubmitted"), 60, lambda: why(sides))
        until(lambda: told(one, "PeerReported"), 60, lambda: why(sides))  # the other side has answered
        time.sleep(3)  # and is asked again and again
        assert one.state(first) == "held"
        assert not one.said("begin")
    finally:
        two.slurm.start("slurmctld")
        two.slurm.await_controller()
    until(lambda: one.said("end") and two.said("end"), 200, lambda: why(sides))
    assert abs(one.said("begin")[-1] - two.said("begin")[-1]) < 2.0


def test_a_job_with_mates_that_is_given_back_is_held_for_its_owner(sides: list[Side]) -> None:
    one, _ = sides
    job = one.submit("left", 1)
    until(lambda: told(one, "JobSubmitted"), 30, lambda: why(sides))
    words = [sys.executable, "-m", "tests.backend.slurm.attach", "slurm", "detach", str(one.site), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=True)
    said = json.loads(done.stdout)
    assert said["to_owners"] in ([job], [])  # the watchdog may have been first
    assert said.pop("to_owners") is not None
    assert said == {"lease_runs": False, "released": [], "left_held": [], "failed": {}}
    found = jobs_of(one.slurm)[job]
    assert (found.mark, found.reason, found.state) == ("cohabit:back@left", "JobHeldUser", "PENDING")
    assert not one.said("begin")
