"""Runs in real control groups: memory is limited, trees die whole however they try, nothing is left of the groups."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from cohabit.agent import control_groups
from cohabit.agent.control_groups import UNIFIED, find_trees
from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.protocol import Launch
from cohabit.launcher.runs import RunFolder
from cohabit.model.command import CancelJob, StartJob
from cohabit.model.event import JobFinished, JobStarted
from cohabit.model.units import SECOND
from tests.backend.scenes import facts, marked, play, shell, start, until

MIB = 1 << 20
Trees = dict[str, str]


def usable() -> control_groups.Offer:
    """What this process could use now."""
    offer = control_groups.prepare(f"test-of-groups-{os.getpid()}", find_trees())  # others look at the same moment
    control_groups.tidy_up(offer)
    return offer


OFFER = usable()
memory = pytest.mark.skipif("memory" not in OFFER.limits, reason="needs a memory control group we may write to")
any_tree = pytest.mark.skipif(not OFFER.trees, reason="needs control groups we may write to")


def groups_left(place: Path) -> list[str]:
    """Folders of groups of the runs below this place."""
    name = control_groups.folder_of(place)
    found = [os.path.join(own, control_groups.FOLDER, name) for own in find_trees().values()]
    return [path for path in found if os.path.isdir(path)]


def only(*wanted: str) -> Callable[[], Trees]:
    """Trees as on a machine that has no others."""
    return lambda: {name: place for name, place in find_trees().items() if name in wanted}


def eater(mib: int, seconds: float = 0.0) -> Launch:
    """Takes so much memory, and says so."""
    text = f"import time; kept = bytearray({mib} * 2**20); kept[::4096] = b'x' * len(kept[::4096]); " \
           f"time.sleep({seconds}); print('had it')"  # fmt: skip
    return Launch((sys.executable, "-I", "-S", "-c", text), memory_bytes=100 * MIB, processes=1)


@memory
@pytest.mark.parametrize(("mib", "status"), [(40, "done"), (200, "failed")])
def test_memory_is_what_was_asked_for_and_no_more(tmp_path: Path, mib: int, status: str) -> None:
    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start(), eater(mib))
        assert await facts(backend, 2) == [JobStarted("job", 1), JobFinished("job", 1, status)]
        ended = RunFolder(tmp_path / "runs", "job", 1).ended()
        assert ended is not None
        assert ended["fault"] == ("" if status == "done" else "went over the 100 MiB of memory it asked for")

    play(tmp_path, scene)
    assert not groups_left(tmp_path)


@memory
def test_memory_counts_for_the_whole_tree(tmp_path: Path) -> None:
    """Four processes of 40 MiB each are more than 100 MiB."""
    one = eater(40, 3.0).command[-1]
    script = 'for n in 1 2 3 4; do "$PY" -I -S -c "$ONE" & done; wait -n; wait -n; wait -n; wait -n; echo over'
    launch = Launch(("/bin/bash", "-c", script), {"PY": sys.executable, "ONE": one}, memory_bytes=100 * MIB,
                    processes=1)  # fmt: skip

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start(), launch)
        await facts(backend, 2)
        assert backend.output("job").read_text().count("had it") < 4

    play(tmp_path, scene)


# A chain of processes each of which forks its successor into a new session and ends: there is never one to catch.
CHAIN = """
import os, time
while True:
    time.sleep(0.001)
    if os.fork() != 0:
        os._exit(0)
    os.setsid()
