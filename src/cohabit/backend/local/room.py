"""Check the free space on the disk of a place: for the record of one more run, and for the ends of others.

New work is refused while only the last few megabytes are left, so that running jobs can still record how they ended.
"""

from __future__ import annotations

import os
from pathlib import Path

RESERVE_BYTES = 8 << 20  # and never more than a twentieth of the disk
RESERVE_FILES = 64


def shortage(place: Path) -> str:
    """Return what is short there, in one sentence; empty: nothing."""
    try:
        disk = os.statvfs(place)
    except OSError as error:
        return f"{place} cannot be reached: {(error.strerror or str(error)).lower()}"
    if disk.f_flag & os.ST_RDONLY:
        return f"the disk of {place} is read-only"
    left = disk.f_bavail * disk.f_frsize
    reserve = min(RESERVE_BYTES, disk.f_blocks * disk.f_frsize // 20)
    if left < reserve:
        kept = f"{left / 2**20:.1f} MiB left; {reserve / 2**20:.1f} are kept for jobs that run"
        return f"the disk of {place} is full ({kept})"
    if disk.f_files and disk.f_favail < RESERVE_FILES:  # some file systems do not count files
        return f"the disk of {place} has no room for more files"
    return ""
