"""Programs for the Shepherd poster: the two sets of the catalogue, hidden ones from its priors, and measured curves.

The poster publishes no profile, so all curves but the measured ones are assumptions in parametric families; the
catalogue says which. A *suite* is a `Mix` of programs to draw from; `drawn` makes a mix of jobs from it.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np

from cohabit.model.errors import InputError
from cohabit.model.mix import Floats, Mix
from cohabit.trace.files import read_text

SET_A, SET_C = "A_measured_anchored", "C_cliffy_default"
SMOOTH, STREAM, CLIFF, HYPER = "smooth", "stream", "cliff", "hyper"
FEWEST_REFERENCES = 10.0  # of the poster's selection rule: L2 misses per thousand instructions
CORES, FREQ_GHZ = 8, 2.0  # of the machine that measured programs are taken to run on
LEAST_CHANGE = 0.1  # and the change of L3 misses over all sizes
ANCHORS = {  # programs of set A whose cost per miss was measured
    "mcf": "mcf06", "omnetpp": "omnetpp06", "xalancbmk": "xalancbmk06", "soplex": "soplex06", "sphinx3": "sphinx306",
    "astar": "astar06", "GemsFDTD": "GemsFDTD06", "lbm": "lbm06", "leslie3d": "leslie3d06",
}  # fmt: skip


@cache
def catalogue_document() -> dict[str, Any]:
    """Return the catalogue as it is in its file."""
    text = (resources.files("cohabit.trace") / "catalogues" / "shepherd20.json").read_text(encoding="utf-8")
    document: dict[str, Any] = json.loads(text)
    return document


def suite_of(name: str, cap_gbs: float | None = None) -> Mix:
    """A set of the catalogue: A and C by their points, B, D, E and G by their parameters."""
    document = catalogue_document()
    if name in document["sets"]:
        programs = document["sets"][name]
        curves = np.array([one["mpki_by_bucket"] for one in programs.values()])
    else:
        programs = document["sensitivity_sets_params_only"][name]
        curves = np.array([family_curve(one, _sizes_mb(document)) for one in programs.values()])
    return _suite(programs, curves, cap_gbs)


def _suite(programs: Mapping[str, Mapping[str, Any]], curves: Floats, cap_gbs: float | None) -> Mix:
    platform = catalogue_document()["platform"]
    return Mix(
        1,
        platform["cores"],
        platform["buckets"],
        float(cap_gbs or platform["bandwidth_cap_gbs_default"]),
        float(platform["freq_ghz"]),
        tuple(programs),
        curves,
        np.array([float(one["cpi0"]) for one in programs.values()]),
        np.array([float(one["b_cycles_per_miss"]) for one in programs.values()]),
    )


def with_measured_costs(suite: Mix) -> Mix:
    """Set A with the cost per miss that was measured, for the nine programs where it was."""
    anchors = catalogue_document()["measured_anchors_pbbcache"]
    cycles = suite.cycles_per_miss.copy()
    for row, name in enumerate(suite.names):
        if name in ANCHORS:
            cycles[row] = anchors[ANCHORS[name]]["cycles_per_miss"]
    return replace(suite, cycles_per_miss=cycles)


def family_curve(parameters: Mapping[str, Any], sizes_mb: Floats) -> Floats:
    """Misses against size in one of the families of the catalogue."""
    most, least, knee = (float(parameters[key]) for key in ("m0_L2_mpki", "m_inf", "s0_mb"))
    if parameters["family"] in (SMOOTH, STREAM):
        return least + (most - least) * np.exp(-sizes_mb / knee)
    shape: Floats = least + (most - least) / (1.0 + (sizes_mb / knee) ** float(parameters["k"]))
    return shape


def _sizes_mb(document: Mapping[str, Any]) -> Floats:
    platform = document["platform"]
    return np.linspace(0.0, platform["llc_mb"], platform["buckets"] + 1)


def hidden_suite(rng: np.random.Generator, count: int = 20, cap_gbs: float | None = None) -> Mix:
    """Unseen programs from the catalogue's priors; those that fail the selection rule are drawn again.

    The priors leave two things open that the families fix: a stream's misses drop by 15 to 30 % only and cost little
    (10 to 20 cycles), and the exponent of a hyper curve is between 1 and 2.5.
    """
    document = catalogue_document()
    shares = document["hidden_program_prior"]["family_mix"]
    sizes = _sizes_mb(document)
    programs: dict[str, dict[str, Any]] = {}
    curves = []
    while len(programs) < count:
        family = str(rng.choice(list(shares), p=list(shares.values())))
        most = float(np.exp(rng.uniform(math.log(10.0), math.log(80.0))))
        low, high = (0.7, 0.85) if family == STREAM else (0.02, 0.85)
        one = {
            "family": family,
            "m0_L2_mpki": most,
            "m_inf": most * float(rng.uniform(low, high)),
            "s0_mb": float(np.exp(rng.uniform(0.0, math.log(10.0)))),
            "k": float(rng.uniform(4.0, 12.0)) if family == CLIFF else float(rng.uniform(1.0, 2.5)),
            "cpi0": float(rng.uniform(0.4, 1.2)),
            "b_cycles_per_miss": float(rng.uniform(10.0, 20.0 if family == STREAM else 70.0)),
        }
        curve = family_curve(one, sizes)
        if passes(curve):
            programs[f"H{len(programs) + 1:02d}"] = one
            curves.append(curve)
    return _suite(programs, np.array(curves), cap_gbs)


def passes(curve: Floats) -> bool:
    """The poster's selection rule: enough misses of the level before, and they change with size."""
    by_size = curve[1:]
    return bool(curve[0] >= FEWEST_REFERENCES and 1.0 - by_size.min() / by_size.max() >= LEAST_CHANGE)


