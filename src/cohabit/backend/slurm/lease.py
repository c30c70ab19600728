"""The lease: for how long jobs may be held for us. One small file, read by job_submit.lua, the watchdog and everybody.

When it is over, whoever held jobs for is dead or stuck, and plain Slurm takes them. The kill switch is a second file
beside it: while that is there, nobody renews.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from cohabit.whole_files import replacing


class Lease(NamedTuple):
    """Until when (Unix time), for which partitions."""

    until_s: float
    partitions: tuple[str, ...]

    def runs(self, now_s: float) -> bool:
        """Jobs may still be held."""
        return now_s < self.until_s


def write_lease(path: Path, until_s: float, partitions: Sequence[str]) -> None:
    """Whole seconds, rounded down: nobody may think it lasts longer than it does."""
    with replacing(path) as stream:
        stream.write(f"{int(until_s)} {','.join(partitions)} {os.getuid()}\n".encode())


def read_lease(path: Path) -> Lease | None:
    """None: there never was one, or nobody can read it."""
    try:
        until, partitions, _ = path.read_text(encoding="utf-8").split()
        return Lease(float(until), tuple(partitions.split(",")))
    except (OSError, ValueError):
        return None


def switch_file(path: Path) -> Path:
    """Of the kill switch."""
    return path.with_name(f"{path.name}.off")


def watch_file(path: Path) -> Path:
    """Locked by the watchdog for as long as it lives."""
    return path.with_name(f"{path.name}.watchdog")


def open_closed(path: Path) -> IO[bytes]:
    """A file beside the lease to append to that others cannot open: whoever can open a file can lock it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(descriptor).st_mode & 0o077:
        os.fchmod(descriptor, 0o600)  # made by an earlier version
    return os.fdopen(descriptor, "ab")
