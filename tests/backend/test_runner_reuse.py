"""A runner is used for one run after the other, and no run notices another one before it."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

from cohabit.agent.launch import process_tree
from cohabit.backend.local.executor import LocalBackend
from cohabit.launcher import runs
from cohabit.launcher.runs import RunFolder
from cohabit.model.command import CancelJob
from tests.backend.scenes import ending, facts, play, shell, start

SOURCE = Path(process_tree.__file__).parents[3]


def runner_of(place: Path, job: str) -> int:
    """The process that claimed the run of a job."""
    claim = RunFolder(place / "runs", job, 1).runner()
    assert claim
    return int(claim.split()[0])


def has_ended(process: int) -> bool:
    """Whether a process ends in time."""
    poll = select.poll()
    poll.register(process, select.POLLIN)
    return bool(poll.poll(30_000))


def test_runs_have_the_same_runner_and_their_own_usage(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start("busy"), shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done"))
        await ending(backend)
        await backend.execute(start("idle"), shell("exit 3"))
        await ending(backend)
        busy, idle = (RunFolder(tmp_path / "runs", job, 1).ended() for job in ("busy", "idle"))
        assert runner_of(tmp_path, "busy") == runner_of(tmp_path, "idle")
        assert busy is not None
        assert idle is not None
        assert (busy["status"], idle["status"]) == (0, 3)
        assert busy["user_s"] > 2 * idle["user_s"]
        assert idle["peak_rss_bytes"] > 0

    play(tmp_path, scene)


def test_a_runner_that_was_sent_a_signal_is_not_used_again(tmp_path: Path) -> None:
    """Where it was late, it would end the next run."""

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start("stopped"), shell("sleep 60"))
        await facts(backend, 1)
        await backend.execute(CancelJob("stopped", 1))
        await ending(backend)
        await backend.execute(start("next"), shell("exit 0"))
        assert (await ending(backend)).status == "done"
        assert runner_of(tmp_path, "stopped") != runner_of(tmp_path, "next")

    play(tmp_path, scene)


def test_an_idle_runner_that_is_killed_takes_no_run_with_it(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start("first"), shell("exit 0"))
        await ending(backend)
        killed = os.pidfd_open(runner_of(tmp_path, "first"))
        signal.pidfd_send_signal(killed, signal.SIGKILL)
        assert has_ended(killed)
        await backend.execute(start("second"), shell("exit 0"))
        assert (await ending(backend)).status == "done"

    play(tmp_path, scene)


def test_idle_runners_end_with_their_launcher(tmp_path: Path) -> None:
    idle: list[int] = []

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start("only"), shell("exit 0"))
        await ending(backend)
        idle.append(os.pidfd_open(runner_of(tmp_path, "only")))

    play(tmp_path, scene)
    assert has_ended(idle[0])


def test_an_end_that_is_not_on_the_disk_is_none(tmp_path: Path) -> None:
    """The room kept for it has its name, and the power went before its content came."""
    (tmp_path / "runs").mkdir()
    folder = RunFolder(tmp_path / "runs", "job", 1)
    assert folder.create({"user": None}, None)
    (folder.path / "ended").write_bytes(b" " * runs.END_BYTES)
    assert folder.ended() is None
    folder.record_end({"why": "", "fault": "", "status": 0})
    assert folder.ended() == {"why": "", "fault": "", "status": 0}


def test_the_launcher_does_without_what_makes_a_fork_expensive() -> None:
    """`threading` has a hook that runs after every fork."""
    code = f"import sys; sys.path.append({str(SOURCE)!r}); import cohabit.launcher.serve as _; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-I", "-S", "-c", code], capture_output=True, text=True, check=True)
    assert "cohabit.launcher.supervising" in done.stdout.split()
    assert "threading" not in done.stdout.split()


def test_children_are_found_without_a_look_at_all_processes() -> None:
    """Also one that is dead and not collected; a kernel without lists gives the same."""
    living, dead = os.fork(), 0
    if living == 0:
        signal.pause()
    dead = os.fork()
    if dead == 0:
        os._exit(0)
    try:
        os.waitid(os.P_PID, dead, os.WEXITED | os.WNOWAIT)
        assert {living, dead} <= set(process_tree.children()) == set(process_tree._children_by_search())
    finally:
        os.kill(living, signal.SIGKILL)
        for pid in (living, dead):
            os.waitpid(pid, 0)
