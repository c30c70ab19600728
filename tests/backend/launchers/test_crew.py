"""The crew with real processes: bound, counted, stopped whole; the worst status wins."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import msgspec
import pytest

from cohabit.backend.launchers.crew import OVER_THERE
from cohabit.backend.launchers.crew_plan import PROGRAM, Member, Plan, port, told

CORES = sorted(os.sched_getaffinity(0))
# What sshd does with the words it is given: hand them to a shell.
NEARBY = ("sh", "-c", 'exec sh -c "$2"', "ssh", "elsewhere")


def begin(folder: Path, plan: Plan) -> subprocess.Popen[str]:
    (folder / "plan").write_bytes(msgspec.json.encode(plan))
    argv = [sys.executable, "-I", "-S", PROGRAM, str(folder / "plan")]
    return subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)


def run(folder: Path, plan: Plan) -> tuple[int, str, str]:
    running = begin(folder, plan)
    out, err = running.communicate(timeout=120)
    return running.returncode, out, err


def shell(script: str, **rest: object) -> Member:
    return Member("one", ("sh", "-c", script), **rest)  # type: ignore[arg-type]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def wait_for(path: Path) -> str:
    until = time.monotonic() + 60
    while time.monotonic() < until:
        if path.exists() and path.read_text().strip():
            return path.read_text().strip()
        time.sleep(0.02)
    raise AssertionError(f"{path} did not come")


@pytest.mark.parametrize(
    ("ends", "worst"),
    [(["exit 0", "exit 0"], 0), (["exit 0", "exit 3", "exit 1"], 3), (["exit 5", "kill -9 $$"], 128 + 9)],
)
def test_the_worst_status_wins(tmp_path: Path, ends: list[str], worst: int) -> None:
    assert run(tmp_path, Plan(tuple(shell(end) for end in ends)))[0] == worst


def test_one_that_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    slow = shell(f"sleep 0.5; echo here > {tmp_path}/slow")
    assert run(tmp_path, Plan((shell("exit 2"), slow)))[0] == 2
    assert (tmp_path / "slow").read_text() == "here\n"


def test_where_they_need_each_other_it_does(tmp_path: Path) -> None:
    began = time.monotonic()
    status, _, err = run(tmp_path, Plan((shell("exit 2"), shell("sleep 60")), together=True))
    assert status == 2
    assert "one of 2 processes ended with status 2" in err
    assert time.monotonic() - began < 50  # and not the minute the other one wanted


def test_each_is_bound_to_its_cores(tmp_path: Path) -> None:
    look = 'import os; os.write(1, f"{sorted(os.sched_getaffinity(0))}\\n".encode())'
    workers = tuple(Member("one", (sys.executable, "-c", look), cores=(core,)) for core in CORES)
    _, out, _ = run(tmp_path, Plan(workers))
    assert sorted(map(json.loads, out.splitlines())) == [[core] for core in CORES]


def test_cores_that_are_not_there_and_programs_that_are_not(tmp_path: Path) -> None:
    status, _, err = run(tmp_path, Plan((shell("exit 0", cores=(1000,)),)))
    assert status == 127
    assert "could not be bound to cores [1000]" in err
    status, _, err = run(tmp_path, Plan((Member("one", ("no-such-program",)),)))
    assert (status, err) == (127, "cohabit: no-such-program: no such file or directory\n")


def test_servers_come_first_and_tell_and_go(tmp_path: Path) -> None:
    log = str(tmp_path / "log")
    serve = f"echo $$ > {tmp_path}/pid; sleep 0.3; echo ready at {port(0)}:7; sleep 60"
    server = shell(serve, log=log, ready=r"ready at (?P<place>\S+)")
    second = shell(f"echo got {told('place')}; sleep 60", log=log + "2", ready="got [0-9]+:7")
    scratch = str(tmp_path / "scratch" / "deep")
    worker = shell(f"test -d {scratch} && echo {told('place')} $PLACE", environment={"PLACE": port(0)})
    plan = Plan((worker,), (server, second), ports=1, scratch=(scratch, str(tmp_path / "scratch")))
    status, out, err = run(tmp_path, plan)
    assert status == 0, err
    place, number = out.split()
    assert place == f"{number}:7"
    assert int(number) > 0
    assert not alive(int((tmp_path / "pid").read_text()))
    assert not (tmp_path / "scratch").exists()


def test_a_server_that_does_not_become_ready(tmp_path: Path) -> None:
    server = Member("the server", ("sh", "-c", "echo no room; exit 4"), log=str(tmp_path / "log"), ready="ready")
    status, out, err = run(tmp_path, Plan((shell("echo worked"),), (server,)))
    assert (status, out) == (1, "")
    assert err == "cohabit: the server ended with status 4; the end of its log:\nno room\n"
    slow = Member("the server", ("sleep", "60"), log=str(tmp_path / "log2"), ready="ready")
    status, _, err = run(tmp_path, Plan((shell("echo worked"),), (slow,), patience_s=0.2))
    assert status == 1
    assert "was not ready in time" in err


def test_a_server_that_dies_under_the_job(tmp_path: Path) -> None:
    serve = f"echo ready; while ! test -e {tmp_path}/began; do sleep 0.02; done; exit 4"
    server = Member("the server", ("sh", "-c", serve), log=str(tmp_path / "log"), ready="r")
    status, _, err = run(tmp_path, Plan((shell(f"touch {tmp_path}/began; sleep 60"),), (server,)))
    assert status == 1
    assert "the server ended with status 4 under the job" in err


@pytest.mark.parametrize("remote", [(), NEARBY])
def test_asked_to_end_it_leaves_nobody(tmp_path: Path, remote: tuple[str, ...]) -> None:
    """Neither the worker, which does not listen, nor its child in a session of its own."""
    script = f"trap '' TERM; setsid sh -c 'echo $$ > {tmp_path}/child; sleep 60' & echo $$ > {tmp_path}/own; wait"
    running = begin(tmp_path, Plan((shell(script, remote=remote),), scratch=(str(tmp_path / "scratch"),)))
    pids = [int(wait_for(tmp_path / name)) for name in ("own", "child")]
    running.send_signal(signal.SIGTERM)
    running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM
    assert not any(map(alive, pids))
    assert not (tmp_path / "scratch").exists()


def test_killed_it_takes_its_processes_along(tmp_path: Path) -> None:
    running = begin(tmp_path, Plan((shell(f"echo $$ > {tmp_path}/own; exec sleep 60"),)))
    pid = int(wait_for(tmp_path / "own"))
    running.kill()
    running.communicate(timeout=60)
    until = time.monotonic() + 60
    while alive(pid) and time.monotonic() < until:
        time.sleep(0.02)
    assert not alive(pid)


def test_far_away_it_gets_its_words_environment_cores_and_status(tmp_path: Path) -> None:
    script = "import os, sys; print(sys.argv[1:], os.environ['TOLD'], sorted(os.sched_getaffinity(0))); sys.exit(6)"
    words = (sys.executable, "-c", script, "it's", 'a "b" $c', "")
    far = Member("far", words, {"TOLD": "x 'y' $z"}, (CORES[-1],), NEARBY)
    status, out, err = run(tmp_path, Plan((far,)))
    assert (status, err) == (6, "")
    assert out == f"""{["it's", 'a "b" $c', ""]} x 'y' $z [{CORES[-1]}]\n"""


def test_far_away_it_ends_with_the_connection(tmp_path: Path) -> None:
    script = f"echo $$ > {tmp_path}/own; exec sleep 60"
    running = subprocess.Popen(["sh", "-c", OVER_THERE, "sh", "sh", "-c", script], stdin=subprocess.PIPE)
    pid = int(wait_for(tmp_path / "own"))
    assert running.stdin is not None
    running.stdin.close()
    assert running.wait(timeout=60) == 128 + signal.SIGTERM
    assert not alive(pid)
