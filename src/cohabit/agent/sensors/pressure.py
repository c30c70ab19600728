"""Pressure of the whole machine (/proc/pressure): time in which some thread waited for a core, memory or storage.

It is the machine's, not the program's: for a program running alone the two differ only by the machine's own noise.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from cohabit.agent.sensors.source import Offer, Source, Watch

RESOURCES = ("cpu", "memory", "io")


def read_pressure(path: Path) -> float | None:
    """Return the seconds in which some thread waited, from a pressure file; None if it cannot be read."""
    try:
        text = path.read_text()
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2]) * 1e-6
    return None


class Pressure(Source, Watch):
    """The source, and its own watch: totals since boot, of which only the growth counts. `root` is /proc/pressure."""

    name = "pressure"

    def __init__(self, root: Path = Path("/proc/pressure")) -> None:
        self.root = root

    def offer(self) -> Offer:
        """Offer those of the three that can be read."""
        found = tuple(self.sample())
        if not found:
            return Offer(self.name, False, "the kernel keeps no pressure statistics", "boot with psi=1")
        return Offer(self.name, True, "", "", found)

    def watch(self, pid: int, folder: Path) -> Watch:
        """Watch the whole machine, whatever the process."""
        return self

    def sample(self) -> Mapping[str, float]:
        """Return current totals."""
        totals = {f"pressure_{name}": read_pressure(self.root / name) for name in RESOURCES}
        return {name: value for name, value in totals.items() if value is not None}
