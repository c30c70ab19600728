"""Load averages and runnable threads: /proc/loadavg."""

from __future__ import annotations

import re
from pathlib import Path

from cohabit.agent.samplers.sampler import Readings, text_of
from cohabit.model.telemetry_counters import LOAD

NAMES = tuple(one.name for one in LOAD)
LINE = re.compile(r"(\d+\.\d+) (\d+\.\d+) (\d+\.\d+) (\d+)/\d+ ")


def read(root: Path) -> Readings:
    """Return current levels."""
    line = LINE.match(text_of(root / "proc" / "loadavg") or "")
    return {(name, ""): float(value) for name, value in zip(NAMES, line.groups(), strict=True)} if line else {}
