"""The node side: prolog and epilog that always end well and cost next to nothing, and the daemon that listens to them.

The real slurmd of a small cluster calls the scripts; the daemon keeps groups in the enforcing fake of resctrl, as no
machine of ours has the real one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from cohabit.agent.node import job_notices
from cohabit.agent.node.cores import AFFINITY, GROUP, SLURM, find_cores, from_slurm
from cohabit.agent.node.job_notices import Notice
from cohabit.agent.node.keeper import NodeRun, Resident
from cohabit.agent.node.orders import Division, order_division, read_division, write_division
from cohabit.agent.node.processes import Processes
from cohabit.agent.topology import Core, Topology, format_cpus
from cohabit.app.steer.lessons import lesson
from cohabit.app.steer.node_agent import NodeConfig, NodeDaemon, read_status
from cohabit.app.steer.site import NodeTable
from cohabit.model.command import SetShares
from cohabit.store.profiles import open_store
from tests.backend.slurm.conftest import idle, scripts
from tests.backend.slurm.node_serve import CORES, fake_machine, topology
from tests.backend.slurm.steering import jobs_of, until
from tests.support.resctrl import FakeResctrl
from tests.support.slurm_cluster import SlurmCluster

BUSY = "#!/bin/sh\nwhile [ ! -e {go} ]; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 0.05; done\n"


def call(script: Path, node: str = "n0", job: str = "7", **more: str) -> subprocess.CompletedProcess[bytes]:
    """As slurmd does: with its variables and nothing else."""
    environment = {"SLURMD_NODENAME": node, "SLURM_JOB_ID": job, "SLURM_JOB_UID": "1000"} | more
    return subprocess.run([script], env=environment, capture_output=True, timeout=30, check=False)


# ---- the scripts ----------------------------------------------------------------------------------------------------


def test_what_the_scripts_tell(tmp_path: Path) -> None:
    prolog, epilog = scripts(tmp_path)
    place = job_notices.prepare(tmp_path / "node", "n0")
    assert call(prolog, SLURM_ARRAY_JOB_ID="5", SLURM_ARRAY_TASK_ID="2", SLURM_CONF="/etc/slurm.conf").returncode == 0
    (told,) = job_notices.read(place).values()
    assert (told.number, told.name, told.uid, told.ended_s, told.conf) == ("7", "5_2", 1000, 0.0, "/etc/slurm.conf")
    assert call(epilog).returncode == 0
    (told,) = job_notices.read(place).values()
    assert told.ended_s >= told.begun_s > 0
    job_notices.forget(place, "7")
    assert job_notices.read(place) == {}
    call(epilog, job="8")
    assert job_notices.unknown_ends(place) == ["8"]


def test_half_a_notice_is_not_read(tmp_path: Path) -> None:
    place = job_notices.prepare(tmp_path, "n0")
    (place / "7").write_text("uid=1000\narr")
    assert job_notices.read(place) == {}


@pytest.mark.parametrize("state", ["no folder", "a file in its place", "no name", "no job", "a folder in the way"])
def test_the_scripts_always_end_well_and_say_nothing(tmp_path: Path, state: str) -> None:
    prolog, epilog = scripts(tmp_path)
    more = {}
    if state == "a file in its place":
        (tmp_path / "node").write_text("")
    elif state == "no name":
        more = {"SLURMD_NODENAME": ""}
    elif state == "no job":
        more = {"SLURM_JOB_ID": ""}
    elif state == "a folder in the way":
        for name in ("7", "7.ended"):
            (tmp_path / "node" / "n0" / name).mkdir(parents=True)
    for script in (prolog, epilog):
        done = call(script, **more)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.timing
def test_the_scripts_cost_milliseconds(tmp_path: Path) -> None:
    """Beside `true`, started the same way: most of it is starting a process at all."""
    prolog, epilog = scripts(tmp_path)
    job_notices.prepare(tmp_path / "node", "n0")
    found = {}
    for name, words in (("true", ["/bin/true"]), ("prolog", [prolog]), ("epilog", [epilog])):
        took = []
        for number in range(100):
            began_s = time.perf_counter()
            subprocess.run(words, env={"SLURMD_NODENAME": "n0", "SLURM_JOB_ID": str(number)}, check=True)
            took.append(time.perf_counter() - began_s)
        found[name] = sorted(took)[50] * 1e3
    sys.stdout.write(", ".join(f"{name} {cost:.1f} ms" for name, cost in found.items()) + " (medians of 100 calls)\n")
    assert max(found["prolog"], found["epilog"]) - found["true"] < 50


# ---- which cores ----------------------------------------------------------------------------------------------------


def process(root: Path, pid: int, parent: int, name: str, title: str, environ: dict[str, str], cpus: str) -> None:
    folder = root / str(pid)
    (folder / "task" / str(pid)).mkdir(parents=True)
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} " + "0 " * 40)
    (folder / "cmdline").write_bytes(title.encode() + b"\0")
    (folder / "environ").write_bytes(b"".join(f"{key}={value}\0".encode() for key, value in environ.items()))
    uids = "\t".join([str(os.geteuid())] * 4)
    (folder / "status").write_text(f"Name:\t{name}\nUid:\t{uids}\nCpus_allowed_list:\t{cpus}\n")
    program = root.parent / f"programs-of-{root.name}" / name
    program.parent.mkdir(exist_ok=True)
    program.touch(0o755)
    (folder / "exe").symlink_to(program)


def played(root: Path) -> Processes:
    """Two nodes of one machine, with a job of the same number of another cluster beside."""
    own = {"SLURM_CONF": "/a"}
    process(root, 1, 0, "slurmd", "slurmd", {}, "0-27")
    process(root, 2, 0, "slurmd", "slurmd", {}, "0-27")
    process(root, 10, 1, "slurmstepd", "slurmstepd: [7.batch]", own, "0-27")
    process(root, 11, 10, "sh", "sh", own | {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n0"}, "3-5")
    process(root, 12, 11, "solver", "solver", own, "3-5")
    process(root, 20, 2, "slurmstepd", "slurmstepd: [7.0]", own, "0-27")
    process(root, 21, 20, "sh", "sh", own | {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n1"}, "0-27")
    process(root, 30, 2, "slurmstepd", "slurmstepd: [7.batch]", {"SLURM_CONF": "/b"}, "0-27")
    process(root, 31, 30, "sh", "sh", {"SLURM_JOB_ID": "7", "SLURMD_NODENAME": "n0"}, "0-27")
    process(root, 40, 1, "slurmstepd", "slurmstepd: [8.batch]", own, "0-27")  # has started nothing yet
    return Processes(root, os.geteuid())


def test_the_processes_of_a_job_on_one_node_of_one_cluster(tmp_path: Path) -> None:
    found = played(tmp_path)
    assert found.step_daemons("7", "n0", "/a") == [10]
    assert sorted(found.below([10])) == [10, 11, 12]
    assert found.words([10, 11])["SLURMD_NODENAME"] == "n0"
    assert found.step_daemons("8", "n0", "/a") == []  # two nodes are played here: it may be either's
    (tmp_path / "2" / "stat").write_text("2 (bash) S 0 " + "0 " * 40)
    assert Processes(tmp_path, os.geteuid()).step_daemons("8", "n0", "/a") == [40]  # one slurmd: it is this node's


def test_cores_come_from_the_group_then_the_processes_then_slurm(tmp_path: Path) -> None:
    found = played(tmp_path / "proc")
    groups = tmp_path / "groups"
    given = find_cores("7", "n0", 1000, [10], found, groups)
    assert (given.cpus, given.source, given.cores(topology())) == ((3, 4, 5), AFFINITY, 3)
    assert find_cores("7", "n1", 1000, [20], found, groups).cpus == ()  # all CPUs: nothing is told
    for folder in ("cpuset/slurm_n0/uid_1000/job_7", "system.slice/slurmstepd.scope/job_9"):
        (groups / folder).mkdir(parents=True)
        (groups / folder / "cpuset.cpus").write_text("14-16\n")
    for number, uid in (("7", 1000), ("9", 1)):
        given = find_cores(number, "n0", uid, [10], found, groups)
        assert (given.cpus, given.source) == ((14, 15, 16), GROUP)
    threads = Topology(tuple(Core((n, n + 4), 0, 0, 0) for n in range(4)), (), (), tuple(range(8)), (), (), None)
    told = from_slurm((2, 3), threads)  # Slurm counts both threads of the second core
    assert (told.cpus, told.source, told.cores(threads)) == ((1, 5), SLURM, 1)


def test_a_division_goes_from_the_controller_to_the_node(tmp_path: Path) -> None:
    assert read_division(tmp_path, "n0") is None
    write_division(tmp_path, "n0", Division((("7", 0, 4), ("8", 4, 16)), (("8", 50),)))
    found = read_division(tmp_path, "n0")
    assert found is not None
    assert found.command().shares == (("7", 0, 4), ("8", 4, 16))
    order = SetShares(((1, 2),), (("9", 0, 16), ("10", 16, 4)))
    booked = {"9": 5000}
    order_division(tmp_path / "new", ("n0", "n1", "n2"), order, booked_mbs=lambda job: booked.get(job, 0))
    assert read_division(tmp_path / "new", "n0") is None
    assert read_division(tmp_path / "new", "n1") == Division(order.shares, (), (("9", 5000),))
    (tmp_path / "n0.json").write_text("{")
    assert read_division(tmp_path, "n0") is None


# ---- what is learned ------------------------------------------------------------------------------------------------


def run_of(alone: bool, **words: str) -> NodeRun:
    usual = {"SLURM_JOB_NAME": "CG", "SLURM_JOB_NUM_NODES": "1", "SLURM_NTASKS": "16", "SLURM_NODEID": "0",
             "SLURM_CPUS_ON_NODE": "16"}  # fmt: skip
    notice = Notice("7", 100.0, 160.0)
    return NodeRun(notice, from_slurm(range(16), topology()), 16, alone, usual | words, {"task_clock_mean": 15.0})


def test_only_runs_that_had_their_nodes_to_themselves_teach() -> None:
    found, why = lesson(run_of(True), "28c", CORES)
    assert found is not None
    assert (found.program, found.processes, found.hardware, found.scales[0].time_s) == ("CG", 16, "28c", 60.0)
    assert found.scales[0].counters == {"task_clock_mean": 15.0}
    assert why == ""
    assert lesson(run_of(False), "28c", CORES) == (
        None,
        "other jobs were on its node, and it had not all of the node's cores",
    )
    assert lesson(run_of(True, SLURM_NODEID="1", SLURM_JOB_NUM_NODES="2"), "28c", CORES) == (None, "")
    assert lesson(run_of(True, SLURM_JOB_NUM_NODES="2", SLURM_CPUS_ON_NODE="8"), "28c", CORES)[0] is None
    spread, _ = lesson(run_of(False, SLURM_JOB_NUM_NODES="2", SLURM_CPUS_ON_NODE="28"), "28c", CORES)
    assert spread is not None
    assert spread.scales[0].scale == 2
    assert lesson(run_of(True, SLURM_JOB_NAME=""), "28c", CORES) == (None, "its program has no name")


# ---- a real slurmd --------------------------------------------------------------------------------------------------


def submit(small: SlurmCluster, folder: Path, go: str, *options: str) -> str:
    """A job on n0 that works a little until the file GO is there."""
    script = folder / f"{go}.sh"
    script.write_text(BUSY.format(go=folder / go))
    return small.run("sbatch", "--parsable", "--output=/dev/null", "-wn0", "-N1", *options, str(script)).strip()


@contextmanager
def serving(daemon: NodeDaemon) -> Iterator[None]:
    stop = threading.Event()
    thread = threading.Thread(target=daemon.run, args=(stop.is_set,))
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(60)


def tasks_in(fake: FakeResctrl, daemon: NodeDaemon, job: str) -> set[int]:
    joins = daemon.actuator.joins(job)
    return {int(word) for word in fake.read(joins[-1]).split()} if joins else set()


def _entered(fake: FakeResctrl, daemon: NodeDaemon, job: str, wanted: set[int]) -> bool:
    return wanted <= tasks_in(fake, daemon, job)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.xdist_group("slurm-node")
def test_groups_cores_and_counters_of_real_jobs(empty_small: SlurmCluster, tmp_path: Path) -> None:
    small, (fake, machine) = empty_small, fake_machine()
    orders, store = tmp_path / "orders", tmp_path / "profiles.db"
    orders.mkdir()
    said = NodeTable(ways=20, min_ways=2, bandwidth_gbs=[(28, 118.26)])
    folder = small.folder.parent / "node"
    daemon = NodeDaemon(NodeConfig("n0", folder, str(store), orders, str(small.conf), said), machine)
    with serving(daemon):
        first = submit(small, tmp_path, "one", "-n7", "-JCG")
        second = submit(small, tmp_path, "two", "-n14", "-JEP")

        def resident(job: str) -> Resident | None:
            return daemon.keeper.residents.get(job)

        def settled() -> bool:
            both = [resident(job) for job in (first, second)]
            return all(one is not None and one.given.cpus and one.entered for one in both)

        until(settled, 60, lambda: str(daemon.status(time.time())))
        jobs = {job: small.run("scontrol", "show", "job", "-d", "-o", job) for job in (first, second)}
        for job, cores in ((first, 7), (second, 14)):
            one = resident(job)
            assert one is not None
            assert (len(one.given.cpus), one.given.source) == (cores, SLURM)  # no task/cgroup here
            assert f"CPU_IDs={format_cpus(one.given.cpus)} " in jobs[job]
            below = Processes().below(one.step_daemons)
            assert len(below) > 1
            until(partial(_entered, fake, daemon, job, set(below[:2])), 60)  # the step daemon with its script
        assert daemon.actuator.joins(first)[0].parent == daemon.actuator.joins(second)[0].parent  # undivided: the root

        write_division(orders, "n0", Division(((first, 0, 4), (second, 4, 14))))
        until(lambda: daemon.actuator.joins(first)[0].parent.name.startswith("cohabit.class"), 60)
        masks = {job: fake.read(daemon.actuator.joins(job)[0].parent / "schemata") for job in (first, second)}
        assert "L3:0=f;1=f" in masks[first].replace("0000f", "f")
        assert "3fff0" in masks[second]
        until(lambda: daemon.actuator.joins(first)[-1] != daemon.actuator.joins(second)[-1], 60)
        until(lambda: tasks_in(fake, daemon, first) and tasks_in(fake, daemon, second), 60)
        (tmp_path / "one").touch()
        (tmp_path / "two").touch()
        until(lambda: not daemon.keeper.residents, 60, lambda: str(daemon.status(time.time())))
        assert not [name for name in fake.names(Path("/sys/fs/resctrl")) if name.startswith("cohabit.")]

        alone = submit(small, tmp_path, "three", "-n16", "-JMG")
        until(lambda: (one := resident(alone)) is not None and "task_clock_mean" in one.meter.means(), 60)
        time.sleep(1.5)  # long enough to be worth learning from
        (tmp_path / "three").touch()
        until(lambda: store.exists() and open_store(store).get("MG") is not None, 60)
        told = daemon.status(time.time())
        assert (told["cores"], told["cores_told_by"], told["hardware"]) == (CORES, "Slurm", "28c-20w-118.26g")
        assert told["discarded"] == {"other jobs were on its node, and it had not all of the node's cores": 2}
        here = NodeDaemon(NodeConfig("n1", folder, None, None, str(small.conf), said))  # a machine of other cores
        until(lambda: here.status(time.time())["cores_told_by"] == "Slurm", 30)
        assert (here.cores, here.hardware) == (CORES, daemon.hardware)
    with open_store(store) as opened:
        assert opened.get("CG") is None  # it had a neighbour
        learned = opened.get("MG", 16, "28c-20w-118.26g")
        assert learned is not None
        ran = jobs_of(small)[alone]
        assert learned.owner == str(ran.user), "by Slurm's word"
        assert learned.scales[0].time_s == pytest.approx(ran.end_s - ran.start_s, abs=3)
        assert 0 < learned.scales[0].counters["task_clock_mean"] < 4
    idle(small)


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.xdist_group("slurm-node")
def test_jobs_run_whether_the_daemon_lives_dies_or_never_was(empty_small: SlurmCluster, tmp_path: Path) -> None:
    """`cohabit node serve` in a process of its own: killed, gone, and back again, where it finds the jobs it had."""
    small, said = empty_small, tmp_path / "node.log"
    folder = small.folder.parent / "node"

    def start() -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "cohabit.cli", "node", "serve", "--name", "n0", "--folder", str(folder)]
        with said.open("ab") as stream:
            return subprocess.Popen(words, stdout=stream, stderr=stream, env=small.environment)

    def knows(job: str) -> bool:
        try:
            return any(one["job"] == job for one in read_status(folder, "n0")["jobs"])
        except Exception:
            return False

    daemon = start()
    try:
        until(lambda: (folder / "n0").is_dir(), 60, said.read_text)
        first = submit(small, tmp_path, "one", "-n2")
        until(lambda: knows(first), 60, said.read_text)
        os.kill(daemon.pid, signal.SIGKILL)
        daemon.wait(30)
        second = submit(small, tmp_path, "two", "-n2")
        until(lambda: jobs_of(small)[second].state == "RUNNING", 60)
        assert not read_status(folder, "n0")["alive"]
        (tmp_path / "one").touch()
        until(lambda: jobs_of(small)[first].state == "COMPLETED", 60)
        daemon = start()
        until(lambda: knows(second) and not knows(first), 60, said.read_text)  # told while it was dead
        (tmp_path / "two").touch()
        until(lambda: jobs_of(small)[second].state == "COMPLETED" and not knows(second), 60, said.read_text)
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(60) == 0
    finally:
        if daemon.poll() is None:
            daemon.kill()
            daemon.wait()
    for name in (folder / "n0").iterdir():
        name.unlink()
    (folder / "n0").rmdir()  # as if it had never been installed
    third = submit(small, tmp_path, "three", "-n2")
    (tmp_path / "three").touch()
    until(lambda: jobs_of(small)[third].state == "COMPLETED", 60)
    assert not (folder / "n0").exists()
    idle(small)
