"""What you simulate is what you deploy: the same jobs in the simulator and on a real Slurm, side by side."""

from __future__ import annotations

import asyncio
import itertools
import random
import sys
from pathlib import Path

import pytest

from cohabit.app.slurm import look_around
from cohabit.app.slurm_shadow import Sight, replay
from cohabit.app.slurm_site import read_slurm_site
from cohabit.backend.slurm.calls import ReadOnly
from cohabit.backend.slurm.translate import job_of
from cohabit.model.units import SECOND
from cohabit.testing.slurm_cluster import SlurmCluster
from tests.slurm.steering import attached, jobs_of, log_of, submit, until, write_site

pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.xdist_group("slurm-8")]
CLOSE_S = 6.0  # starts nearer to each other than this may change places: Slurm's times are whole seconds


@pytest.mark.parametrize("policy", ["ce", "cs"])
def test_start_order_and_turnaround(empty: SlurmCluster, tmp_path: Path, policy: str) -> None:
    chance = random.Random(3)
    site = write_site(empty, tmp_path, policy)
    with attached(empty, site):
        names = [
            submit(empty, tmp_path, chance.randint(25, 60), f"-n{chance.choice((14, 28, 28, 56))}") for _ in range(24)
        ]
        until(lambda: all(jobs_of(empty)[name].state == "COMPLETED" for name in names), 500, log_of(tmp_path))
    read, jobs = read_slurm_site(site), jobs_of(empty)
    found = asyncio.run(look_around(read, ReadOnly(str(empty.conf))))
    ran = [
        (name, Sight(job_of(jobs[name], found.terms), jobs[name].submit_s, jobs[name].start_s, jobs[name].end_s))
        for name in names
    ]
    outcomes = replay(read, found, ran, {})
    simulated = {name: ((one.start_us or 0) / SECOND, (one.end_us or 0) / SECOND) for name, one in outcomes.items()}
    turnaround = [
        sum(end - sight.ready_s for (name, sight), end in zip(ran, ends, strict=True)) / len(ran)
        for ends in ([one.end_s for _, one in ran], [simulated[name][1] for name, _ in ran])
    ]
    apart = [
        (one, two)
        for one, two in itertools.combinations(names, 2)
        if abs(simulated[one][0] - simulated[two][0]) > CLOSE_S
    ]
    same = sum((simulated[one][0] < simulated[two][0]) == (jobs[one].start_s < jobs[two].start_s) for one, two in apart)
    sys.stdout.write(
        f"{policy}: mean turnaround {turnaround[0]:.1f} s on Slurm, {turnaround[1]:.1f} s simulated; "
        f"{same} of {len(apart)} pairs that start more than {CLOSE_S:g} s apart start in the same order\n"
    )
    assert turnaround[0] == pytest.approx(turnaround[1], rel=0.1)
    assert same >= 0.95 * len(apart)
