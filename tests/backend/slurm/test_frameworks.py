"""`cohabit submit --framework` under a real Slurm: srun starts the ranks of the real Open MPI and MPICH, copies,
workers of TensorFlow and torchruns, with the layout and the environment that the same launchers give on one machine.

The nodes are of one machine, so Open MPI is told to talk by TCP: ranks of two nodes would take each other's memory.
"""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cohabit.backend.launchers.contract import NodeShare, Placement, Request, processes_of
from cohabit.backend.protocol import Launch
from cohabit.backend.slurm.discovery import mpi_plugins
from cohabit.backend.slurm.launching import FRAMEWORKS, start_of, tasks_of
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import attached, log_of, until, write_site
from tests.frameworks.framework_runs import PYTHON, needs
from tests.frameworks.test_mpi import library_folder
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

PROBES = Path(__file__).parents[2] / "frameworks" / "probes"
NODES, CORES = 3, 4
LAYOUT = 'import json, os; print(json.dumps({key: os.environ.get(key) for key in os.environ if "COHABIT" in key}))'


# ---- the layout, as one machine has it ------------------------------------------------------------------------------


def in_short(slots: list[int]) -> str:
    """Slurm writes 4,4,2 as 4(x2),2."""
    runs = [(count, len(list(same))) for count, same in groupby(slots)]
    return ",".join(f"{count}(x{many})" if many > 1 else str(count) for count, many in runs)


def counted(slots: list[int], cores: int, threads: int) -> str:
    """What the shell of a batch script says of these nodes; scontrol's line is the only thing that is made up."""
    start = start_of(Job("1", 1, max(cores, 1)), Launch(("true",), framework="mpi", processes=cores, threads=threads),
                     "/usr/bin", 4, "pmix")  # fmt: skip
    text = start.lines.replace('$(scontrol --oneliner show node "$SLURM_JOB_NODELIST" \\\n', "$(cat nodes \\\n")
    lines = [f"NodeName=n{node} Arch=x NodeAddr=10.0.0.{node} Port=1" for node in range(len(slots))]
    script = "cat() { printf '%s\\n' " + " ".join(f"'{line}'" for line in lines) + "; }\n" + text
    script += 'echo "$cohabit_layout $COHABIT_PROCESSES $COHABIT_CORES $COHABIT_NODES $COHABIT_HOSTS"\n'
    around = {"SLURM_JOB_CPUS_PER_NODE": in_short(slots), "PATH": os.environ["PATH"], "SLURM_JOB_ID": "7"}
    done = subprocess.run(["sh", "-c", script], env=around, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() or done.stderr.strip()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=5), st.integers(0, 30), st.integers(1, 3))
def test_processes_are_spread_as_on_one_machine(slots: list[int], cores: int, threads: int) -> None:
    cores -= cores % threads
    shares = tuple(NodeShare(f"10.0.0.{node}", count) for node, count in enumerate(slots))
    said = counted(slots, cores, threads)
    try:
        found = processes_of(Request("1", ("true",), "", cores), Placement(shares), threads)
    except InputError:
        assert said.startswith("cohabit: ")
        assert "but its cores hold" in said
        return
    names = [f"n{node}" for node in range(len(slots))]
    layout = ",".join(f"n{one.node}" for one in found)
    hosts = ",".join(one.host for one in shares)
    assert said == f"{layout} {len(found)} {','.join(map(str, slots))} {','.join(names)} {hosts}"


def test_cores_that_threads_do_not_divide_are_refused() -> None:
    with pytest.raises(InputError, match="which 3 threads per process do not divide"):
        tasks_of(Job("1", 1, 4), Launch(("true",), framework="mpi", processes=4, threads=3))
    assert tasks_of(Job("1", 1, 6), Launch(("true",), framework="mpi", processes=6, threads=3)) == (2, 3)


def test_plugins_are_looked_for_where_slurm_has_them(tmp_path: Path) -> None:
    for name in ("mpi_pmix_v4.so", "mpi_pmix.so", "mpi_none.so", "auth_munge.so"):
        (tmp_path / name).touch()
    assert mpi_plugins(str(tmp_path)) == ("pmix", "pmix_v4")
    assert mpi_plugins(str(tmp_path / "none")) is None


# ---- real Slurm, real frameworks ------------------------------------------------------------------------------------


