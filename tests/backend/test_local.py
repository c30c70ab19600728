"""The local back end with real processes: started once, stopped whole, watched over even without a controller."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.agent.resctrl.files import Mount
from cohabit.agent.resctrl.wanted import Placed
from cohabit.backend.local.executor import LocalBackend, _Watched
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.protocol import ENDED, NEVER, RUNNING, BackendError, Launch, Run
from cohabit.launcher.runs import RunFolder
from cohabit.live.controller.clock import boot_us
from cohabit.model.command import CancelJob, HoldJob, RenewJob, StartJob, StopJob
from cohabit.model.errors import InputError
from cohabit.model.event import JobFinished, JobStarted
from cohabit.model.units import SECOND
from tests.backend.scenes import ending, facts, marked, play, shell, start, until


@pytest.mark.parametrize(
    ("command", "status", "exits"),
    [
        ("exit 0", "done", (0, None)),
        ("exit 3", "failed", (3, None)),
        ("kill -9 $$", "failed", (None, 9)),
        ("sleep 60", "killed", (None, 15)),
    ],
)
def test_a_run_is_reported_as_it_ended(
    tmp_path: Path, command: str, status: str, exits: tuple[int | None, int | None]
) -> None:
    async def scene(backend: LocalBackend) -> None:
        limit = 2 * SECOND if status == "killed" else 60 * SECOND
        await backend.execute(start(limit_us=limit), shell(command))
        told = await facts(backend, 2, exits=True)
        assert told == [JobStarted("job", 1), JobFinished("job", 1, status, *exits)]
        assert await backend.observe() == [Run("job", 1, ENDED, status, *exits)]
        await backend.settled("job", 1)
        assert await backend.observe() == []

    play(tmp_path, scene)


def test_output_environment_and_cores_are_as_asked(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        asked = "echo out; echo err >&2; echo $COHABIT_JOB $COHABIT_ATTEMPT $COHABIT_NODES $MINE $HOME; pwd; nproc"
        launch = Launch(("/bin/sh", "-c", asked), {"MINE": "yes"}, str(tmp_path), str(tmp_path / "mine"))
        await backend.execute(StartJob("job", 2, ((1, 1),), 60 * SECOND), launch)
        await facts(backend, 2)
        cores = len(backend.nodes.cores(((1, 1),))) or len(os.sched_getaffinity(0))
        assert (tmp_path / "mine").read_text() == f"out\nerr\njob 2 1 yes\n{tmp_path}\n{cores}\n"

    play(tmp_path / "place", scene)


def test_a_start_given_twice_starts_once(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        for _ in range(3):
            await backend.execute(start(), shell(f"echo once >> {tmp_path}/log"))
        assert await facts(backend, 2) == [JobStarted("job", 1), JobFinished("job", 1)]
        await asyncio.sleep(0.3)
        assert (tmp_path / "log").read_text() == "once\n"

    play(tmp_path / "place", scene)


def test_names_cannot_leave_the_folder(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        for name in ("../../up", "a/b", "..", "ümlaut %2F", "."):
            await backend.execute(start(name), shell("exit 0"))
            assert JobFinished(name, 1) in await facts(backend, 2)
            assert [run.job_id for run in await backend.observe()] == [name]
            await backend.settled(name, 1)
        assert sorted(os.listdir(tmp_path)) == ["place"]

    play(tmp_path / "place", scene)


@pytest.mark.parametrize(
    ("launch", "reason"),
    [
        (Launch(("/no/such/program",)), "could not execute /no/such/program: no such file"),
        (Launch(("/bin/true",), folder="/no/such/folder"), "could not enter its folder"),
        (Launch(("/bin/true",), stdout="/no/such/folder/file"), "could not open its output"),
    ],
)
def test_what_cannot_be_executed_fails_with_the_reason(tmp_path: Path, launch: Launch, reason: str) -> None:
    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start(), launch)
        while (fact := (await facts(backend, 1))[0]) == JobStarted("job", 1):
            continue  # its process was there before it failed to execute
        assert fact == JobFinished("job", 1, "failed")
        ended = RunFolder(tmp_path / "runs", "job", 1).ended()
        assert ended is not None
        assert reason in ended["fault"]

    play(tmp_path, scene)


def test_output_to_a_pipe_that_nobody_reads_is_an_error(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start(), Launch(("/bin/true",), stdout=str(tmp_path / "pipe")))
        assert await ending(backend) == JobFinished("job", 1, "failed")

    play(tmp_path / "place", scene)


@pytest.mark.parametrize("why", ["limit", "cancelled"])
def test_a_program_that_cannot_even_begin_is_ended_all_the_same(tmp_path: Path, why: str) -> None:
    """Its groups do not answer: a file of resctrl that is really a pipe stands for whatever the kernel may do."""
    (tmp_path / "resctrl").mkdir()
    os.mkfifo(tmp_path / "resctrl" / "tasks")

    async def scene(backend: LocalBackend) -> None:
        limit_us = SECOND if why == "limit" else 60 * SECOND
        cores = backend._book.take(("job", 1), ((0, 1),), 0, True)
        request = await backend._request(start(limit_us=limit_us), shell("exit 0"), cores)
        backend._watched["job", 1] = _Watched(Placed("job", (0,), 1, 0.0))
        assert await backend.link.ask("start", **request, joins=[""], fuse_us=-1)
        if why == "cancelled":
            await asyncio.sleep(0.3)
            await backend.execute(CancelJob("job", 1))
        assert (await ending(backend)).status == ("killed" if why == "limit" else "cancelled")

    play(tmp_path / "place", scene, mount=lambda: Mount(tmp_path / "resctrl"), shares="off")


@pytest.mark.parametrize(("order", "status"), [(CancelJob("job", 1), "cancelled"), (StopJob("job", 1), "stopped")])
def test_a_stop_ends_the_whole_tree_before_it_returns(tmp_path: Path, order: CancelJob | StopJob, status: str) -> None:
    """Children that ignore signals, or fork twice into a session of their own, too."""

    async def scene(backend: LocalBackend) -> None:
        tree = "trap '' TERM; (setsid sh -c 'sleep 60 & sleep 60' &) ; sleep 60 & sleep 60"
        await backend.execute(start(), shell(tree))
        await facts(backend, 1)
        await until(lambda: len(marked(tmp_path)) >= 4)
        await backend.execute(order)
        assert not marked(tmp_path)
        assert await facts(backend, 1) == [JobFinished("job", 1, status)]
        await backend.execute(order)  # again: no harm

    play(tmp_path, scene)


@pytest.mark.timing
def test_a_fuse_burns_without_a_controller(tmp_path: Path) -> None:
    """The back end is closed, as if its controller had died; a later one learns how it ended."""

    fuse_us = boot_us() + 5 * SECOND  # by then a second back end looks on

    async def begin(backend: LocalBackend) -> None:
        await backend.execute(start(fuse_us=fuse_us), shell("sleep 30"))
        await facts(backend, 1)

    async def later(backend: LocalBackend) -> None:
        assert await backend.observe() == [Run("job", 1, RUNNING)]
        assert await facts(backend, 1) == [JobFinished("job", 1, "stopped")]
        assert 0 <= boot_us() - fuse_us < 2 * SECOND
        assert not marked(tmp_path)

    play(tmp_path, begin)
    play(tmp_path, later)


@pytest.mark.timing
def test_a_renewed_fuse_burns_later(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        began = boot_us()
        await backend.execute(start(fuse_us=began + 3 * SECOND), shell("sleep 30"))
        assert await facts(backend, 1) == [JobStarted("job", 1)]
        await backend.execute(RenewJob("job", 1, began + 5 * SECOND))
        assert await facts(backend, 1) == [JobFinished("job", 1, "stopped")]
        assert 4.9 * SECOND < boot_us() - began < 10 * SECOND

    play(tmp_path, scene)


def test_a_run_past_its_fuse_never_begins(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start(fuse_us=boot_us() - 1), shell(f"touch {tmp_path}/ran"))
        assert await facts(backend, 1) == [JobFinished("job", 1, "stopped")]
        assert not (tmp_path / "ran").exists()

    play(tmp_path / "place", scene)


def test_a_run_that_had_not_begun_when_observed_never_does(tmp_path: Path) -> None:
    """Its controller died between recording it and having it started; its request comes late."""

    async def scene(backend: LocalBackend) -> None:
        folder = RunFolder(tmp_path / "place" / "runs", "job", 1)
        assert folder.create({"command": ["/bin/sh"], "user": None}, None)
        assert await backend.observe() == [Run("job", 1, NEVER)]
        with pytest.raises(BackendError, match="its start was interrupted"):
            await backend.execute(start(), shell(f"touch {tmp_path}/ran"))
        assert not (tmp_path / "ran").exists()
        assert folder.started() is None

    play(tmp_path / "place", scene)


def test_a_killed_runner_leaves_nothing_behind(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start(), shell("(setsid sleep 60 &); sleep 60"))
        await facts(backend, 1)
        await asyncio.sleep(0.2)
        runner = RunFolder(tmp_path / "runs", "job", 1).runner()
        assert runner is not None
        os.kill(int(runner.split()[0]), signal.SIGKILL)
        assert await facts(backend, 1) == [JobFinished("job", 1, "lost")]
        assert not marked(tmp_path)

    play(tmp_path, scene)


def test_a_runner_killed_while_tidying_up_has_said_how_its_program_ended(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        folder = RunFolder(tmp_path / "runs", "job", 1)
        await backend.execute(start(), shell("sleep 0.3; exit 3"))
        await facts(backend, 1)
        runner = folder.runner()
        assert runner is not None
        while not (folder.path / "exited").exists():
            await asyncio.sleep(0)
        with contextlib.suppress(ProcessLookupError):  # it was quick today
            os.kill(int(runner.split()[0]), signal.SIGKILL)
        assert await facts(backend, 1) == [JobFinished("job", 1, "failed")]

    play(tmp_path, scene)


def test_a_killed_launcher_loses_no_start(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        os.kill(backend.link.process.pid, signal.SIGSTOP)  # it does not read any more
        starting = asyncio.create_task(backend.execute(start("one"), shell("exit 0")))
        await asyncio.sleep(0.1)
        os.kill(backend.link.process.pid, signal.SIGKILL)
        await starting
        assert await facts(backend, 2) == [JobStarted("one", 1), JobFinished("one", 1)]

    play(tmp_path, scene)


def test_a_stop_that_overtakes_the_start_wins(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        os.kill(backend.link.process.pid, signal.SIGSTOP)
        starting = asyncio.create_task(backend.execute(start(), shell(f"touch {tmp_path}/ran")))
        await until(lambda: ("job", 1) in backend._watched)
        stopping = asyncio.create_task(backend.execute(StopJob("job", 1)))
        await asyncio.sleep(0.1)
        os.kill(backend.link.process.pid, signal.SIGCONT)
        await asyncio.gather(starting, stopping)
        assert await facts(backend, 1) == [JobFinished("job", 1, "stopped")]
        await asyncio.sleep(0.3)
        assert not (tmp_path / "ran").exists()
        assert await backend.observe() == [Run("job", 1, ENDED, "stopped")]

    play(tmp_path / "place", scene)


def test_what_a_plain_machine_cannot_do_is_said(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        with pytest.raises(BackendError, match="HoldJob"):
            await backend.execute(HoldJob("job", ((0, 1),), 0))
        with pytest.raises(BackendError, match="nothing is known"):
            await backend.execute(start())

    play(tmp_path, scene)


def test_cores_are_split_evenly_or_not_at_all() -> None:
    nodes = VirtualNodes(2, (0, 1, 2, 3, 8))
    assert nodes.cores(((0, 1),)) == [0, 1, 2]
    assert nodes.cores(((0, 2),)) == [0, 1, 2, 3, 8]
    assert [group.cores for group in nodes.cluster().groups] == [3, 2]
    assert VirtualNodes(8, (0, 1)).cores(((3, 2),)) == []
    with pytest.raises(InputError):
        VirtualNodes(0)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of our own that is soon full."""
    place = tmp_path / "disk"
    place.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(place)], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.mark.system
