"""The audit log: one line of JSON for every requested change and every refusal, with user, time, origin and outcome.

Append-only, in a file of the place that only its owner may read. A line is handed to the operating system before the
caller gets the answer; concurrent lines are written together. It does not wait for the disk. Refusals of one origin
beyond a number per minute are counted and written as one line: a flood must not fill the disk. A file that is full
becomes FILE.1, that one FILE.2 and so on; the oldest is removed. Retention removes files by their age (`remove_old`).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cohabit.live.controller.removal import Portion

FILE_BYTES = 64 * 2**20
OLD_FILES = 8
REFUSALS_A_MINUTE = 30  # of one origin
MOST_ORIGINS = 200  # counted separately in one minute; the others together
_OTHERS = "other origins"
_TEXT_MOST = 300
_BLOCK = 65536
log = logging.getLogger(__name__)


class Refused(NamedTuple):
    """A refused action. Refusals are counted per `origin`: a user or an address."""

    origin: str
    action: str
    about: str
    status: int
    said: str
    user: str = ""
    role: str = ""
    came_from: str = ""  # in full; empty: the same as `origin`


class Audit:
    """Used on one event loop."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: list[bytes] = []
        self._refusals: Counter[str] = Counter()  # of each origin in this minute
        self._telling: asyncio.TimerHandle | None = None
        self.failed = 0  # lines that could not be written

    async def note(
        self, user: str, role: str, origin: str, action: str, about: str, status: int, said: str = ""
    ) -> None:
        """Write an entry; return when it is in the file, or when the write has failed and was logged."""
        self._add(user, role, origin, action, about, status, said)
        await self.written()

    def refuse(self, one: Refused) -> None:
        """Record a refusal, or count it; it is in the file after `written`, or soon."""
        known = one.origin in self._refusals or len(self._refusals) < MOST_ORIGINS
        origin = one.origin if known else _OTHERS
        self._refusals[origin] += 1
        loop = asyncio.get_running_loop()
        if self._telling is None:
            self._telling = loop.call_later(60.0, self.close)
        if self._refusals[origin] <= REFUSALS_A_MINUTE:
            self._add(one.user, one.role, one.came_from or one.origin, one.action, one.about, one.status, one.said)
            loop.call_soon(self._write)

    async def written(self) -> None:
        """Wait until all entries are in the file, or are logged because the write failed."""
        await asyncio.sleep(0)  # let other ready tasks add their lines
        self._write()

    def close(self) -> None:
        """Write a line for every origin with more refusals than were written; also done once a minute."""
        if self._telling is not None:
            self._telling.cancel()
        refusals, self._refusals, self._telling = self._refusals, Counter(), None
        for origin, count in refusals.items():
            if count > REFUSALS_A_MINUTE:
                said = f"{count - REFUSALS_A_MINUTE} more refusals within a minute"
                self._add("", "", origin, "refused", "", 429, said)
        self._write()

    def _add(self, user: str, role: str, origin: str, action: str, about: str, status: int, said: str) -> None:
        entry = {
            "at": time.time(),
            "user": _text(user),
            "role": role,
            "from": _text(origin),
            "action": _text(action),
            "about": _text(about),
            "status": status,
            "said": _text(said),
        }
        self._lines.append(msgspec.json.encode(entry) + b"\n")

    def _write(self) -> None:
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        try:
            self._append(b"".join(lines))
        except OSError as error:
            self.failed += len(lines)
            log.error("the audit log cannot be written: %s", (error.strerror or str(error)).lower())
            for line in lines:
                log.error("audit: %s", line.decode().strip())

    def _append(self, content: bytes) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        with contextlib.suppress(FileNotFoundError):
            if self._path.lstat().st_size >= FILE_BYTES:
                _turn_over(self._path)
        descriptor = os.open(self._path, flags, 0o600)
        try:
            os.write(descriptor, content)
        finally:
            os.close(descriptor)

    async def newest(self, most: int) -> list[dict[str, Any]]:
        """Return the last entries, the newest first."""
        return await asyncio.to_thread(self._newest, most)

    def _newest(self, most: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        for path in _files(self._path):
            if len(found) < most:
                found += _newest_of(path, most - len(found))
        return found


def remove_old(path: Path, keep_s: float, now_s: float, dry_run: bool) -> Portion:
    """Remove files of this log with a last line older than `keep_s`. To make such files, the log also becomes FILE.1
    when its first line is older than a part of that time; no file is changed."""
    first = _first_line_s(path)
    if not dry_run and first is not None and now_s - first >= keep_s / (OLD_FILES - 1):
        _turn_over(path)
    found = Portion()
    for file in _files(path):
        with contextlib.suppress(FileNotFoundError):
            known = file.lstat()
            if known.st_mtime < now_s - keep_s:
                found = found.plus(Portion(1, known.st_size))
                if not dry_run:
                    file.unlink()
    return found


def _first_line_s(path: Path) -> float | None:
    """Return when the first line was written; None: there is no readable line."""
    try:
        with open(path, "rb") as stream:
            return float(msgspec.json.decode(stream.readline(_BLOCK), type=dict[str, Any])["at"])
    except (OSError, msgspec.DecodeError, KeyError, TypeError, ValueError):
        return None


def _turn_over(path: Path) -> None:
    files = _files(path)
    for older, newer in zip(reversed(files[1:]), reversed(files[:-1]), strict=True):
        with contextlib.suppress(FileNotFoundError):
            newer.replace(older)


def _files(path: Path) -> list[Path]:
    """Return the files of the log, the newest first."""
    return [path, *(path.with_name(f"{path.name}.{n}") for n in range(1, OLD_FILES + 1))]


def _newest_of(path: Path, most: int) -> list[dict[str, Any]]:
    try:
        stream = open(path, "rb")  # noqa: SIM115
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


def _text(text: str) -> str:
    """Return a text that JSON can hold, cut to a maximum length."""
    return text[:_TEXT_MOST].encode("utf-8", "replace").decode()
