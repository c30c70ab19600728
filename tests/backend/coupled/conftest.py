"""Two real Slurms and a real Grid Engine, small ones, for all tests here; a pair of sides for each test."""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from cohabit.live.peers.keys import write_new_key
from tests.backend.coupled.sides import GridEngineSide, Side, SlurmSide, couple
from tests.backend.gridengine.conftest import end_watchdogs, verifier
from tests.backend.slurm.conftest import LUA
from tests.support import gridengine_cluster, slurm_cluster
from tests.support.gridengine_cluster import GridEngineCluster, running_gridengine
from tests.support.slurm_cluster import SlurmCluster, running_slurm

PACKAGING = Path(__file__).parents[3] / "packaging"
PYTHON = shutil.which("python3", path="/usr/bin") or sys.executable
LEASE_S = 8.0  # of a group: how long a mate may run alone


@pytest.fixture(scope="session")
def folder() -> Iterator[Path]:
    """Where ordinary users get to as well; pytest's folder is root's alone."""
    with tempfile.TemporaryDirectory(prefix="cohabit-coupled-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


def packaged(folder: Path, name: str, key: Path | None = None) -> Path:
    """A program of packaging/ as it is shipped, where every user gets at it; paths in it are those of here."""
    text = (PACKAGING / name).read_text(encoding="utf-8").replace("/etc/cohabit/threshold.key", str(key))
    path = folder / Path(name).name
    path.write_text(text.replace("/etc/cohabit", str(folder)).replace("/usr/bin/python3", PYTHON))
    path.chmod(0o755)
    return path


@pytest.fixture(scope="session")
def threshold(folder: Path) -> Path:
    """The program that stands before those of mates."""
    return packaged(folder, "threshold")


@pytest.fixture(scope="session")
def gridengine(folder: Path) -> Iterator[GridEngineCluster]:
    """Two hosts of four slots."""
    if reason := gridengine_cluster.missing():
        pytest.skip(reason)
    place = folder / "gridengine"
    with running_gridengine(place, hosts=2, slots=4, jsv=verifier(place / "lease")) as cluster:
        write_new_key(place / "threshold.key")
        for setting, name in (("starter_method", "starter.sh"), ("prolog", "prolog.sh")):
            script = packaged(folder, f"gridengine/{name}", place / "threshold.key")
            word = f"root@{script}" if setting == "prolog" else str(script)
            cluster.run("qconf", "-mattr", "queue", setting, word, "all.q")
        yield cluster
    end_watchdogs(place)


@pytest.fixture(scope="session")
def slurms(folder: Path) -> Iterator[list[SlurmCluster]]:
    """Two clusters of two nodes with four cores."""
    if reason := slurm_cluster.missing():
        pytest.skip(reason)
    places = [folder / name for name in ("slurm-one", "slurm-two")]
    with ExitStack() as stack:
        yield [
            stack.enter_context(running_slurm(
                place, nodes=2, cores=4, name=place.name,
                job_submit=LUA.read_text().replace("/var/lib/cohabit/lease", str(place / "lease")),
            ))
            for place in places
        ]  # fmt: skip
    for place in places:
        end_watchdogs(place)


@pytest.fixture(scope="module")
def mixed(
    slurms: list[SlurmCluster],
    gridengine: GridEngineCluster,
    threshold: Path,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[list[Side]]:
    """A Slurm and a Grid Engine, both steered; a test uses names of its own for mates, and leaves both steered."""
    place = tmp_path_factory.mktemp("mixed")
    sides = [SlurmSide("alpha", place / "alpha", slurms[0]), GridEngineSide("beta", place / "beta", gridengine)]
    yield from _steered(sides, place, threshold)


@pytest.fixture(scope="module")
def alike(
    slurms: list[SlurmCluster], threshold: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[Side]]:
    """Two Slurms, both steered."""
    place = tmp_path_factory.mktemp("alike")
    sides = [SlurmSide(name, place / name, one) for name, one in zip(("alpha", "beta"), slurms, strict=True)]
    yield from _steered(sides, place, threshold)


def _steered(sides: Sequence[Side], place: Path, threshold: Path) -> Iterator[list[Side]]:
    write_new_key(place / "key")
    for side in sides:
        side.folder.mkdir()
        side.clear()
    couple(sides, place / "key", LEASE_S, threshold)
    try:
        for side in sides:
            side.attach()
        yield list(sides)
    finally:
        for side in sides:
            side.detach()
        for side in sides:
            side.clear()
