"""What you simulate is what you deploy: one workload in the simulator and on a real Slurm, with the same policy keys.

The jobs sleep for as long as they ran in the simulation, neighbours and spreading included; seconds stand for hours. A
start costs Slurm a second or two. Two events nearer than that may change places, and a queue in which jobs
may overtake then goes another way; so all jobs are submitted before the first ends. Each policy has a cluster of its
own, all at the same time: sleeping jobs do not disturb each other.
"""

from __future__ import annotations

import itertools
import random
import sys
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from cohabit.app.scenario.reading import read_scenario
from cohabit.app.simulate import simulation
from cohabit.app.simulate.preparation import Prepared, prepare
from cohabit.model.records import RunTable
from cohabit.model.units import SECOND
from cohabit.store.json_form import write_json
from tests.backend.slurm.conftest import LUA
from tests.backend.slurm.steering import attached, jobs_of, log_of, submit, until, write_site
from tests.support.slurm_cluster import SlurmCluster, missing, running_slurm

pytestmark = [pytest.mark.slow, pytest.mark.timing, pytest.mark.cluster, pytest.mark.xdist_group("slurm-three")]
JOBS, GAP_S, LENGTHS_S = 24, 0.2, (20, 50)
WITHIN, ALIKE = 0.10, 0.95
CLOSE_S = 6.0  # two starts nearer than this in the simulation may change places: a start costs Slurm a second or two
SIZES = (7, 14, 14, 28, 28, 56)
PROGRAMS = ("EP", "CG", "BFS", "MG", "LU", "HC")
POLICIES = {"ce": "", "cs": "", "sns": 'learn = false\npartition = "none"\n'}
SCENARIO = """seed = 1
[cluster]
nodes = 8
cores = 28
ways = 20
min_ways = 2
closids = 16
bandwidth_gbs = {{ 1 = 18.80, 4 = 70.0, 8 = 104.0, 16 = 114.8, 28 = 118.26 }}
[programs]
catalogue = "sns12"
[jobs]
file = "{jobs}"
[policy]
name = "{policy}"
{keys}
"""
NODE = """[node]
ways = 20
min_ways = 2
closids = 16
bandwidth_gbs = [[1, 18.80], [4, 70.0], [8, 104.0], [16, 114.8], [28, 118.26]]
"""


@dataclass(frozen=True)
class Ran:
    """One job, in either world; times are seconds after the first submission."""

    submit_s: float
    start_s: float
    end_s: float
    nodes: int


def write_jobs(folder: Path) -> Path:
    chance = random.Random(9)
    lines = ["job_id,program,processes,submit_s,run_s,limit_s"]
    for number in range(JOBS):
        size, seconds = chance.choice(SIZES), chance.randint(*LENGTHS_S)
        lines.append(f"j{number},{PROGRAMS[number % len(PROGRAMS)]},{size},{number * GAP_S:g},{seconds},600")
    path = folder / "jobs.csv"
    path.write_text("\n".join(lines) + "\n")
    return path


def simulate(folder: Path, policy: str) -> tuple[Prepared, RunTable, dict[str, Ran]]:
    scenario = folder / "scenario.toml"
    scenario.write_text(SCENARIO.format(jobs=write_jobs(folder), policy=policy, keys=POLICIES[policy]))
    prepared = prepare(read_scenario(scenario))
    table, _ = simulation.run(prepared)
    names = [str(one) for one in prepared.workload.job_id]
    submit_s, start_s, end_s = (one / SECOND for one in (prepared.workload.submit_us, table.start_us, table.end_us))
    found = {
        name: Ran(float(submit_s[row]), float(start_s[row]), float(end_s[row]), int(table.nodes[row]))
        for row, name in enumerate(names)
    }
    return prepared, table, found


def deploy(slurm: SlurmCluster, folder: Path, policy: str, prepared: Prepared, told: dict[str, Ran]) -> dict[str, Ran]:
    """The same jobs at the same moments by sbatch, each asleep for its simulated run time."""
    write_json(list(prepared.profiles), folder / "profiles.json")
    more = 'profiles = "profiles.json"' if prepared.profiles else ""
    site = write_site(slurm, folder, policy, POLICIES[policy], more=more, node=NODE)
    read = tomllib.loads((folder / "scenario.toml").read_text())["policy"]
    assert tomllib.loads(site.read_text())["policy"] == read  # one policy, key by key
    names, began_s = {}, 0.0
    with attached(site):
        began_s = float(np.ceil(time.time() + 1))  # Slurm counts whole seconds
        for row, (name, one) in enumerate(told.items()):
            time.sleep(max(0.0, began_s + one.submit_s - time.time()))
            size = int(prepared.workload.processes[row])
            program = prepared.workload.program_names[int(prepared.workload.program[row])]
            seconds = round(one.end_s - one.start_s, 2)
            names[name] = submit(slurm, folder, seconds, f"-n{size}", f"-J{program}", "--time=10")
        last_s = max(one.end_s for one in told.values())
        until(lambda: all(jobs_of(slurm)[one].state == "COMPLETED" for one in names.values()), 3 * last_s + 120,
              log_of(folder))  # fmt: skip
        jobs = jobs_of(slurm)
    return {
        name: Ran(told[name].submit_s, jobs[one].start_s - began_s, jobs[one].end_s - began_s, len(jobs[one].nodes))
        for name, one in names.items()
    }


