"""The account of a controller started by root: the one named in the site file, else a free uid of its own.

A free uid is taken from the range that systemd uses for DynamicUser, has no name, and is stored in the place.
"""

from __future__ import annotations

import grp
import hashlib
import os
import pwd
from pathlib import Path
from typing import NamedTuple

from cohabit.model.errors import InputError

FREE = range(61184, 65520)
KEPT = "account"  # file in the place


class Account(NamedTuple):
    """The account the controller runs as."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str = ""  # "": a uid without a name


def find(name: str) -> Account | None:
    """Return an account of this machine; None: there is none of this name."""
    try:
        known = pwd.getpwnam(name)
    except KeyError:
        return None
    if known.pw_uid == 0:
        raise InputError(f"account {name} is root", "launcher.account", "name an ordinary account, or use --as-root")
    return Account(known.pw_uid, known.pw_gid, tuple(os.getgrouplist(name, known.pw_gid)), name)


def take_free_uid(place: Path) -> Account:
    """Return the uid stored in the place; choose one the first time."""
    kept = place / KEPT
    try:
        number = int(kept.read_text())
    except (FileNotFoundError, ValueError):
        number = _choose(place)
        kept.write_text(f"{number}\n")
        kept.chmod(0o644)
    if number not in FREE or _is_named(number):
        raise InputError(f"uid {number} belongs to an account now", str(kept), "stop the scheduler and remove the file")
    return Account(number, number, (number,))


def _choose(place: Path) -> int:
    """Choose the same uid for a place every time, unless it is taken."""
    first = int.from_bytes(hashlib.sha256(os.fsencode(place)).digest()[:4], "big") % len(FREE)
    used = {os.stat(one).st_uid for one in Path("/proc").iterdir() if one.name.isdigit() and one.exists()}
    for step in range(len(FREE)):
        number = FREE[(first + step) % len(FREE)]
        if number not in used and not _is_named(number):
            return number
    raise InputError("no uid is free", f"{FREE[0]} to {FREE[-1]}", "make an account: useradd --system cohabit")


def _is_named(number: int) -> bool:
    for look in (pwd.getpwuid, grp.getgrgid):
        try:
            look(number)
        except KeyError:
            continue
        return True
    return False
