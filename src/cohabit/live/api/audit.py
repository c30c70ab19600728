"""The audit log: one line of JSON for every change somebody asked for, with who, when, from where, and the outcome.

Append-only, in a file of the place that only its owner may read. A line is handed to the operating system before the
caller has the answer; lines that come together are written together. That does not wait for the disk.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from pathlib import Path
from typing import Any

import msgspec

_BLOCK = 65536
log = logging.getLogger(__name__)


class Audit:
    """Used on one event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self.failed = 0  # lines that could not be written

    async def note(
        self, who: str, role: str, origin: str, action: str, about: str, status: int, said: str = ""
    ) -> None:
        """Keep it; returns when it is in the file, or when that has failed and was logged."""
        entry = {"at": time.time(), "user": who, "role": role, "from": origin, "action": action, "about": about,
                 "status": status, "said": said}  # fmt: skip
        self._lines.append(msgspec.json.encode(entry) + b"\n")
        await asyncio.sleep(0)  # whoever is ready now joins
        if self._lines:
            self._write()

    def _write(self) -> None:
        lines, self._lines = self._lines, []
        try:
            self._append(b"".join(lines))
        except OSError as error:
            self.failed += len(lines)
            log.error("the audit log cannot be written: %s", (error.strerror or str(error)).lower())
            for line in lines:
                log.error("audit: %s", line.decode().strip())

    def _append(self, content: bytes) -> None:
        descriptor = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)

    async def newest(self, most: int) -> list[dict[str, Any]]:
        """The last entries, the newest first."""
        return await asyncio.to_thread(self._newest, most)

    def _newest(self, most: int) -> list[dict[str, Any]]:
        try:
            stream = open(self._path, "rb")  # noqa: SIM115
        except FileNotFoundError:
            return []
        with stream:
            at, content = stream.seek(0, os.SEEK_END), b""
            while at > 0 and content.count(b"\n") <= most:
                step = min(_BLOCK, at)
                at -= step
                stream.seek(at)
                content = stream.read(step) + content
        lines = content.splitlines()[1 if at > 0 else 0 :]
        entries = []
        for line in reversed(lines[-most:]):
            try:
                entries.append(msgspec.json.decode(line, type=dict[str, Any]))
            except msgspec.DecodeError:  # cut off by a crash
                continue
        return entries
