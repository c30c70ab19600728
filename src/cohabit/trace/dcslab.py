"""Published co-runs of dcslab-snu (NPB, PARSEC, Rodinia on 2x Xeon E5-2683 v4): applications beside NPB SP.

Counters are those of the runs alone at 8 cores; the target is how much longer a run took beside SP. Two files are read:
`dcslab_summary.csv` (means) and `dcslab_experiment-data.tar.xz` (the 200 ms series: mean, minimum, maximum, deviation).
The authors' error flag concerns the counter series of a co-run, which is not used here; run times are kept. Cite
github.com/dcslab-snu/experiment-data; no licence is stated, so nothing of it is stored in this project.
"""

from __future__ import annotations

import csv
import io
import json
import tarfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.features import STATISTICS, TIME
from cohabit.predict.features import CoRuns, Floats, Schema
from cohabit.trace.files import open_trace, read_text

BESIDE = "SP"
ALONE, TOGETHER = "bc5/solorun/8core/", "bc5/corun/8core/"
SUMMARY_COLUMNS = ("set", "path", "app", "corunners", "runtime", "l3miss", "instructions")
COUNTERS = ("l2miss", "l3miss", "instructions", "cycles", "stall_cycles", "wall_cycles", "llc_size", "local_mem",
            "remote_mem")  # fmt: skip
CALCULATED = ("ipc", "miss_per_instruction", "stalled_share")
SOURCE = "perf and resctrl, dcslab-snu"
FAULT = "this is not dcslab-snu's experiment-data as described in the docs"
Series = Mapping[str, Floats]


def is_dcslab(path: Path) -> bool:
    """Return whether a file is one of the two, by its header or its name."""
    if path.name.endswith((".tar", ".tar.xz", ".tar.gz")):
        return True
    with open_trace(path) as stream:
        header = stream.read(4096).split(b"\n", 1)[0].decode("utf-8", "replace").strip().split(",")
    return set(SUMMARY_COLUMNS) <= set(header)


def read_dcslab(path: Path) -> CoRuns:
    """The applications measured both alone and beside SP."""
    archive = path.name.endswith((".tar", ".tar.xz", ".tar.gz"))
    alone, together, suites = _archive(path) if archive else _summary(path)
    names = sorted(name for name in together if name in alone)
    if BESIDE not in alone or not names:
        raise InputError(f"has no application both alone and beside {BESIDE}", str(path), FAULT)
    columns = tuple(alone[BESIDE][1])
    primary = np.array([[alone[name][0], *(alone[name][1][column] for column in columns)] for name in names])
    beside = np.tile([alone[BESIDE][1][column] for column in columns], (len(names), 1))
    target = np.array([100.0 * (together[name] / alone[name][0] - 1.0) for name in names])
    schema = Schema((TIME, *columns), columns)
    sources = dict.fromkeys(schema.columns, SOURCE)
    return CoRuns(
        tuple(names),
        (BESIDE,) * len(names),
        primary,
        beside,
        Schema(schema.primary, schema.other, sources),
        target,
        tuple(suites[name] for name in names),
        {},
        {"processor": "2 x Xeon E5-2683 v4", "cores_each": 8},
        str(path),
        f"small: {len(names)} applications beside {BESIDE} only, one run each",
    )


Alone = dict[str, tuple[float, dict[str, float]]]


def _summary(path: Path) -> tuple[Alone, dict[str, float], dict[str, str]]:
    alone: Alone = {}
    together: dict[str, float] = {}
    suites: dict[str, str] = {}
    reader = csv.DictReader(io.StringIO(read_text(path)))
    try:
        for row in reader:
            if row["path"].startswith(ALONE):
                means = {name: np.array([float(row[name])]) for name in COUNTERS}
                statistics = {name: values[0] for name, values in _with_ratios(means).items()}
                alone[row["app"]] = float(row["runtime"]), {f"{name}_mean": float(x) for name, x in statistics.items()}
                suites[row["app"]] = row["path"].removeprefix(ALONE).split("/")[0]
            elif row["path"].startswith(TOGETHER) and row["corunners"] == BESIDE:
                together[row["app"]] = float(row["runtime"])
    except (KeyError, TypeError, ValueError) as problem:
        raise InputError(f"cannot be understood ({problem})", f"{path}, line {reader.line_num}", FAULT) from None
    return alone, together, suites


def _archive(path: Path) -> tuple[Alone, dict[str, float], dict[str, str]]:
    """Read the archive once; only the 8-core runs are looked at."""
    times: dict[str, dict[str, float]] = {}
    series: dict[str, dict[str, str]] = {}
    try:
        with open_trace(path) as stream, tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                name = member.name.removeprefix("./")
                held = archive.extractfile(member) if name.startswith((ALONE, TOGETHER)) and member.isfile() else None
                if held is None:
                    continue
                folder, _, file = name.rpartition("/")
                if file == "result.json":
                    times[folder] = json.loads(held.read())["runtime"]
                elif folder.endswith("/perf"):
                    app = file.removesuffix(".csv")
                    series.setdefault(folder.removesuffix("/perf"), {})[app] = held.read().decode()
    except (tarfile.TarError, KeyError, ValueError) as problem:
        raise InputError(f"cannot be understood ({problem})", str(path), FAULT) from None
    alone: Alone = {}
    together: dict[str, float] = {}
    suites: dict[str, str] = {}
    for folder, runtimes in times.items():
        for app, seconds in runtimes.items():
            if folder.startswith(ALONE) and app in series.get(folder, {}):
                alone[app] = float(seconds), _statistics(series[folder][app], f"{path}, {folder}/perf/{app}.csv")
                suites[app] = folder.removeprefix(ALONE).split("/")[0]
            elif folder.startswith(TOGETHER) and BESIDE in runtimes and app != BESIDE:
                together[app] = float(seconds)
    return alone, together, suites


def _statistics(text: str, where: str) -> dict[str, float]:
    rows = list(csv.DictReader(io.StringIO(text)))
    try:
        table = {name: np.array([float(row[name]) for row in rows]) for name in COUNTERS}
    except (KeyError, TypeError, ValueError) as problem:
        raise InputError(f"cannot be understood ({problem})", where, FAULT) from None
    found: dict[str, float] = {}
    for name, values in _with_ratios(table).items():
        for statistic, value in zip(STATISTICS, (values.mean(), values.min(), values.max(), values.std()), strict=True):
            found[f"{name}_{statistic}"] = float(value)
    return found


def _with_ratios(table: Series) -> dict[str, Floats]:
    cycles, instructions = np.maximum(table["cycles"], 1.0), np.maximum(table["instructions"], 1.0)
    ratios = (instructions / cycles, table["l3miss"] / instructions, table["stall_cycles"] / cycles)
    return dict(table) | dict(zip(CALCULATED, ratios, strict=True))
