"""Counters of the Omni-Path driver: the folders hw_counters of /sys/class/infiniband/hfi1_* and of its ports."""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers.sampler import HOST, Readings, entries, number_in
from cohabit.agent.sensors.source import Offer
from cohabit.model.telemetry_counters import OMNI_PATH

NAMES = tuple(one.name for one in OMNI_PATH)


class OmniPath:
    """Every hfi1 adapter."""

    name = "opa_info"

    def __init__(self, root: Path = HOST) -> None:
        self.folder = root / "sys" / "class" / "infiniband"

    def offer(self) -> Offer:
        """Offer adapters with at least one readable counter."""
        found = {name for name, _ in self.read()}
        if not found:
            advice = "nothing to do where there is none; otherwise load hfi1"
            return Offer(self.name, False, "no Omni-Path adapter has counters here", advice)
        return Offer(self.name, True, "", "", tuple(name for name in NAMES if name in found))

    def read(self) -> Readings:
        """Return all counters of all adapters; port counters have the port as device."""
        found = {}
        for adapter in entries(self.folder):
            if not adapter.name.startswith("hfi1_"):
                continue
            for place in (adapter, *entries(adapter / "ports")):
                device = adapter.name if place is adapter else f"{adapter.name}.{place.name}"
                for name in NAMES:
                    value = number_in(place / "hw_counters" / name)
                    if value is not None:
                        found[name, device] = value
        return found
