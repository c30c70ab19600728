"""Shadow mode beside a real Slurm: it changes nothing, and what it says of the jobs follows from what it saw."""

from __future__ import annotations

import asyncio
import json
import os
import re
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
                           1100.0 + 100 * number, ("n0",), watched=True)
        for number in range(4)
    }  # fmt: skip


def test_what_would_have_been(tmp_path: Path) -> None:
    found = arrange(
        text_output.nodes(recorded("22.05-nodes.txt")), text_output.partitions(recorded("22.05-partitions.txt")),
        text_output.config(recorded("22.05-config.txt")), ["all"],
    )  # fmt: skip
    page = tmp_path / "shadow.html"
    said = judge(read_slurm_site(site_file(tmp_path, "cs")), found, four_jobs(), 0.5, page)
    text = page.read_text()
    assert "3 policies ran 4 jobs" in text.replace("\u00a0", " ")
    for words in ("Slurm: every job", "cs: every job", "cs, pessimistic: every job"):
        assert words in text
    assert re.search(r"Run time against alone.*?<td[^>]*>1<.*?<td[^>]*>1<.*?<td[^>]*>1\.5<", text, re.DOTALL)
    assert said["slurm"] == {"mean_wait_s": 150.0, "mean_turnaround_s": 250.0, "node_hours": round(400 / 3600, 4)}
    assert said["policy"]["mean_wait_s"] == 0  # there is space for all at once
    assert said["policy"]["mean_turnaround_s"] == 100
    assert said["policy_pessimistic"]["mean_turnaround_s"] == 150
    assert said["difference"]["policy"]["wait_s"]["mean"] == -150
    assert said["would_share"] == 4
    assert said["name"] == "cs"
    assert said["difference"]["policy"]["wait_s"]["low"] is None, "400 s with jobs of 400 s is one stretch"
    assert said["verdict"].startswith("That is too short a time")
    alone = judge(read_slurm_site(site_file(tmp_path, "ce")), found, four_jobs(), 0.5)
    assert alone["would_share"] == 0
    assert alone["verdict"].startswith("No job would have shared a node: nothing is gained by sharing")
    assert alone["policy"]["node_hours"] == round(400 / 3600, 4)
    with pytest.raises(InputError, match="only 0 jobs were watched from submission to end"):
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


def test_jobs_from_before_and_jobs_that_still_run_take_nodes_and_do_not_count(tmp_path: Path) -> None:
    found = arrange(
        text_output.nodes(recorded("22.05-nodes.txt")), text_output.partitions(recorded("22.05-partitions.txt")),
        text_output.config(recorded("22.05-config.txt")), ["all"],
    )  # fmt: skip
    everywhere = tuple(found.names)
    whole = Job("before", 10**9, len(everywhere), nodes=len(everywhere), partition="all", exclusive=True)
    seen = {
        "before": Sight(whole, 900.0, 990.0, 1200.0, everywhere),
        "mine": Sight(Job("mine", 10**9, 28, partition="all"), 1000.0, 1201.0, 1301.0, ("n0",), watched=True),
        "next": Sight(Job("next", 10**9, 28, partition="all"), 1310.0, 1312.0, 1400.0, ("n0",), watched=True),
        "runs": Sight(Job("runs", 10**9, 28, partition="all"), 1320.0, 1322.0, 0.0, ("n1",), watched=True),
    }
    said = judge(read_slurm_site(site_file(tmp_path, "cs")), found, seen, 0.0)
    assert (said["jobs"], said["not_watched"], said["still_going"]) == (2, 1, 1)
    assert said["start_latency_s"] == 2.0, "the one that found idle nodes"
    assert said["slurm"]["mean_wait_s"] == (201 + 2) / 2
    assert said["policy"]["mean_wait_s"] == (202 + 2) / 2, "it waits for the job from before, then for the latency"
    only = {name: one for name, one in seen.items() if name != "mine"}
    with pytest.raises(InputError, match="only 1 jobs were watched from submission to end; 1 others"):
        judge(read_slurm_site(site_file(tmp_path, "cs")), found, only, 0.0)


def test_an_interval_needs_three_stretches(tmp_path: Path) -> None:
    found = arrange(
        text_output.nodes(recorded("22.05-nodes.txt")), text_output.partitions(recorded("22.05-partitions.txt")),
        text_output.config(recorded("22.05-config.txt")), ["all"],
    )  # fmt: skip
    seen = {
        f"{hour} {number}": Sight(
            Job(f"{hour} {number}", 10**9, 14, partition="all"), 3600.0 * hour + number, 3600.0 * hour + 100 * number,
            3600.0 * hour + 100 * number + 100, ("n0",), watched=True,
        )
        for hour in range(1, 9)
        for number in range(1, 5)
    }  # fmt: skip
    said = judge(read_slurm_site(site_file(tmp_path, "cs")), found, seen, 0.05)
    assert said["difference"]["policy"]["turnaround_s"]["high"] < 0
    assert said["verdict"] == "A gain is shown, also if jobs that share are slower."
    slow = judge(read_slurm_site(site_file(tmp_path, "cs")), found, seen, 9.0)
    assert slow["verdict"] == "A loss is shown."


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
    before = submit(empty, tmp_path, 1, "-n28", f"-p{own_partition}")
    environment = empty.environment | {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
    words = [sys.executable, "-m", "tests.backend.slurm.attach", "slurm", "shadow", str(site), "--for"]
    watch = subprocess.Popen(
        [*words, "20s"], env=environment, stdout=subprocess.PIPE, stderr=(tmp_path / "said").open("wb"), text=True
    )
    until(lambda: "watching" in (tmp_path / "said").read_text(), 60)
    names = [submit(empty, tmp_path, 1, "-n28", f"-p{own_partition}") for _ in range(12)]
    held, given_up = (submit(empty, tmp_path, 2, "-n28", f"-p{own_partition}", "--hold") for _ in range(2))
    said_first, _ = watch.communicate(timeout=120)
    assert watch.returncode == 0, (tmp_path / "said").read_text()
    assert "cs, pessimistic" in said_first
    assert "1 were submitted before the watch began and only occupy nodes" in said_first
    assert "That is too short a time for an interval" in said_first or "No job would have shared" in said_first
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
    assert not any(jobs_of(empty)[name].mark for name in (*names, held, before))


def test_an_absent_slurm_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "slurm.conf").write_text("ClusterName=nowhere\nSlurmctldHost=nowhere(127.0.0.1)\nSlurmctldPort=1\n")
    site = read_slurm_site(site_file(tmp_path, "cs"))
    calls = Calls(str(tmp_path / "slurm.conf"), timeout_s=2)
    with pytest.raises(InputError, match="Slurm does not answer"):
        asyncio.run(site.discover(calls))
