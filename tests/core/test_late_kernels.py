"""A controller's kernels are plain Python at first and machine code later: the same orders before, during and after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from cohabit.app.scenario.policies import build
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.core.core import SchedulerCore
from cohabit.model import codec
from cohabit.model.cluster import uniform_cluster
from cohabit.model.command import StartJob
from cohabit.model.event import JobFinished, JobStarted, JobSubmitted
from cohabit.model.job import Job
from cohabit.model.units import SECOND

JOBS = 400
LATE = """
import sys, time
from cohabit import compiled
from tests.core import test_late_kernels as here
compiled.PATIENCE_S = 0.01  # all steps take 0.05 to 0.1 s
first, forms = [], set()
for orders in here.steps(sys.argv[1]):
    first.append(orders)
    forms.add((compiled._Progress.is_machine_code, "numba" in sys.modules))
while not compiled._Progress.is_machine_code:
    time.sleep(0.01)
print(here.told(first))
print(here.told(here.steps(sys.argv[1])))
print(sorted(forms))
"""


def steps(policy: str) -> Any:
    """What a core orders while jobs come and go."""
    core, running = SchedulerCore(uniform_cluster(3, 4), build(PolicyConfig(name=policy))), list[StartJob]()
    for number in range(JOBS):
        now_us = number * 1000
        job = Job(str(number), limit_us=SECOND * (1 + number * 7 % 13), processes=1 + number % 3)
        orders = core.step(now_us, [JobSubmitted(job)])
        if number % 3 == 2 and running:
            gone = running.pop(0)
            orders += core.step(now_us + 5, [JobFinished(gone.job_id, gone.attempt)])
        begun = [one for one in orders if isinstance(one, StartJob)]
        orders += core.step(now_us + 6, [JobStarted(one.job_id, one.attempt) for one in begun])
        running += begun
        yield orders


def told(orders: Any) -> str:
    return json.dumps([codec.encode(one).hex() for one in orders])


@pytest.mark.parametrize("policy", ["cs", pytest.param("ce-easy", marks=pytest.mark.slow)])
def test_the_orders_are_the_same_in_every_form(policy: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LATE, policy], capture_output=True, text=True, timeout=300, check=False,
        env=os.environ | {"COHABIT_KERNELS": "late"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    changing, after, forms = done.stdout.splitlines()
    assert changing == after == told(steps(policy))
    assert forms.startswith("[(False, False)")


def test_a_controller_loads_nothing_that_its_first_job_does_not_need() -> None:
    """numba takes 70 MB, polars and httpx with what they load 20 and 8."""
    code = """
import sys
import cohabit.app.serve.separation, cohabit.app.serve.site_file, cohabit.app.serve.serving, cohabit.live.api.service
print([name for name in ("httpx", "llvmlite", "numba", "pandas", "plotly", "polars", "rich", "scipy", "sklearn")
       if name in sys.modules])
"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | {"COHABIT_KERNELS": "late"},
    )  # fmt: skip
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
