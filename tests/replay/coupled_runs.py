"""Runs of several small domains on disk, as `cohabit simulate --out DIR --journal` leaves them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from cohabit.app.scenario.reading import scenario_from
from cohabit.app.simulate.coupling import CoupledRun, PreparedDomains, prepare_domains, run_domains
from cohabit.app.simulate.coupling_results import write_run

NODES = 8


def tables(folder: Path, domains: int = 2, jobs: int = 24, seed: int = 1) -> list[Path]:
    """Write a table of jobs for every domain; every third job of the first has a mate in each other domain."""
    rng, found = np.random.default_rng(seed), []
    for place in range(domains):
        rows = ["job_id,program,processes,submit_s,run_s,limit_s,group"]
        for number in range(jobs):
            submit_s, run_s = int(rng.integers(0, 900)), int(rng.integers(5, 300))
            group = f"pair{number}" if number % 3 == 0 else ""
            size = int(rng.integers(1, NODES + 1))
            rows.append(f"{number},,{size},{submit_s},{run_s},{run_s + int(rng.integers(0, 60))},{group}")
        found.append(folder / f"jobs{place}.csv")
        found[-1].write_text("\n".join(rows) + "\n")
    return found


def scenario(files: list[Path], schemes: tuple[str, ...], **changes: Any) -> dict[str, Any]:
    """Return a scenario of these tables; changes of a domain are under its name."""
    domains = []
    for place, (file, scheme) in enumerate(zip(files, schemes, strict=True)):
        name = f"d{place}"
        own = {"name": name, "cluster": NODES, "jobs": str(file), "policy": "ce-easy", "scheme": scheme}
        domains.append(own | changes.pop(name, {}))
    return {"seed": 5, "domain": domains} | changes


def written(folder: Path, data: dict[str, Any]) -> tuple[PreparedDomains, CoupledRun]:
    """Run a scenario and write it with its journals."""
    read = scenario_from(data, "test")
    prepared = prepare_domains(read)
    run = run_domains(prepared, keep_journals=True)
    folder.mkdir(exist_ok=True)
    write_run(run, read, folder, 0.0, report=False, title="test")
    return prepared, run
