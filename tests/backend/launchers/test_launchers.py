"""What each launcher would execute, word by word; the registry; the choice by command."""

from __future__ import annotations

import json
import re
from pathlib import Path

import msgspec
import pytest

from cohabit.backend.launchers.mpi import HOSTS, RANKS, parse_version
from cohabit.backend.launchers.pytorch import torchrun
from cohabit.backend.launchers.registry import LAUNCHERS, choose, find_launcher
from cohabit.backend.launchers.spark import heaps
from cohabit.model.errors import InputError
from tests.backend.launchers.placements import BARE, MPICH, OPEN_MPI, on, wish

HYDRA = "HYDRA build details:\n    Version:                                 4.0.2\n    Release Date: Thu\n"


def plan_of(prepared):
    assert list(prepared.files) == ["crew.json"]
    assert prepared.argv[-1] == "/run/7/crew.json"
    return json.loads(prepared.files["crew.json"])


def test_a_plain_command_stays_as_it_is() -> None:
    prepared = find_launcher("plain")(wish(), on(("n1", 2)), BARE)
    assert prepared.argv == ("./a.out", "x y")
    assert "OMP_NUM_THREADS" not in prepared.environment
    assert not prepared.notes
    assert find_launcher("plain")(wish(threads=2), on(("n1", 2)), BARE).environment["OMP_NUM_THREADS"] == "2"
    assert "first of its nodes only" in find_launcher("plain")(wish(), on(("n1", 2), ("n2", 2)), BARE).notes[0]


def test_open_mpi_on_two_machines() -> None:
    request = wish(threads=2, environment={"MINE": "1"})
    prepared = find_launcher("mpi")(request, on(("n1", 4), ("n2", 2)), OPEN_MPI)
    assert prepared.files == {HOSTS: "n1 slots=2\nn2 slots=1\n"}
    assert prepared.argv[:9] == (
        "/opt/mpi/bin/mpirun", "--hostfile", "/run/7/hosts", "-n", "3", "--map-by", "slot", "--bind-to", "none",
    )  # fmt: skip
    assert "--oversubscribe" not in prepared.argv
    assert "--allow-run-as-root" not in prepared.argv
    passed = [prepared.argv[at + 1] for at, word in enumerate(prepared.argv) if word == "-x"]
    assert {"MINE", "COHABIT_JOB", "OMP_NUM_THREADS"} <= set(passed)
    script = prepared.argv[prepared.argv.index("-c") + 1]
    assert "0) COHABIT_NODE=0 cores=0-1;;\n1) COHABIT_NODE=0 cores=2-3;;\n2) COHABIT_NODE=1 cores=0-1;;" in script
    assert prepared.argv[-2:] == request.command
    assert prepared.environment["OMP_NUM_THREADS"] == "2"


def test_nodes_of_one_machine_are_one_line_of_the_host_file() -> None:
    prepared = find_launcher("mpi")(wish(), on(("localhost", 1), ("localhost", 2)), OPEN_MPI)
    assert prepared.files[HOSTS] == "localhost slots=3\n"
    assert prepared.environment["OMPI_MCA_plm"] == "isolated"
    assert "-x" not in prepared.argv


def test_root_and_oversubscription_are_said() -> None:
    site = msgspec.structs.replace(OPEN_MPI, root=True)
    prepared = find_launcher("mpi")(wish(processes=4, oversubscribe=True), on(("localhost", 2)), site)
    assert {"--allow-run-as-root", "--oversubscribe"} <= set(prepared.argv)
    assert len(prepared.notes) == 2


def test_mpich_on_two_machines_and_on_one() -> None:
    prepared = find_launcher("mpi")(wish(), on(("n1", 2), ("n2", 1)), MPICH)
    assert prepared.files == {HOSTS: "n1:2\nn2:1\n"}
    assert prepared.argv[:7] == ("/opt/mpich/bin/mpirun", "-f", "/run/7/hosts", "-n", "3", "-bind-to", "none")
    assert find_launcher("mpi")(wish(), on(("localhost", 2)), MPICH).argv[1:3] == ("-launcher", "fork")


