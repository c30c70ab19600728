"""The latency that `cohabit slurm status` measures explains short jobs: real against simulated mean turnaround.

Jobs sleep on a real Slurm under `cs`; the same jobs are simulated without any latency, and with the one that was
measured. With it both short and long jobs come out within 5 %.
"""

from __future__ import annotations

import asyncio
import random
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.scenario.reading import scenario_for
from cohabit.app.simulate import simulation
from cohabit.app.steer.slurm_site import read_slurm_site
from cohabit.app.steer.status import status
from cohabit.backend.steered.latency import Latency, pause_s
from cohabit.model.units import SECOND
from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import attached, jobs_of, log_of, submit, until, write_site
from tests.support.slurm_cluster import missing, running_slurm

WITHIN = 0.05


def test_means_of_what_was_seen() -> None:
    one = Latency()
    assert not one.told()
    for took in (0.2, 0.4, 3.0):
        one.submitted(100.0, 100.5 + took)
        one.started(100.0, 99.5 + took)
        one.ended(100.0, 100.5 + took)
    one.ended(100.0, 500.0)  # the manager was away
    one.started(0.0, 100.0)  # not ordered by us
    told = {"submit_latency_s": 1.2, "start_latency_s": 1.2, "end_latency_s": 1.2, "starts": 3}
    assert one.told() == pytest.approx(told)


@pytest.mark.parametrize(
    ("look_s", "waits", "pause"),
    [(0.1, False, 1.0), (0.1, True, 0.5), (0.2, True, 0.6), (0.4, True, 1.0), (1.5, True, 1.5), (1.5, False, 1.5)],
)
def test_looks_are_closer_while_jobs_wait_and_cheap(look_s: float, waits: bool, pause: float) -> None:
    assert pause_s(1.0, look_s, waits) == pytest.approx(pause)


def simulated_s(folder: Path, jobs: list[tuple[float, int, float]], **latency: float) -> float:
    lines = [f"{row},,{size},{submit:.3f},{run:.2f},600" for row, (submit, size, run) in enumerate(jobs)]
    (folder / "jobs.csv").write_text("\n".join(["job_id,program,processes,submit_s,run_s,limit_s", *lines]) + "\n")
    data = {
        "cluster": {"nodes": 4, "cores": 28}, "jobs": {"file": str(folder / "jobs.csv")},
        "policy": {"name": "cs"}, "world": latency,
    }  # fmt: skip
    table, _ = simulation.run(simulation.prepare(scenario_for(data)))
    return float(((table.end_us - table.workload.submit_us) / SECOND).mean())


@pytest.mark.slow
@pytest.mark.timing
@pytest.mark.cluster
@pytest.mark.parametrize(("count", "shortest_s", "longest_s"), [(32, 8, 30), (14, 60, 120)])
def test_turnaround_real_and_simulated(tmp_path: Path, count: int, shortest_s: int, longest_s: int) -> None:
    if reason := missing():
        pytest.skip(reason)
    tmp_path.chmod(0o755)
    chance = random.Random(count)
    wanted = [(chance.choice((7, 14, 28, 56)), float(chance.randint(shortest_s, longest_s))) for _ in range(count)]
    folder = tmp_path / "slurm"
    plugin = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(folder / "lease"))
    with running_slurm(folder, nodes=4, cores=28, job_submit=plugin) as slurm:
        site = write_site(slurm, tmp_path, "cs", "")
        jobs, names = [], []
        with attached(site):
            began_s = time.time()
            for size, run_s in wanted:
                time.sleep(0.5)
                jobs.append((time.time() - began_s, size, run_s))
                names.append(submit(slurm, tmp_path, run_s, f"-n{size}", "--time=10"))
            until(lambda: all(jobs_of(slurm)[one].state == "COMPLETED" for one in names), 900, log_of(tmp_path))
            time.sleep(12)  # the view is written when the lease is renewed
            told = asyncio.run(status(read_slurm_site(site)))["latency"]
            ended = jobs_of(slurm)
    took = {key: value for key, value in told.items() if key != "starts"}
    real_s = float(np.mean([ended[one].end_s + 0.5 - began_s - job[0] for one, job in zip(names, jobs, strict=True)]))
    ran = [
        (submit_s, size, ended[one].end_s - ended[one].start_s)  # as a log has it: with what a launch takes
        for one, (submit_s, size, _) in zip(names, jobs, strict=True)
    ]
    without_s, with_s = simulated_s(tmp_path, ran), simulated_s(tmp_path, ran, **took)
    sys.stdout.write(
        f"\njobs of {shortest_s} to {longest_s} s: real {real_s:.1f} s; simulated without latency {without_s:.1f} s "
        f"({100 * (real_s / without_s - 1):+.1f} %), with it {with_s:.1f} s ({100 * (real_s / with_s - 1):+.1f} %); "
        f"{told}\n"
    )
    assert told["starts"] == count
    assert abs(real_s / with_s - 1) < WITHIN, told
