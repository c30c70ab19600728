"""Waiting for a distant store: a piece is asked for, comes after a fixed while, and is summed; the core is idle."""

from __future__ import annotations

import socket
import threading
import time
import zlib

from cohabit.exercise.catalogue import Exercise

ANSWER_S = 0.02  # as from another site, or a busy object store
PIECES = 16  # of the size


class Remote(Exercise):
    """One end asks and works; the other plays the store in a thread."""

    def __init__(self, size_bytes: int) -> None:
        self.piece = (bytes(range(256)) * (size_bytes // PIECES // 256 + 1))[: max(1, size_bytes // PIECES)]
        self.asking, self.store = socket.socketpair()
        self.room = bytearray(len(self.piece))
        self.other_end = threading.Thread(target=self._answer, daemon=True)
        self.other_end.start()

    def work(self) -> int:
        """Ask for a piece, wait for all of it, sum it."""
        self.asking.sendall(b"?")
        view = memoryview(self.room)
        while view:
            view = view[self.asking.recv_into(view) :]
        self.sum = zlib.crc32(self.room, self.sum)
        return len(self.room)

    def close(self) -> None:
        """Close both ends; the store's thread ends with its connection."""
        self.asking.close()
        self.other_end.join()
        self.store.close()

    def _answer(self) -> None:
        while self.store.recv(1):
            time.sleep(ANSWER_S)
            self.store.sendall(self.piece)
