"""Opening a job's output: the file the server knows, with the rights of the user the job ran as, and nothing else.

A root server could read everything, so it looks at the file system as that user while it opens the file. The kernel
keeps this (fsuid, fsgid, groups) per thread: it is done in a thread of its own that ends right after. What is opened
must be a plain file; a pipe or a device would block or act.
"""

from __future__ import annotations

import ctypes
import os
import platform
import stat
import threading
from collections.abc import Callable

from cohabit.live.api.credentials import Account

_SETGROUPS = {"x86_64": 116, "aarch64": 159, "ppc64le": 81, "s390x": 206, "riscv64": 159}
_FLAGS = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY


class CannotOpen(Exception):
    """The text says why."""


def open_own(path: str) -> int:
    """A file in a folder of the server: no link is followed."""
    return _plain(path, _FLAGS | os.O_NOFOLLOW)


def open_as(path: str, account: Account) -> int:
    """A file a user named, as far as that user may read it."""
    if os.geteuid() == account.uid or os.geteuid() != 0:
        return _plain(path, _FLAGS)
    return _in_thread(lambda: _with_rights(path, account))


def _with_rights(path: str, account: Account) -> int:
    system = ctypes.CDLL(None, use_errno=True)
    number = _SETGROUPS.get(platform.machine())
    if number is None:
        raise CannotOpen("this kind of machine is not known well enough to read files as another user")
    groups = (ctypes.c_uint32 * max(len(account.groups), 1))(*account.groups)
    if system.syscall(number, len(account.groups), groups) != 0:  # this thread only, unlike the library's setgroups
        raise CannotOpen("the server may not take on the rights of the job's user")
    system.setfsgid(account.gid)
    system.setfsuid(account.uid)
    if system.setfsuid(-1) != account.uid or system.setfsgid(-1) != account.gid:
        raise CannotOpen("the server may not take on the rights of the job's user")
    return _plain(path, _FLAGS)


def _in_thread(work: Callable[[], int]) -> int:
    result: list[int | BaseException] = []

    def run() -> None:
        try:
            result.append(work())
        except BaseException as error:
            result.append(error)

    thread = threading.Thread(target=run, name="as another user")
    thread.start()
    thread.join()
    if isinstance(result[0], BaseException):
        raise result[0]
    return result[0]


def _plain(path: str, flags: int) -> int:
    try:
        descriptor = os.open(path, flags)
    except (OSError, ValueError) as error:
        reason = (error.strerror or str(error)).lower() if isinstance(error, OSError) else "its name cannot be used"
        raise CannotOpen(reason) from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise CannotOpen("it is not a plain file")
    return descriptor
