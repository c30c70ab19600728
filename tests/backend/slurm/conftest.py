"""One real Slurm of eight nodes with 28 cores for all tests here, emptied before each; held by our job_submit.lua."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backend.slurm.node_serve import CORES
from tests.backend.slurm.steering import forget_lease, until
from tests.support.slurm_cluster import ONE_PARTITION, SlurmCluster, missing, running_slurm

PACKAGED = Path(__file__).parents[3] / "packaging" / "slurm"
LUA = PACKAGED / "job_submit.lua"
USUAL = "/run/cohabit/node"


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """The cluster; its lease is FOLDER/lease."""
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("slurm")
    text = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(folder / "lease"))
    with running_slurm(folder, nodes=8, cores=28, sockets=2, job_submit=text) as cluster:
        yield cluster


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the cluster takes minutes: make test-slurm."""
    for item in items:
        if {"slurm", "small", "two_nodes"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture
def empty(slurm: SlurmCluster) -> SlurmCluster:
    """Without jobs, every node idle, nobody's lease."""
    forget_lease(slurm.folder)
    slurm.run("scancel", "--state=PENDING", "--user=root", check=False)
    slurm.run("scancel", "--user=root", check=False)
    until_s = time.monotonic() + 60
    while slurm.run("squeue", "--noheader").strip():
        assert time.monotonic() < until_s, slurm.run("squeue")
        time.sleep(0.2)
    slurm.await_nodes()
    return slurm


@pytest.fixture(scope="session")
def two_nodes() -> Iterator[SlurmCluster]:
    """Two nodes of four cores, with our job_submit.lua, in a folder that ordinary users can read."""
    if reason := missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="cohabit-two-") as above:
        folder = Path(above) / "slurm"
        Path(above).chmod(0o755)
        text = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(folder / "lease"))
        with running_slurm(folder, nodes=2, cores=4, job_submit=text, name="two") as cluster:
            yield cluster


@pytest.fixture
def two_idle(two_nodes: SlurmCluster) -> SlurmCluster:
    """Without jobs and without a lease."""
    forget_lease(two_nodes.folder)
    for user in ("root", "daemon"):
        two_nodes.run("scancel", f"--user={user}", check=False)
    until(lambda: not two_nodes.run("squeue", "--noheader").strip(), 60)
    return two_nodes


# ---- nodes with our prolog and epilog -------------------------------------------------------------------------------


def scripts(folder: Path) -> tuple[Path, Path]:
    """Prolog and epilog as they are shipped, for another folder."""
    found = []
    for name in ("prolog.sh", "epilog.sh"):
        path = folder / name
        text = (PACKAGED / name).read_text()
        assert USUAL in text
        path.write_text(text.replace(USUAL, str(folder / "node")))
        path.chmod(0o755)
        found.append(path)
    return found[0], found[1]


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    """Two nodes whose slurmd calls our scripts; notices go to FOLDER/../node. The first is a partition, too."""
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("nodeside")
    folder.chmod(0o755)
    prolog, epilog = scripts(folder)
    lines = f"Prolog={prolog}\nEpilog={epilog}"
    partitions = f"{ONE_PARTITION}\nPartitionName=first Nodes=n0 OverSubscribe=NO State=UP"
    with running_slurm(
        folder / "slurm", nodes=2, cores=CORES, sockets=2, more=lines, partitions=partitions
    ) as cluster:  # fmt: skip
        yield cluster


@pytest.fixture
def empty_small(small: SlurmCluster) -> SlurmCluster:
    """Whatever a test before has left is cancelled."""
    small.run("scancel", "--user=root", check=False)
    idle(small)
    return small


def idle(small: SlurmCluster) -> None:
    """Nobody there and no node drained: what a prolog or epilog that fails would do."""
    until(lambda: not small.run("squeue", "--noheader").strip(), 60, lambda: small.run("squeue"))
    small.await_nodes()
