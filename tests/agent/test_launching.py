"""Launching real programs: held, bound, captured, stopped, and nothing left of them whatever they fork."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from processes import CORES, alive, pid_in, wait_for

from cohabit.agent.launch.process import Request, find_command, first_report, launch
from cohabit.model.errors import InputError

# Forks, starts a new session, forks again: what daemons do to get away. The second child writes its number and sleeps.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        with open(sys.argv[1], "w") as stream:
            stream.write(f"{os.getpid()}\\n")
        time.sleep(600)
    os._exit(0)
os.wait()
while not (os.path.exists(sys.argv[1]) and open(sys.argv[1]).read().endswith("\\n")):
    time.sleep(0.01)
time.sleep(float(sys.argv[2]))
"""


def python(code: str, *arguments: object) -> tuple[str, ...]:
    return (sys.executable, "-I", "-S", "-c", code, *map(str, arguments))


def test_a_program_runs_and_its_end_is_known(tmp_path: Path) -> None:
    code = "import sys, time; print('out'); print('err', file=sys.stderr); time.sleep(0.2); sys.exit(3)"
    out, err = tmp_path / "out", tmp_path / "err"
    with launch(Request(python(code), stdout=out, stderr=err)) as running:
        running.release()
        ended = running.wait()
    assert ended is not None
    assert (ended.status, ended.leftovers) == (3, 0)
    assert 0.2 <= ended.run_s < 60
    assert ended.user_s + ended.system_s > 0
    assert ended.peak_rss_bytes > 1 << 20
    assert (out.read_text(), err.read_text()) == ("out\n", "err\n")


def test_it_is_held_until_it_is_released(tmp_path: Path) -> None:
    proof = tmp_path / "proof"
    with launch(Request(("touch", str(proof)))) as running:
        time.sleep(0.2)
        assert alive(running.pid)
        assert not proof.exists()
        assert running.wait(0.01) is None
        running.release()
        ended = running.wait()
        assert ended is not None
        assert ended.run_s < 60
    assert proof.exists()


@pytest.mark.parametrize("core", CORES)
def test_it_is_bound_before_it_executes_and_so_are_its_children(core: int, tmp_path: Path) -> None:
    child = tmp_path / "child"
    command = ("sh", "-c", f"sleep 600 & echo $! > {child}; wait")
    with launch(Request(command, cores=(core,))) as running:
        assert os.sched_getaffinity(running.pid) == {core}
        running.release()
        assert os.sched_getaffinity(pid_in(child)) == {core}


def test_environment_and_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    request = Request(("/bin/sh", "-c", "pwd; echo $WORD"), environment={"WORD": "yes"}, folder=tmp_path, stdout=out)
    with launch(request) as running:
        running.release()
        running.wait()
    assert out.read_text().split() == [str(tmp_path), "yes"]


def test_it_has_a_session_of_its_own() -> None:
    with launch(Request(("sleep", "600"))) as running:
        running.release()
        assert os.getsid(running.pid) == os.getpgid(running.pid) == running.pid != os.getsid(0)


def test_a_daemon_left_behind_is_killed(tmp_path: Path) -> None:
    where = tmp_path / "daemon"
    with launch(Request(python(DAEMON, where, 0))) as running:
        running.release()
        ended = running.wait()
    assert ended is not None
    assert (ended.status, ended.leftovers) == (0, 1)
    assert not alive(int(where.read_text()))


def test_stopping_takes_the_whole_tree(tmp_path: Path) -> None:
    where = tmp_path / "daemon"
    with launch(Request(python(DAEMON, where, 600))) as running:
        running.release()
        daemon = pid_in(where)
        assert running.stop().status == -signal.SIGTERM
        assert not alive(running.pid)
        assert not alive(daemon)


def test_who_ignores_the_request_to_end_is_killed_after_the_grace(tmp_path: Path) -> None:
    ready = tmp_path / "ready"
    command = ("sh", "-c", f"trap '' TERM; echo 1 > {ready}; while :; do sleep 0.1; done")
    with launch(Request(command)) as running:
        running.release()
        pid_in(ready)
        assert running.stop().status == -signal.SIGKILL


def test_leaving_the_block_ends_it(tmp_path: Path) -> None:
    where = tmp_path / "daemon"
    with launch(Request(python(DAEMON, where, 600))) as running:
        running.release()
        daemon = pid_in(where)
    assert not alive(running.pid)
    assert not alive(daemon)


def test_a_program_that_was_never_released_is_gone_too() -> None:
    with launch(Request(("sleep", "600"))) as running:
        pass
    assert not alive(running.pid)


def test_nothing_outlives_a_caller_killed_without_warning(tmp_path: Path) -> None:
    where, main = tmp_path / "daemon", tmp_path / "main"
    code = (
        "import sys, time\nfrom cohabit.agent.launch.process import Request, launch\n"
        f"running = launch(Request({python(DAEMON, where, 600)!r}))\nrunning.release()\n"
        f"open({str(main)!r}, 'w').write(f'{{running.pid}}\\n')\ntime.sleep(600)"
    )
    caller = subprocess.Popen([sys.executable, "-c", code])
    try:
        tree = [pid_in(main), pid_in(where)]
        assert all(map(alive, tree))
    finally:
        caller.kill()
        caller.wait()
    wait_for(lambda: not any(map(alive, tree)))


def test_the_first_of_several_to_end_is_seen() -> None:
    with launch(Request(("sleep", "600"))) as slow, launch(Request(("true",))) as quick:
        slow.release()
        quick.release()
        assert first_report([slow, quick], 60.0) == [quick]
        assert first_report([slow], 0.05) == []


@pytest.mark.parametrize(
    ("request_", "word"),
    [
        (Request(("no-such-program-anywhere",)), "no-such-program-anywhere"),
        (Request(("/",)), "/"),
        (Request(("true",), cores=(100_000,)), "bind to cores"),
        (Request(("true",), folder=Path("/no/such/folder")), "enter its folder"),
        (Request(("true",), stdout=Path("/no/such/folder/out")), "open its output"),
    ],
)
def test_what_cannot_be_prepared_is_one_sentence(request_: Request, word: str) -> None:
    with pytest.raises(InputError, match=word) as caught:
        launch(request_)
    assert "\n" not in str(caught.value)


def test_a_file_that_cannot_be_executed_is_one_sentence(tmp_path: Path) -> None:
    broken = tmp_path / "broken"
    broken.write_bytes(b"\x7fELF nonsense")
    broken.chmod(0o755)
    with launch(Request((str(broken),))) as running:
        running.release()
        with pytest.raises(InputError, match="could not start"):
            running.wait()


def test_commands_are_found_in_the_path_of_the_program_and_beside_python() -> None:
    assert find_command(["sh"]).endswith("/sh")
    assert find_command(["cohabit"], {"PATH": "/nowhere"}) == str(Path(sys.executable).with_name("cohabit"))
    with pytest.raises(InputError):
        find_command(["sh"], {"PATH": "/nowhere"})
