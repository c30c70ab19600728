"""Remove folders in which users may have left anything: any number of files, and folders inside folders to any depth.

It walks with one open folder, so neither the depth of a tree nor the length of a path matters. Each folder is taken
from its owner before it is emptied: then it cannot be moved, and the way up is the way it came. No link is followed.
"""

from __future__ import annotations

import contextlib
import os

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def clear(path: str, dir_fd: int | None = None) -> None:
    """Remove a folder with all that is in it; what cannot be removed stays, and is no error."""
    with contextlib.suppress(OSError):
        _clear(os.open(path, _FOLDER, dir_fd=dir_fd))
        os.rmdir(path, dir_fd=dir_fd)


def _clear(here: int) -> None:
    """Empty an open folder, and close it."""
    way: list[tuple[str, tuple[int, int]]] = []  # from the top: a folder's name in the one above, and which that is
    try:
        left = [_empty(here)]  # of each folder on the way: the folders in it that are still to be removed
        while left[-1] or way:
            if left[-1]:
                name = left[-1].pop()
                with contextlib.suppress(OSError):
                    below = os.open(name, _FOLDER, dir_fd=here)
                    way.append((name, _which(here)))
                    here = _go(here, below)
                    left.append(_empty(here))
            else:
                left.pop()
                name, above = way.pop()
                here = _go(here, os.open("..", _FOLDER, dir_fd=here))
                if _which(here) != above:
                    return
                with contextlib.suppress(OSError):
                    os.rmdir(name, dir_fd=here)
    finally:
        os.close(here)


def _go(here: int, there: int) -> int:
    os.close(here)
    return there


def _which(folder: int) -> tuple[int, int]:
    known = os.fstat(folder)
    return known.st_dev, known.st_ino


def _empty(folder: int) -> list[str]:
    """Take a folder from its owner and unlink all but the folders in it; return their names."""
    with contextlib.suppress(PermissionError):
        os.fchown(folder, os.geteuid(), os.getegid())
        os.fchmod(folder, 0o700)
    folders: list[str] = []
    with contextlib.suppress(OSError), os.scandir(folder) as entries:
        for one in entries:
            with contextlib.suppress(OSError):
                if one.is_dir(follow_symlinks=False):
                    folders.append(one.name)
                else:
                    os.unlink(one.name, dir_fd=folder)
    return folders
