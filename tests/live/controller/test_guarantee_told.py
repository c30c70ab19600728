"""What the guarantee loop did is told: to whoever asks why, in the log, and in the record when the job is long over."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.serve.machine import MACHINE
from cohabit.app.serve.serving import ServeConfig, Service
from cohabit.backend.local.nodes import VirtualNodes
from cohabit.live.controller.journal import open_journal
from cohabit.model.cluster import Cluster, NodeGroup
from cohabit.model.event import JobFinished, JobStarted, JobSubmitted, ProfileLearned, ProgressMeasured
from cohabit.model.job import Job
from cohabit.model.units import SECOND
from tests.live.controller.playing import ended, shell, until
from tests.live.controller.test_records import Tale
from tests.support.programs import FLAT, measured, profile

NODE = NodeGroup(1, cores=8, ways=12, min_ways=2, closids=4, bandwidth_gbs=((1, 10.0), (2, 18.0), (4, 34.0), (8, 40.0)))
CAPACIOUS = profile("capacious", measured(1, 100.0, {2: 0.92, 4: 0.97, 12: 1.0}, 2.0), processes=2)
FRUGAL = profile("frugal", measured(1, 100.0, FLAT, 1.0), processes=2)
WINDOW_US = 10 * SECOND


def test_records_keep_what_was_done_for_a_job_and_at_its_cost(tmp_path: Path) -> None:
    policies = build(PolicyConfig(name="sns", partition="guarantee", learn=False))
    tale = Tale(tmp_path / "journal.db", Cluster((NODE,), "shared"), policies)
    tale.tell(*(ProfileLearned(one.program, 2, scale) for one in (CAPACIOUS, FRUGAL) for scale in one.scales))
    starts = tale.tell(
        *(
            JobSubmitted(Job(name, 1000 * SECOND, processes=2, program=program))
            for name, program in (("slow", "capacious"), ("fast", "frugal"))
        )
    )
    assert len(starts) == 2
    tale.tell(*(JobStarted(one.job_id, one.attempt) for one in starts))
    for _ in range(2):
        tale.tell(ProgressMeasured("fast", 1, 1.0, WINDOW_US), ProgressMeasured("slow", 1, 0.8, WINDOW_US))
    done_us = tale.now_us
    tale.tell(JobFinished("slow", 1), JobFinished("fast", 1))
    tale.die_and_come_back()  # the last batch is computed again
    rows = tale.rows()
    (helped,), (gave,) = rows["slow"].notes, rows["fast"].notes
    assert (helped.at_us, gave.at_us) == (done_us, done_us)
    assert "0.80 of its speed alone" in helped.why
    assert "2 ways from job fast" in helped.why
    assert gave.why.startswith("for job slow: 2 ways from job fast")


def test_a_living_controller_tells_and_logs_it(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Real jobs on this machine, whose journal was begun where the cache could be divided; measurements are made up."""
    found = VirtualNodes(1).cluster("shared")
    cores = found.groups[0].cores
    if cores < 2:
        pytest.skip("needs two cores for two jobs")
    journal = open_journal(tmp_path / "journal.db")
    groups = (replace(NODE, cores=cores, memory_bytes=found.groups[0].memory_bytes),)
    journal.put({MACHINE: msgspec.json.encode(groups).decode()})
    journal.close()

    async def scene() -> None:
        policy = PolicyConfig(name="sns", partition="guarantee", learn=False)
        service = Service(ServeConfig(tmp_path, 1, policy, cache="off"))
        await service.open()
        controller = service.controller
        try:
            for name, known in (("slow", CAPACIOUS), ("fast", FRUGAL)):
                await controller.tell(ProfileLearned(known.program, 1, known.scales[0]))
                await controller.submit(Job(name, 60 * SECOND, processes=1, program=known.program), shell("sleep 60"))
                await until(controller, name, "running")
            for _ in range(2):
                await controller.tell(ProgressMeasured("fast", 1, 1.0, WINDOW_US))
                await controller.tell(ProgressMeasured("slow", 1, 0.8, WINDOW_US))
            while not (told := await controller.why("slow")).history:
                await asyncio.sleep(0.02)
            assert "2 ways from job fast" in told.history[0].why
            assert told.history == tuple(sorted(set(told.history)))  # the record's and the policy's, each once
            for name in ("slow", "fast"):
                await controller.cancel(name)
            assert await ended(controller, "slow", "fast") == ["cancelled", "cancelled"]
            assert "2 ways from job fast" in (await controller.why("slow")).history[0].why  # also when it is over
        finally:
            await service.close()

    with caplog.at_level(logging.INFO, "cohabit.live.controller.controller"):
        asyncio.run(asyncio.wait_for(scene(), 300))
    logged = [one.getMessage() for one in caplog.records if one.name == "cohabit.live.controller.controller"]
    assert any(text.startswith("nodes are divided again: job slow makes 0.80") for text in logged), logged
