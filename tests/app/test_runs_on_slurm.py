"""`cohabit measure runs` with a real Slurm: jobs in a real queue, their own clocks, what goes wrong."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.app.learn.variability_data import read_runs
from cohabit.app.measure.runs import Table, account, campaign, collect
from cohabit.app.measure.runs_plan import read_runs_plan
from cohabit.app.measure.runs_window import SampledHere
from cohabit.model.units import microseconds
from tests.support.slurm_cluster import missing, running_slurm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(bool(missing()), reason=missing() or "there is a Slurm"),
    pytest.mark.xdist_group("slurm"),
]
PLAN = """launcher = "slurm"
sbatch = ["--nodes=1", "--exclusive"]
interval_s = 0
repeats = 2
window_s = 5
limit_s = {limit}
"""
PROGRAM = """[[program]]
name = "{name}"
workload_type = "compute"
command = ["sh", "-c", {script!r}]
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with running_slurm(tmp_path_factory.mktemp("slurm")) as slurm:
        kept = os.environ.get("SLURM_CONF")
        os.environ["SLURM_CONF"] = str(slurm.conf)
        try:
            yield slurm.conf
        finally:
            os.environ.pop("SLURM_CONF")
            if kept is not None:
                os.environ["SLURM_CONF"] = kept


def queue() -> list[str]:
    said = subprocess.run(["squeue", "-h", "-o", "%j %t"], capture_output=True, text=True, check=True)
    return said.stdout.split("\n")[:-1]


def collected(folder: Path, text: str) -> tuple[Path, dict[str, object], list[str]]:
    (folder / "plan.toml").write_text(text)
    plan, out, said = read_runs_plan(folder / "plan.toml"), folder / "runs.csv", list[str]()
    with (
        SampledHere(microseconds(plan.window_s), said.append) as sampled,
        campaign(plan, Table.at(out), sampled.before, said.append) as job,
    ):
        collect(job)
        return out, account(job), said


def test_runs_are_real_jobs_with_their_own_clock_and_environment(cluster: Path, tmp_path: Path) -> None:
    where = tmp_path / "where"
    script = f'echo "$SLURM_JOB_NAME $SLURM_JOB_NODELIST $MESSAGE" >> {where}; sleep 0.3'
    text = PLAN.format(limit=60) + PROGRAM.format(name="one", script=script) + 'env = {MESSAGE = "a, b=c"}\n'
    out, document, said = collected(tmp_path, text + PROGRAM.format(name="bad", script="exit 3"))
    assert where.read_text().splitlines() == ["one n0 a, b=c"] * 2, "it ran on a node of Slurm, commas and all"
    runs = read_runs(out)
    assert list(runs.app) == ["one", "one"]
    assert ((runs.times_s > 0.3) & (runs.times_s < 2.0)).all(), "the queue and the end that sbatch sees do not count"
    assert document["failed"] == ["bad, round 0: failed with status 3", "bad, round 1: failed with status 3"]
    assert any("bad, round 0" in one for one in said)


def test_a_job_that_takes_too_long_is_cancelled(cluster: Path, tmp_path: Path) -> None:
    text = PLAN.format(limit=2).replace("repeats = 2", "repeats = 1")
    _, document, _ = collected(tmp_path, text + PROGRAM.format(name="endless", script="sleep 600"))
    assert document["failed"] == ["endless, round 0: waited and ran longer than 2 s as a Slurm job"]
    assert not [one for one in queue() if one.startswith("endless") and one.split()[1] in ("R", "PD")], queue()


def test_what_slurm_refuses_is_said_in_its_words(cluster: Path, tmp_path: Path) -> None:
    text = PLAN.format(limit=30).replace("--nodes=1", "--partition=nowhere").replace("repeats = 2", "repeats = 1")
    _, document, _ = collected(tmp_path, text + PROGRAM.format(name="lost", script="true"))
    (failure,) = document["failed"]  # type: ignore[misc]
    assert "did not run as a Slurm job" in failure
    assert "invalid partition" in failure.lower()
