"""Moves old places into the present form: files of the place into its private folder, and root's old default place.

A kill at any instant leaves a place with which the next start goes on: every file is moved by one rename, and the old
lock, which keeps an old controller away, is moved last. Nothing is moved while a controller runs.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import stat
from pathlib import Path

from cohabit import trusted
from cohabit.live.controller.place import JOURNAL, KEPT, LOCK, PRIVATE, SITE, Place, find_journal, make_folder, take
from cohabit.model.errors import InputError

_DRAFT = re.compile(rf"\.({'|'.join(map(re.escape, KEPT))})\.\d+\.part(-wal|-shm|-journal)?")
log = logging.getLogger(__name__)


def move_into_private(place: Place, top: int, private: int, owner: tuple[int, int]) -> None:
    """Move what an earlier version kept in the place itself; `top`, `private`: descriptors of the two folders."""
    if not _left(top):
        return
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(LOCK, flags, 0o600, dir_fd=top), "ab") as lock:
        take(lock, place.root)
        left = _left(top)
        for name in left:
            _check(place, name, top, private, owner)
        for name in left:
            _move(name, top, private, owner)
        for folder in (private, top):
            os.fsync(folder)
    if left:
        log.warning(
            "%d files of %s were moved to %s: other accounts could read them before",
            len(left),
            place.root,
            place.private,
        )


def _left(top: int) -> list[str]:
    """Return the files that are still to be moved, in the order of moving; drafts of files are removed."""
    there = set(os.listdir(top))
    for name in there:
        if _DRAFT.fullmatch(name):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(name, dir_fd=top)
    return [name for name in KEPT if name in there]


def _check(place: Place, name: str, top: int, private: int, owner: tuple[int, int]) -> None:
    """Refuse to move what is not a plain file of ours, or what would replace a file."""
    found = os.stat(name, dir_fd=top, follow_symlinks=False)
    if not stat.S_ISREG(found.st_mode):
        raise InputError("is not a plain file", str(place.root / name), "move it away")
    if found.st_uid not in (0, os.geteuid(), owner[0]):
        raise InputError(f"belongs to user {found.st_uid}", str(place.root / name), "move it away, or chown it")
    if name != LOCK and _exists(name, private):
        raise InputError(f"is there, and {place.private / name}, too", str(place.root / name), "move one of them away")


def _exists(name: str, folder: int) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _move(name: str, top: int, private: int, owner: tuple[int, int]) -> None:
    """Close a file to others, then give it to the owner, then move it."""
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=top)
    try:
        os.fchmod(file, 0o600)
        if os.fstat(file).st_uid != owner[0]:
            os.fchown(file, *owner)
        os.fsync(file)
    finally:
        os.close(file)
    if name == LOCK and _exists(LOCK, private):
        os.unlink(LOCK, dir_fd=top)  # a controller may hold the other one
    else:
        os.rename(name, name, src_dir_fd=top, dst_dir_fd=private)


# ---- root's default place -------------------------------------------------------------------------------------------


def move_whole(old: Path, new: Path) -> bool:
    """Move a place to another folder; return whether that was done. Unsettled runs forbid it: they know its path.

    Nothing is done where `new` is a place already, or `old` is none of ours.
    """
    if any((new / name).exists() for name in (SITE, JOURNAL, PRIVATE)) or trusted.doubt_of(old) is not None:
        return False
    if not find_journal(old).exists():
        return False
    runs = sorted(os.listdir(old / "runs")) if (old / "runs").is_dir() else []
    if runs:
        raise InputError(
            f"the scheduler's place was here and is now {new}, and {len(runs)} runs are not over",
            str(old),
            f"run `cohabit up --until-idle --place {old}` first",
        )
    try:
        with contextlib.ExitStack() as held:
            for lock in (Place(old).lock, old / LOCK):
                if lock.exists():
                    take(held.enter_context(open(lock, "ab")), old)
            make_folder(new.parent)
            if new.is_dir():
                new.rmdir()  # only an empty one
            os.rename(old, new)
            new.chmod(0o755)
    except OSError as error:
        said = "it is on another file system" if error.errno == errno.EXDEV else error.strerror or str(error)
        raise InputError(
            f"the scheduler's place was here and cannot be moved to {new}: {said.lower()}",
            str(old),
            f"move it by hand, or name it: --place {old}",
        ) from error
    return True
