"""Room on the journal's disk that is kept for what must not fail: cancelling, holding, and recording how jobs ended.

Output of jobs may lie on the same disk, and fill it. The journal itself has room inside its files, which no other
process can take: free pages, and a log of full length (`room_inside`). For everything else that such a request needs, a
file beside it keeps a few megabytes, gives them back in slices when the disk is full, and grows again when there is
room. Submissions are refused before the disk is full (`shortage`), so they use none of it. A journal in a database
server has neither: the server manages its disk.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sqlite3
from pathlib import Path

from cohabit.backend.local.room import shortage

MOST_BYTES = 4 << 20
PART = 40  # and never more than this fraction of the disk
SLICES = 8
LOG_PAGES = 1000  # SQLite's default: at this length the log is copied and begins anew
_FILLER = "cohabit_room"  # a table that exists for a moment
log = logging.getLogger(__name__)


class Reserve:
    """The reserve of a journal. `journal`: its file; None: it has none."""

    def __init__(self, journal: Path | None) -> None:
        self.path = None if journal is None else journal.with_name(f"{journal.name}.reserve")
        self._warned = False

    def shortage(self) -> str:
        """Return what is short on the disk, in one sentence; empty: nothing is."""
        return "" if self.path is None else shortage(self.path.parent)

    def kept(self) -> int:
        """Return the bytes that are kept."""
        with contextlib.suppress(OSError):
            return 0 if self.path is None else self.path.stat().st_size
        return 0

    def give(self, down_to: int = 0) -> bool:
        """Give a slice back to the disk if that is full; return whether there is more room now."""
        if self.path is None:
            return False
        whole, left = self._wanted_and_left()
        size, slice_ = self.kept(), max(whole // SLICES, 1)
        if left >= slice_ or size <= down_to:
            return False
        try:
            os.truncate(self.path, max(size - slice_, 0))
        except OSError as error:
            log.error("%s: nothing of the reserve can be given back: %s", self.path, error.strerror)
            return False
        log.warning("the disk of %s is full: %d KiB of its reserve are given back", self.path, slice_ >> 10)
        return True

    def give_all(self) -> bool:
        """Give all of it back if the disk is full; return whether there is more room now."""
        given = False
        while self.give():
            given = True
        return given

    def tend(self) -> None:
        """Fill the reserve when there is room. On a full disk, give some of it to jobs that have to record their ends;
        half of it is kept for requests."""
        if self.path is None:
            return
        whole, left = self._wanted_and_left()
        missing = whole - self.kept()
        if missing > 0 and left > 4 * whole + missing:
            self._make(whole)
        elif left < whole // (SLICES * SLICES):
            self.give(down_to=whole // 2)

    def _make(self, whole: int) -> None:
        assert self.path is not None
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(self.path, flags, 0o600), "r+b", buffering=0) as stream:
                os.posix_fallocate(stream.fileno(), 0, whole)
        except OSError as error:
            if not self._warned:
                log.warning("%s: no space is reserved for a full disk: %s", self.path, error.strerror)
            self._warned = True

    def _wanted_and_left(self) -> tuple[int, int]:
        """Return how large the reserve should be, and how much is free."""
        assert self.path is not None
        try:
            disk = os.statvfs(self.path.parent)
        except OSError:
            return 0, 1
        return min(MOST_BYTES, disk.f_blocks * disk.f_frsize // PART), disk.f_bavail * disk.f_frsize


def room_inside(journal: sqlite3.Connection, path: Path) -> None:
    """Make free pages in an SQLite journal and in its log, so that neither needs more of the disk for a while."""
    journal.execute(f"DROP TABLE IF EXISTS {_FILLER}")  # a crash may have left it
    page_size, free = (journal.execute(f"PRAGMA {word}").fetchone()[0] for word in ("page_size", "freelist_count"))
    disk = os.statvfs(path.parent)
    pages = max(min(LOG_PAGES, disk.f_blocks * disk.f_frsize // (2 * PART * page_size)), 16)
    if free >= pages // 4 or disk.f_bavail * disk.f_frsize < 8 * pages * page_size:
        return
    journal.execute(f"PRAGMA wal_autocheckpoint = {pages}")
    journal.execute(f"CREATE TABLE {_FILLER} (content BLOB)")
    try:
        journal.execute(f"INSERT INTO {_FILLER} VALUES (zeroblob({pages * page_size}))")
    finally:
        journal.execute(f"DROP TABLE {_FILLER}")
    journal.execute("PRAGMA wal_checkpoint")
