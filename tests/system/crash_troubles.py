"""What may go wrong around a controller besides deaths, for real: a disk that fills up, a journal that becomes
read-only, a resctrl that refuses, is used by others or goes away. Each comes, is felt, and goes again."""

from __future__ import annotations

import array
import contextlib
import errno
import fcntl
import os
import random
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from cohabit.live.controller.place import Place
from tests.support.resctrl import FakeResctrl
from tests.support.resctrl_faults import FaultyResctrl
from tests.support.resctrl_machines import INTEL
from tests.support.resctrl_mount import can_mount, mounted

GET_FLAGS, SET_FLAGS, IMMUTABLE = 0x80086601, 0x40086602, 0x10  # of linux/fs.h
ERRORS = {errno.EBUSY: (), errno.EIO: (), errno.ENOSPC: ("make",)}  # the kernel runs out of ids for new groups only
OURS = "cohabit"  # what the names of our groups begin with
NONE, FULL, READ_ONLY, RESCTRL = KINDS = ("none", "full disk", "read-only journal", "resctrl faults")


class Trouble:
    """Nothing but deaths; the base of the others."""

    said: tuple[str, ...] = ()  # a controller that feels it refuses new work with one of these words; none: no refusal

    def come(self) -> None:
        """From now on."""

    def go(self) -> None:
        """It is over; doing it again does no harm."""

    def complaint(self) -> str:
        """What should not have happened meanwhile, or is left; empty: nothing."""
        return ""


class FullDisk(Trouble):
    """The file system of the place has no room left."""

    said = ("full", "no space")

    def __init__(self, disk: Path) -> None:
        self._filler = disk / "filler"

    def come(self) -> None:
        with open(self._filler, "wb", buffering=0) as stream, contextlib.suppress(OSError):
            while True:
                stream.write(b"x" * 4096)

    def go(self) -> None:
        self._filler.unlink(missing_ok=True)


class ReadOnly(Trouble):
    """The journal cannot be written, not even by root or through a descriptor that is open."""

    said = ("read-only", "readonly", "disk i/o error")

    def __init__(self, place: Path) -> None:
        self._place = place

    def come(self) -> None:
        self._set(True)

    def go(self) -> None:
        self._set(False)

    def _set(self, immutable: bool) -> None:
        for name in ("journal.db", "journal.db-wal"):
            with contextlib.suppress(FileNotFoundError):
                set_immutable(Place(self._place).private / name, immutable)


class SickResctrl(Trouble):
    """Refusals, groups of others, perhaps no resctrl at all from some moment on: jobs run on whatever it is."""

    def __init__(self, root: Path, rng: random.Random) -> None:
        self.fake = FakeResctrl(lambda task: Path("/proc", str(task)).exists(), str(root), machine=INTEL)
        self.faulty, self._rng = FaultyResctrl(self.fake), rng
        self.unmount: Callable[[], None] = lambda: None

    def come(self) -> None:
        for number in range(1, 40):
            if self._rng.random() < 0.4:
                error = self._rng.choice(list(ERRORS))
                self.faulty.fail(number, error, only=ERRORS[error])
        for number in range(self._rng.randrange(INTEL.classes)):
            if len(self.fake.classes) < INTEL.classes - 1:
                self.fake.add_foreign_class(f"theirs-{number}")
        if self._rng.random() < 0.3:
            self.unmount()
            self.fake.unmount()

    def go(self) -> None:
        self.faulty.heal()

    def complaint(self) -> str:
        if self.fake.touched:
            return f"groups of others were touched: {self.fake.touched}"
        left = [name for name in (*self.fake.classes, *self.fake.groups) if name.startswith(OURS)]
        return f"groups are left behind: {left}" if left else ""


@contextmanager
def troubled(kind: str, folder: Path, rng: random.Random) -> Iterator[tuple[Path, Path | None, Trouble]]:
    """The place of a controller, where resctrl is mounted for it, and what will befall it."""
    place, root = folder / "controller", folder / "resctrl"
    if kind == FULL:
        with small_disk(folder / "disk") as disk:
            yield disk / "controller", None, FullDisk(disk)
    elif kind == READ_ONLY:
        trouble = ReadOnly(place)
        try:
            yield place, None, trouble
        finally:
            trouble.go()
    elif kind == RESCTRL:
        root.mkdir()
        sick = SickResctrl(root, rng)
        with mounted(sick.faulty, root) as sick.unmount:
            yield place, root, sick
    else:
        yield place, None, Trouble()


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system of its own, of 8 MB."""
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m,mode=755", "none", str(folder)], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def set_immutable(path: Path, immutable: bool) -> None:
    """As chattr does; not every file system can, and only root may."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        flags = array.array("i", [0])
        fcntl.ioctl(descriptor, GET_FLAGS, flags)
        flags[0] = flags[0] | IMMUTABLE if immutable else flags[0] & ~IMMUTABLE
        fcntl.ioctl(descriptor, SET_FLAGS, flags)
    finally:
        os.close(descriptor)


@lru_cache
def possible() -> tuple[str, ...]:
    """The kinds of trouble that can be made on this machine, and by us."""
    found = [NONE]
    with tempfile.TemporaryDirectory() as folder:
        with contextlib.suppress(OSError, subprocess.CalledProcessError), small_disk(Path(folder, "disk")):
            found.append(FULL)
        if _immutable_works(Path(folder, "file")):
            found.append(READ_ONLY)
    return (*found, *([] if can_mount() else [RESCTRL]))


def _immutable_works(path: Path) -> bool:
    """Whether it also stops those who have the file open."""
    with open(path, "wb", buffering=0) as stream:
        try:
            set_immutable(path, True)
        except OSError:
            return False
        try:
            stream.write(b"x")
        except OSError:
            return True
        finally:
            set_immutable(path, False)
    return False
