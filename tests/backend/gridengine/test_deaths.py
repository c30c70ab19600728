"""Whoever dies, no job is lost and none runs twice: the controller, qmaster, the controller for good."""

from __future__ import annotations

from pathlib import Path

import pytest

from cohabit.app.serve.replaying import replay_live
from tests.backend.gridengine.steering import attached, jobs_of, runs_noted, start_attached, submit, until, write_site
from tests.backend.gridengine.test_steering import LONG_S, all_over, begun, run, verb
from tests.backend.slurm.steering import log_of, stop
from tests.support.gridengine_cluster import GridEngineCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("gridengine-deaths")]


def test_a_killed_controller_goes_on_where_it_was(empty: GridEngineCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "cs")
    process = start_attached(site)
    jobs = [submit(empty, tmp_path, 3, "-pe", "smp", str(1 + number % 4)) for number in range(10)]
    for _ in range(2):
        until(lambda: any(one.active for one in jobs_of(empty).values()), log_of(tmp_path))
        stop(process, hard=True)
        process = start_attached(site)
    try:
        all_over(empty, tmp_path, *jobs)
    finally:
        stop(process)
    assert sorted(runs_noted(tmp_path), key=int) == sorted(jobs, key=int)
    assert verb_verify(site)


def verb_verify(site: Path) -> bool:
    """The journal, replayed, gives the same orders."""
    import subprocess
    import sys

    words = [sys.executable, "-m", "tests.backend.gridengine.attach", "gridengine", "attach", str(site), "--verify"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert not replay_live(site).difference  # the same without Grid Engine, as `cohabit replay` does
    return done.returncode == 0 and "identical" in done.stdout


def test_the_lease_gives_jobs_back_when_nobody_comes(empty: GridEngineCluster, tmp_path: Path) -> None:
    site = write_site(empty, tmp_path, "ce", lease_s=15)  # a busy machine must not let it run out
    process = start_attached(site)
    running = [submit(empty, tmp_path, LONG_S) for _ in range(4)]
    until(lambda: begun(empty, tmp_path, *running), log_of(tmp_path))
    waiting = submit(empty, tmp_path, 1)
    until(lambda: waiting in jobs_of(empty) and "h" in jobs_of(empty)[waiting].state)
    stop(process, hard=True)
    until(lambda: waiting in jobs_of(empty) and jobs_of(empty)[waiting].state == "qw", lambda: str(jobs_of(empty)))
    assert run(empty, *running)  # those were not touched
    empty.run("qdel", *running)
    all_over(empty, tmp_path, *running, waiting)
    assert sorted(runs_noted(tmp_path), key=int) == sorted([*running, waiting], key=int)
    nothing = {"lease_runs": False, "released": [], "to_owners": [], "left_held": [], "failed": {}}
    assert verb("handback", site) == nothing


def test_qmaster_is_killed_and_comes_back(empty: GridEngineCluster, tmp_path: Path) -> None:
    with attached(write_site(empty, tmp_path, "ce")):
        jobs = [submit(empty, tmp_path, 4) for _ in range(6)]
        until(lambda: any(one.active for one in jobs_of(empty).values()), log_of(tmp_path))
        empty.stop("qmaster", hard=True)
        until(lambda: "does not answer" in log_of(tmp_path)(), log_of(tmp_path))
        empty.start("qmaster")
        empty.await_master()
        until(lambda: "answers again" in log_of(tmp_path)(), log_of(tmp_path))
        all_over(empty, tmp_path, *jobs)
    assert sorted(runs_noted(tmp_path), key=int) == sorted(jobs, key=int)
