"""A controller steers a real Grid Engine: placements, what users do meanwhile, what is left alone, the verbs."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.backend.gridengine.steering import attached, jobs_of, runs_noted, submit, until, write_site
from tests.backend.slurm.steering import log_of, stop
from tests.support.gridengine_cluster import GridEngineCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("gridengine")]
LONG_S = 300  # no test waits for its end
VIEW_S = 24  # a lease; the controller says what it has whenever it renews it, four times in it


def all_over(ge: GridEngineCluster, folder: Path, *names: str) -> None:
    """Until none of them is listed any more."""
    until(lambda: not jobs_of(ge).keys() & set(names), lambda: f"{jobs_of(ge)} {log_of(folder)()}")


def run(ge: GridEngineCluster, *names: str) -> bool:
    """Whether all of them are on hosts."""
    found = jobs_of(ge)
    return all(name in found and found[name].active for name in names)


def begun(ge: GridEngineCluster, folder: Path, *names: str) -> bool:
    """The same, and they have noted it: who deletes them now deletes runs that were."""
    return run(ge, *names) and set(names) <= set(runs_noted(folder))


def verb(name: str, site: Path) -> dict[str, object]:
    """What a verb says with --json."""
    words = [sys.executable, "-m", "tests.backend.gridengine.attach", "gridengine", name, str(site), "--json"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert isinstance(found, dict)
    return found


def test_exclusive_jobs_get_hosts_to_themselves(empty: GridEngineCluster, tmp_path: Path) -> None:
    with attached(write_site(empty, tmp_path, "ce")):
        wide = submit(empty, tmp_path, LONG_S, "-pe", "mpi", "8")
        small = [submit(empty, tmp_path, LONG_S) for _ in range(2)]
        until(lambda: begun(empty, tmp_path, wide, *small), log_of(tmp_path))
        stands = jobs_of(empty)
        assert len(stands[wide].slots_on) == 2
        assert sum(stands[wide].slots_on.values()) == 8
        used = Counter(host for name in (wide, *small) for host in stands[name].slots_on)
        assert set(used.values()) == {1}, stands
        assert "exclusive=true" in empty.run("qstat", "-j", wide)
        empty.run("qdel", wide, *small)
        all_over(empty, tmp_path, wide, *small)
    assert sorted(runs_noted(tmp_path)) == sorted([wide, *small])


def test_shared_jobs_meet_on_a_host_and_nothing_is_given_twice(empty: GridEngineCluster, tmp_path: Path) -> None:
    with attached(write_site(empty, tmp_path, "cs", lease_s=VIEW_S)):
        jobs = [submit(empty, tmp_path, LONG_S, "-pe", "smp", "2") for _ in range(8)]  # as many slots as there are
        until(lambda: begun(empty, tmp_path, *jobs), log_of(tmp_path))
        stands = jobs_of(empty)
        booked = Counter[str]()
        for name in jobs:
            booked.update(stands[name].slots_on)
        assert set(booked.values()) == {4}, stands
        until(lambda: verb("status", tmp_path / "site.toml")["disagreements"] == [])  # it says so once per renewal
        empty.run("qdel", *jobs)
        all_over(empty, tmp_path, *jobs)
    assert sorted(runs_noted(tmp_path)) == sorted(jobs)


def test_what_is_not_ours_runs_as_ever(empty: GridEngineCluster, tmp_path: Path) -> None:
    """Arrays, jobs that name a queue, and what the verifier held and we do not understand."""
    with attached(write_site(empty, tmp_path, "ce")):
        named = submit(empty, tmp_path, 1, "-q", "all.q")
        array = submit(empty, tmp_path, 1, "-t", "1-2").partition(".")[0]
        between = submit(empty, tmp_path, 1, "-pe", "mpi", "2-3")
        all_over(empty, tmp_path, named, array, between)
        assert f"job {between} asks for 2 to 3 slots: left to" in log_of(tmp_path)()
    assert Counter(runs_noted(tmp_path)) == {named: 1, array: 2, between: 1}


def test_a_user_cannot_release_and_may_cancel(empty: GridEngineCluster, tmp_path: Path) -> None:
    place = empty.folder / "user"
    place.mkdir(exist_ok=True)
    with attached(write_site(empty, tmp_path, "ce", lease_s=VIEW_S)):
        blocking = [submit(empty, tmp_path, LONG_S) for _ in range(4)]
        until(lambda: begun(empty, tmp_path, *blocking), log_of(tmp_path))
        mine = submit(empty, place, 1, user="nobody")
        until(lambda: "cohabit_hold=s" in empty.run("qstat", "-j", mine), log_of(tmp_path))
        assert "denied" in empty.run("qrls", "-h", "s", mine, user="nobody", check=False)
        assert jobs_of(empty)[mine].state == "hqw"
        empty.run("qdel", mine, user="nobody")
        until(lambda: mine not in jobs_of(empty))
        site = tmp_path / "site.toml"
        until(lambda: not [one for one in verb("status", site)["disagreements"] if one["job"] == mine])  # type: ignore[attr-defined]
        empty.run("qdel", *blocking)
        all_over(empty, tmp_path, *blocking)
    assert not (place / "runs").exists()


def test_a_refused_start_is_tried_again_and_a_disabled_host_gets_nothing(
    empty: GridEngineCluster, tmp_path: Path
) -> None:
    """Grid Engine does not start a job where a host has lost its slots: taken back, and decided upon anew half a minute
    later. Meanwhile others run, but not on a host that an operator has disabled."""
    with attached(write_site(empty, tmp_path, "ce", within_s=3)):
        empty.run("qconf", "-rattr", "exechost", "complex_values", "slots=0", "ge0")
        try:
            wide = submit(empty, tmp_path, 1, "-pe", "mpi", "16")  # all hosts
            until(lambda: "did not start it" in log_of(tmp_path)(), log_of(tmp_path))
            until(lambda: jobs_of(empty)[wide].state == "hqw", lambda: str(jobs_of(empty)))
        finally:
            empty.run("qconf", "-rattr", "exechost", "complex_values", "slots=4,exclusive=true", "ge0")
        empty.run("qmod", "-d", "all.q@ge1")
        try:
            until(lambda: "d" in empty.run("qstat", "-f", "-q", "all.q@ge1").split("lx-")[-1])
            jobs = [submit(empty, tmp_path, 3) for _ in range(4)]
            hosts: set[str] = set()

            def over() -> bool:
                found = jobs_of(empty)
                hosts.update(host for name in jobs if name in found for host in found[name].slots_on)
                return not found.keys() & set(jobs)

            until(over, log_of(tmp_path))
            assert "ge1" not in hosts
        finally:
            empty.run("qmod", "-e", "all.q@ge1")
        all_over(empty, tmp_path, wide)
    assert sorted(runs_noted(tmp_path), key=int) == sorted([wide, *jobs], key=int)


def test_the_kill_switch_gives_everything_back(empty: GridEngineCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "ce")
    with attached(site) as process:
        running = [submit(empty, tmp_path, LONG_S) for _ in range(4)]
        until(lambda: begun(empty, tmp_path, *running), log_of(tmp_path))
        waiting = submit(empty, tmp_path, 1)
        until(lambda: "cohabit_hold=s" in empty.run("qstat", "-j", waiting))
        handed = verb("detach", site)  # the watchdog, which sees the end of the lease, may have been faster
        assert (handed["released"] in ([], [waiting]), handed["failed"]) == (True, {})
        process.wait(60)
        later = submit(empty, tmp_path, 1)  # the verifier holds nothing any more
        assert run(empty, *running)  # those were not touched
        empty.run("qdel", *running)
        all_over(empty, tmp_path, *running, waiting, later)
        stop(process)
    assert sorted(runs_noted(tmp_path), key=int) == sorted([*running, waiting, later], key=int)


def test_jobs_of_two_users_are_on_no_host_at_once(empty: GridEngineCluster, tmp_path: Path) -> None:
    """`share_with = "user"`: eight jobs fill four hosts in pairs, and both of a pair are of one user."""
    place = empty.folder / "users"
    place.mkdir(exist_ok=True)
    keys = 'share_with = "user"\nunknown = "cores"\npartition = "none"'
    with attached(write_site(empty, tmp_path, "cohabit", keys)):
        jobs = {submit(empty, place, LONG_S, "-pe", "smp", "2", user=user): user for user in ("", "nobody") * 4}
        until(lambda: run(empty, *jobs), log_of(tmp_path))
        users_on: dict[str, set[str]] = {}
        for name, job in jobs_of(empty).items():
            for host in job.slots_on if name in jobs else ():
                users_on.setdefault(host, set()).add(jobs[name])
        assert all(len(there) == 1 for there in users_on.values()), users_on
        assert len(users_on) == 4
        empty.run("qdel", *jobs)
        all_over(empty, tmp_path, *jobs)