@dataclass
class Desk:
    """A steered cluster, its user (root), and what his jobs print."""

    slurm: SlurmCluster
    folder: Path

    def say(self, *words: str) -> subprocess.CompletedProcess[str]:
        around = os.environ | {"COHABIT_SERVER": str(self.folder / "door")}
        return subprocess.run([sys.executable, "-m", "cohabit.cli", *words], capture_output=True, text=True,
                              timeout=120, check=False, env=around)  # fmt: skip

    def run(self, *words: str, settings: dict[str, str] | None = None) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Submit a job and wait for its end: as it is shown then, and the lines of JSON its processes print."""
        out = self.folder / "out"
        out.unlink(missing_ok=True)
        exports = ["--export", ",".join(f"{key}={value}" for key, value in settings.items())] if settings else []
        done = self.say("submit", "--json", "--limit", "2m", "-o", str(out), *exports, *words)
        assert done.returncode == 0, done.stderr + log_of(self.folder)()
        job = json.loads(done.stdout)["job"]

        def view() -> dict[str, Any]:
            return dict(json.loads(self.say("show", job, "--json").stdout))

        until(lambda: view()["ended_at"] is not None, 120, lambda: f"{view()} {log_of(self.folder)()}")
        text = out.read_text() if out.exists() else ""
        found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return view() | {"text": text}, sorted(found, key=lambda one: int(one.get("rank") or 0))


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Three nodes of four cores; jobs get cores, and whole nodes when they ask."""
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("frameworks")
    folder.chmod(0o755)
    text = LUA.read_text().replace("/var/lib/cohabit/lease", str(folder / "slurm" / "lease"))
    with running_slurm(
        folder / "slurm", nodes=NODES, cores=CORES, job_submit=text, name="frameworks", pmix=True
    ) as slurm:
        site = write_site(slurm, folder, "cs")
        site.write_text(f'{site.read_text()}[api]\nsocket = "{folder}/door"\n[launcher]\nuids = [0]\n')
        with attached(site):
            yield Desk(slurm, folder)


slow = [pytest.mark.slow, pytest.mark.cluster, pytest.mark.xdist_group("slurm-frameworks")]


def marked(test: Any) -> Any:
    for mark in slow:
        test = mark(test)
    return test


@pytest.fixture(params=["openmpi", "mpich"])
def mpi(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, str]:
    """The environment in which a job finds this MPI first."""
    kind = request.param
    program = shutil.which(f"mpirun.{kind}")
    if program is None or importlib.util.find_spec("mpi4py") is None:
        pytest.skip(f"needs mpi4py (cohabit[mpi]) and {kind}")
    if kind == "openmpi" and not list(Path("/usr/lib").glob("*/pmix2/lib/libpmix.so")):
        pytest.skip("needs libpmix.so for Slurm's PMIx (Debian: libpmix-dev)")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mpirun").symlink_to(program)
    found = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin", "MPI4PY_MPIABI": kind, "OMPI_MCA_btl": "^vader"}
    return found | ({"LD_LIBRARY_PATH": library_folder(tmp_path)} if kind == "mpich" else {})


@marked
def test_ranks_of_real_mpi_over_two_nodes(desk: Desk, mpi: dict[str, str]) -> None:
    view, found = desk.run(
        "--framework", "mpi", "-n", "6", "--", sys.executable, str(PROBES / "of_mpi.py"), settings=mpi
    )
    assert view["state"] == "done", view["text"]
    assert [one["rank"] for one in found] == list(range(6)), view["text"]
    assert {one["size"] for one in found} == {6}, "every rank is of one world"
    assert {one["sum"] for one in found} == {21}
    assert len(view["node_names"]) == 2
    assert sorted(one["node"] for one in found) in (["0"] * 3 + ["1"] * 3, ["0"] * 4 + ["1"] * 2, ["0"] * 2 + ["1"] * 4)
    assert {one["threads"] for one in found} == {"1"}


@marked
def test_a_rank_that_fails_is_the_jobs_failure(desk: Desk, mpi: dict[str, str]) -> None:
    words = ("--framework", "mpi", "--nodes", "2", "--", sys.executable, str(PROBES / "of_mpi.py"), "3")
    view, _ = desk.run(*words, settings=mpi)
    assert view["state"] == "failed", view["text"]
    assert view["exit_status"] in (3, 128 + 9, 128 + 15), "srun tells the highest status, also of those it stopped"


@marked
def test_copies_of_whole_nodes_find_what_they_find_on_one_machine(desk: Desk) -> None:
    view, found = desk.run("--framework", "replicated", "--nodes", "2", "--", sys.executable, "-c", LAYOUT)
    assert view["state"] == "done", view["text"]
    names = view["node_names"]
    assert len(found) == 2 * CORES
    assert sorted(int(one["COHABIT_RANK"]) for one in found) == list(range(2 * CORES))
    assert sorted(one["COHABIT_NODE"] for one in found) == ["0"] * CORES + ["1"] * CORES
    assert {key: value for key, value in found[0].items() if key not in ("COHABIT_RANK", "COHABIT_NODE")} == {
        "COHABIT_JOB": view["job"], "COHABIT_FRAMEWORK": "replicated", "COHABIT_NODES": ",".join(names),
        "COHABIT_NODE_COUNT": "2", "COHABIT_HOSTS": "127.0.0.1,127.0.0.1", "COHABIT_CORES": "4,4", "COHABIT_SCALE": "1",
        "COHABIT_PROCESSES": "8", "COHABIT_THREADS": "1", "COHABIT_ATTEMPT": "1",
    } | {key: value for key, value in found[0].items() if key.startswith("COHABIT_SERVER")}  # fmt: skip


