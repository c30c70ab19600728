"""Pressure stall information: how long threads waited for cores, memory and storage (/proc/pressure)."""

from __future__ import annotations

from pathlib import Path

from cohabit.agent.samplers.sampler import HOST, Readings, text_of
from cohabit.agent.sensors.source import Offer
from cohabit.model.telemetry_counters import PRESSURE

NAMES = tuple(one.name for one in PRESSURE)
RESOURCES = ("cpu", "memory", "io")


class Pressure:
    """The whole machine."""

    name = "pressure"

    def __init__(self, root: Path = HOST) -> None:
        self.folder = root / "proc" / "pressure"

    def offer(self) -> Offer:
        """Check that the kernel was built and booted with it."""
        found = {name for name, _ in self.read()}
        if not found:
            return Offer(self.name, False, "the kernel keeps no pressure statistics", "boot with psi=1")
        return Offer(self.name, True, "", "", tuple(name for name in NAMES if name in found))

    def read(self) -> Readings:
        """Return microseconds since boot."""
        found = {}
        for resource in RESOURCES:
            for line in (text_of(self.folder / resource) or "").splitlines():
                scope, total = line.partition(" ")[0], line.rpartition("total=")[2]
                name = f"{resource}_{scope}_us"
                if name in NAMES and total.isdigit():
                    found[name, ""] = float(int(total))
        return found
