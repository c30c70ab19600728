"""A thousand held jobs and 64 nodes: how long a look at all of them takes, and the start of what was decided.

The bound is loose, for machines that do other things too; docs/slurm.md has what was measured.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cohabit.app.slurm import open_service
from cohabit.app.slurm_site import read_slurm_site
from cohabit.backend.slurm.watcher import RUNS
from cohabit.testing.slurm_cluster import SlurmCluster, missing, running_slurm
from tests.slurm.steering import write_site

pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.xdist_group("slurm-64")]
JOBS, NODES, BOUND_S = 1000, 64, 8.0


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SlurmCluster]:
    if reason := missing():
        pytest.skip(reason)
    with running_slurm(tmp_path_factory.mktemp("slurm"), nodes=NODES, cores=28, sockets=2) as cluster:
        yield cluster


def test_a_pass_with_a_thousand_held_jobs(large: SlurmCluster, tmp_path: Path) -> None:
    script = tmp_path / "job.sh"
    script.write_text("#!/bin/sh\nsleep 600\n")
    for _ in range(JOBS):
        large.run("sbatch", "--hold", "--output=/dev/null", "-n7", str(script))
    site = write_site(large, tmp_path, "ce")
    site.write_text(site.read_text().replace("[slurm]", '[slurm]\nheld = "all"'))

    async def steer() -> tuple[float, float, int]:
        service = await open_service(read_slurm_site(site))
        await service.open()
        while not await service.controller.ask(lambda core: len(core.state.rows) >= JOBS):
            await asyncio.sleep(0.05)
        began_s = time.monotonic()
        while sum(known.phase == RUNS for known in service.backend.watcher.known.values()) < NODES:
            await asyncio.sleep(0.05)
        all_s = time.monotonic() - began_s
        await asyncio.sleep(5)
        look_s, calls = service.backend.look_s, service.backend.calls.made
        await service.close()
        return look_s, all_s, calls

    look_s, all_s, calls = asyncio.run(steer())
    sys.stdout.write(
        f"one look at {JOBS} jobs and {NODES} nodes {look_s:.2f} s; {NODES} starts {all_s:.1f} s; {calls} calls\n"
    )
    assert look_s < BOUND_S
