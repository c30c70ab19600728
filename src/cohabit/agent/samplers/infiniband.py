"""Port counters of InfiniBand and compatible adapters (also Omni-Path): /sys/class/infiniband."""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers.sampler import Readings, entries, number_in
from cohabit.model.telemetry_counters import INFINIBAND

NAMES = tuple(one.name for one in INFINIBAND)
FOLDERS = ("counters", "hw_counters")


def read(root: Path) -> Readings:
    """Return all counters of all ports of all adapters."""
    found = {}
    for adapter in entries(root / "sys" / "class" / "infiniband"):
        for port in entries(adapter / "ports"):
            for name in NAMES:
                numbers = (number_in(port / folder / name) for folder in FOLDERS)
                value = next((number for number in numbers if number is not None), None)
                if value is not None:
                    found[name, f"{adapter.name}.{port.name}"] = value
    return found