def drawn(suite: Mix, rng: np.random.Generator, nodes: int) -> Mix:
    """A mix of random jobs that fills so many nodes, programs drawn with replacement."""
    rows = rng.integers(0, len(suite), nodes * suite.cores_per_node)
    found = suite.only(rows, nodes)
    return replace(found, names=tuple(f"{name}.{number}" for number, name in enumerate(found.names)))


def read_measured_suite(path: Path, cap_gbs: float = 25.0) -> Mix:
    """Programs measured with 1 to W ways (columns BENCH, NR_WAYS, ipc, llcmpki, llcrpki), one bucket per way.

    Without cache every reference misses. cpi0 and the cost per miss are the line through CPI against misses. Programs
    that fail the poster's selection rule are left out.
    """
    table = _measured(read_text(path), str(path))
    names, curves, cpi0, cycles = [], [], [], []
    for name, rows in sorted(table.items()):
        misses = np.array([rows[ways][1] for ways in sorted(rows)])
        curve = np.concatenate([[max(rows[1][2], misses[0])], misses])
        if not passes(curve):
            continue
        cpi = 1.0 / np.array([rows[ways][0] for ways in sorted(rows)])
        slope, start = fitted(misses, cpi)
        names.append(name)
        curves.append(curve)
        cpi0.append(start)
        cycles.append(slope)
    columns = (np.array(curves), np.array(cpi0), np.array(cycles))
    return Mix(1, CORES, len(curves[0]) - 1, cap_gbs, FREQ_GHZ, tuple(names), *columns)


def fitted(misses: Floats, cpi: Floats) -> tuple[float, float]:
    """Cycles per miss and CPI without misses: the best line, which never slopes down and begins above 0."""
    slope, start = (float(value) for value in np.polyfit(misses / 1000.0, cpi, 1))
    if slope < 0.0:
        return 0.0, float(cpi.mean())
    return slope, max(start, 0.05)


def _measured(text: str, where: str) -> dict[str, dict[int, tuple[float, float, float]]]:
    table: dict[str, dict[int, tuple[float, float, float]]] = {}
    reader = csv.DictReader(io.StringIO(text))
    for row in reader:
        try:
            values = (float(row["ipc"]), float(row["llcmpki"]), float(row["llcrpki"]))
            table.setdefault(row["BENCH"], {})[int(row["NR_WAYS"])] = values
        except (KeyError, TypeError, ValueError):
            line = f"{where}, line {reader.line_num}"
            raise InputError(
                "is not a line of measured curves", line, "columns BENCH, NR_WAYS, ipc, llcmpki, llcrpki"
            ) from None
    most = max((len(rows) for rows in table.values()), default=0)
    if not most or any(sorted(rows) != list(range(1, most + 1)) for rows in table.values()):
        raise InputError("does not have every program at every number of ways from 1 up", where, "complete it")
    return table
