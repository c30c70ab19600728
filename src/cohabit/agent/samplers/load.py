"""Load averages and runnable threads: /proc/loadavg."""

from __future__ import annotations

import re
from pathlib import Path

from cohabit.agent.samplers.sampler import HOST, Readings, text_of
from cohabit.agent.sensors.source import Offer
from cohabit.model.telemetry_counters import LOAD

NAMES = tuple(one.name for one in LOAD)
LINE = re.compile(r"(\d+\.\d+) (\d+\.\d+) (\d+\.\d+) (\d+)/\d+ ")


class Load:
    """The whole machine."""

    name = "load"

    def __init__(self, root: Path = HOST) -> None:
        self.file = root / "proc" / "loadavg"

    def offer(self) -> Offer:
        """Check for /proc, which is all it needs."""
        if not self.read():
            return Offer(self.name, False, "there is no /proc/loadavg", "mount proc")
        return Offer(self.name, True, "", "", NAMES)

    def read(self) -> Readings:
        """Return current levels."""
        line = LINE.match(text_of(self.file) or "")
        return {(name, ""): float(value) for name, value in zip(NAMES, line.groups(), strict=True)} if line else {}
