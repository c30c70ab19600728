"""Counters of the Omni-Path driver: the folders hw_counters of /sys/class/infiniband/hfi1_* and of its ports."""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers.sampler import Readings, entries, number_in
from cohabit.model.telemetry_counters import OMNI_PATH

NAMES = tuple(one.name for one in OMNI_PATH)


def read(root: Path) -> Readings:
    """Return all counters of all hfi1 adapters; port counters have the port as device."""
    found = {}
    for adapter in entries(root / "sys" / "class" / "infiniband"):
        if not adapter.name.startswith("hfi1_"):
            continue
        for place in (adapter, *entries(adapter / "ports")):
            device = adapter.name if place is adapter else f"{adapter.name}.{place.name}"
            for name in NAMES:
                value = number_in(place / "hw_counters" / name)
                if value is not None:
                    found[name, device] = value
    return found
