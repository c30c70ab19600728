"""Runs on a machine whose network and filesystem are calm or congested, with counters that show it through noise."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

from cohabit.model.telemetry import CANARY_TIMES, WORKLOAD_TYPES, feature_names
from cohabit.predict.variability_data import Runs

TABLE_I = {"sysclassib": 22, "opa_info": 34, "lustre2_client": 34}  # counters per source, as in the paper


def paper_counters() -> tuple[str, ...]:
    """93 counters: 279 features, and 282 with the type of work."""
    own = [f"{source}.c{number:02d}" for source, count in TABLE_I.items() for number in range(count)]
    return (*own, *CANARY_TIMES)


def made_runs(
    applications: int, each: int, seed: int, counters: tuple[str, ...] | None = None, noise: float = 0.3
) -> Runs:
    """Network work suffers from a busy network, I/O from a busy filesystem, computing from both; few counters tell."""
    rng = np.random.default_rng(seed)
    counters = paper_counters() if counters is None else counters
    count = applications * each
    which = np.tile(np.arange(applications), each)
    kind = which % len(WORKLOAD_TYPES)
    network, files = (rng.gamma(0.4, 1.0, count) for _ in range(2))  # mostly calm, sometimes not at all
    base = rng.uniform(50, 500, applications)
    sensitive = rng.uniform(0.15, 0.5, applications)
    felt = np.where(kind == 1, network, np.where(kind == 2, files, 0.5 * (network + files)))
    run_s = base[which] * (1.0 + sensitive[which] * felt + 0.02 * rng.standard_normal(count))
    columns = []
    for number, name in enumerate(counters):
        hidden = files if name.startswith("lustre") else network
        telling = number % 4 == 0 or name in CANARY_TIMES
        level = rng.uniform(1, 1e6)
        mean = level * ((hidden if telling else rng.gamma(0.4, 1.0, count)) + 1.0) * rng.lognormal(0, noise, count)
        columns += [mean * rng.uniform(0.3, 0.9, count), mean * rng.uniform(1.1, 3.0, count), mean]
    names = tuple(f"app{number}" for number in which.tolist())
    types = tuple(WORKLOAD_TYPES[one] for one in kind.tolist())
    return Runs(names, np.arange(count) * 3600.0, run_s, types, np.stack(columns, axis=1), feature_names(counters))


def written(data: Runs, path: Path, with_run: bool = True) -> Path:
    """As a file of the contract."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["app", "start_s", *(["run_s"] if with_run else []), "workload_type", *data.columns])
        for row in range(len(data)):
            run = [repr(float(data.times_s[row]))] if with_run else []
            numbers = map(repr, data.table[row].tolist())
            writer.writerow([data.app[row], data.start_s[row], *run, data.workload_type[row], *numbers])
    return path
