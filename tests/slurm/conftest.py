"""One real Slurm of eight nodes with 28 cores for all tests here, emptied before each; held by our job_submit.lua."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.testing.slurm_cluster import SlurmCluster, missing, running_slurm

LUA = Path(__file__).parents[2] / "packaging" / "slurm" / "job_submit.lua"


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """The cluster; its lease is FOLDER/lease."""
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("slurm")
    text = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(folder / "lease"))
    with running_slurm(folder, nodes=8, cores=28, sockets=2, job_submit=text) as cluster:
        yield cluster
    subprocess.run(["pkill", "-f", f"slurm.watchdog {folder}"], check=False)  # they outlive controllers, not clusters


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the cluster takes minutes: make test-slurm."""
    for item in items:
        if "slurm" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture
def empty(slurm: SlurmCluster) -> SlurmCluster:
    """Without jobs, every node idle, nobody's lease."""
    for name in ("lease", "lease.off"):
        (slurm.folder / name).unlink(missing_ok=True)
    slurm.run("scancel", "--state=PENDING", "--user=root", check=False)
    slurm.run("scancel", "--user=root", check=False)
    until_s = time.monotonic() + 60
    while slurm.run("squeue", "--noheader").strip():
        assert time.monotonic() < until_s, slurm.run("squeue")
        time.sleep(0.2)
    slurm.await_nodes()
    return slurm
