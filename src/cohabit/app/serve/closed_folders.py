"""Give an account access to what it needs inside folders that are closed to it, such as a Python in root's home.

The process gets its own mount namespace, in which a closed folder is empty except for what is needed; other processes
see no difference. It needs root and the right to mount, which some containers do not have.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from cohabit.model.errors import InputError

CLONE_NEWNS = 0x20000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 1, 2, 4, 32, 4096, 16384, 1 << 18
DEPTH = 8  # maximum nesting of closed folders


def open_ways(needed: Iterable[Path], uid: int, groups: Sequence[int]) -> None:
    """Let this process reach these folders as that account; raise one sentence if that is impossible."""
    wanted = sorted({Path(os.path.realpath(one)) for one in needed if one.is_dir()})
    own_table = False
    for _ in range(DEPTH):
        closed: dict[Path, list[Path]] = {}
        for path in wanted:
            if (top := closed_at(path, uid, groups)) is not None:
                closed.setdefault(top, []).append(path)
        if not closed:
            return
        try:
            if not own_table:
                _own_table()
                own_table = True
            for top, paths in closed.items():
                _cover(top, paths)
        except OSError as error:
            raise _refusal(next(iter(closed)), uid, (error.strerror or str(error)).lower()) from error
    raise _refusal(next(iter(closed)), uid, "it is closed itself")


def closed_at(path: Path, uid: int, groups: Sequence[int]) -> Path | None:
    """Return the first folder on the path that this account cannot enter; None: the path is open."""
    for one in (*reversed(path.parents), path):
        found = one.stat()
        shift = 6 if found.st_uid == uid else 3 if found.st_gid in groups else 0
        if not found.st_mode >> shift & stat.S_IXOTH:
            return one
    return None


def _own_table() -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNS) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    _mount("none", "/", "", MS_REC | MS_PRIVATE)


def _cover(top: Path, paths: Sequence[Path]) -> None:
    """Mount an empty folder over a closed one, with what is needed in it."""
    if top in paths:
        raise PermissionError(13, "it is closed itself")
    opened = {path: os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC) for path in paths}
    _mount("tmpfs", str(top), "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755,size=64k")
    for path, descriptor in opened.items():
        path.mkdir(0o755, parents=True, exist_ok=True)
        for one in path.relative_to(top).parents:
            (top / one).chmod(0o755)
        _mount(f"/proc/self/fd/{descriptor}", str(path), "", MS_BIND | MS_REC)
        os.close(descriptor)
    _mount("tmpfs", str(top), "tmpfs", MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV, "mode=0755,size=64k")


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    words = (source.encode(), target.encode(), kind.encode() or None)
    if libc.mount(*words, ctypes.c_ulong(flags), options.encode() or None) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), target)


def _refusal(closed: Path, uid: int, reason: str) -> InputError:
    return InputError(
        f"account {uid} cannot pass it, and the controller needs what is in there ({reason})",
        str(closed),
        "install cohabit where every account can read it, such as /opt/cohabit, or start it with --as-root",
    )
