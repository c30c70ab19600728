"""Dependencies of held jobs are followed by the controller, as fast as plain Slurm does it for jobs of its own."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import pytest

from tests.backend.slurm.steering import attached, jobs_of, log_of, runs_noted, submit, until, write_site
from tests.support.slurm_cluster import SlurmCluster

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("slurm-2")]
LINK_S = 5  # Slurm alone takes 20 to 60 s for a held job; 1 to 2 s are usual here, and Slurm counts whole seconds


def test_a_chain_and_every_kind_of_dependency(two_idle: SlurmCluster, tmp_path: Path) -> None:
    slurm = two_idle
    failing = tmp_path / "fails.sh"
    failing.write_text("#!/bin/sh\nexit 3\n")

    def after(what: str, *options: str, lasts: float = 0.5) -> str:
        return submit(slurm, tmp_path, lasts, "-n1", f"--dependency={what}", *options)

    with attached(write_site(slurm, tmp_path, "cs", within_s=60)):
        first = submit(slurm, tmp_path, 1, "-n1")
        chain = [first]
        for _ in range(3):
            chain.append(after(f"afterok:{chain[-1]}"))
        fails = slurm.run("sbatch", "--parsable", "-o", "/dev/null", "-n1", str(failing)).strip()
        array = submit(slurm, tmp_path, 1, "-n1", "--array=1-2")
        single = [submit(slurm, tmp_path, 1, "-n1", "--job-name=one", "--dependency=singleton") for _ in range(2)]
        met = [
            after(f"afternotok:{fails}"), after(f"afterany:{fails}:{first}"), after(f"after:{first}"),
            after(f"afterok:{fails}?afterany:{fails}"), after(f"afterok:{array}"), *single,
        ]  # fmt: skip
        after(f"aftercorr:{array}", "--array=1-2")
        never = after(f"afterok:{fails}")
        status = ("slurm", "status", str(tmp_path / "site.toml"), "--json")
        said = slurm.run("python", "-m", "tests.backend.slurm.attach", *status)
        assert json.loads(said)["disagreements"] == []  # while jobs come, wait for others, and go
        until(lambda: len(runs_noted(tmp_path)) == 4 + 2 + len(met) + 2, 90, log_of(tmp_path))
        until(lambda: jobs_of(slurm)[never].reason == "DependencyNeverSatisfied", 30, log_of(tmp_path))
        until(lambda: not any(one.runs for one in jobs_of(slurm).values()), 30)
        jobs = jobs_of(slurm)
        for one, other in pairwise(chain):
            assert 0 <= jobs[other].start_s - jobs[one].end_s <= LINK_S, log_of(tmp_path)()
        assert jobs[single[1]].start_s >= jobs[single[0]].end_s
        assert all(jobs[name].mark.startswith("cohabit:run:1:") for name in (*chain, *met))
        assert jobs[never].mark == "cohabit:back"
        assert not jobs[never].held
        said = f"job {never} will never meet its dependency (DependencyNeverSatisfied: afterok:{fails}"
        assert said in log_of(tmp_path)()
