"""A thousand held jobs and 64 nodes of a real Slurm: a pass, Slurm's answers included, takes less than two seconds.

`python -m benchmarks.slurm_scale` measures the same part by part; docs/slurm-evidence.md has what it measured.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.slurm_scale import TARGET_S, steer, submit, write_site

from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.cluster, pytest.mark.xdist_group("slurm-64")]
JOBS, NODES, PASSES = 1000, 64, 5


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if reason := missing():
        pytest.skip(reason)
    with running_slurm(tmp_path_factory.mktemp("slurm"), nodes=NODES, cores=28, sockets=2) as cluster:
        yield cluster


def test_a_pass_with_a_thousand_held_jobs(large: SlurmCluster, tmp_path: Path) -> None:
    submit(large, JOBS)
    found = asyncio.run(steer(write_site(tmp_path, large), large, NODES, PASSES))
    sys.stdout.write(", ".join(f"{key} {value:.3f}" for key, value in found.items()) + "\n")
    assert found["jobs"] > JOBS - NODES
    assert found["first_pass_s"] < TARGET_S  # a job is started on every node
    assert found["pass_s"] < TARGET_S  # a job ends and another is started
