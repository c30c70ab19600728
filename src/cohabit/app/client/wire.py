"""A minimal HTTP/1.1 client: one request over a connected socket, and its answer whole or in pieces.

`import http.client` takes as long as starting Python does, and every command would pay for it. This module handles
sizes, chunks and closed connections, but no redirects, cookies or compression: a scheduler sends none. What a server
sends is bounded before it is kept, except in `pieces`, where the caller decides what it keeps.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from io import BufferedReader
from typing import cast

PIECE = 65536  # bytes read at once
LARGEST_HEAD = 65536
LARGEST_BODY = 1 << 30
_NO_BODY = (204, 304)


class Garbled(Exception):
    """The input is not an HTTP answer, or an incomplete one."""


class Link:
    """A connected socket. The next request may follow after the last answer has been read to its end."""

    def __init__(self, sock: socket.socket, host: str) -> None:
        self.sock, self._host = sock, host
        self._stream = cast(BufferedReader, sock.makefile("rb", PIECE))

    def ask(
        self, method: str, target: str, body: bytes | None, headers: Mapping[str, str], last: bool = True
    ) -> Answer:
        """Send a request and read the head of its answer. `last`: the server may close the connection afterwards."""
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self._host}", "Accept: */*"]
        lines += [f"{name}: {value}" for name, value in headers.items()]
        lines += [] if body is None else [f"Content-Length: {len(body)}"]
        lines += ["Connection: close"] if last else []
        self.sock.sendall("\r\n".join([*lines, "", ""]).encode("latin-1") + (body or b""))
        while True:
            status, told = self._head()
            if status >= 200:  # lower ones are interim responses
                return Answer(status, told, self._stream)

    def close(self) -> None:
        """Close both directions."""
        self._stream.close()
        self.sock.close()

    def _head(self) -> tuple[int, dict[str, str]]:
        left = LARGEST_HEAD
        lines: list[str] = []
        while not lines or lines[-1]:
            line = self._stream.readline(left)
            left -= len(line)
            if not line.endswith(b"\n"):
                raise Garbled("the head of the answer is not whole, or too long")
            lines.append(line.decode("latin-1").rstrip("\r\n"))
        version, _, rest = lines[0].partition(" ")
        if not version.startswith("HTTP/1.") or not (rest[:3].isascii() and rest[:3].isdigit()):
            raise Garbled("not an answer in HTTP")
        told: dict[str, str] = {}
        for header in lines[1:-1]:
            name, _, value = header.partition(":")
            name, value = name.strip().lower(), value.strip()
            if name == "content-length" and told.get(name, value) != value:
                raise Garbled("two lengths")
            told[name] = value
        return int(rest[:3]), told


class Answer:
    """The status, and a body that is read once: `body` or `pieces`."""

    def __init__(self, status: int, told: Mapping[str, str], stream: BufferedReader) -> None:
        self.status = status
        self._stream = stream
        self._chunked = told.get("transfer-encoding", "").lower() == "chunked"
        length = told.get("content-length", "0" if status in _NO_BODY else "")
        if length and not (length.isascii() and length.isdigit() and len(length) <= 18):
            raise Garbled("the length is not a number")
        self._length = int(length) if length else None

    def body(self) -> bytes:
        """Return the whole body."""
        found, size = [], 0
        for piece in self.pieces():
            found.append(piece)
            size += len(piece)
            if size > LARGEST_BODY:
                raise Garbled("the answer is too long")
        return b"".join(found)

    def pieces(self) -> Iterator[bytes]:
        """Yield the body as it arrives."""
        if self._chunked:
            yield from self._chunks()
        elif self._length is not None:
            yield from self._exactly(self._length)
        else:
            while piece := self._stream.read1(PIECE):
                yield piece

    def _chunks(self) -> Iterator[bytes]:
        while size := self._chunk_size():
            yield from self._exactly(size)
            if self._line():
                raise Garbled("a chunk is longer than it said")
        while self._line():  # trailers, which are ignored
            pass

    def _chunk_size(self) -> int:
        digits = self._line().partition(b";")[0].strip()
        try:
            if digits.isalnum() and len(digits) <= 15:  # int() would also take signs and underscores
                return int(digits, 16)
        except ValueError:
            pass
        raise Garbled("the size of a chunk is not a number")

    def _line(self) -> bytes:
        line = self._stream.readline(LARGEST_HEAD)
        if not line.endswith(b"\n"):
            raise Garbled("the answer ends early")
        return line.rstrip(b"\r\n")

    def _exactly(self, size: int) -> Iterator[bytes]:
        while size:
            piece = self._stream.read1(min(size, PIECE))
            if not piece:
                raise Garbled("the answer ends early")
            size -= len(piece)
            yield piece
