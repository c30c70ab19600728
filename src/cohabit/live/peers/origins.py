"""The origin of a connection: the user at the other end if the kernel knows it, else the address.

The kernel knows the user of a UNIX socket (SO_PEERCRED), and of a TCP connection within this machine (sock_diag: the
owner of the socket at the other end). This is for counting and for the audit log. It is not a login over TCP.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import struct
from collections.abc import Callable
from typing import NamedTuple

_CREDENTIALS = "3i"
_NETLINK_SOCK_DIAG, _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST = 4, 20, 1
_HEADER, _REQUEST, _ENDS, _REST = "=IHHII", "=BBBxI", "!HH16s16s", "=III"
_UID_AT = struct.calcsize(_HEADER) + 4 + struct.calcsize(_ENDS) + struct.calcsize(_REST) + 12  # of inet_diag_msg
_ANY = 0xFFFFFFFF


# Writes a refusal to the audit log: what is counted together, action, about what, status, why.
NoteRefusal = Callable[[str, str, str, int, str], None]


def no_note(origin: str, action: str, about: str, status: int, said: str) -> None:
    """Do nothing, where there is no audit log."""


class Peer(NamedTuple):
    """The credentials of the process at the other end of a UNIX socket."""

    pid: int
    uid: int
    gid: int


class Origin(NamedTuple):
    """The other end. `uid` None: another machine, or the kernel does not say."""

    uid: int | None
    address: str  # empty for a UNIX socket

    @property
    def counted(self) -> str:
        """The key for counting: the user, or the address."""
        return self.address if self.uid is None else f"uid {self.uid}"

    def __str__(self) -> str:
        if self.uid is None:
            return self.address
        return f"{self.address} (uid {self.uid})" if self.address else f"uid {self.uid}"


def peer_of(transport: asyncio.BaseTransport) -> Peer:
    """Return the credentials of the process that connected over a UNIX socket."""
    end = transport.get_extra_info("socket")
    content = end.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize(_CREDENTIALS))
    return Peer(*struct.unpack(_CREDENTIALS, content))


def origin_of(transport: asyncio.BaseTransport) -> Origin:
    """Return the user or address at the other end of a connection."""
    end = transport.get_extra_info("socket")
    if end.family == socket.AF_UNIX:
        return Origin(peer_of(transport).uid, "")
    theirs, ours = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
    if not theirs or not ours:
        return Origin(None, "?")
    return Origin(_owner(end.family, theirs, ours), str(theirs[0]))


def _owner(family: int, theirs: tuple[str, int], ours: tuple[str, int]) -> int | None:
    """Return the user of the socket at the other end of a connection within this machine."""
    with contextlib.suppress(OSError, ValueError, struct.error):
        if not ipaddress.ip_address(theirs[0].partition("%")[0]).is_loopback:
            return None
        ends = [socket.inet_pton(family, one[0].partition("%")[0]).ljust(16, b"\0") for one in (theirs, ours)]
        asked = struct.pack(_REQUEST, family, socket.IPPROTO_TCP, 0, _ANY)
        asked += struct.pack(_ENDS, theirs[1], ours[1], *ends) + struct.pack(_REST, 0, _ANY, _ANY)
        head = struct.pack(_HEADER, struct.calcsize(_HEADER) + len(asked), _SOCK_DIAG_BY_FAMILY, _NLM_F_REQUEST, 1, 0)
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _NETLINK_SOCK_DIAG) as kernel:
            kernel.settimeout(0.1)
            kernel.send(head + asked)
            said = kernel.recv(4096)
        if struct.unpack_from(_HEADER, said)[1] == _SOCK_DIAG_BY_FAMILY:
            uid, inode = struct.unpack_from("=II", said, _UID_AT)
            return int(uid) if inode else None  # a closed socket has no owner, and is reported as root's
    return None
