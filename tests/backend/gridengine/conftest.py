"""One real Grid Engine of four hosts with four slots for all tests here, emptied before each; held by our verifier."""

from __future__ import annotations

import contextlib
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.backend.gridengine.steering import jobs_of, until
from tests.backend.slurm.steering import forget_lease
from tests.support.gridengine_cluster import GridEngineCluster, missing, running_gridengine

JSV = Path(__file__).parents[3] / "packaging" / "gridengine" / "cohabit-jsv.sh"


def verifier(lease: Path) -> str:
    """The script that we ship, with the path of a lease."""
    return JSV.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(lease))


def end_watchdogs(folder: Path) -> None:
    """They outlive controllers, not the cluster."""
    for pid in watchdogs_of(folder / "lease"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def watchdogs_of(lease: Path) -> list[int]:
    """Processes whose command line names this lease, or the one that it is a link to."""
    found, names = [], {str(lease), str(lease.with_name("lease.d") / lease.name)}
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if any("watchdog" in word for word in words) and names & set(words):
                found.append(int(entry.name))
    return found


@pytest.fixture(scope="session")
def gridengine() -> Iterator[GridEngineCluster]:
    """The cluster; its lease is FOLDER/lease. Not in pytest's folder, which only root may enter."""
    if reason := missing():
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="cohabit-gridengine-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        with running_gridengine(folder, hosts=4, slots=4, jsv=verifier(folder / "lease")) as cluster:
            yield cluster
        end_watchdogs(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What needs the cluster is marked."""
    for item in items:
        if "gridengine" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.cluster)


@pytest.fixture
def empty(gridengine: GridEngineCluster) -> GridEngineCluster:
    """Without jobs, every host there, nobody's lease."""
    forget_lease(gridengine.folder)
    gridengine.run("qdel", "-u", "*", check=False)
    until(lambda: not jobs_of(gridengine), lambda: str(jobs_of(gridengine)))
    gridengine.await_hosts()
    return gridengine
