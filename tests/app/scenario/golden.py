"""Golden metrics: what is measured, on which slices and scenarios, and the command that writes the numbers down.

    .venv/bin/python tests/app/scenario/golden.py            # say what differs
    .venv/bin/python tests/app/scenario/golden.py --update   # write tests/app/scenario/golden.json again

Update only when a change of the schedule is meant, and say in the commit which rule changed.
"""

from __future__ import annotations

import json
import sys
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from cohabit.app.scenario.reading import read_scenario, scenario_from
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.simulate import simulation
from cohabit.app.simulate.comparison import policy_from
from cohabit.app.simulate.coupling import prepare_domains, run_domains
from cohabit.app.simulate.coupling_results import merged
from cohabit.model.records import RunTable
from cohabit.model.workload import Workload
from cohabit.report.metrics import summarise

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[2]
DATA = ROOT / "tests" / "data"
GOLDEN = HERE / "golden.json"
SCENARIOS = sorted((ROOT / "scenarios").glob("*.toml"))
POLICIES = ("fcfs+easy", "fcfs+none", "sjf+easy", "wfp+easy", "fcfs+conservative")
KEPT = ("jobs_ran", "jobs_rejected", "jobs_killed", "mean_wait_s", "mean_bounded_slowdown", "utilisation", "makespan_s")
KEPT_OF_SCENARIOS = (*KEPT, "jobs_cancelled", "jobs_failed", "max_wait_s")


class Slice(NamedTuple):
    """The first jobs of a public trace on its own machine (tests/data)."""

    file: str
    jobs: int
    nodes: int
    cores: int = 1


SLICES = {
    "kth": Slice("swf/KTH-SP2-1996-2.1-cln.swf.xz", 5000, 100),
    "ctc": Slice("swf/CTC-SP2-1996-3.1-cln.swf.xz", 5000, 338),
    "blue": Slice("swf/SDSC-BLUE-2000-4.2-cln.swf.xz", 5000, 1152),
    "hpc2n": Slice("swf/HPC2N-2002-2.2-cln.swf.xz", 5000, 240),
    "theta": Slice("argonne/theta_2022.swf.xz", 3000, 4360),
    "mira": Slice("argonne/mira_walltime.swf.xz", 3000, 49_152),
    "trinity": Slice("lanl/LANL-Trinity-atlas-concat.swf.xz", 3000, 9408, 32),
}


@lru_cache
def jobs_of(name: str) -> Workload:
    """The jobs of a slice."""
    from cohabit.trace.catalogue import read_trace

    chosen = SLICES[name]
    return read_trace(DATA / chosen.file).take(np.arange(chosen.jobs))


def run_slice(name: str, policy: str) -> RunTable:
    """One slice under one policy."""
    chosen = SLICES[name]
    scenario = scenario_from(
        {"cluster": {"nodes": chosen.nodes, "cores": chosen.cores}, "jobs": {"trace": chosen.file}}, name
    )
    chosen_policy = policy_from(policy, PolicyConfig())
    import msgspec

    prepared = simulation.prepare(msgspec.structs.replace(scenario, policy=chosen_policy), jobs_of(name))
    return simulation.run(prepared, record_nodes=False)[0]


def run_scenario(path: Path) -> RunTable:
    """One of scenarios/*.toml; several domains as one machine."""
    scenario = read_scenario(path)
    if scenario.domain:
        return merged(run_domains(prepare_domains(scenario)).tables)
    return simulation.run(simulation.prepare(scenario))[0]


def kept(table: RunTable, names: tuple[str, ...]) -> dict[str, Any]:
    """The metrics that are written down."""
    metrics = summarise(table)
    return {name: metrics[name] for name in names}


def measure() -> dict[str, Any]:
    """All golden numbers, measured now."""
    return {
        "about": "written by tests/app/scenario/golden.py --update",
        "slices": {
            name: {policy: kept(run_slice(name, policy), KEPT) for policy in POLICIES} for name in SLICES
        },
        "scenarios": {path.stem: kept(run_scenario(path), KEPT_OF_SCENARIOS) for path in SCENARIOS},
    }  # fmt: skip


def main() -> int:
    """Compare, or update."""
    fresh = measure()
    if "--update" in sys.argv[1:]:
        GOLDEN.write_text(json.dumps(fresh, indent=1) + "\n")
        sys.stdout.write(f"wrote {GOLDEN}\n")
        return 0
    stored = json.loads(GOLDEN.read_text())
    differences = [
        f"{group} {name}: {stored[group].get(name)} is now {now}\n"
        for group in ("slices", "scenarios")
        for name, now in fresh[group].items()
        if stored[group].get(name) != now
    ]
    sys.stdout.writelines(differences or ["no differences\n"])
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
