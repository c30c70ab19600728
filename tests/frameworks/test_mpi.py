"""Open MPI and MPICH: as many ranks as asked for, each on the cores it was given."""

from __future__ import annotations

import importlib.util
import os
import signal
import time
from pathlib import Path

import pytest

from cohabit.model.errors import InputError
from tests.frameworks.framework_runs import CORES, OWN_PYTHON, Running, detect, nodes, probe, run, two_cores

pytestmark = [pytest.mark.system, two_cores]
PACKAGES = {"openmpi": "openmpi-bin", "mpich": "mpich"}
NAMES = {"openmpi": "Open MPI", "mpich": "MPICH"}


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, object]:
    """How to start ranks of this MPI, and the settings with which mpi4py finds its library."""
    kind = request.param
    if importlib.util.find_spec("mpi4py") is None:
        pytest.skip("needs mpi4py (cohabit[mpi])")
    for name in (f"mpirun.{kind}", "mpirun", "mpiexec.hydra"):
        if detect("mpi", os.environ, name).mpi == kind:
            break
    else:
        pytest.skip(f"needs {NAMES[kind]} (Debian: {PACKAGES[kind]})")
    settings = {"LD_LIBRARY_PATH": library_folder(tmp_path)} if kind == "mpich" else {}
    return {"mpirun": name, "settings": settings | {"MPI4PY_MPIABI": kind}, "kind": kind}


def library_folder(folder: Path) -> str:
    """Debian calls MPICH's library by another name than mpi4py does."""
    found = [*Path("/usr/lib").glob("**/libmpi.so.12"), *Path("/usr/lib").glob("**/libmpich.so.12")]
    if not found:
        pytest.skip("needs the library of MPICH (Debian: libmpich12)")
    (folder / "lib").mkdir()
    (folder / "lib" / "libmpi.so.12").symlink_to(found[0])
    return str(folder / "lib")


def how(mpi: dict[str, object]) -> dict[str, object]:
    return {"mpirun": mpi["mpirun"], "settings": mpi["settings"]}


def test_a_rank_per_core_on_two_nodes(mpi, tmp_path: Path) -> None:
    found = run(tmp_path, "mpi", probe("of_mpi", OWN_PYTHON), nodes((0,), (1,)), **how(mpi))
    assert [(one["rank"], one["told"], one["size"], one["sum"]) for one in found] == [(0, "0", 2, 3), (1, "1", 2, 3)]
    assert [(one["cores"], one["node"]) for one in found] == [([CORES[0]], "0"), ([CORES[1]], "1")]
    assert all(NAMES[mpi["kind"]] in one["library"] for one in found)


def test_one_rank_with_two_threads(mpi, tmp_path: Path) -> None:
    (found,) = run(tmp_path, "mpi", probe("of_mpi", OWN_PYTHON), nodes((0, 1)), threads=2, **how(mpi))
    assert (found["size"], found["cores"], found["threads"]) == (1, CORES[:2], "2")


def test_a_job_of_the_second_core_stays_there(mpi, tmp_path: Path) -> None:
    """Left to itself, every mpirun of a machine binds from the first core on."""
    (found,) = run(tmp_path, "mpi", probe("of_mpi", OWN_PYTHON), nodes((1,)), **how(mpi))
    assert found["cores"] == [CORES[1]]


def test_more_ranks_than_cores_only_if_asked(mpi, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="its cores hold 2"):
        run(tmp_path, "mpi", probe("of_mpi", OWN_PYTHON), nodes((0, 1)), processes=4, **how(mpi))
    wishes = {"processes": 4, "oversubscribe": True}
    found = run(tmp_path, "mpi", probe("of_mpi", OWN_PYTHON), nodes((0, 1)), **wishes, **how(mpi))
    assert [one["cores"] for one in found] == [[CORES[0]], [CORES[1]], [CORES[0]], [CORES[1]]]
    assert {one["sum"] for one in found} == {10}


def test_a_rank_that_fails_is_the_jobs_failure(mpi, tmp_path: Path) -> None:
    status, _, _ = Running(tmp_path, "mpi", (*probe("of_mpi", OWN_PYTHON), "3"), nodes((0,), (1,)), **how(mpi)).end()
    # MPICH's mpirun kills the other rank, and sometimes ends with that one's status (9) instead of the first one's.
    assert status == 3 or (mpi["kind"] == "mpich" and status == signal.SIGKILL)


def test_asked_to_end_no_rank_is_left(mpi, tmp_path: Path) -> None:
    job = Running(tmp_path, "mpi", (*probe("of_mpi", OWN_PYTHON), "wait"), nodes((0,), (1,)), **how(mpi))
    until = time.monotonic() + 60
    while sum("of_mpi" in line and "taskset" not in line for line in job.left()) < 2 and time.monotonic() < until:
        time.sleep(0.1)
    time.sleep(1.0)
    assert job.process.poll() is None
    os.killpg(job.process.pid, signal.SIGTERM)
    status, _, _ = job.end(120)  # which finds whoever is left
    assert status != 0 or mpi["kind"] == "mpich"  # MPICH's mpirun sometimes says 0 when it was asked to end
