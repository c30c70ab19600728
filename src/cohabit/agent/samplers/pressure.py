"""Pressure stall information: how long threads waited for cores, memory and storage (/proc/pressure)."""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers.sampler import Readings, text_of
from cohabit.model.telemetry_counters import PRESSURE

NAMES = tuple(one.name for one in PRESSURE)
RESOURCES = ("cpu", "memory", "io")


def read(root: Path) -> Readings:
    """Return microseconds since boot, of the whole machine."""
    found = {}
    for resource in RESOURCES:
        for line in (text_of(root / "proc" / "pressure" / resource) or "").splitlines():
            scope, total = line.partition(" ")[0], line.rpartition("total=")[2]
            name = f"{resource}_{scope}_us"
            if name in NAMES and total.isdigit():
                found[name, ""] = float(int(total))
    return found
