"""The operations resctrl supports, on the real file system, and where it is mounted.

All other modules use only these operations, so the enforcing fake of `cohabit.testing` stands in for any processor.
Nothing here mounts or unmounts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from cohabit.agent.sensors import resctrl as sensing

ROOT = sensing.ROOT


class Files(sensing.Files, Protocol):
    """The operations of the sensor, and moving a monitoring group under another control group."""

    def move(self, source: Path, target: Path) -> None: ...


class HostFiles(sensing.HostFiles):
    """The real file system."""

    def move(self, source: Path, target: Path) -> None:
        """rename."""
        os.rename(source, target)


@dataclass(frozen=True)
class Mount:
    """Where resctrl is mounted, and with which options (cdp, mba_MBps, ...)."""

    root: Path
    options: tuple[str, ...] = ()


def find_mount(mounts: Path = Path("/proc/self/mounts")) -> Mount | None:
    """Return the first resctrl in the table of mounts; None if there is none."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if len(words) >= 4 and words[2] == "resctrl":
            return Mount(Path(words[1]), tuple(words[3].split(",")))
    return None
