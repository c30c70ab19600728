"""A job of Slurm's own costs our jobs only the cores it uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.backend.slurm.steering import attached, jobs_of, log_of, submit, until, write_site
from tests.backend.slurm.test_slurms_own_changes import facts
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-2")]


def test_ours_run_beside_a_job_of_slurms_own(two_idle: SlurmCluster, tmp_path: Path) -> None:
    with attached(write_site(two_idle, tmp_path, "cs")):
        foreign = submit(two_idle, tmp_path, 60, "-n1", "--nodelist=n0")  # left to Slurm
        until(lambda: jobs_of(two_idle)[foreign].runs, 30, log_of(tmp_path))
        until(lambda: any(type(one).__name__ == "NodeUsed" for one in facts(tmp_path)), 30, log_of(tmp_path))
        names = [submit(two_idle, tmp_path, tmp_path / "go", "-n1") for _ in range(7)]
        until(lambda: all(jobs_of(two_idle)[name].runs for name in names), 30, log_of(tmp_path))  # all eight cores
        assert jobs_of(two_idle)[foreign].runs
        whole = submit(two_idle, tmp_path, 1, "-n4", "--exclusive")
        (tmp_path / "go").touch()
        until(lambda: jobs_of(two_idle)[whole].state == "COMPLETED", 30, log_of(tmp_path))
        assert jobs_of(two_idle)[whole].nodes == ("n1",)
        two_idle.run("scancel", foreign)
        until(lambda: type(facts(tmp_path)[-1]).__name__ == "NodeUp", 30, log_of(tmp_path))
