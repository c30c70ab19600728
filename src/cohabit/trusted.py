"""Check that a file may be executed, loaded or obeyed: only root and this process's own account can change it.

A file is trusted if every folder and link on the way to it, and the file itself, belongs to root or to this account and
cannot be written by others. A folder with the sticky bit (/tmp) may be on the way: a file in it can be replaced only
by its owner. A private group (named like its user, without other members) counts as its user: umask 0002 is usual.

Standard library only: kept_code.py asks before it loads machine code. This module opens nothing and changes nothing.
"""

from __future__ import annotations

import errno
import grp
import os
import pwd
import stat
from collections import deque
from collections.abc import Collection, Iterator
from typing import NamedTuple

MOST_LINKS = 40
ACL = "system.posix_acl_access"
OVERFLOW_UID = 65534  # stands for every account that a user namespace does not have


class Doubt(NamedTuple):
    """The reason why a file is not trusted: the arguments of an InputError."""

    what: str
    where: str
    fix: str


def doubt_of(path: str | os.PathLike[str], *, also: Collection[int] = (), closed: int = 0) -> Doubt | None:
    """Return why this file or folder is not trusted; None: it is, or there is no such file.

    `also`: further accounts (uids) that may own it and what leads to it. `closed`: bits of its mode that must not be
    set, such as 0o077 for a secret.
    """
    asked, owners = os.fspath(path), _owners(also)
    try:
        for at, found in _way_to(asked):
            if doubt := _doubt_at(at, found, owners, asked, passed=True):
                return doubt
    except OSError as error:
        if os.path.exists(asked):
            return Doubt(f"cannot be checked: {(error.strerror or str(error)).lower()}", asked, "use a plain path")
        return None  # opening it will report why it cannot be used
    if doubt := _doubt_at(at, found, owners, asked):
        return doubt
    if found.st_mode & closed:
        return Doubt("others may read it", asked, f"chmod {stat.S_IMODE(found.st_mode) & ~closed:o} {asked}")
    return None


def doubt_in(folder: str | os.PathLike[str]) -> Doubt | None:
    """The same for a folder and everything below it; links below it are not trusted."""
    if doubt := doubt_of(folder):
        return doubt
    owners, waiting = _owners(()), [os.fspath(folder)]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except OSError:
            continue  # it is gone, or not to be read: nothing is loaded from it
        for one in entries:
            try:
                found = one.stat(follow_symlinks=False)
            except OSError:
                continue
            if stat.S_ISLNK(found.st_mode):
                return Doubt("is a link", one.path, "remove it")
            if doubt := _doubt_at(one.path, found, owners, one.path):
                return doubt
            if stat.S_ISDIR(found.st_mode):
                waiting.append(one.path)
    return None


def _way_to(path: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every folder and link that the kernel passes on the way to it, then the file itself, not a link any more."""
    here, links = "/", 0
    todo = deque(os.path.join(os.getcwd(), path).split("/"))
    yield here, os.lstat(here)
    while todo:
        name = todo.popleft()
        if name in ("", "."):
            continue
        if name == "..":
            here = os.path.dirname(here)
            continue
        at = os.path.join(here, name)
        found = os.lstat(at)
        yield at, found
        if not stat.S_ISLNK(found.st_mode):
            here = at
            continue
        links += 1
        if links > MOST_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
        target = os.readlink(at)
        here = "/" if target.startswith("/") else here
        todo.extendleft(reversed(target.split("/")))
    yield here, os.lstat(here)


def _doubt_at(
    at: str, found: os.stat_result, owners: Collection[int], asked: str, passed: bool = False
) -> Doubt | None:
    """Return the doubt about one file, folder or link; `passed`: it only leads to the file in question."""
    about = "" if at == os.path.normpath(os.path.join(os.getcwd(), asked)) else f"{at}, on the way to it, "
    if found.st_uid not in owners:
        fix = "use one that belongs to you or to root"
        return Doubt(f"{about}belongs to {_named(found.st_uid)}, who could change it", asked, fix)
    if stat.S_ISLNK(found.st_mode) or (passed and found.st_mode & stat.S_ISVTX):
        return None
    if found.st_mode & stat.S_IWOTH:
        fix = "choose a folder below it" if found.st_mode & stat.S_ISVTX else f"chmod go-w {at}"
        return Doubt(f"{about}is open: every account may write to it", asked, fix)
    if found.st_mode & stat.S_IWGRP and not _is_private(at, found):
        return Doubt(f"{about}is open: group {_group(found.st_gid)} may write to it", asked, f"chmod g-w {at}")
    return None


def _owners(also: Collection[int]) -> set[int]:
    """The accounts whose files are trusted."""
    owners = {0, os.geteuid(), *also}
    if not _is_mapped(OVERFLOW_UID):
        owners.add(OVERFLOW_UID)  # the machine's own folders, seen from a user namespace
    return owners


def _is_mapped(uid: int) -> bool:
    try:
        with open("/proc/self/uid_map") as stream:
            spans = [tuple(map(int, line.split())) for line in stream]
    except (OSError, ValueError):
        return True
    return any(first <= uid < first + count for first, _, count in spans)


def _is_private(at: str, found: os.stat_result) -> bool:
    """Return whether the group is that of its owner or of us alone, and no access list says more than the mode."""
    try:
        os.getxattr(at, ACL, follow_symlinks=False)
        return False
    except OSError:
        pass
    return any(_is_own_group(found.st_gid, uid) for uid in (found.st_uid, os.geteuid()))


def _is_own_group(gid: int, uid: int) -> bool:
    try:
        user, group = pwd.getpwuid(uid), grp.getgrgid(gid)
    except KeyError:
        return False
    if user.pw_gid != gid or group.gr_name != user.pw_name or set(group.gr_mem) - {user.pw_name}:
        return False
    return all(one.pw_uid == uid or one.pw_gid != gid for one in pwd.getpwall())


def _named(uid: int) -> str:
    try:
        return f"user {pwd.getpwuid(uid).pw_name}"
    except KeyError:
        return f"user {uid}"


def _group(gid: int) -> str:
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)