def test_a_full_disk_loses_no_run(small_disk: Path, tmp_path: Path) -> None:
    """Room for the ends of runs was kept when they began; what is to start is refused, with the reason."""
    filler, mark = small_disk / "filler", tmp_path / "mark"

    def fill() -> None:
        with contextlib.suppress(OSError), filler.open("ab", buffering=0) as stream:
            while True:
                stream.write(b"x" * 512)

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start("ends"), shell(f"while ! test -e {mark}; do sleep 0.02; done"))
        await backend.execute(start("lost", nodes=((1, 1),)), shell("sleep 60"))
        await facts(backend, 2)
        fill()
        with pytest.raises(BackendError, match=f"the disk of {small_disk / 'place'} is full"):
            await backend.execute(start("late", nodes=((1, 1),)), shell("exit 0"))
        runner = RunFolder(small_disk / "place" / "runs", "lost", 1).runner()
        assert runner is not None
        os.kill(int(runner.split()[0]), signal.SIGKILL)
        mark.touch()
        await until(lambda: not marked(small_disk))
        ends = [await ending(backend) for _ in range(2)]
        assert sorted((end.job_id, end.status) for end in ends) == [("ends", "done"), ("lost", "lost")]

    play(small_disk / "place", scene, oversubscribe=True)


@pytest.mark.timing
def test_a_program_executes_soon_after_the_order(tmp_path: Path) -> None:
    """From the order to the first instruction of the program, the median of many."""

    async def scene(backend: LocalBackend) -> None:
        took = []
        for number in range(30):
            began = time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000
            await backend.execute(start(str(number)), Launch(("/bin/true",)))
            await facts(backend, 2)
            ended = RunFolder(tmp_path / "runs", str(number), 1).ended()
            assert ended is not None
            took.append(ended["began_us"] - began)
        median_ms = sorted(took)[len(took) // 2] / 1000
        sys.stderr.write(f"start to exec: median {median_ms:.1f} ms, longest {max(took) / 1000:.1f} ms\n")
        assert median_ms < 50

    play(tmp_path, scene)
