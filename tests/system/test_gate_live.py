"""The variability gate for real: a model learned on this machine holds a real job back while a real load runs.

Nothing is made up: control jobs run while a load comes and goes, a model is trained on what the samplers saw before
each, and a controller that samples the same machine asks it. It takes some minutes and a machine that is quiet but for
the load, so it is among the tests that run alone.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cohabit.app.scenario import PolicyConfig
from cohabit.app.serving import ServeConfig, Service
from cohabit.app.telemetry_feed import TelemetryConfig
from cohabit.backend.protocol import Launch
from cohabit.model.job import Job
from cohabit.model.units import SECOND

WINDOW_S = 4
SPIN = [sys.executable, "-c", "import os\nfor _ in range(5): os.fork()\nwhile True: pass"]  # 32 of them
PLAN = f"""
interval_s = 3
repeats = 50
window_s = {WINDOW_S}
limit_s = 60

[[program]]
name = "dense"
workload_type = "compute"
command = ["{sys.executable}", "-m", "cohabit.cli", "exercise", "dense", "--work", "20"]

[[program]]
name = "sort"
workload_type = "compute"
command = ["{sys.executable}", "-m", "cohabit.cli", "exercise", "sort", "--work", "30"]

[interference]
command = {json.dumps(SPIN)}
on_s = 9
off_s = 36
"""


def call(*arguments: str | Path) -> None:
    command = [sys.executable, "-m", "cohabit.cli", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr


@contextmanager
def load() -> Iterator[None]:
    """The same load as in training."""
    spinning = subprocess.Popen(SPIN, start_new_session=True)
    try:
        yield
    finally:
        os.killpg(spinning.pid, 9)
        spinning.wait()


def learned(folder: Path) -> Path:
    """A model of this machine, from about three minutes of control jobs."""
    plan = folder / "runs.toml"
    plan.write_text(PLAN)
    call("measure", "runs", plan, "--out", folder / "runs.csv")
    call("train", "variability", folder / "runs.csv", "--model", "forest", "--out", folder / "model")
    return folder / "model"


async def states(service: Service, name: str, until: str, most_s: float) -> list[tuple[float, str, str]]:
    """(seconds, state, why) of a job at every change, until it is in a state or the time is over."""
    began_s, seen = time.monotonic(), []
    while time.monotonic() - began_s < most_s:
        found = await service.controller.why(name)
        now = (found.standing.state, found.why)
        if not seen or seen[-1][1:] != now:
            seen.append((time.monotonic() - began_s, *now))
        if found.standing.state == until:
            break
        await asyncio.sleep(0.2)
    return seen


async def scene(folder: Path, model: Path) -> None:
    policy = PolicyConfig(name="rush", variability=str(model), skip_threshold=1000)
    telemetry = TelemetryConfig(every_s=1.0, window_s=float(WINDOW_S))
    service = Service(ServeConfig(folder / "place", 1, policy, telemetry=telemetry))
    await service.open()
    try:
        await asyncio.sleep(WINDOW_S + 3)
        launch = Launch(("sleep", "0.2"), {"PATH": os.defpath})
        calm = Job("calm", 60 * SECOND, program="dense", workload_type="compute")
        await service.controller.submit(calm, launch)
        assert (await states(service, "calm", "done", 30))[-1][1] == "done"
        with load():
            await asyncio.sleep(WINDOW_S + 3)
            kept = Job("kept", 60 * SECOND, program="dense", workload_type="compute")
            await service.controller.submit(kept, launch)
            seen = await states(service, "kept", "done", 8)
            assert seen[-1][1] == "queued", seen
            assert "vary" in seen[-1][2], seen
        after = await states(service, "kept", "done", 60)
        assert after[-1][1] == "done", after
    finally:
        await service.close()


@pytest.mark.timing
@pytest.mark.slow
@pytest.mark.system
def test_a_real_job_waits_until_a_real_load_has_gone(tmp_path: Path) -> None:
    asyncio.run(scene(tmp_path, learned(tmp_path)))
