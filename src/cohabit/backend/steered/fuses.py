"""Fuses of runs with mates elsewhere: when each run is stopped unless a message from its mates moves the fuse.

One small file beside the lease, written by the controller before a run begins and read by the watchdog, which stops a
run at its fuse even if the controller is dead. Instants are on CLOCK_BOOTTIME, which both read; after a reboot all
fuses have burnt.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import msgspec

from cohabit.backend.steered.lease import read_beside, write_beside

_BOOT_ID = Path("/proc/sys/kernel/random/boot_id")


class Fuse(msgspec.Struct, frozen=True):
    """The fuse of one run."""

    attempt: int
    burns_us: int  # since boot


class _Kept(msgspec.Struct, frozen=True):
    boot_id: str
    fuses: dict[str, Fuse]


def boot_us() -> int:
    """Return the microseconds since boot."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def read_fuses(path: Path) -> dict[str, Fuse]:
    """Read all fuses, by the manager's name of the job. Fuses of another boot have all burnt."""
    try:
        kept = msgspec.json.decode(read_beside(path), type=_Kept)
    except (OSError, msgspec.DecodeError, RecursionError):
        return {}
    if kept.boot_id == _boot_id():
        return kept.fuses
    return {name: Fuse(one.attempt, 0) for name, one in kept.fuses.items()}


class Fuses:
    """The controller's side. `since_boot_us` converts an instant of the controller's clock to one of this file."""

    def __init__(self, path: Path | None, since_boot_us: Callable[[int], int]) -> None:
        self._path, self._since_boot_us = path, since_boot_us
        self._lit = {} if path is None else read_fuses(path)

    def light(self, name: str, attempt: int, at_us: int) -> None:
        """Set a fuse; it is on the disk when this returns."""
        self._lit[name] = Fuse(attempt, self._since_boot_us(at_us))
        self._write()

    def move(self, name: str, attempt: int, at_us: int) -> None:
        """Move a fuse that has not burnt."""
        fuse = self._lit.get(name)
        if fuse is not None and fuse.attempt == attempt and not self.burnt(name, attempt):
            self.light(name, attempt, at_us)

    def burnt(self, name: str, attempt: int) -> bool:
        """Return whether this run was to be stopped by now."""
        fuse = self._lit.get(name)
        return fuse is not None and fuse.attempt == attempt and fuse.burns_us <= boot_us()

    def lit(self, name: str, attempt: int) -> bool:
        """Return whether this run has a fuse."""
        return name in self._lit and self._lit[name].attempt == attempt

    def put_out(self, name: str) -> None:
        """Remove a fuse: the run is over, or needs its mates no longer."""
        if self._lit.pop(name, None) is not None:
            self._write()

    def _write(self) -> None:
        if self._path is not None:
            write_beside(self._path, msgspec.json.encode(_Kept(_boot_id(), self._lit)))


def _boot_id() -> str:
    return _BOOT_ID.read_text(encoding="ascii").strip()
