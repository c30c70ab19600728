"""Messages between controller and launcher: one JSON document per datagram, with file descriptors.

The channel is a pair of SOCK_SEQPACKET sockets, so several processes can write to one end and no message is ever split.
A document that is too large for a datagram is sent in memory behind a descriptor.
"""

from __future__ import annotations

import json
import os
import socket
import stat
from array import array
from collections.abc import Sequence
from typing import Any

DATAGRAM_MOST = 64 << 10
MESSAGE_MOST = 16 << 20
DESCRIPTORS_MOST = 4
_IN_MEMORY = b"*"
# Plain numbers: joining flags of `socket` with | makes an enum, which costs more than sending a message.
_SEND, _RECEIVE, _AT_ONCE = int(socket.MSG_NOSIGNAL), int(socket.MSG_CMSG_CLOEXEC), int(socket.MSG_DONTWAIT)
_CUT = int(socket.MSG_TRUNC | socket.MSG_CTRUNC)
_SPACE = socket.CMSG_SPACE(DESCRIPTORS_MOST * array("i").itemsize)
_encode = json.JSONEncoder(separators=(",", ":")).encode

Message = dict[str, Any]


class BadMessage(Exception):
    """The received data is not a message."""


def pair() -> tuple[socket.socket, socket.socket]:
    """Return the two ends of a channel; programs do not inherit them."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def send(end: socket.socket, message: Message, descriptors: Sequence[int] = (), wait: bool = True) -> None:
    """Send one message; BlockingIOError if it would have to wait and must not."""
    content = _encode(message).encode()
    flags = _SEND if wait else _SEND | _AT_ONCE
    if len(content) <= DATAGRAM_MOST:
        end.sendmsg([content], _rights(descriptors), flags)
        return
    if len(content) > MESSAGE_MOST:
        raise BadMessage(f"a message of {len(content):,} bytes; at most {MESSAGE_MOST:,} are allowed")
    memory = os.memfd_create("cohabit-message", os.MFD_CLOEXEC)
    try:
        write_all(memory, content)
        end.sendmsg([_IN_MEMORY], _rights((memory, *descriptors)), flags)
    finally:
        os.close(memory)


def receive(end: socket.socket, wait: bool = True) -> tuple[Message, list[int]] | None:
    """Return the next message with its descriptors, which the caller must close; None: the other end is closed."""
    content, ancillary, flags, _ = end.recvmsg(DATAGRAM_MOST, _SPACE, _RECEIVE if wait else _RECEIVE | _AT_ONCE)
    found = array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            found.frombytes(data[: len(data) - len(data) % found.itemsize])
    descriptors = list(found)
    if not content and not descriptors:
        return None
    try:
        if flags & _CUT:
            raise BadMessage("a message was cut")
        if content == _IN_MEMORY:
            if not descriptors:
                raise BadMessage("a message without its content")
            content = _read(descriptors[0])
            os.close(descriptors.pop(0))
        message = json.loads(content)
        if not isinstance(message, dict):
            raise BadMessage("a message that is not a table")
    except (ValueError, OSError, RecursionError, BadMessage) as error:
        close(descriptors)
        raise error if isinstance(error, BadMessage) else BadMessage(str(error)) from error
    return message, descriptors


def close(descriptors: Sequence[int]) -> None:
    for one in descriptors:
        os.close(one)


def write_all(descriptor: int, content: bytes) -> None:
    """Write everything, in as many calls as it takes."""
    view = memoryview(content)
    while view:
        view = view[os.write(descriptor, view) :]


def _read(memory: int) -> bytes:
    known = os.fstat(memory)
    if not stat.S_ISREG(known.st_mode) or known.st_size > MESSAGE_MOST:
        raise BadMessage("a message in something that is not memory, or too large")
    return os.pread(memory, known.st_size, 0)


def _rights(descriptors: Sequence[int]) -> list[tuple[int, int, bytes]]:
    return [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array("i", descriptors).tobytes())] if descriptors else []