def in_the_same_order(told: dict[str, Ran], real: dict[str, Ran]) -> tuple[int, int]:
    """Of the pairs that clearly start one after the other in the simulation: how many do on Slurm, and of how many."""
    apart = [
        (one, two) for one, two in itertools.combinations(told, 2)
        if abs(told[one].start_s - told[two].start_s) > CLOSE_S
    ]  # fmt: skip
    same = [(told[one].start_s < told[two].start_s) == (real[one].start_s < real[two].start_s) for one, two in apart]
    return sum(same), len(apart)


def mean_turnaround_s(jobs: dict[str, Ran]) -> float:
    return float(np.mean([one.end_s - one.submit_s for one in jobs.values()]))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Ran], dict[str, Ran]]]:
    """Simulated and on Slurm, by policy."""
    if reason := missing():
        pytest.skip(reason)

    folders = {policy: tmp_path_factory.mktemp(policy) for policy in POLICIES}
    simulations = {policy: simulate(folder, policy) for policy, folder in folders.items()}

    def one(policy: str) -> tuple[dict[str, Ran], dict[str, Ran]]:
        folder, (prepared, _, told) = folders[policy], simulations[policy]
        text = LUA.read_text(encoding="utf-8").replace("/var/lib/cohabit/lease", str(folder / "slurm" / "lease"))
        with running_slurm(folder / "slurm", nodes=8, cores=28, sockets=2, job_submit=text, name=policy) as slurm:
            return told, deploy(slurm, folder, policy, prepared, told)

    with ThreadPoolExecutor(len(POLICIES)) as threads:
        return dict(zip(POLICIES, threads.map(one, POLICIES), strict=True))


@pytest.mark.parametrize("policy", POLICIES)
def test_start_order_and_turnaround(both: dict[str, tuple[dict[str, Ran], dict[str, Ran]]], policy: str) -> None:
    told, real = both[policy]
    sys.stdout.write(f"\n{policy}: job, nodes, start and turnaround: simulated | on Slurm\n")
    for name in sorted(told, key=lambda one: told[one].start_s):
        one, two = told[name], real[name]
        sys.stdout.write(
            f"  {name:>4}  {one.nodes} nodes {one.start_s:6.1f} s {one.end_s - one.submit_s:6.1f} s  |  "
            f"{two.nodes} nodes {two.start_s:6.1f} s {two.end_s - two.submit_s:6.1f} s\n"
        )
    (same, apart), mean = in_the_same_order(told, real), (mean_turnaround_s(told), mean_turnaround_s(real))
    alike = sum(told[name].nodes == real[name].nodes for name in told)
    sys.stdout.write(
        f"{policy}: mean turnaround {mean[0]:.1f} s simulated, {mean[1]:.1f} s on Slurm "
        f"({mean[1] / mean[0] - 1:+.1%}); "
        f"{same} of {apart} pairs of starts more than {CLOSE_S:g} s apart in the same order; "
        f"{alike} of {len(told)} jobs on as many nodes\n"
    )
    assert mean[1] == pytest.approx(mean[0], rel=WITHIN)
    assert same >= ALIKE * apart
    assert alike >= 0.8 * len(told)  # how far a job is spread depends on who is there at that very instant


def test_the_workload_spreads_and_slows(tmp_path: Path) -> None:
    """Under sns jobs run on more nodes than they need and beside others: their run times are not those of ce."""
    runs = {}
    for policy in POLICIES:
        folder = tmp_path / policy
        folder.mkdir()
        runs[policy] = simulate(folder, policy)[2]
    assert any(runs["sns"][name].nodes > runs["ce"][name].nodes for name in runs["ce"])
    for found in runs.values():
        assert min(one.end_s for one in found.values()) > max(one.submit_s for one in found.values()) + CLOSE_S
        assert sum(one.start_s > one.submit_s + CLOSE_S for one in found.values()) > JOBS / 4  # they do wait
    lengths = {policy: [one.end_s - one.start_s for one in found.values()] for policy, found in runs.items()}
    assert not np.allclose(lengths["ce"], lengths["sns"], rtol=0.01)
