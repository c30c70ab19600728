"""The operations resctrl supports, on the real file system; where it is mounted; and the traffic that a group counts.

All other modules use only these operations, so the enforcing fake of `tests.support` stands in for any processor.
Nothing here mounts or unmounts.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

ROOT = Path("/sys/fs/resctrl")
_DOMAIN = "mon_L3_"


class Files(Protocol):
    """The operations resctrl supports; each may raise OSError as the kernel does."""

    def make(self, path: Path) -> None: ...
    def remove(self, path: Path) -> None: ...
    def move(self, source: Path, target: Path) -> None: ...
    def names(self, path: Path) -> list[str]: ...
    def read(self, path: Path) -> str: ...
    def write(self, path: Path, text: str) -> None: ...


class HostFiles:
    """The real file system."""

    def make(self, path: Path) -> None:
        """mkdir."""
        path.mkdir()

    def remove(self, path: Path) -> None:
        """rmdir."""
        path.rmdir()

    def move(self, source: Path, target: Path) -> None:
        """rename: a monitoring group goes to another class."""
        os.rename(source, target)

    def names(self, path: Path) -> list[str]:
        """Return the names inside a folder."""
        return sorted(os.listdir(path))

    def read(self, path: Path) -> str:
        """Return a file's text."""
        return path.read_text()

    def write(self, path: Path, text: str) -> None:
        """Make one write call: the kernel takes a command whole."""
        descriptor = os.open(path, os.O_WRONLY)
        try:
            os.write(descriptor, text.encode())
        finally:
            os.close(descriptor)


@dataclass(frozen=True)
class Mount:
    """The folder that resctrl is mounted on, and the options (cdp, mba_MBps, ...)."""

    root: Path
    options: tuple[str, ...] = ()


def find_mount(mounts: Path = Path("/proc/self/mounts")) -> Mount | None:
    """Return the first resctrl in the table of mounts; None if there is none."""
    try:
        lines = mounts.read_text().splitlines()
    except OSError:
        return None
    for line in lines:
        words = line.split()
        if len(words) >= 4 and words[2] == "resctrl":
            return Mount(Path(words[1]), tuple(words[3].split(",")))
    return None


def is_mounted(files: Files, root: Path) -> bool:
    """Return whether the root looks like resctrl; unmounting leaves an empty folder."""
    try:
        return "info" in files.names(root)
    except OSError:
        return False


def read_if_there(files: Files, path: Path) -> str:
    """Return a file's text; empty if it cannot be read."""
    try:
        return files.read(path)
    except OSError:
        return ""


@dataclass(frozen=True)
class Patience:
    """Number and interval of requests for an id that is not free yet (EBUSY); the agent must not hang."""

    tries: int = 5
    pause_s: float = 0.05
    sleep: Callable[[float], None] = time.sleep


def make_group(files: Files, place: Path, patience: Patience) -> None:
    """Make a group unless it exists. Ids of recently removed groups stay unusable until their cache lines have gone."""
    for attempt in range(patience.tries):
        try:
            files.make(place)
        except FileExistsError:  # made by a plan that stopped here
            return
        except OSError as error:
            if error.errno != errno.EBUSY or attempt == patience.tries - 1:
                raise
            patience.sleep(patience.pause_s)
        else:
            return


def remove_stale(files: Files, folder: Path, prefix: str) -> None:
    """Remove groups called PREFIX, the process id of their maker, "-" and more, if the maker is dead; others stay."""
    for name in files.names(folder):
        maker = name.removeprefix(prefix).split("-")[0]
        if name.startswith(prefix) and maker.isdigit() and not Path("/proc", maker).exists():
            with contextlib.suppress(OSError):
                files.remove(folder / name)


def read_traffic(files: Files, group: Path) -> dict[int, int]:
    """Return the bytes moved to and from memory so far, by L3 domain; empty if the processor does not count them. A
    domain may answer Unavailable, Error or Unassigned: then it has no value, which is not the same as no traffic."""
    try:
        folders = [name for name in files.names(group / "mon_data") if name.startswith(_DOMAIN)]
    except OSError:
        return {}
    words = {name: read_if_there(files, group / "mon_data" / name / "mbm_total_bytes").strip() for name in folders}
    return {int(name.removeprefix(_DOMAIN)): int(word) for name, word in words.items() if word.isdigit()}


def total_traffic(files: Files, group: Path | None) -> dict[str, float]:
    """Return the same over all domains, as a counter; empty without a group or a count."""
    found = {} if group is None else read_traffic(files, group)
    return {"memory_total_bytes": float(sum(found.values()))} if found else {}
