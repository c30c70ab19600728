"""Attacks on what root does for a run: its folder, its limits, programs that are asked before it starts, its output."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.launcher.runs import RunFolder
from tests.attack.accounts import Account, become
from tests.attack.controllers import RootController, controller, shared_controller

FRAMEWORKS = 40  # jobs with files of their own, in the race


@pytest.fixture(scope="module")
def up() -> Iterator[RootController]:
    def as_systemd_would() -> None:
        """Limits and a protection that a service has, and its jobs must not have."""
        resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
        resource.setrlimit(resource.RLIMIT_CORE, (resource.getrlimit(resource.RLIMIT_CORE)[1],) * 2)
        resource.setrlimit(resource.RLIMIT_STACK, (1 << 20, resource.RLIM_INFINITY))
        Path("/proc/self/oom_score_adj").write_text("300")  # a container may not have the right to write -500

    site = 'nodes = 2\n[policy]\nname = "cs"\n[launcher]\nmax_output_mb = 1\n'
    with shared_controller(as_systemd_would, site) as one:
        yield one


# ---- folders ------------------------------------------------------------------------------------------------------


def test_the_owner_of_a_run_gets_its_folder_last_and_by_descriptor(folder: Path, ann: Account) -> None:
    """Every change of an owner is looked at while a folder is made. Nothing is changed by name, and before the last
    change the attacker can neither enter the draft nor see what is in it."""
    (folder / "runs").mkdir(mode=0o711)
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            seen = []

            def look(event: str, arguments: tuple[object, ...]) -> None:
                if event == "os.chown" and arguments[1] == ann.uid:
                    drafts = [one.name for one in (folder / "runs").iterdir() if one.name.startswith(".")]
                    inside = any(os.stat(folder / "runs" / one).st_mode & 0o077 for one in drafts)
                    seen.append((type(arguments[0]) is int, inside))

            sys.addaudithook(look)
            user = {"uid": ann.uid, "gid": ann.gid, "groups": [ann.gid]}
            made = RunFolder(folder / "runs", "job", 1).create({"user": user}, None, {"hosts": "x", "plan": "y"})
            assert (made, len(seen)) == (True, 3)
            status = 0 if all(by_descriptor and not inside for by_descriptor, inside in seen) else 3
        finally:
            os._exit(status)
    os.close(reads), os.close(writes)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    job = folder / "runs" / "job.1" / "job"
    assert (job.stat().st_uid, job.stat().st_mode & 0o777) == (ann.uid, 0o700)
    assert {one.stat().st_uid for one in job.iterdir()} == {ann.uid}


def test_links_in_the_folder_of_a_run_win_no_file(up: RootController, ann: Account, folder: Path) -> None:
    """The race itself: while jobs with files are started, the attacker swaps them for links wherever she can."""
    treasure = folder / "treasure"
    treasure.write_text("root's")
    stop = folder / "stop"
    racer = os.fork()
    if racer == 0:
        become(ann)
        runs = up.place / "runs"
        pids = [str(pid) for pid in range(os.getpid(), os.getpid() + 400)]
        while not stop.exists():
            for number in range(1, FRAMEWORKS + 1):
                for draft in (runs / f"race_{number}.1", *(runs / f".race_{number}.1.{pid}" for pid in pids[:40])):
                    for name in ("crew.json", "hosts"):
                        try:
                            os.unlink(draft / "job" / name)
                            os.symlink(treasure, draft / "job" / name)
                        except OSError:
                            continue
        os._exit(0)
    try:
        up.submit(ann, "true", name="race", framework="replicated", array=f"1-{FRAMEWORKS}")
        assert up.over("race")["state"] in ("done", "failed", "mixed")
    finally:
        stop.touch()
        os.waitpid(racer, 0)
    assert (treasure.stat().st_uid, treasure.read_text()) == (0, "root's")


def test_folders_inside_folders_without_end_stop_no_start(folder: Path, ann: Account) -> None:
    """A job leaves a tree that no recursion and no path reaches the end of; with it the next start must live."""
    deep = "\n".join((
        "import os, time", "os.chdir(os.environ['COHABIT_RUN'] + '/job')", "for _ in range(1500):",
        "    os.mkdir('a')", "    os.chdir('a')", "print('done', flush=True)", "time.sleep(300)",
    ))  # fmt: skip
    with controller(folder) as up:
        runs = up.place / "runs"
        job = up.submit(ann, f'exec /usr/bin/python3 -c "{deep}"', limit_s=600, requeue=False)
        up.until(lambda: "done" in str(up.ask(ann, "GET", f"/v1/jobs/{job}/output").body))
        up.ask(ann, "POST", f"/v1/jobs/{job}/cancel")
        up.until(lambda: not os.listdir(runs))
        job = up.submit(ann, f'exec /usr/bin/python3 -c "{deep}"', limit_s=600, requeue=False)
        up.until(lambda: "done" in str(up.ask(ann, "GET", f"/v1/jobs/{job}/output").body))
        kill_everything(up)
        (runs / f"{job}.1").rename(runs / f".{job}.1.gone")  # the power went while it was being removed
        up.start()
        up.until(lambda: not os.listdir(runs))
        assert (up.place / "launcher" / "log").read_text() == ""


# ---- limits -------------------------------------------------------------------------------------------------------


def test_jobs_have_the_limits_of_the_machine_not_those_of_the_service(up: RootController, ann: Account) -> None:
    job = up.submit(ann, "cat /proc/self/oom_score_adj; ulimit -Hn; ulimit -Sn; ulimit -Sc; ulimit -Ss")
    assert up.over(job)["state"] == "done"
    score, hard, soft, core, stack = up.ask(ann, "GET", f"/v1/jobs/{job}/output").body.split()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    first_stack = resource.prlimit(1, resource.RLIMIT_STACK)[0]
    assert (score, core) == ("0", "0")
    assert (int(hard), int(soft)) == (most, 1024)
    assert stack == ("unlimited" if first_stack == resource.RLIM_INFINITY else str(first_stack // 1024))


def test_output_in_the_place_has_a_bound(up: RootController, ann: Account) -> None:
    job = up.submit(ann, "yes | head -c 200000000; sleep 50")
    began = time.monotonic()
    over = up.over(job)
    assert (over["state"], time.monotonic() - began < 30) == ("failed", True)
    assert "its output grew beyond 1 MiB (max_output_mb)" in over["why"]
    gone = up.submit(ann, "sleep 2; rm $(readlink /proc/$$/fd/1); yes | head -c 20000000; sleep 50")
    began = time.monotonic()
    assert (up.over(gone)["state"], time.monotonic() - began < 30) == ("failed", True)
    file = up.submit(ann, f"yes | head -c 3000000 > {ann.home}/big")
    assert up.over(file)["state"] == "done", "files that its owner named are the owner's affair"


# ---- programs of the user's that are asked before a start ---------------------------------------------------------


@pytest.mark.parametrize(
    "says",
    [
        "printf '\\377\\376 broken'", "exit 3", "kill -9 $$", "head -c 100000000 /dev/zero", "cat /dev/urandom",
    ],
)  # fmt: skip
def test_a_strange_mpirun_leaves_no_job_starting(up: RootController, ann: Account, says: str) -> None:
    folder = Path(tempfile.mkdtemp(prefix="cohabit-mpirun-", dir=ann.home))
    folder.chmod(0o755)
    (folder / "mpirun").write_text(f"#!/bin/sh\n{says}\n")
    (folder / "mpirun").chmod(0o755)
    body = {"command": ["true"], "limit_s": 60, "framework": "mpi", "environment": {"PATH": f"{folder}:/usr/bin:/bin"}}
    job = up.ask(ann, "POST", "/v1/jobs", body).body["job"]
    up.until(lambda: "there is no mpirun" in up.ask(ann, "GET", f"/v1/jobs/{job}").body["why"]
             or "could not be found out" in up.ask(ann, "GET", f"/v1/jobs/{job}").body["why"])  # fmt: skip
    assert up.ask(ann, "GET", f"/v1/jobs/{job}").body["state"] == "queued"
    assert {one["state"] for one in up.ask(None, "GET", "/v1/nodes").body["nodes"]} == {"idle"}
    up.ask(ann, "POST", f"/v1/jobs/{job}/cancel")


def test_a_probe_dies_with_all_it_started(up: RootController, ann: Account) -> None:
    nap = f"77.{os.getpid()}"
    (ann.home / "mpirun").write_text(f"#!/bin/sh\nsetsid sleep {nap} >/dev/null 2>&1 &\necho 'mpirun (Open MPI) 4.1'\n")
    (ann.home / "mpirun").chmod(0o755)
    os.chmod(ann.home, 0o755)
    environment = {"PATH": f"{ann.home}:/usr/bin:/bin"}
    body = {"command": ["true"], "limit_s": 60, "framework": "mpi", "environment": environment}
    job = up.ask(ann, "POST", "/v1/jobs", body).body["job"]
    up.over(job)
    assert not [one for one in filter(str.isdigit, os.listdir("/proc")) if nap.encode() in words_of(one).split(b"\0")]


# ---- a power cut --------------------------------------------------------------------------------------------------

FILES = ("spec", "claim", "started", "fuse", "bound", "notes", "exited", "ended", "stop")


def kill_everything(up: RootController) -> None:
    """As a power cut would: nothing is left but the disk."""
    launcher, assert_process = up.launcher(), up.process
    assert assert_process is not None
    os.kill(launcher, signal.SIGKILL)
    assert_process.kill()
    assert_process.wait()
    up.process = None
    for claim in (up.place / "runs").glob("*/claim"):
        for pid in (int(claim.read_text().split()[0]),):
            os.kill(pid, signal.SIGKILL)
    deadline = time.monotonic() + 20
    mark = f"COHABIT_RUN={up.place}".encode()
    while time.monotonic() < deadline:
        left = [int(name) for name in filter(str.isdigit, os.listdir("/proc")) if mark in environment_of(name)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        if not left:
            return
        time.sleep(0.1)


def words_of(name: str) -> bytes:
    try:
        return Path(f"/proc/{name}/cmdline").read_bytes()
    except OSError:
        return b""


def environment_of(name: str) -> bytes:
    try:
        return Path(f"/proc/{name}/environ").read_bytes()
    except OSError:
        return b""


@pytest.mark.parametrize("damage", [b"", b"\0" * 64, b'{"why": '], ids=["empty", "zeros", "half"])
def test_files_that_a_power_cut_damaged_stop_no_start(folder: Path, ann: Account, damage: bytes) -> None:
    """One run for every file of a run's folder, each with that file damaged; and one of a run that had ended."""
    with controller(folder, "--nodes", "32") as up:
        ran = folder / "ran"
        ran.mkdir(mode=0o777)
        ran.chmod(0o777)
        jobs = {name: up.submit(ann, f"echo >> {ran}/{name}; sleep 300", limit_s=600, requeue=False) for name in FILES}
        up.until(lambda: len(list(ran.iterdir())) == len(FILES))
        up.until(lambda: {up.ask(None, "GET", f"/v1/jobs/{job}").body["state"] for job in jobs.values()} == {"running"})
        kill_everything(up)
        for name, job in jobs.items():
            (up.place / "runs" / f"{job}.1" / name).write_bytes(damage)
        up.start()
        for name, job in jobs.items():
            state = up.ask(None, "GET", f"/v1/jobs/{job}").body["state"]
            assert state in ("lost", "queued", "running"), (name, state)
        assert "Traceback" not in up.said()
        up.until(lambda: all(up.ask(None, "GET", f"/v1/jobs/{job}").body["state"] == "lost" for job in jobs.values()))
        assert {path.read_text() for path in ran.iterdir()} == {"\n"}, "a run that had begun was begun again"


def test_a_run_without_a_claim_is_made_anew(folder: Path, ann: Account) -> None:
    """The power went when its folder was there and its claim was not: its program never executed."""
    with controller(folder) as up:
        os.kill(up.launcher(), signal.SIGSTOP)
        ran = folder / "ran"
        ran.mkdir()
        os.chown(ran, ann.uid, ann.gid)
        job = up.submit(ann, f"echo once >> {ran}/anew")
        time.sleep(0.5)  # the start is on its way
        kill_everything(up)
        draft = up.place / "runs" / f"{job}.1"
        draft.mkdir(mode=0o711)
        (draft / "spec").write_bytes(b"")
        up.start()
        assert up.over(job)["state"] == "done"
        assert (ran / "anew").read_text() == "once\n"
        assert "Traceback" not in up.said()
