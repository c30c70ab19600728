"""Whoever uses a controller's place alone holds its lock: a controller for as long as it lives, a restore while it
writes. The operating system lets go of it however the holder ends.

What is in a place says what runs as whom; so nobody else may be able to put files there or to exchange them.
"""

from __future__ import annotations

import fcntl
import os
import stat
from pathlib import Path
from typing import IO

from cohabit.model.errors import InputError


def only_one(place: Path) -> IO[bytes]:
    """Held until it is closed or the process ends."""
    try:
        if not place.is_dir():
            place.mkdir(0o755, parents=True, exist_ok=True)
            place.chmod(place.stat().st_mode & ~0o022)  # whatever the umask is
        check_ours(place)
        lock = open(place / "lock", "ab")  # noqa: SIM115
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be used: {reason}", str(place), "choose a folder you may write to") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        raise InputError("another controller uses this folder", str(place), "stop it first") from None
    return lock


def check_ours(place: Path) -> None:
    """Refuse a folder in which others could change what runs as whom."""
    found = place.stat()
    if found.st_uid not in (0, os.geteuid()):
        raise InputError(f"belongs to user {found.st_uid}, who could change what runs as whom", str(place),
                         "choose a folder of your own, or chown it")  # fmt: skip
    if found.st_mode & stat.S_IWOTH:
        raise InputError("everybody may write there, and so change what runs as whom", str(place),
                         "choose a folder of your own, such as one below it")  # fmt: skip
