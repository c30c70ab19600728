"""Kernels as plain Python (COHABIT_KERNELS=plain) start every job when the machine code does."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np

from cohabit.compiled import trailing_zeros
from cohabit.compiled_numba import trailing_zeros as compiled_zeros

SIMULATE = """
import json, sys
from cohabit.app.simulate import simulation
from cohabit.app.scenario.reading import scenario_from
from cohabit.app.scenario.workloads import load_workload
starts, rules = {}, (("fcfs", "none"), ("sjf", "easy"), ("wfp", "easy"), ("fcfs", "conservative"), ("fcfs", "3"))
for engine in ("fast", "steps"):
    for order, backfill in rules:
        text = {
            "seed": 5, "cluster": {"nodes": 70}, "jobs": {"generator": "lublin", "jobs": 150, "load": 1.1},
            "policy": {"order": order, "backfill": int(backfill) if backfill.isdigit() else backfill},
        }
        scenario = scenario_from(text, "test")
        table, _ = simulation.run(simulation.prepare(scenario, load_workload(scenario)), engine=engine)
        starts[f"{engine} {order} {backfill}"] = table.start_us.tolist()
print(json.dumps({"starts": starts, "numba": "numba" in sys.modules}))
"""


def simulated(kernels: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-W", "error::RuntimeWarning", "-c", SIMULATE], capture_output=True, text=True, check=False,
        env=os.environ | {"COHABIT_KERNELS": kernels}, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def test_schedules_are_those_of_the_machine_code() -> None:
    plain, compiled = simulated("plain"), simulated("")
    assert (plain["numba"], compiled["numba"]) == (False, True)
    assert plain["starts"] == compiled["starts"]


def test_small_functions_agree() -> None:
    import numba

    for word in (0, 1, 40, 1 << 63):
        assert numba.njit(lambda x: compiled_zeros(x))(np.uint64(word)) == trailing_zeros(word)
