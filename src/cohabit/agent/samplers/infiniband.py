"""Port counters of InfiniBand and compatible adapters (also Omni-Path): /sys/class/infiniband."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from cohabit.agent.samplers.sampler import HOST, Readings, entries, number_in
from cohabit.agent.sensors.source import Offer
from cohabit.model.telemetry_counters import INFINIBAND

NAMES = tuple(one.name for one in INFINIBAND)
FOLDERS = ("counters", "hw_counters")


class Infiniband:
    """Every port of every adapter."""

    name = "sysclassib"

    def __init__(self, root: Path = HOST) -> None:
        self.folder = root / "sys" / "class" / "infiniband"

    def offer(self) -> Offer:
        """Offer adapters with at least one readable counter."""
        found = {name for name, _ in self.read()}
        if not found:
            advice = "nothing to do where there is none; otherwise load its driver"
            return Offer(self.name, False, "no InfiniBand adapter has counters here", advice)
        return Offer(self.name, True, "", "", tuple(name for name in NAMES if name in found))

    def read(self) -> Readings:
        """Return all counters of all ports."""
        found = {}
        for port in self._ports():
            device = f"{port.parent.parent.name}.{port.name}"
            for name in NAMES:
                numbers = (number_in(port / folder / name) for folder in FOLDERS)
                value = next((number for number in numbers if number is not None), None)
                if value is not None:
                    found[name, device] = value
        return found

    def _ports(self) -> Iterator[Path]:
        for adapter in entries(self.folder):
            yield from entries(adapter / "ports")
