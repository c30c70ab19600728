"""Disks: /proc/diskstats, whole devices only, so that nothing is counted twice (no partitions, no stacked devices)."""

from __future__ import annotations

import re
from pathlib import Path

from cohabit.agent.samplers.sampler import Readings, entries, text_of

COLUMNS = {
    "reads": (0, 1), "read_bytes": (2, 512), "read_ms": (3, 1), "writes": (4, 1), "write_bytes": (6, 512),
    "write_ms": (7, 1), "in_flight": (8, 1), "busy_ms": (9, 1), "queue_ms": (10, 1),
}  # fmt: skip
STACKED = re.compile(r"(loop|ram|zram|dm-|md|sr|fd|nbd)\d+$")
FIELDS = 11


def read(root: Path) -> Readings:
    """Return totals since boot, and operations in progress."""
    whole = {device.name for device in entries(root / "sys" / "block") if not STACKED.match(device.name)}
    found = {}
    for line in (text_of(root / "proc" / "diskstats") or "").splitlines():
        words = line.split()
        fields = words[3:]
        if len(fields) >= FIELDS and words[2] in whole and all(field.isdigit() for field in fields[:FIELDS]):
            for name, (column, factor) in COLUMNS.items():
                found[name, words[2]] = float(int(fields[column]) * factor)
    return found
