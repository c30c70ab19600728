"""The data set of measured pairs: one row per ordered pair, and a sidecar with the source of every column.

Columns: app, other, target (percent), app_time_s, then primary.* and other.* (COUNTER_STAT of the runs alone), then
meta.*. The sidecar DATA.csv.meta.json names the source of every column and the machine, without host names or paths.
"""

from __future__ import annotations

import csv
import io
import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cohabit.agent.sensors.summary import Readings, Summary
from cohabit.app.measure.programs import Plan
from cohabit.model.features import SOLO_TIME
from cohabit.version import __version__
from cohabit.whole_files import replacing

SCHEMA_VERSION = 1
CLOCK = "clock"
META_COLUMNS = (
    "meta.pair_time_s", "meta.pair_repeats", "meta.pair_noise_percent", "meta.restarts", "meta.solo_repeats",
    "meta.solo_noise_percent",
)  # fmt: skip


@dataclass(frozen=True)
class Alone:
    """A program's runs alone."""

    times_s: tuple[float, ...]
    readings: Readings

    @property
    def time_s(self) -> float:
        """Its time alone, the median: one disturbed run does not make every neighbour look harmless."""
        return statistics.median(self.times_s)

    @property
    def noise_percent(self) -> float | None:
        """The deviation between runs; None for a single run."""
        return _noise(self.times_s)

    def with_time(self) -> Readings:
        """Return the counters, including the run time: its mean and deviation, which a profile keeps as well."""
        spread = statistics.pstdev(self.times_s)
        mean_s = statistics.fmean(self.times_s)
        return {SOLO_TIME: Summary(mean_s, None, None, spread, CLOCK)} | self.readings


@dataclass(frozen=True)
class Together:
    """A pair's runs: the primary's times, and the number of restarts of the other over all runs."""

    times_s: tuple[float, ...]
    restarts: int

    @property
    def time_s(self) -> float:
        """The primary's time beside the other, the median."""
        return statistics.median(self.times_s)

    def degradation(self, alone_s: float) -> float:
        """Return the percentage by which the primary is slower than alone; noise can make it negative."""
        return 100.0 * (self.time_s - alone_s) / alone_s


def write_data(
    out: Path, plan: Plan, alone: Mapping[str, Alone], pairs: Mapping[tuple[str, str], Together]
) -> dict[str, str]:
    """Write both files, the sidecar first, so that no data set is without one; return the source of each counter."""
    readings = {name: one.with_time() for name, one in alone.items()}
    counters = comparable(readings)
    first = next(iter(readings.values()))
    sources = {"target": CLOCK, "app_time_s": CLOCK} | {
        f"{role}.{name}_{suffix}": counters[name]
        for role in ("primary", "other")
        for name in counters
        for suffix, _ in first[name].columns()
    }
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(["app", "other", *sources, *META_COLUMNS])
    for (app, other), pair in pairs.items():
        one = alone[app]
        row: list[object] = [app, other, pair.degradation(one.time_s), one.time_s]
        for program in (app, other):
            row += [value for name in counters for _, value in readings[program][name].columns()]
        row += [pair.time_s, len(pair.times_s), _noise(pair.times_s), pair.restarts]
        row += [len(one.times_s), one.noise_percent]
        writer.writerow([f"{cell:.9g}" if isinstance(cell, float) else "" if cell is None else cell for cell in row])
    with replacing(sidecar(out)) as stream:
        stream.write(json.dumps(_description(plan, sources), indent=1).encode() + b"\n")
    with replacing(out) as stream:
        stream.write(text.getvalue().encode())
    return counters


def sidecar(out: Path) -> Path:
    """Return the path of the sidecar."""
    return out.with_name(out.name + ".meta.json")


def comparable(readings: Mapping[str, Readings]) -> dict[str, str]:
    """Return the counters that every program has from the same source, with that source; others would have gaps."""
    found = {}
    for name, first in next(iter(readings.values())).items():
        each = [one.get(name) for one in readings.values()]
        shapes = {(one.source, tuple(suffix for suffix, _ in one.columns())) for one in each if one is not None}
        if None not in each and len(shapes) == 1:
            found[name] = first.source
    return found


def machine() -> dict[str, Any]:
    """Return the processor and the system, as far as times depend on them; nothing that identifies this host."""
    facts: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            key, _, value = line.partition(":")
            facts.setdefault(key.strip(), value.strip())
    except OSError:
        facts = {}
    part = " ".join(facts[key] for key in ("CPU implementer", "CPU part") if key in facts)
    return {
        "cpu": facts.get("model name") or f"{platform.machine()} {part}".strip(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "caches_kib": _caches(),
        "memory_mb": _memory_mb(),
        "kernel": platform.release(),
    }


def _description(plan: Plan, sources: dict[str, str]) -> dict[str, Any]:
    import numpy

    versions = {"python": platform.python_version(), "cohabit": __version__, "numpy": numpy.__version__}
    binding = {"binding": plan.cores, "primary_cpus": len(plan.cpus(plan.program[0], False))}
    programs = [
        {"name": one.name, "command": list(map(_without_folder, one.command))}
        | ({"beside": list(map(_without_folder, one.beside))} if one.beside else {})
        for one in plan.program
    ]
    return {
        "schema_version": SCHEMA_VERSION,
        "sources": sources,
        "environment": machine() | versions | binding,
        "programs": programs,
    }


def _without_folder(word: str) -> str:
    return os.path.basename(word) if os.path.isabs(word) else word


def _caches() -> dict[str, int]:
    found = {}
    for index in sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*")):
        try:
            level, kind = (index / "level").read_text().strip(), (index / "type").read_text().strip()
            found[f"L{level} {kind.lower()}"] = int((index / "size").read_text().strip().rstrip("K"))
        except (OSError, ValueError):
            continue
    return found


def _memory_mb() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20


def _noise(times_s: Sequence[float]) -> float | None:
    return 100.0 * statistics.stdev(times_s) / statistics.fmean(times_s) if len(times_s) > 1 else None
