"""Holds of owners and administrators are obeyed, while the controller lives, while it is dead, and after detach."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

import pytest

from cohabit.backend.steered.marks import flag_of
from cohabit.model.event import JobSubmitted
from tests.backend.slurm.steering import (
    attached,
    jobs_of,
    log_of,
    start_attached,
    stop,
    submit,
    until,
    write_site,
)
from tests.backend.slurm.test_slurms_own_changes import facts, told
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-2")]
OWNER = ("setpriv", "--reuid=daemon", "--regid=daemon", "--clear-groups")


def owned(slurm: SlurmCluster, *options: str) -> str:
    """A job of an ordinary user, with a comment; its number."""
    words = (*OWNER, "sbatch", "--parsable", "--output=/dev/null", "--chdir=/", "--time=5", *options)
    return slurm.run(*words, "--comment=mine too", "--wrap=sleep 1").strip()


def by_owner(slurm: SlurmCluster, *words: str) -> tuple[int, str]:
    done = subprocess.run([*OWNER, *words], env=slurm.environment, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


def fill(slurm: SlurmCluster, folder: Path) -> list[str]:
    """Both nodes are taken until FOLDER/go is there."""
    names = [submit(slurm, folder, folder / "go", "-n4") for _ in range(2)]
    until(lambda: all(jobs_of(slurm)[name].runs for name in names), 60, log_of(folder))
    return names


def done(slurm: SlurmCluster, *names: str) -> bool:
    jobs = jobs_of(slurm)
    return all(jobs[name].state == "COMPLETED" for name in names)


def taken(folder: Path) -> list[str]:
    return [one.job.job_id for one in facts(folder) if isinstance(one, JobSubmitted)]


def test_holds_while_the_controller_lives(two_idle: SlurmCluster, tmp_path: Path) -> None:
    with attached(write_site(two_idle, tmp_path, "ce")):
        running = fill(two_idle, tmp_path)
        mine, theirs, free = owned(two_idle, "-n4"), owned(two_idle, "-n4"), owned(two_idle, "-n4")
        until(lambda: len(taken(tmp_path)) == 5, 30, log_of(tmp_path))
        assert by_owner(two_idle, "scontrol", "hold", mine)[0] == 0
        two_idle.run("scontrol", "hold", theirs)
        until(lambda: told(tmp_path, "JobHeld", mine) and told(tmp_path, "JobHeld", theirs), 30, log_of(tmp_path))
        until(lambda: {flag_of(jobs_of(two_idle)[name].mark) for name in (mine, theirs)} == {"noted"}, 30)
        (tmp_path / "go").touch()
        until(lambda: done(two_idle, *running, free), 60, log_of(tmp_path))
        assert all(jobs_of(two_idle)[name].held for name in (mine, theirs))  # though both nodes are idle
        status, said = by_owner(two_idle, "scontrol", "release", theirs)
        assert status
        assert "permission denied" in said
        assert by_owner(two_idle, "scontrol", "release", mine)[0] == 0
        two_idle.run("scontrol", "release", theirs)
        until(lambda: done(two_idle, mine, theirs), 60, log_of(tmp_path))
    jobs = jobs_of(two_idle)
    assert all(jobs[name].mark.startswith("cohabit:run:1:") for name in (mine, theirs))  # steered by us, both
    assert jobs[mine].comment == "mine too"


def test_holds_before_the_job_is_ours(two_idle: SlurmCluster, tmp_path: Path) -> None:
    """A begin time or a dependency keeps it until then; nodes are idle."""
    with attached(write_site(two_idle, tmp_path, "ce")):
        first = owned(two_idle, "-n1", "--begin=now+8")
        later = [owned(two_idle, "-n1", *options) for options in (["--begin=now+5"], [f"--dependency=afterok:{first}"])]
        mine = owned(two_idle, "-n1", "--begin=now+5")
        for name in later:
            two_idle.run("scontrol", "hold", name)
        assert by_owner(two_idle, "scontrol", "hold", mine)[0] == 0
        until(lambda: done(two_idle, first), 60, log_of(tmp_path))
        until(lambda: {*later, mine} <= {*taken(tmp_path)}, 30, log_of(tmp_path))
        time.sleep(3)
        assert all(jobs_of(two_idle)[name].held for name in (*later, mine))
        two_idle.run("scontrol", "release", *later)
        assert by_owner(two_idle, "scontrol", "release", mine)[0] == 0
        until(lambda: done(two_idle, *later, mine), 60, log_of(tmp_path))
    assert all(jobs_of(two_idle)[name].mark.startswith("cohabit:run:1:") for name in (first, *later, mine))


def test_holds_while_the_controller_is_dead(two_idle: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(two_idle, tmp_path, "ce", lease_s=120)
    (process,) = start_attached(site)
    running = fill(two_idle, tmp_path)
    mine, theirs, requeued, free = owned(two_idle, "-n4"), owned(two_idle, "-n4"), running[0], owned(two_idle, "-n4")
    until(lambda: len(taken(tmp_path)) == 5, 30, log_of(tmp_path))
    stop(process, hard=True)
    assert by_owner(two_idle, "scontrol", "hold", mine)[0] == 0
    two_idle.run("scontrol", "hold", theirs)
    two_idle.run("scontrol", "requeuehold", requeued)
    (tmp_path / "go").touch()
    with attached(site):
        until(lambda: done(two_idle, running[1], free), 60, log_of(tmp_path))
        until(lambda: flag_of(jobs_of(two_idle)[requeued].mark) == "hold", 30, log_of(tmp_path))
        assert all(jobs_of(two_idle)[name].held for name in (mine, theirs, requeued))
        two_idle.run("scontrol", "release", requeued)
        until(lambda: done(two_idle, requeued), 60, log_of(tmp_path))
        assert all(jobs_of(two_idle)[name].held for name in (mine, theirs))
        two_idle.run("python", "-m", "tests.backend.slurm.attach", "slurm", "detach", str(site))
    time.sleep(2)
    jobs = jobs_of(two_idle)
    assert {(jobs[name].state, jobs[name].mark) for name in (mine, theirs)} == {("PENDING", "cohabit:back")}
    assert all(jobs[name].held for name in (mine, theirs))
    assert by_owner(two_idle, "scontrol", "release", theirs)[0] != 0  # an administrator's
    assert by_owner(two_idle, "scontrol", "release", mine)[0] == 0
    two_idle.run("scontrol", "release", theirs)
    until(lambda: done(two_idle, mine, theirs), 60)


def test_every_held_job_but_those_that_were_held_before(two_idle: SlurmCluster, tmp_path: Path) -> None:
    before, by_root = (submit(two_idle, tmp_path, 1, "-n4", "--hold") for _ in range(2))
    two_idle.run("scontrol", "hold", by_root)
    time.sleep(1.1)  # Slurm counts whole seconds
    site = write_site(two_idle, tmp_path, "ce")
    site.write_text(site.read_text() + 'held = "all"\n')
    with attached(site):
        until(lambda: "held by others and left held" in log_of(tmp_path)(), 30, log_of(tmp_path))
        running = [submit(two_idle, tmp_path, tmp_path / "go", "-n4", "--hold") for _ in range(2)]
        until(lambda: all(jobs_of(two_idle)[name].runs for name in running), 60, log_of(tmp_path))
        ours, held = (submit(two_idle, tmp_path, 1, "-n4", "--hold") for _ in range(2))
        until(lambda: {jobs_of(two_idle)[name].mark for name in (ours, held)} == {"cohabit:held"}, 30, log_of(tmp_path))
        two_idle.run("scontrol", "hold", held)
        until(lambda: told(tmp_path, "JobHeld", held), 30, log_of(tmp_path))
        (tmp_path / "go").touch()
        until(lambda: done(two_idle, *running, ours), 60, log_of(tmp_path))
        assert all(jobs_of(two_idle)[name].held for name in (before, by_root, held))
    two_idle.run("python", "-m", "tests.backend.slurm.attach", "slurm", "detach", str(site))
    jobs = jobs_of(two_idle)
    assert {name: (jobs[name].mark, jobs[name].held) for name in (before, by_root, held)} == {
        before: ("", True), by_root: ("", True), held: ("cohabit:back", True),
    }  # fmt: skip
