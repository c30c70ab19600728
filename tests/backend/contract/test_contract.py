"""What every back end must do with orders: this machine's processes, a real Slurm, a real Grid Engine."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from _pytest.mark.structures import ParameterSet

from cohabit.backend.protocol import CANCELLED, DONE, ENDED, FAILED, NEVER, RUNNING, STOPPED
from cohabit.backend.steered.backend import Expected
from cohabit.model.command import CancelJob, StopJob
from cohabit.model.event import JobFinished, JobStarted
from tests.backend.contract.stages import GridEngineStage, LocalStage, SlurmStage, Stage
from tests.support import gridengine_cluster, slurm_cluster
from tests.support.gridengine_cluster import running_gridengine
from tests.support.slurm_cluster import running_slurm

Scene = Callable[[Stage], Awaitable[None]]
TIMEOUT_S = 240.0


def on_a_cluster(name: str) -> ParameterSet:
    """All of one manager's scenes on one cluster, also where several processes run tests."""
    return pytest.param(name, marks=[pytest.mark.cluster, pytest.mark.xdist_group(f"contract-{name}")])


@pytest.fixture(scope="module", params=["local", on_a_cluster("slurm"), on_a_cluster("gridengine")])
def make_stage(request: pytest.FixtureRequest) -> Iterator[Callable[[Path], Stage]]:
    """Stages of one kind, on one cluster."""
    with tempfile.TemporaryDirectory(prefix="cohabit-contract-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        folder.chmod(0o755)
        if request.param == "local":
            yield LocalStage
            return
        module = slurm_cluster if request.param == "slurm" else gridengine_cluster
        if reason := module.missing():
            pytest.skip(reason)
        if request.param == "slurm":
            with running_slurm(folder, nodes=2, cores=4) as slurm:
                yield lambda place: SlurmStage(place, slurm)
        else:
            with running_gridengine(folder, hosts=2, slots=4) as gridengine:
                yield lambda place: GridEngineStage(place, gridengine)


@pytest.fixture
def play(make_stage: Callable[[Path], Stage], tmp_path: Path) -> Callable[[Scene], None]:
    """Run a scene on an open stage."""

    def played(scene: Scene) -> None:
        async def whole() -> None:
            stage = make_stage(tmp_path)
            await stage.open()
            stage.listen()
            try:
                await scene(stage)
            finally:
                await stage.close()

        asyncio.run(asyncio.wait_for(whole(), TIMEOUT_S))

    return played


@pytest.mark.parametrize(("text", "status"), [("exit 0", DONE), ("exit 3", FAILED)])
def test_a_run_is_told_as_it_went(play: Callable[[Scene], None], text: str, status: str) -> None:
    async def scene(stage: Stage) -> None:
        job, launch = await stage.submit(text)
        assert stage.told(job) == []  # nothing begins by itself
        await stage.backend.execute(stage.order(job), launch)
        end = await stage.until(JobFinished, job, 1)
        assert isinstance(end, JobFinished)
        assert (end.status, end.exit_status) == (status, int(text.split()[1]))
        assert stage.told(job) == [JobStarted(job, 1), end]
        assert stage.runs() == [job]

    play(scene)


def test_an_order_given_twice_is_carried_out_once(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        job, launch = await stage.submit("sleep 1")
        for _ in range(3):
            await stage.backend.execute(stage.order(job), launch)
        await stage.until(JobFinished, job, 1)
        assert stage.runs() == [job]
        for _ in range(2):
            await stage.backend.execute(StopJob(job, 1))  # it is over: nothing to stop
        assert [type(event) for event in stage.told(job)] == [JobStarted, JobFinished]

    play(scene)


def test_a_stopped_run_is_over_and_can_run_again(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        job, launch = await stage.submit(f"test -e {stage.folder}/again || sleep 100")
        await stage.backend.execute(stage.order(job), launch)
        await stage.until(JobStarted, job, 1)
        async with asyncio.timeout(60):
            while not stage.runs():
                await asyncio.sleep(0.05)
        await stage.backend.execute(StopJob(job, 1))
        end = await stage.until(JobFinished, job, 1)
        assert isinstance(end, JobFinished)
        assert end.status == STOPPED
        (stage.folder / "again").touch()
        await stage.backend.execute(stage.order(job, 2, node=1), launch)
        end = await stage.until(JobFinished, job, 2)
        assert isinstance(end, JobFinished)
        assert end.status == DONE
        assert stage.runs() == [job, job]

    play(scene)


def test_a_cancelled_run_ends(play: Callable[[Scene], None]) -> None:
    async def scene(stage: Stage) -> None:
        job, launch = await stage.submit("sleep 100")
        await stage.backend.execute(stage.order(job), launch)
        await stage.until(JobStarted, job, 1)
        await stage.backend.execute(CancelJob(job, 1, "its owner wants so"))
        end = await stage.until(JobFinished, job, 1)
        assert isinstance(end, JobFinished)
        assert end.status in (CANCELLED, FAILED)  # Grid Engine tells a deleted run by the signal that ended it
        assert end.exit_signal or end.exit_status

    play(scene)


def test_a_restarted_back_end_finds_its_runs(make_stage: Callable[[Path], Stage], tmp_path: Path) -> None:
    async def whole() -> None:
        stage = make_stage(tmp_path)
        await stage.open()
        stage.listen()
        going, launch = await stage.submit(f"while ! test -e {tmp_path}/enough; do sleep 0.2; done")
        waiting, _ = await stage.submit("exit 0")
        await stage.backend.execute(stage.order(going), launch)
        await stage.until(JobStarted, going, 1)
        await stage.close()

        await stage.open({going: Expected(1, True, confirmed=True), waiting: Expected(1, True)})
        found = {run.job_id: run for run in await stage.backend.observe()}
        assert found[going].stands == RUNNING
        assert waiting not in found or found[waiting].stands == NEVER
        stage.listen()
        (tmp_path / "enough").touch()
        end = await stage.until(JobFinished, going, 1)
        assert isinstance(end, JobFinished)
        assert end.status == DONE
        assert stage.runs() == [going]
        await stage.close()

    asyncio.run(asyncio.wait_for(whole(), TIMEOUT_S))


def test_a_run_that_ended_meanwhile_is_found_ended(make_stage: Callable[[Path], Stage], tmp_path: Path) -> None:
    async def whole() -> None:
        stage = make_stage(tmp_path)
        await stage.open()
        stage.listen()
        job, launch = await stage.submit("sleep 1")
        await stage.backend.execute(stage.order(job), launch)
        await stage.until(JobStarted, job, 1)
        await stage.close()
        async with asyncio.timeout(90):
            while True:  # somebody looks again and again; one day it is over
                await stage.open({job: Expected(1, True, confirmed=True)})
                run = next(run for run in await stage.backend.observe() if run.job_id == job)
                await stage.close()
                if run.stands != RUNNING:
                    break
                await asyncio.sleep(0.2)
        assert (run.stands, run.status) == (ENDED, DONE)
        assert stage.runs() == [job]

    asyncio.run(asyncio.wait_for(whole(), TIMEOUT_S))
