"""Jobs of the local back end in resctrl groups (the enforcing fake, mounted): entered before they execute, divided
while they run, and running on whatever goes wrong with resctrl."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from cohabit.agent.resctrl.files import Mount
from cohabit.agent.resctrl.wanted import Placed
from cohabit.backend.local.executor import LocalBackend
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.backend.protocol import Launch
from cohabit.launcher import runs
from cohabit.launcher.runs import RunFolder
from cohabit.model.command import CancelJob, SetShares, StartJob
from cohabit.model.event import JobFinished, JobStarted, SharesRefused
from cohabit.model.units import SECOND
from tests.backend.scenes import Scene, ending, facts, play, shell, until
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_faults import FaultyResctrl
from tests.support.resctrl_machines import HASWELL, INTEL, Machine
from tests.support.resctrl_mount import can_mount, mounted

CPUS = len(os.sched_getaffinity(0))
pytestmark = [
    pytest.mark.system, pytest.mark.skipif(bool(can_mount()), reason=can_mount()),
    pytest.mark.skipif(CPUS < 2, reason="needs two cores"),
]  # fmt: skip
WAIT = "while [ ! -e go ]; do sleep 0.02; done"


class Stage:
    """A machine with a mounted resctrl of our own making."""

    def __init__(self, folder: Path, machine: Machine) -> None:
        self.folder, self.root = folder, folder / "resctrl"
        self.root.mkdir()
        self.fake = FakeResctrl(lambda task: Path("/proc", str(task)).exists(), str(self.root), machine=machine)
        self.faulty = FaultyResctrl(self.fake)
        self.mount: Mount | None = Mount(self.root)

    def play(self, scene: Scene, **rest: Any) -> None:
        """On one node with all cores and all ways."""
        nodes = VirtualNodes(1, mount=lambda: self.mount)
        play(self.folder / "place", scene, nodes=nodes, mount=lambda: self.mount, processor="x86_64", **rest)

    def run(self, job: str) -> RunFolder:
        return RunFolder(self.folder / "place" / "runs", job, 1)

    def class_of(self, job: str) -> str:
        """The class of a job's first process."""
        started = self.run(job).started()
        assert started is not None
        return self.fake.class_of(started["pid"])

    def mask_of(self, job: str) -> int:
        return self.fake.classes[self.class_of(job)].schemata["L3"][0]

    def waiting(self) -> Launch:
        """Says in which groups it finds itself, as its first act; ends when told to."""
        look = f"grep -lx $$ {self.root}/*/tasks {self.root}/*/mon_groups/*/tasks {self.root}/mon_groups/*/tasks"
        return Launch(("/bin/sh", "-c", f"{look} 2>/dev/null; {WAIT}"), folder=str(self.folder))

    def go(self) -> None:
        (self.folder / "go").touch()


@pytest.fixture
def stage(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Stage]:
    one = Stage(tmp_path, getattr(request, "param", INTEL))
    with mounted(one.faulty, one.root):
        yield one


def on(job: str, cores: int = 1) -> StartJob:
    return StartJob(job, 1, ((0, 1),), 60 * SECOND, cores=cores, exclusive=False)


def shares(*each: tuple[str, int, int]) -> SetShares:
    return SetShares(((0, 1),), each)


async def give(backend: LocalBackend, *orders: tuple[StartJob | SetShares, Launch | None]) -> None:
    """All at once, in this order, as the controller hands out what one batch led to."""
    await asyncio.gather(*(backend.execute(order, launch) for order, launch in orders))


async def done(backend: LocalBackend, count: int) -> list[JobFinished]:
    return [await ending(backend) for _ in range(count)]