def test_unbound_ranks_are_not_bound() -> None:
    prepared = find_launcher("mpi")(wish(), on(("localhost", 2), bound=False), MPICH)
    assert "0) COHABIT_NODE=0 cores=;;" in prepared.argv[prepared.argv.index("-c") + 1]


def test_very_many_ranks_go_by_a_file() -> None:
    prepared = find_launcher("mpi")(wish(), on(*[(f"n{at}", 100) for at in range(50)]), MPICH)
    assert prepared.files[RANKS].count("COHABIT_NODE=") == 5000
    assert prepared.argv[-4:-2] == ("sh", "/run/7/ranks.sh")
    assert max(map(len, prepared.argv)) < 100_000


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to http://www.open-mpi.org/community/help/\n", ("openmpi", "4.1.4")),
        ("mpirun (Open MPI) 5.0.7\n", ("openmpi", "5.0.7")),
        (HYDRA, ("mpich", "4.0.2")),
        ("some other launcher\nVersion: 3\n", ("", "")),
        ("", ("", "")),
    ],
)
def test_which_mpi_it_is(text: str, found: tuple[str, str]) -> None:
    assert parse_version(text) == found


@pytest.mark.parametrize(("name", "words"), [("mpi", "no mpirun of Open MPI or MPICH"), ("spark", "no spark-submit")])
def test_a_framework_that_is_not_there(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        find_launcher(name)(wish(), on(("localhost", 2)), BARE)


def test_copies_have_indices_and_cores_of_their_own() -> None:
    prepared = find_launcher("replicated")(wish(), on(("localhost", 2), ("n2", 1)), BARE)
    plan = plan_of(prepared)
    assert [one["environment"]["COHABIT_RANK"] for one in plan["workers"]] == ["0", "1", "2"]
    assert [one["cores"] for one in plan["workers"]] == [[0], [1], [0]]
    assert not plan["together"]
    assert prepared.environment["COHABIT_PROCESSES"] == "3"
    here, _, there = plan["workers"]
    assert not here["remote"]
    assert there["remote"] == ["ssh", "-o", "BatchMode=yes", "n2"]
    assert there["environment"]["COHABIT_JOB"] == "job 7"
    assert "COHABIT_JOB" not in here["environment"]


def test_tensorflow_alone_and_together() -> None:
    alone = find_launcher("tensorflow")(wish(), on(("n1", 4)), BARE)
    assert alone.argv == ("./a.out", "x y")
    names = ("TF_NUM_INTRAOP_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
    assert [alone.environment[name] for name in names] == ["4"] * 4
    assert alone.environment["TF_NUM_INTEROP_THREADS"] == "2"
    assert "TF_CONFIG" not in alone.environment
    plan = plan_of(find_launcher("tensorflow")(wish(), on(("localhost", 2), ("localhost", 2)), BARE))
    configs = [json.loads(one["environment"]["TF_CONFIG"]) for one in plan["workers"]]
    assert [config["task"] for config in configs] == [{"type": "worker", "index": at} for at in (0, 1)]
    assert configs[0]["cluster"] == configs[1]["cluster"]
    assert len(set(configs[0]["cluster"]["worker"])) == plan["ports"] == 2
    assert plan["together"]


def test_pytorch_alone_and_together() -> None:
    alone = find_launcher("pytorch")(wish("python3", "t.py"), on(("n1", 4)), BARE)
    assert alone.argv == ("python3", "t.py")
    assert alone.environment["OMP_NUM_THREADS"] == "4"
    plan = plan_of(find_launcher("pytorch")(wish("python3", "t.py"), on(("localhost", 2), ("n2", 2)), BARE))
    assert [one["argv"][3:6] for one in plan["workers"]] == [
        ["--nnodes=2", f"--node-rank={at}", "--nproc-per-node=1"] for at in (0, 1)
    ]
    assert all("--master-addr=localhost" in one["argv"] for one in plan["workers"])
    split = plan_of(find_launcher("pytorch")(wish("python3", "t.py", threads=2), on(("localhost", 4)), BARE))
    assert "--nproc-per-node=2" in split["workers"][0]["argv"]


@pytest.mark.parametrize(
    ("command", "found"),
    [
        (("/v/bin/python3.11", "-u", "t.py", "-m"), "/v/bin/python3.11 -u -m torch.distributed.run -o t.py -m"),
        (("python", "-m", "pack.train"), "python -m torch.distributed.run -o -m pack.train"),
        (("torchrun", "t.py"), "torchrun -o t.py"),
        (("./train", "-x"), "torchrun -o --no-python ./train -x"),
    ],
)
def test_a_command_under_torchrun(command: tuple[str, ...], found: str) -> None:
    assert " ".join(torchrun(command, ("-o",))) == found


def test_spark_has_a_worker_per_node_and_a_master_on_the_first() -> None:
    request = wish("spark-submit", "--name", "x", "app.py", "--master", "mine", memory_bytes=2 << 30)
    prepared = find_launcher("spark")(request, on(("localhost", 2), ("n2", 2)), OPEN_MPI)
    plan = plan_of(prepared)
    master, first, second = plan["servers"]
    assert master["argv"][:4] == [
        "/opt/spark/bin/spark-class",
        "org.apache.spark.deploy.master.Master",
        "--host",
        "localhost",
    ]
    assert first["argv"][first["argv"].index("--cores") + 1] == "2"
    assert second["remote"][-1] == "n2"
    (submit,) = plan["workers"]
    assert submit["argv"][:3] == ["spark-submit", "--master", "@cohabit:master@"]
    assert "spark.cores.max=4" in submit["argv"]
    assert submit["argv"][-5:] == ["--name", "x", "app.py", "--master", "mine"]
    assert plan["scratch"][-1] == "/run/7/spark"
    assert not prepared.notes


def test_a_spark_master_of_ones_own_is_refused() -> None:
    with pytest.raises(InputError, match="leave --master out"):
        find_launcher("spark")(wish("spark-submit", "--master", "local", "app.py"), on(("localhost", 2)), OPEN_MPI)


def test_spark_heaps_fit_into_the_memory() -> None:
    executor, driver = heaps(wish(memory_bytes=4 << 30), on(("n1", 2), ("n2", 3)))
    assert driver == 1024
    assert executor + driver + 2 * 256 < 8192
    with pytest.raises(InputError, match="too little for a Spark driver"):
        heaps(wish(memory_bytes=1 << 30), on(("n1", 1)))
    assert min(heaps(wish(), on(("n1", 1)))) >= 512
    assert min(heaps(wish(memory_bytes=1650 << 20), on(("n1", 1)))) >= 512


def test_the_page_describes_every_launcher_and_variable() -> None:
    page = (Path(__file__).parents[3] / "docs" / "launchers.md").read_text(encoding="utf-8")
    for name in LAUNCHERS:
        prepared = find_launcher(name)(wish(memory_bytes=2 << 30), on(("localhost", 2), ("localhost", 2)), OPEN_MPI)
        own = {
            key for text in (*prepared.files.values(), *prepared.argv) for key in re.findall(r"COHABIT_[A-Z]+", text)
        }
        ours = {key for key in prepared.environment if key.startswith("COHABIT_")}
        assert not [word for word in (name, *sorted(own | ours)) if f"`{word}`" not in page]


def test_names_and_near_misses() -> None:
    assert find_launcher("replicate") is find_launcher("replicated")
    with pytest.raises(InputError, match="did you mean 'tensorflow'"):
        find_launcher("tensorflw")
    with pytest.raises(InputError, match="known: plain, mpi"):
        find_launcher("zzz")


@pytest.mark.parametrize(
    ("command", "chosen"),
    [
        ("mpirun ./a.out", "mpi"), ("/usr/bin/mpiexec ./a.out -n", "mpi"), ("mpirun -n 4 ./a.out", "plain"),
        ("mpirun", "plain"), ("torchrun t.py", "pytorch"), ("torchrun --standalone t.py", "plain"),
        ("spark-submit app.py", "spark"), ("spark-submit --master local app.py", "plain"),
        ("python train_tensorflow.py", "plain"), ("./mpi_program", "plain"),
    ],
)  # fmt: skip
def test_only_a_certain_sign_is_taken(command: str, chosen: str) -> None:
    words = tuple(command.split())
    name, rest = choose(words)
    assert name == chosen
    assert rest == (words[1:] if chosen == "mpi" else words)
