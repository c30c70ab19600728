"""Files of a run that must be writable on a full disk: their blocks are on the disk before the run begins.

Standard library only: the runner of a job uses it, started by path. A spare is a file of one block; where the disk is
full it becomes the draft of the file it is kept for, is written over in place, and needs nothing more of the disk.
"""

from __future__ import annotations

import errno
import os

KEPT_FOR = ("stop", "ended")  # an order to stop, and how the run ended
FULL = (errno.ENOSPC, errno.EDQUOT)
BLOCK = 4096


def keep(folder: str) -> None:
    """Make the spares of a run's folder."""
    for name in KEPT_FOR:
        with open(os.open(_spare(folder, name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
            stream.write(b" " * BLOCK)


def write_draft(folder: str, name: str, content: bytes, durable: bool = False) -> str:
    """A draft of the file `name` in this folder, with the spare kept for it if the disk is full; its path."""
    draft = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        _write(draft, os.O_CREAT | os.O_TRUNC, content, durable)
    except OSError as error:
        if error.errno not in FULL or len(content) > BLOCK or not os.path.exists(_spare(folder, name)):
            raise
        os.rename(_spare(folder, name), draft)
        _write(draft, 0, content, durable)
    return draft


def _write(path: str, flags: int, content: bytes, durable: bool) -> None:
    with open(os.open(path, os.O_WRONLY | os.O_CLOEXEC | flags, 0o644), "wb", buffering=0) as stream:
        stream.write(content)
        stream.truncate(len(content))
        if durable:
            os.fsync(stream.fileno())


def _spare(folder: str, name: str) -> str:
    return os.path.join(folder, f"spare.{name}")
