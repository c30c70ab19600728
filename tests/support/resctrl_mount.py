"""The fake resctrl as a real mounted file system: the agent, the launcher and a shell use it like the kernel's.

It speaks the kernel's FUSE protocol itself (/dev/fuse, no library), from a thread, and needs the right to mount. Every
request goes to the same verbs that tests call directly, and errors come back as the kernel's. Nothing is cached.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support.resctrl_faults import Verbs

_HEADER = struct.Struct("<IIQQIIII")  # length, opcode, unique, node, uid, gid, pid, padding
_ANSWER = struct.Struct("<IiQ")
_ATTRIBUTES = struct.Struct("<6Q10I")
_DETACH = 2  # of umount2: also while files are open
_MAX_WRITE = 65536
_FOREVER_IS_NOW = 0  # seconds the kernel may keep an answer
# Opcodes of linux/fuse.h.
_LOOKUP, _FORGET, _GETATTR, _SETATTR, _MKDIR, _RMDIR, _RENAME = 1, 2, 3, 4, 9, 11, 12
_OPEN, _READ, _WRITE, _RELEASE, _FLUSH, _INIT, _OPENDIR, _READDIR, _RELEASEDIR = 14, 15, 16, 18, 25, 26, 27, 28, 29
_INTERRUPT, _DESTROY, _BATCH_FORGET, _RENAME2 = 36, 38, 42, 45
_SILENT = (_FORGET, _BATCH_FORGET, _INTERRUPT)
_DIRECT_IO = 1  # sizes are not known before reading

_libc = ctypes.CDLL(None, use_errno=True)


def can_mount() -> str:
    """Return why this process cannot mount it; empty: it can."""
    if os.geteuid() != 0:
        return "mounting needs root"
    return "" if os.access("/dev/fuse", os.R_OK | os.W_OK) else "there is no /dev/fuse"


@contextmanager
def mounted(verbs: Verbs, place: Path) -> Iterator[Callable[[], None]]:
    """Mount it on an empty folder; the verbs must be rooted there. Gives a function that unmounts it early."""
    device = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other,default_permissions"
    if _libc.mount(b"resctrl", os.fsencode(place), b"fuse.resctrl", 0, options.encode()) != 0:
        number = ctypes.get_errno()
        os.close(device)
        raise OSError(number, os.strerror(number), str(place))

    def unmount() -> None:
        _libc.umount2(os.fsencode(place), _DETACH)

    server = threading.Thread(target=_Server(verbs, place, device).serve, daemon=True)
    server.start()
    try:
        yield unmount
    finally:
        unmount()
        server.join(5.0)
        os.close(device)


class _Server:
    """Answers requests one after another; node numbers stand for paths."""

    def __init__(self, verbs: Verbs, place: Path, device: int) -> None:
        self.verbs, self.device = verbs, device
        self.paths: dict[int, Path] = {1: place}
        self.nodes: dict[Path, int] = {place: 1}

    def serve(self) -> None:
        """Serve requests until it is unmounted."""
        while True:
            try:
                request = os.read(self.device, _MAX_WRITE + 4096)
            except InterruptedError:
                continue
            except OSError:  # ENODEV: unmounted
                return
            length, opcode, unique, node, *_ = _HEADER.unpack_from(request)
            if opcode in _SILENT:
                continue
            try:
                body, error = self._answer(opcode, node, request[_HEADER.size : length]), 0
            except OSError as refusal:
                body, error = b"", refusal.errno or errno.EIO
            except AssertionError:  # a foreign group was touched: the fake has recorded that and goes on
                body, error = b"", errno.EPERM
            try:
                os.write(self.device, _ANSWER.pack(_ANSWER.size + len(body), -error, unique) + body)
            except OSError:  # the caller is gone
                continue

    def _answer(self, opcode: int, node: int, data: bytes) -> bytes:
        if opcode == _INIT:
            return struct.pack("<4I2H2I2HI7I", 7, 31, 0, 0, 12, 9, _MAX_WRITE, 1, 16, 0, 0, *[0] * 7)
        if opcode in (_RELEASE, _RELEASEDIR, _FLUSH, _DESTROY):
            return b""
        path = self.paths[node]
        if opcode in (_LOOKUP, _MKDIR, _RMDIR, _RENAME, _RENAME2):
            return self._change(opcode, path, data)
        if opcode in (_GETATTR, _SETATTR):  # opening for writing sets the size to 0: a command file has none
            return struct.pack("<QII", _FOREVER_IS_NOW, 0, 0) + self._attributes(path)
        if opcode in (_OPEN, _OPENDIR):
            return struct.pack("<QII", 0, _DIRECT_IO, 0)
        if opcode not in (_READ, _WRITE, _READDIR):  # statfs, syncfs and others that a file system may leave out
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        offset, size = struct.unpack_from("<QI", data, 8)
        if opcode == _READ:
            return self.verbs.read(path).encode()[offset : offset + size]
        if opcode == _WRITE:
            self.verbs.write(path, data[40 : 40 + size].decode())
            return struct.pack("<II", size, 0)
        return self._entries(path, offset, size)

    def _change(self, opcode: int, path: Path, data: bytes) -> bytes:
        if opcode in (_RENAME, _RENAME2):
            names = data[8 if opcode == _RENAME else 16 :].split(b"\0")
            folder = self.paths[struct.unpack_from("<Q", data)[0]]
            self.verbs.move(path / os.fsdecode(names[0]), folder / os.fsdecode(names[1]))
            return b""
        name = os.fsdecode((data[8:] if opcode == _MKDIR else data).split(b"\0")[0])
        if opcode == _RMDIR:
            self.verbs.remove(path / name)
            return b""
        if opcode == _MKDIR:
            self.verbs.make(path / name)
        attributes = self._attributes(path / name)
        return struct.pack("<4Q2I", self._node(path / name), 0, _FOREVER_IS_NOW, _FOREVER_IS_NOW, 0, 0) + attributes

    def _attributes(self, path: Path) -> bytes:
        """Return the attributes of a file or folder, if it exists."""
        if path != self.paths[1] and path.name not in self.verbs.names(path.parent):
            raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
        mode = stat.S_IFDIR | 0o755 if self._is_folder(path) else stat.S_IFREG | 0o644
        return _ATTRIBUTES.pack(self._node(path), 0, 0, 0, 0, 0, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)

    def _is_folder(self, path: Path) -> bool:
        try:
            self.verbs.names(path)
        except OSError:
            return False
        return True

    def _entries(self, path: Path, offset: int, size: int) -> bytes:
        found = b""
        for number, name in enumerate([".", "..", *self.verbs.names(path)]):
            word = os.fsencode(name)
            entry = struct.pack("<QQII", 2 + number, number + 1, len(word), 0) + word
            entry += b"\0" * (-len(entry) % 8)
            if number >= offset:
                if len(found) + len(entry) > size:
                    break
                found += entry
        return found

    def _node(self, path: Path) -> int:
        if path not in self.nodes:
            self.nodes[path] = len(self.nodes) + 1
            self.paths[self.nodes[path]] = path
        return self.nodes[path]
