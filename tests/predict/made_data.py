"""Applications made up from three hidden traits, with counters that show them through noise: known truth for tests."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np

from cohabit.model.features import TIME
from cohabit.predict.features import CoRuns, Schema

COUNTERS = ("cycles", "instructions", "cache_misses", "mem_uops_retired_all_loads", "ipc", "cpu_usage")
STATISTICS = ("mean", "std")


def made_coruns(applications: int, seed: int, suites: int = 1, noise: float = 0.05) -> CoRuns:
    """All ordered pairs: processor use adds up beyond one machine, and memory traffic hurts who depends on memory."""
    rng = np.random.default_rng(seed)
    busy, traffic, dependence = rng.uniform(0.3, 1.0, applications), rng.gamma(2, 0.2, applications), None
    dependence = np.clip(traffic * rng.uniform(0.5, 1.5, applications), 0, 1.5)
    seconds = rng.uniform(40, 400, applications)
    traits = np.stack([busy * 8e9, busy * 6e9, traffic * 1e8, traffic * 1e9, 1.5 / (1 + dependence), busy * 8], axis=1)
    columns = []
    for trait in traits.T:
        shown = trait * rng.lognormal(0, noise, applications)
        columns += [shown, shown * rng.uniform(0.01, 0.2, applications)]
    profile = np.stack(columns, axis=1)
    names = [f"app{number:02d}" for number in range(applications)]
    app, other, target = [], [], []
    for i in range(applications):
        for j in range(applications):
            shared = max(0.0, busy[i] + busy[j] - 1.0) * 90 + 60 * dependence[i] * traffic[j]
            app.append(i)
            other.append(j)
            target.append(shared * rng.lognormal(0, noise) + rng.normal(0, 0.5))
    counters = tuple(f"{counter}.{statistic}" for counter in COUNTERS for statistic in STATISTICS)
    return CoRuns(
        tuple(names[i] for i in app), tuple(names[j] for j in other),
        np.hstack([seconds[app][:, None], profile[app]]), profile[other], Schema((TIME, *counters), counters),
        np.array(target), tuple(f"suite{i * suites // applications}" for i in app),
    )  # fmt: skip


def written(data: CoRuns, path: Path, source: str = "", **changes: str) -> Path:
    """As a file of the contract; with a source, beside its side file."""
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["app", "other", "target", "suite", *data.schema.columns])
        for row in range(len(data)):
            numbers = [*data.primary[row], *data.beside[row]]
            writer.writerow([data.app[row], data.other[row], data.truth[row], data.suite[row], *numbers])
    if source:
        sources = dict.fromkeys(data.schema.columns, source) | changes
        document = {"schema_version": 1, "sources": sources, "environment": {"cpu": "made up"}}
        path.with_name(path.name + ".meta.json").write_text(json.dumps(document))
    return path
