"""Shadow mode beside a real Slurm: it changes nothing, and what it says of the jobs follows from what it saw."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.app.steer.slurm_shadow import Sight, judge
from cohabit.app.steer.slurm_site import read_slurm_site
from cohabit.backend.slurm import commands, text_output
from cohabit.backend.slurm.calls import Calls, ReadOnly
from cohabit.backend.slurm.discovery import arrange
from cohabit.backend.steered.contract import Forbidden
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from tests.backend.slurm.steering import jobs_of, submit, until
from tests.backend.slurm.test_reading import recorded
from tests.support.slurm_cluster import SlurmCluster

SITE = """place = "state"
[policy]
name = "{policy}"
[slurm]
partitions = ["{partition}"]
poll_s = 0.3
"""
WATCHED = "watched"
WRAPPER = """#!/bin/sh
echo "$(basename "$0") $*" >> {log}
exec {real} "$@"
"""


@pytest.mark.parametrize(
    "words", [commands.release(["1"]), commands.hold("1"), commands.cancel("1"), commands.place("1", ["n0"], 1, "x")]
)
def test_the_reader_refuses_what_could_change_something(words: tuple[str, ...]) -> None:
    with pytest.raises(Forbidden, match="only watches"):
        asyncio.run(ReadOnly()(words))


def site_file(folder: Path, policy: str, partition: str = "all") -> Path:
    path = folder / "site.toml"
    path.write_text(SITE.format(policy=policy, partition=partition))
    return path


def four_jobs() -> dict[str, Sight]:
    """Two nodes' worth each of 14 cores, for 100 s, all ready at once; Slurm ran them one after the other on n0."""
    return {
        str(number): Sight(Job(str(number), 10**9, 14, partition="all"), 1000.0, 1000.0 + 100 * number,
                           1100.0 + 100 * number, ("n0",))
        for number in range(4)
    }  # fmt: skip


def test_what_would_have_been(tmp_path: Path) -> None:
    found = arrange(
        text_output.nodes(recorded("22.05-nodes.txt")), text_output.partitions(recorded("22.05-partitions.txt")),
        text_output.config(recorded("22.05-config.txt")), ["all"],
    )  # fmt: skip
    said = judge(read_slurm_site(site_file(tmp_path, "cs")), found, four_jobs(), 0.5)
    assert said["slurm"] == {"mean_wait_s": 150.0, "mean_turnaround_s": 250.0, "node_hours": round(400 / 3600, 4)}
    assert said["policy"]["mean_wait_s"] == 0  # there is space for all at once
    assert said["policy"]["mean_turnaround_s"] == 100
    assert said["policy_pessimistic"]["mean_turnaround_s"] == 150
    assert said["difference"]["policy"]["wait_s"]["mean"] == -150
    assert said["would_share"] == 4
    assert said["name"] == "cs"
    alone = judge(read_slurm_site(site_file(tmp_path, "ce")), found, four_jobs(), 0.5)
    assert alone["would_share"] == 0
    assert alone["policy"]["node_hours"] == round(400 / 3600, 4)
    with pytest.raises(InputError, match="only 0 jobs"):
        judge(read_slurm_site(site_file(tmp_path, "ce")), found, {}, 0.5)


def test_only_what_is_not_over_is_still_going(tmp_path: Path) -> None:
    """Not a job that was cancelled before it began, nor one that was over within the second in which it began."""
    found = arrange(
        text_output.nodes(recorded("22.05-nodes.txt")), text_output.partitions(recorded("22.05-partitions.txt")),
        text_output.config(recorded("22.05-config.txt")), ["all"],
    )  # fmt: skip
    seen = four_jobs()
    for name, start_s, end_s in (("waits", 0, 0), ("runs", 1010, 0), ("cancelled", 1020, 1020), ("short", 1030, 1030)):
        seen[name] = Sight(Job(name, 10**9, 14, partition="all"), 1000.0, start_s, end_s, ("n0",))
    said = judge(read_slurm_site(site_file(tmp_path, "cs")), found, seen, 0.5)
    assert (said["jobs"], said["still_going"]) == (4, 2)


@pytest.fixture
def own_partition(empty: SlurmCluster) -> Iterator[str]:
    """All nodes again, with no jobs but those of the test: what others have left in Slurm's memory is in `all`."""
    empty.run("scontrol", "create", f"PartitionName={WATCHED}", "Nodes=ALL", "State=UP")
    yield WATCHED
    empty.run("scancel", f"--partition={WATCHED}", check=False)
    until(lambda: not empty.run("squeue", "--noheader").strip(), 60, lambda: empty.run("squeue"))
    empty.run("scontrol", "delete", f"PartitionName={WATCHED}")


@pytest.mark.slow
@pytest.mark.xdist_group("slurm-shadow")
def test_nothing_is_changed(empty: SlurmCluster, own_partition: str, tmp_path: Path) -> None:
    site, log = site_file(tmp_path, "cs", own_partition), tmp_path / "calls"
    (tmp_path / "bin").mkdir()
    for name in ("squeue", "sinfo", "sacct", "scontrol", "scancel", "sbatch"):  # whatever it calls is written down
        wrapper = tmp_path / "bin" / name
        wrapper.write_text(WRAPPER.format(log=log, real=shutil.which(name)))
        wrapper.chmod(0o755)
    names = [submit(empty, tmp_path, 1, "-n28", f"-p{own_partition}") for _ in range(12)]
    held, given_up = (submit(empty, tmp_path, 2, "-n28", f"-p{own_partition}", "--hold") for _ in range(2))
    until(lambda: sum(jobs_of(empty)[name].state == "COMPLETED" for name in names) >= 2, 60)  # enough to judge by
    environment = empty.environment | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    words = [sys.executable, "-m", "tests.backend.slurm.attach", "slurm", "shadow", str(site), "--for"]
    done = subprocess.run([*words, "3s"], env=environment, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    assert "cs, pessimistic" in done.stdout
    assert all(jobs_of(empty)[name].held for name in (held, given_up))
    empty.run("scancel", given_up)
    until(lambda: all(jobs_of(empty)[name].state == "COMPLETED" for name in names), 60)
    done = subprocess.run(  # what it saw is kept
        [*words, "1s", "--json"], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["jobs"] == 12
    assert said["still_going"] == 1  # the one that is held; the other one is over
    assert said["policy"]["mean_wait_s"] <= said["slurm"]["mean_wait_s"] + 1
    calls = log.read_text().splitlines()
    assert len(calls) > 5
    assert all(commands.changes_nothing(line.split()) for line in calls), calls
    assert jobs_of(empty)[held].held
    assert not any(jobs_of(empty)[name].mark for name in (*names, held))


def test_an_absent_slurm_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=nowhere\nSlurmctldHost=nowhere(127.0.0.1)\nSlurmctldPort=1\n")
    site = read_slurm_site(site_file(tmp_path, "cs"))
    calls = Calls(str(tmp_path / "slurm.conf"), timeout_s=2)
    with pytest.raises(InputError, match="Slurm does not answer"):
        asyncio.run(site.discover(calls))
