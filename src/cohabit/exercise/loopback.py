"""Bytes through a TCP connection of the machine to itself: the network stack without a network."""

from __future__ import annotations

import socket
import threading

from cohabit.exercise.catalogue import Exercise

PIECE = 1 << 16


class Loopback(Exercise):
    """One end sends, the other counts and answers with one byte per round."""

    def __init__(self, size_bytes: int) -> None:
        self.pieces = max(1, size_bytes // PIECE)
        self.piece = bytes(range(256)) * (PIECE // 256)
        with socket.create_server(("127.0.0.1", 0)) as door:
            self.sender = socket.create_connection(door.getsockname())
            self.receiver, _ = door.accept()
        self.other_end = threading.Thread(target=self._receive, daemon=True)
        self.other_end.start()

    def work(self) -> int:
        """Send the pieces and wait until all have arrived."""
        for _ in range(self.pieces):
            self.sender.sendall(self.piece)
        assert self.sender.recv(1) == b"."
        return self.pieces * PIECE

    def close(self) -> None:
        """Close both ends; the other end's thread ends with its connection."""
        self.sender.close()
        self.other_end.join()
        self.receiver.close()

    def _receive(self) -> None:
        room, due = bytearray(PIECE), self.pieces * PIECE
        while count := self.receiver.recv_into(room):
            self.sum += count
            due -= count
            if due == 0:
                due = self.pieces * PIECE
                self.receiver.sendall(b".")
