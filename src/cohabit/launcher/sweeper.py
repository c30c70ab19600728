"""Removes the folders of settled runs, in a process of its own: what was written a moment ago is removed only when the
disk has taken it, and a job may have left any number of files. What it does not get to, the next launcher removes."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
from collections import deque
from collections.abc import Callable

from cohabit.launcher import wire


class Sweeper:
    """Of one launcher. `close_others` closes what a child must not keep."""

    def __init__(self, close_others: Callable[[], None]) -> None:
        self._close_others = close_others
        self.end: socket.socket | None = None
        self.waiting: deque[str] = deque()

    def remove(self, path: str) -> None:
        """Have a folder removed, some time."""
        self.waiting.append(path)
        self.flush()

    def flush(self) -> None:
        """What could not be handed over before. One that was killed is followed by another."""
        while self.waiting:
            try:
                if self.end is None:
                    self.end = self._fork()
                wire.send(self.end, {"remove": self.waiting[0]}, wait=False)
            except BlockingIOError:
                return
            except OSError:
                if self.end is None:
                    return  # there are too many processes
                self.end.close()
                self.end = None
            else:
                self.waiting.popleft()

    def _fork(self) -> socket.socket:
        ours, theirs = wire.pair()
        if os.fork() == 0:
            try:
                os.setsid()
                ours.close()
                self._close_others()
                with contextlib.suppress(ConnectionError):
                    while (found := wire.receive(theirs)) is not None:
                        _remove(found[0]["remove"])
            finally:
                os._exit(0)
        theirs.close()
        return ours


def _remove(path: str) -> None:
    """Most have a few files of ours and an empty folder of the job's."""
    with contextlib.suppress(OSError):
        for entry in os.scandir(path):
            if entry.is_dir(follow_symlinks=False):
                os.rmdir(entry.path)
            else:
                os.unlink(entry.path)
        os.rmdir(path)
        return
    shutil.rmtree(path, ignore_errors=True)