def test_a_program_is_in_its_groups_when_it_executes_and_keeps_them_over_a_restart(stage: Stage) -> None:
    async def before(backend: LocalBackend) -> None:
        assert backend.capabilities.shares
        assert backend.nodes.cluster("shared").groups[0].ways == INTEL.mask.bit_count() - INTEL.shareable.bit_count()
        division = shares(("one", 0, 4), ("two", 4, 5))
        await give(backend, (on("one"), stage.waiting()), (on("two"), stage.waiting()), (division, None))
        assert {fact.job_id for fact in await facts(backend, 2) if isinstance(fact, JobStarted)} == {"one", "two"}
        assert (stage.mask_of("one"), stage.mask_of("two")) == (0b1111, 0b111110000)
        for job in ("one", "two"):
            own = f"{stage.class_of(job)}/mon_groups/cohabit.job.{job}/tasks"
            await until(lambda job=job, own=own: own in backend.output(job).read_text())  # type: ignore[misc]

    async def after(backend: LocalBackend) -> None:
        changes = len(stage.faulty.changes)
        await backend.observe()
        assert (stage.mask_of("one"), stage.mask_of("two")) == (0b1111, 0b111110000)
        assert len(stage.faulty.changes) == changes
        await backend.execute(shares(("one", 0, 2), ("two", 2, 7)))
        assert (stage.mask_of("one"), stage.mask_of("two")) == (0b11, 0b111111100)
        stage.go()
        assert {one.job_id for one in await done(backend, 2)} == {"one", "two"}
        await until(lambda: not stage.fake.classes and not stage.fake.groups)  # nothing is left of jobs that are over

    stage.play(before)
    stage.play(after)


def lives(runner: str) -> bool:
    descriptor = runs.alive(runner)
    if descriptor is not None:
        os.close(descriptor)
    return descriptor is not None


def test_nothing_is_left_of_a_run_whose_runner_died_while_nobody_looked(stage: Stage) -> None:
    """Its end is found while the runs of an earlier controller are taken over: it must not be taken over itself."""

    async def before(backend: LocalBackend) -> None:
        await give(backend, (on("one"), stage.waiting()), (shares(("one", 0, 4)), None))
        assert await facts(backend, 1) == [JobStarted("one", 1)]

    async def after(backend: LocalBackend) -> None:
        await until(lambda: not lives(runner))
        assert [(run.job_id, run.status) for run in await backend.observe()] == [("one", "lost")]
        await until(lambda: not stage.fake.classes and not stage.fake.groups)

    stage.play(before)
    runner = stage.run("one").runner()
    assert runner is not None
    os.kill(int(runner.split()[0]), signal.SIGKILL)
    stage.play(after)


TROUBLE = [errno.EBUSY, errno.ENOSPC, errno.EIO, errno.EINVAL, errno.EACCES]


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("error", TROUBLE, ids=[errno.errorcode[one] for one in TROUBLE])
def test_jobs_run_whatever_change_fails(stage: Stage, error: int, number: int) -> None:
    async def scene(backend: LocalBackend) -> None:
        stage.faulty.fail(number, error, times=7 if error == errno.EBUSY else 1)
        division = shares(("one", 0, 4), ("two", 4, 5))
        await give(backend, (on("one"), stage.waiting()), (on("two"), stage.waiting()), (division, None))
        while not isinstance((await facts(backend, 1))[0], JobStarted):
            continue  # who goes without is told too
        stage.faulty.heal()
        await backend.execute(division)
        stage.go()
        ends = {(one.job_id, one.status) for one in await done(backend, 2)}
        assert ends == {("one", "done"), ("two", "done")}

    stage.play(scene)


