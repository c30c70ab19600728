"""Remove the folders of settled runs in a separate process: recently written files are removed only when the disk has
taken them, and a job may have left any number of files. The next launcher removes what is left."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from collections.abc import Callable

from cohabit.launcher import wire
from cohabit.launcher.clearing import clear


class Sweeper:
    """The sweeper of one launcher. `close_others` closes what a child must not keep."""

    def __init__(self, close_others: Callable[[], None]) -> None:
        self._close_others = close_others
        self.end: socket.socket | None = None
        self.waiting: deque[str] = deque()

    def remove(self, path: str) -> None:
        """Have a folder removed at some time."""
        self.waiting.append(path)
        self.flush()

    def flush(self) -> None:
        """Hand over paths that could not be handed over before. A killed process is replaced."""
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
                        clear(found[0]["remove"])
            finally:
                os._exit(0)
        theirs.close()
        return ours
