"""The lease: for how long jobs may be held for us. One small file, read by the submission plug-in, the watchdog
and others.

When the lease is over, the controller is dead or stuck, and the plain manager takes the held jobs. The kill switch is a
second file beside the lease: while it exists, the lease is not renewed.

Where root started the controller, the file is a link into LEASE.d, the folder of the controller's account, and all
files that belong beside the lease are there (app/steer/rights.py). Every function here follows one link. The content of
that folder is data of that account: it is read only if it is a plain file, and never written through a name there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import IO, NamedTuple

from cohabit.model.errors import InputError

MOST_BYTES = 1 << 24  # of a file beside the lease


class Lease(NamedTuple):
    """The end of the lease (Unix time) and its partitions."""

    until_s: float
    partitions: tuple[str, ...]

    def runs(self, now_s: float) -> bool:
        """Return whether jobs may still be held."""
        return now_s < self.until_s


def write_lease(path: Path, until_s: float, partitions: Sequence[str], acts_as: int | None = None) -> None:
    """Write the lease in whole seconds, rounded down so as not to overestimate it. `acts_as`: the uid that the
    manager sees."""
    uid = os.getuid() if acts_as is None else acts_as
    write_beside(real(path), f"{int(until_s)} {','.join(partitions)} {uid}\n".encode())


def read_lease(path: Path) -> Lease | None:
    """Read the lease; None if it never existed or cannot be read."""
    try:
        until, partitions, _ = read_beside(real(path)).decode().split()
        return Lease(float(until), tuple(partitions.split(",")))
    except (OSError, ValueError):
        return None


def real(path: Path) -> Path:
    """Return where the lease is: the file itself, or the target of the link."""
    try:
        return path.parent / os.readlink(path)
    except OSError:
        return path


def may_hold(path: Path, now_s: float) -> bool:
    """Return whether jobs may be held for us: the lease runs, and the kill switch was not used."""
    lease = read_lease(path)
    return lease is not None and lease.runs(now_s) and not switch_file(path).exists()


def switch_file(path: Path) -> Path:
    """Return the path of the kill switch."""
    return _beside(path, "off")


def lift_switch(path: Path, before_s: float) -> None:
    """Remove a kill switch that was used before this instant."""
    switch = switch_file(path)
    with contextlib.suppress(FileNotFoundError):
        if switch.stat().st_mtime <= before_s:
            switch.unlink()


def watch_file(path: Path) -> Path:
    """Return the file that the watchdog locks for as long as it lives."""
    return _beside(path, "watchdog")


def threshold_file(path: Path) -> Path:
    """Return the file with address and program of the threshold, for processes that take submissions. No secret."""
    return _beside(path, "threshold")


def fuse_file(path: Path) -> Path:
    """Return the path of the file of fuses."""
    return _beside(path, "fuses")


def _beside(path: Path, kind: str) -> Path:
    path = real(path)
    return path.with_name(f"{path.name}.{kind}")


def read_beside(path: Path) -> bytes:
    """Read a plain file of a bounded size; raise OSError otherwise."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        known = os.fstat(descriptor)
        if not stat.S_ISREG(known.st_mode) or known.st_size > MOST_BYTES:
            raise OSError(f"{path} is not a plain file of at most {MOST_BYTES} bytes")
        return stream.read(MOST_BYTES)


def write_beside(path: Path, content: bytes) -> None:
    """Write a file whole or not at all; InputError if that fails. Root gives it to the owner of the folder."""
    temporary = f".{path.name}.{secrets.token_hex(6)}.part"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _write_in(folder, temporary, path.name, content)
        finally:
            os.close(folder)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be written: {reason}", str(path), "choose a folder you may write to") from error


def _write_in(folder: int, temporary: str, name: str, content: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=folder)
    try:
        with open(descriptor, "wb") as stream:
            stream.write(content)
            os.fchmod(descriptor, 0o644)
            owner = os.fstat(folder)
            if os.geteuid() == 0 and owner.st_uid != 0:
                os.fchown(descriptor, owner.st_uid, owner.st_gid)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise


def open_closed(path: Path) -> IO[bytes]:
    """Open a file beside the lease for appending. Other accounts cannot open it, so they cannot lock it."""
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    if os.fstat(descriptor).st_mode & 0o077:
        os.fchmod(descriptor, 0o600)  # an earlier version may have made it with another mode
    return os.fdopen(descriptor, "ab")