@marked
def test_copies_all_end_and_the_worst_status_counts(desk: Desk) -> None:
    words = ("--framework", "replicated", "-n", "4", "--", sys.executable, str(PROBES / "of_copy.py"))
    view, found = desk.run(*words, "0", "7", "2", "0")
    assert (view["state"], view["exit_status"]) == ("failed", 7), view["text"]
    assert [one["rank"] for one in found] == [0, 1, 2, 3]


@marked
def test_copies_of_two_threads(desk: Desk) -> None:
    words = ("--framework", "replicated", "-n", "4", "--threads", "2", "--", sys.executable, str(PROBES / "of_copy.py"))
    view, found = desk.run(*words)
    assert view["state"] == "done", view["text"]
    assert [(one["rank"], one["of"], one["threads"]) for one in found] == [(0, "2", "2"), (1, "2", "2")]


@marked
def test_workers_of_tensorflow_find_each_other(desk: Desk) -> None:
    ask = "import json, os; e = os.environ; print(json.dumps({'rank': e['COHABIT_RANK'], 'config': e.get('TF_CONFIG'), "
    ask += "'intra': e['TF_NUM_INTRAOP_THREADS'], 'inter': e['TF_NUM_INTEROP_THREADS']}))"
    view, found = desk.run("--framework", "tensorflow", "--nodes", "2", "--", sys.executable, "-c", ask)
    assert view["state"] == "done", view["text"]
    configs = [json.loads(one["config"]) for one in found]
    assert [one["task"] for one in configs] == [{"type": "worker", "index": 0}, {"type": "worker", "index": 1}]
    workers = configs[0]["cluster"]["worker"]
    assert configs[1]["cluster"] == {"worker": workers}
    assert len({*workers}) == 2
    assert {one.rpartition(":")[0] for one in workers} == {"127.0.0.1"}
    assert {(one["intra"], one["inter"]) for one in found} == {("4", "2")}
    view, (found,) = desk.run("--framework", "tensorflow", "-n", "3", "--", sys.executable, "-c", ask)
    assert (found["rank"], found["config"], found["intra"]) == ("0", None, "3"), "one process needs no other"


@marked
@needs("tensorflow")
def test_workers_of_real_tensorflow_add_up(desk: Desk) -> None:
    words = ("--framework", "tensorflow", "--nodes", "2", "--", PYTHON, str(PROBES / "of_tensorflow.py"))
    view, found = desk.run(*words, settings={"TF_CPP_MIN_LOG_LEVEL": "2", "TF_ENABLE_ONEDNN_OPTS": "0"})
    assert view["state"] == "done", view["text"]
    assert [(one["rank"], one["size"], one["sum"]) for one in found] == [("0", 2, 2.0), ("1", 2, 2.0)], view["text"]


@marked
def test_every_node_has_a_torchrun_that_knows_the_first(desk: Desk) -> None:
    """What stands for torchrun here prints its words; the next test has the real one."""
    told = desk.folder / "torchrun"
    told.write_text('#!/bin/sh\nprintf \'{"rank": "%s", "words": "%s"}\\n\' "$COHABIT_NODE" "$*"\n')
    told.chmod(0o755)
    words = ("--framework", "pytorch", "--nodes", "2", "--threads", "2", "--", str(told), "train.py", "7")
    view, found = desk.run(*words)
    assert view["state"] == "done", view["text"]
    port = found[0]["words"].split("--master-port=")[1].split()[0]
    assert 20_000 <= int(port) < 40_000
    assert [one["words"] for one in found] == [
        f"--nnodes=2 --node-rank={node} --nproc-per-node=2 --master-addr=127.0.0.1 --master-port={port} train.py 7"
        for node in (0, 1)
    ]


@marked
@needs("torch")
def test_two_torchruns_meet(desk: Desk) -> None:
    path = {"PATH": f"{Path(PYTHON).parent}:/usr/bin:/bin"}
    words = ("--framework", "pytorch", "--nodes", "2", "--", PYTHON, str(PROBES / "of_torch.py"))
    view, found = desk.run(*words, settings=path)
    assert view["state"] == "done", view["text"]
    assert [(one["rank"], one["size"], one["sum"]) for one in found] == [(0, 2, 3.0), (1, 2, 3.0)], view["text"]
    assert [one["node"] for one in found] == ["0", "1"]


@marked
def test_what_srun_does_not_start_is_refused_at_the_door(desk: Desk) -> None:
    assert "spark" not in FRAMEWORKS
    for words, said in (
        (("--framework", "spark", "-n", "2"), "starts servers of its own beside its program, which srun does not do"),
        (("--framework", "mpi", "-n", "3", "--threads", "2"), "3 cores, which 2 threads per process do not divide"),
    ):
        done = desk.say("submit", *words, "--", "true")
        assert done.returncode == 2, done
        assert said in done.stderr
    other = desk.folder / "other" / "mpirun"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\necho Other MPI 1.0\n")
    other.chmod(0o755)
    view, _ = desk.run("--framework", "mpi", "-n", "2", "--", "/bin/true", settings={"PATH": str(other.parent)})
    assert (view["state"], view["exit_status"]) == ("failed", 1)
    assert "cohabit: there is no mpirun of Open MPI or MPICH in PATH on n" in view["text"]