"""


@any_tree
@pytest.mark.parametrize("trees", [(UNIFIED,), ("freezer",), ("memory", "pids", "freezer", "cpuset")], ids="-".join)
def test_a_tree_that_runs_away_dies_with_its_group(tmp_path: Path, trees: tuple[str, ...]) -> None:
    """It has no mark in its environment, a session of its own every millisecond, and ignores the polite way."""
    if not set(trees) <= set(OFFER.trees):
        pytest.skip(f"needs the control groups {', '.join(trees)}")
    away = f"env -i {sys.executable} -I -S -c '{CHAIN}' &"
    chain = f"trap '' TERM; {away} {away} sleep 60"

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start(), shell(chain))
        await facts(backend, 1)
        groups = RunFolder(tmp_path / "runs", "job", 1).spec()["groups"]
        await until(lambda: len(control_groups.members(groups)) >= 3)
        await backend.execute(CancelJob("job", 1))
        assert not control_groups.members(groups)
        assert not any(os.path.exists(group["path"]) for group in groups)
        assert await facts(backend, 1) == [JobFinished("job", 1, "cancelled")]

    play(tmp_path, scene, trees=only(*trees))
    assert not groups_left(tmp_path)


@any_tree
def test_a_killed_runner_leaves_neither_processes_nor_groups(tmp_path: Path) -> None:
    """Those that wiped their environment too: only the control group knows them."""

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start(), shell("env -i setsid sleep 77 & env -i sleep 77"))
        await facts(backend, 1)
        folder = RunFolder(tmp_path / "runs", "job", 1)
        groups, runner = folder.spec()["groups"], folder.runner()
        await until(lambda: len(control_groups.members(groups)) >= 2)
        assert runner is not None
        os.kill(int(runner.split()[0]), signal.SIGKILL)
        assert await facts(backend, 1) == [JobFinished("job", 1, "lost")]
        assert not control_groups.members(groups)

    play(tmp_path, scene)
    assert not groups_left(tmp_path)


@any_tree
def test_what_a_crash_left_is_swept_and_living_runs_are_not(tmp_path: Path) -> None:
    async def before(backend: LocalBackend) -> None:
        await backend.execute(start("lives"), shell("sleep 60"))
        await backend.execute(StartJob("forgotten", 1, ((1, 1),), 60 * SECOND), shell("env -i sleep 60"))
        await facts(backend, 2)

    async def after(backend: LocalBackend) -> None:
        assert [run.job_id for run in await backend.observe()] == ["lives"]
        assert not control_groups.members(lost)
        assert control_groups.members(kept)
        await backend.execute(CancelJob("lives", 1))

    play(tmp_path, before)
    folder, living = RunFolder(tmp_path / "runs", "forgotten", 1), RunFolder(tmp_path / "runs", "lives", 1)
    lost, kept, runner = folder.spec()["groups"], living.spec()["groups"], folder.runner()
    assert runner is not None
    os.kill(int(runner.split()[0]), signal.SIGSTOP)  # it does not notice; its folder is gone with the disk
    folder.remove()
    try:
        play(tmp_path, after)
    finally:
        os.kill(int(runner.split()[0]), signal.SIGKILL)
    assert not groups_left(tmp_path)
    assert not marked(tmp_path)


def test_without_control_groups_jobs_run_and_it_is_said_once(tmp_path: Path) -> None:
    async def scene(backend: LocalBackend) -> None:
        for name in ("one", "two"):
            await backend.execute(start(name), eater(40))
            assert JobFinished(name, 1) in await facts(backend, 2)
        assert backend.notices() == [
            "memory control groups cannot be used: no such file or directory: jobs run without",
            "memory limits are not enforced: there is no memory control group that we may use",
        ]

    play(tmp_path, scene, trees=lambda: {"memory": "/proc/self/no/such/folder"})


def test_a_group_that_cannot_be_made_is_gone_without(tmp_path: Path) -> None:
    """A plain folder in the place of a tree: it has no file for the limit."""
    (tmp_path / "tree").mkdir()

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start(), eater(40))
        assert await facts(backend, 2) == [JobStarted("job", 1), JobFinished("job", 1)]
        (note,) = RunFolder(tmp_path / "place" / "runs", "job", 1).notes()
        assert "could not be made: no such file or directory" in note

    play(tmp_path / "place", scene, trees=lambda: {"memory": str(tmp_path / "tree")})


def test_the_second_version_is_switched_on_from_group_to_group(tmp_path: Path) -> None:
    """The kernel's files, played by plain ones: this machine's second version has no controllers to try."""
    own = tmp_path / "cohabit.service" / "controller"
    for path in (own, own.parent, own.parent / "cohabit", own.parent / "cohabit" / "place"):
        path.mkdir(parents=True, exist_ok=True)
        (path / "cgroup.subtree_control").write_text("")
        (path / "cgroup.controllers").write_text("cpuset memory pids\n")
    offer = control_groups.prepare("place", {UNIFIED: str(own)})
    assert offer.trees == {UNIFIED: str(own.parent / "cohabit" / "place")}
    assert sorted(offer.limits) == ["cpuset", "memory", "pids"]
    for path in (own.parent, own.parent / "cohabit", own.parent / "cohabit" / "place"):
        assert (path / "cgroup.subtree_control").read_text() == "+cpuset"  # the last one written
    assert (own / "cgroup.subtree_control").read_text() == ""
    (group,) = control_groups.plan(offer, "job.1", 100, "0-1", 50)
    assert group["join"] == "cgroup.procs"
    assert dict(group["settings"]) == {
        "memory.max": "100", "memory.swap.max": "0", "memory.oom.group": "1", "pids.max": "50", "cpuset.cpus": "0-1",
    }  # fmt: skip


@any_tree
def test_a_job_cannot_leave_its_cores(tmp_path: Path) -> None:
    if "cpuset" not in OFFER.limits or len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs a cpuset control group and two cores")

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(start(), shell("taskset -pc 0-1 $$ >/dev/null 2>&1; nproc"))
        await facts(backend, 2)
        assert backend.output("job").read_text() == f"{len(backend.nodes.cores(((0, 1),)))}\n"

    play(tmp_path, scene)
