"""kill -9 of whoever steers, Slurm gone, the lease over, the kill switch: nothing is lost, nothing runs twice."""

from __future__ import annotations

import asyncio
import json
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cohabit.app.steer.deciding import verify_journal
from cohabit.app.steer.slurm_site import read_slurm_site
from cohabit.app.steer.slurm_switch import read_switch
from cohabit.app.steer.switch import detach
from cohabit.backend.steered.lease import read_lease, switch_file, write_beside
from tests.backend.slurm.steering import (
    attached,
    jobs_of,
    log_of,
    runs_noted,
    start_attached,
    stop,
    submit,
    until,
    write_site,
)
from tests.support.slurm_cluster import SlurmCluster

ENDS = "`cohabit slurm detach` was run while it was starting: nothing is steered"
pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-8")]


def all_completed(slurm: SlurmCluster, names: list[str]) -> bool:
    jobs = jobs_of(slurm)
    return all(jobs[name].state == "COMPLETED" for name in names)


def waiting_reasons(slurm: SlurmCluster) -> set[str]:
    """Why jobs wait, in the words of squeue: its JSON does not tell who holds them."""
    return set(slurm.run("squeue", "--noheader", "--states=PENDING", "--format=%r").splitlines())


def resumed(slurm: SlurmCluster) -> bool:
    """After an operator has put right every node that Slurm drained."""
    for line in slurm.run("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines():
        name, state = line.split()
        if state.startswith("drain"):
            slurm.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
    return True


def say(verb: str, site: Path) -> dict[str, object]:
    words = [sys.executable, "-m", "tests.backend.slurm.attach", "slurm", verb, str(site), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_kill_nine_in_the_middle_loses_and_doubles_nothing(empty: SlurmCluster, tmp_path: Path) -> None:
    chance = random.Random(7)
    site = write_site(empty, tmp_path, "cs")
    (process,) = start_attached(site)
    names = [
        submit(empty, tmp_path, chance.choice((0.5, 1, 2)), f"-n{chance.choice((4, 14, 28, 40))}") for _ in range(40)
    ]
    try:
        for _ in range(4):
            time.sleep(chance.uniform(0.1, 1.5))
            stop(process, hard=True)
            (process,) = start_attached(site)
        until(lambda: all_completed(empty, names), 240, log_of(tmp_path))
    finally:
        stop(process)
    assert sorted(runs_noted(tmp_path)) == sorted(names)
    replayed = asyncio.run(verify_journal(read_slurm_site(site)))
    assert replayed.commands > 0
    assert not replayed.difference


def test_a_dead_controller_leaves_its_jobs_to_slurm_when_the_lease_is_over(empty: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "ce", lease_s=8)
    (process,) = start_attached(site)
    names = [submit(empty, tmp_path, 1, "-n28") for _ in range(20)]
    until(lambda: sum(job.runs for job in jobs_of(empty).values()) >= 4)
    stop(process, hard=True)
    assert any(jobs_of(empty)[name].held for name in names)
    until(lambda: all_completed(empty, names), 90, "held jobs were not given back")
    assert sorted(runs_noted(tmp_path)) == sorted(names)
    late = submit(empty, tmp_path, 1, "-n1")  # nobody holds jobs any more
    until(lambda: jobs_of(empty)[late].state == "COMPLETED", 30)
    assert not jobs_of(empty)[late].mark
    with attached(site):  # whoever comes back later finds its queue gone, and goes on
        new = submit(empty, tmp_path, 1, "-n1")
        until(lambda: jobs_of(empty)[new].state == "COMPLETED", 60, log_of(tmp_path))
    assert jobs_of(empty)[new].mark.startswith("cohabit:run:1:")


def test_the_kill_switch_gives_everything_back_at_once(empty: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "ce")
    (process,) = start_attached(site)
    try:
        names = [submit(empty, tmp_path, 300, "-n28") for _ in range(10)]
        until(lambda: sum(job.runs for job in jobs_of(empty).values()) == 8, 60, log_of(tmp_path))
        seen = say("status", site)
        assert seen["slurm"]["held"] == 2  # type: ignore[index]
        assert say("handback", site)["lease_runs"] is True
        waiting = [name for name in names if jobs_of(empty)[name].held]
        said = say("detach", site)
        assert set(said["released"]) <= set(waiting)  # type: ignore[call-overload]  # the watchdog may have been first
        assert not said["failed"]
        assert process.wait(60) == 0
    finally:
        stop(process)
    released = {name: jobs_of(empty)[name] for name in waiting}
    assert len(released) == 2
    assert all(job.waits and not job.held and job.mark == "cohabit:back" for job in released.values())
    late = submit(empty, tmp_path, 1, "-n1")
    assert not jobs_of(empty)[late].held  # new jobs go to Slurm, too
    assert not jobs_of(empty)[late].mark
    empty.run("scancel", *[name for name in names if name not in released][:2])
    until(lambda: all(jobs_of(empty)[name].state == "RUNNING" for name in released), 60)


def test_the_kill_switch_is_obeyed_while_the_controller_starts(empty: SlurmCluster, tmp_path: Path) -> None:
    """It may compile kernels for a minute then. A switch from before lets the next one steer."""
    site = write_site(empty, tmp_path, "ce")
    for _ in range(2):
        (empty.folder / "lease").unlink(missing_ok=True)
        words = [sys.executable, "-m", "tests.backend.slurm.attach", "slurm", "attach", str(site)]
        process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True)
        until(lambda: (empty.folder / "lease").is_symlink(), 60)  # it has its place, and has not looked at Slurm yet
        asyncio.run(detach(read_switch(site)))
        said = process.communicate(timeout=120)[1]
        assert (process.returncode, ENDS in said, "steering" in said) == (0, True, False), said
        lease = read_lease(empty.folder / "lease")
        assert lease is not None
        assert not lease.runs(time.time())
    with attached(site):
        name = submit(empty, tmp_path, 1, "-n1")
        until(lambda: all_completed(empty, [name]), 60, log_of(tmp_path))
    assert jobs_of(empty)[name].mark.startswith("cohabit:run:1:")


def test_a_renewal_that_crosses_the_kill_switch_is_undone(empty: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "ce")
    (process,) = start_attached(site)
    write_beside(switch_file(empty.folder / "lease"), b"")  # and the lease is as its last renewal left it
    assert process.wait(60) == 0
    lease = read_lease(empty.folder / "lease")
    assert lease is not None
    assert not lease.runs(time.time())


def test_slurm_restarts_in_the_middle(empty: SlurmCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "cs", within_s=60)
    with attached(site):
        names = [submit(empty, tmp_path, 2, "-n14") for _ in range(30)]
        until(lambda: sum(job.runs for job in jobs_of(empty).values()) >= 4)
        empty.stop("slurmctld")
        until(lambda: "Slurm does not answer" in log_of(tmp_path)(), 90, log_of(tmp_path))
        empty.start("slurmctld")
        empty.await_controller()
        names += [submit(empty, tmp_path, 1, "-n14") for _ in range(4)]
        until(lambda: all_completed(empty, names), 180, log_of(tmp_path))
    assert sorted(runs_noted(tmp_path)) == sorted(names)
    said = (tmp_path / "attach.log").read_text()
    assert said.count("Slurm does not answer") == said.count("Slurm answers again") == 1


def test_slurm_dies_and_forgets_what_it_had_not_saved(empty: SlurmCluster, tmp_path: Path) -> None:
    """Slurm itself may lose the last seconds, and may be slow to notice an end; whatever it still has is run, and
    nothing waits for ever."""
    site = write_site(empty, tmp_path, "cs", within_s=60)
    with attached(site):
        old = [submit(empty, tmp_path, 2, "-n28") for _ in range(12)]
        saved = empty.folder / "state" / "job_state"
        given_s = time.time()
        until(lambda: saved.exists() and saved.stat().st_mtime > given_s + 1, 60)  # it saves them every few seconds
        new = [submit(empty, tmp_path, 2, "-n28") for _ in range(8)]
        until(lambda: any(jobs_of(empty)[name].mark.startswith("cohabit:run") for name in old), 60, log_of(tmp_path))
        empty.stop("slurmctld", hard=True)
        time.sleep(3)  # most of what runs ends meanwhile
        empty.start("slurmctld")
        empty.await_controller()
        kept = [name for name in (*old, *new) if name in jobs_of(empty)]
        assert set(old) <= set(kept)
        # Slurm may start a job again whose first run it forgot, fail to, hold it for an operator and drain the node:
        # that is its word, and an operator puts the node right again
        until(lambda: resumed(empty) and not waiting_reasons(empty) - {"launch failed requeued held"}, 240,
              lambda: empty.run("squeue") + log_of(tmp_path)())  # fmt: skip
        last = submit(empty, tmp_path, 1, "-n28")
        until(lambda: all_completed(empty, [last]), 60, log_of(tmp_path))
    assert {*kept, last} <= set(runs_noted(tmp_path))
