"""The measurement of what Cohabit costs slurmctld works; docs/install.md has what it measured over ten minutes."""

from __future__ import annotations

import os
import time

import pytest
from benchmarks.slurmctld_load import cpu_s, measure

from tests.support.slurm_cluster import missing


def test_processor_seconds_are_counted() -> None:
    before, until_s = cpu_s(os.getpid()), time.process_time() + 0.2
    while time.process_time() < until_s:
        pass
    assert 0.1 < cpu_s(os.getpid()) - before < 1.0


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.xdist_group("slurm-load")
def test_a_steered_slurm_is_measured() -> None:
    if reason := missing():
        pytest.skip(reason)
    found = measure(minutes=0.1, gap_s=1.0, policy="cs", poll_s=1.0)
    assert int(found["submitted"]) >= 1
    assert float(found["slurmctld_cpu_s"]) > 0
    assert float(found["controller_and_commands_cpu_s"]) > 0
