"""A file written, forced out to storage, dropped from memory and read again, in the folder for temporary files."""

from __future__ import annotations

import os
import tempfile
import zlib

from cohabit.exercise.catalogue import Exercise

BLOCK = 1 << 20


class Disk(Exercise):
    """One file without a name, gone with the process whatever happens."""

    def __init__(self, size_bytes: int) -> None:
        self.file = tempfile.TemporaryFile(prefix="cohabit-exercise-")  # noqa: SIM115 - open from round to round
        self.blocks = max(1, size_bytes // BLOCK)
        self.block = bytes(range(256)) * (BLOCK // 256)
        self.at = 0

    def work(self) -> int:
        """Write one block, force it out, read it back from storage."""
        place, descriptor = self.at * BLOCK, self.file.fileno()
        os.pwrite(descriptor, self.block, place)
        os.fdatasync(descriptor)
        os.posix_fadvise(descriptor, place, BLOCK, os.POSIX_FADV_DONTNEED)
        self.sum = zlib.crc32(os.pread(descriptor, BLOCK, place)[:4096], self.sum)
        self.at = (self.at + 1) % self.blocks
        return 2 * BLOCK

    def close(self) -> None:
        """Closing removes the file."""
        self.file.close()