@pytest.mark.parametrize("stage", [HASWELL], indirect=True)
def test_classes_run_out_and_foreign_groups_stay(stage: Stage) -> None:
    """Three classes beside the root, two of them somebody else's: the third job has no ways of its own, and runs."""
    for name in ("foreign1", "foreign2"):
        stage.fake.add_foreign_class(name)

    async def scene(backend: LocalBackend) -> None:
        division = shares(("one", 0, 4), ("two", 4, 5))
        await give(backend, (on("one"), stage.waiting()), (on("two"), stage.waiting()), (division, None))
        told = await facts(backend, 3)
        (refused,) = [fact for fact in told if isinstance(fact, SharesRefused)]
        assert refused.job_ids in (("one",), ("two",))  # who comes second; their starts run side by side
        assert "all 3 classes of service are in use (2 by others)" in refused.reason
        stage.go()
        ends = {(one.job_id, one.status) for one in await done(backend, 2)}
        assert ends == {("one", "done"), ("two", "done")}
        await until(lambda: sorted(stage.fake.classes) == ["foreign1", "foreign2"])

    stage.play(scene)


def test_a_group_that_went_between_order_and_start_is_gone_without(stage: Stage) -> None:
    async def scene(backend: LocalBackend) -> None:
        begin = backend._cache.begin

        async def begin_and_lose(job: Placed) -> tuple[Path, ...]:
            joins = await begin(job)
            for name in list(stage.fake.classes):
                stage.fake.remove(stage.root / name)
            return joins

        backend._cache.begin = begin_and_lose  # type: ignore[method-assign]
        await backend.execute(shares(("job", 0, 4)))
        await backend.execute(on("job"), stage.waiting())
        assert await facts(backend, 1) == [JobStarted("job", 1)]
        await until(lambda: stage.run("job").notes())
        (note,) = stage.run("job").notes()
        assert "runs without its share of the cache" in note
        assert "no such file or directory" in note
        await backend.execute(shares(("job", 0, 4)))  # and is given it as soon as anything changes
        assert stage.mask_of("job") == 0b1111
        stage.go()
        assert await ending(backend) == JobFinished("job", 1)

    stage.play(scene)


def test_unmounting_under_running_jobs(tmp_path: Path) -> None:
    stage = Stage(tmp_path, INTEL)

    async def scene(backend: LocalBackend) -> None:
        await backend.execute(shares(("job", 0, 4)))
        await backend.execute(on("job"), stage.waiting())
        await facts(backend, 1)
        unmount()
        stage.mount = None
        await backend.execute(shares(("job", 0, 5)))
        await backend.execute(on("late"), shell("exit 0"))
        assert await ending(backend) == JobFinished("late", 1)
        stage.go()
        assert await ending(backend) == JobFinished("job", 1)
        assert [one for one in backend.notices() if "resctrl" in one] == [
            "resctrl is not mounted: jobs run, the cache is not divided"
        ]

    with mounted(stage.faulty, stage.root) as unmount:
        stage.play(scene)


def test_a_dry_run_says_what_would_be_written_and_writes_nothing(stage: Stage) -> None:
    async def scene(backend: LocalBackend) -> None:
        assert not backend.capabilities.shares
        await backend.execute(shares(("job", 0, 4)))
        await backend.execute(on("job"), shell("exit 0"))
        assert JobFinished("job", 1) in await facts(backend, 2)
        said = [one for one in backend.notices() if one.startswith("would write: ")]
        assert any("mkdir" in one and "cohabit.class0" in one for one in said)
        assert any("L3:0=f" in one and "schemata" in one for one in said)

    stage.play(scene, shares="dry-run")
    assert stage.faulty.changes == []


def test_a_cap_on_bandwidth_is_written_and_lifted(stage: Stage) -> None:
    async def scene(backend: LocalBackend) -> None:
        await backend.execute(on("job"), stage.waiting())
        await facts(backend, 1)
        await backend.execute(SetShares(((0, 1),), (("job", 0, 4),), caps=(("job", 33),)))
        assert stage.fake.classes[stage.class_of("job")].schemata["MB"][0] == 40  # in steps of ten, upwards
        await backend.execute(shares(("job", 0, 4)))
        assert stage.fake.classes[stage.class_of("job")].schemata["MB"][0] == 100
        await backend.execute(CancelJob("job", 1))

    stage.play(scene)
