"""Whoever uses a controller's place alone holds its lock: a controller for as long as it lives, a restore while it
writes. The operating system lets go of it however the holder ends."""

from __future__ import annotations

import fcntl
from pathlib import Path
from typing import IO

from cohabit.model.errors import InputError


def only_one(place: Path) -> IO[bytes]:
    """Held until it is closed or the process ends."""
    try:
        place.mkdir(parents=True, exist_ok=True)
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
