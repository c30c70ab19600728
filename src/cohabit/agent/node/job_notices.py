"""The folder in which a prolog reports that a job begins on this node, and an epilog that it has ended.

There are two small files per job, JOB (begun) and JOB.ended; their modification times are the times of the events. They
are written by the shell scripts in packaging/slurm, which start no other program and wait for no process. The files
outlive the daemon, so a restarted daemon finds the jobs of its node again. The daemon never asks or tells the scripts
anything.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from pathlib import Path

from cohabit.model.errors import InputError

FOLDER = Path("/run/cohabit/node")
ENDED = ".ended"
LAST_LINE = "complete"  # a file without it is still being written


@dataclass(frozen=True)
class Notice:
    """A job on this node, as reported by its prolog and epilog."""

    number: str  # Slurm's number of the job
    begun_s: float  # Unix time
    ended_s: float = 0.0  # 0: it runs
    uid: int = -1
    array: str = ""  # ARRAY_TASK, where it is part of one; or the manager's name of it, where that is not its number
    conf: str = ""  # the slurm.conf of its Slurm, if known

    @property
    def name(self) -> str:
        """The controller's name for the job."""
        return self.array or self.number


def prepare(folder: Path, node: str) -> Path:
    """Make the node's own folder; only root may write there, because its content is trusted."""
    place = folder / node
    try:
        place.mkdir(parents=True, exist_ok=True)
        for one in (folder, place):
            found = one.lstat()
            if stat.S_ISLNK(found.st_mode) or found.st_uid not in (0, os.geteuid()) or found.st_mode & 0o022:
                why = "belongs to another account, is a link, or others may write there"
                raise InputError(why, str(one), "remove it, or name another --folder")
        place.chmod(0o755)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(f"cannot be made: {reason}", str(place), "serve as root, or name another --folder") from error
    return place


def read(place: Path) -> dict[str, Notice]:
    """Return all reported jobs that are not forgotten yet, by number; a half-written file is read next time."""
    found = (_notice(path) for path in place.iterdir() if path.name.isdigit())
    return {one.number: one for one in found if one is not None}


def unknown_ends(place: Path) -> list[str]:
    """Return jobs of which only the end was reported: the daemon did not exist when they began."""
    names = {path.name for path in place.iterdir()}
    ended = [name.removesuffix(ENDED) for name in names if name.endswith(ENDED)]
    return [number for number in ended if number.isdigit() and number not in names]


def forget(place: Path, number: str) -> None:
    """Remove the files of a job that is over. The begin file goes last, so that an end never stands alone."""
    for name in (number + ENDED, number):
        with contextlib.suppress(OSError):
            (place / name).unlink()


def _notice(path: Path) -> Notice | None:
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        begun_s = path.stat().st_mtime
    except OSError:
        return None
    if not lines or lines[-1] != LAST_LINE:
        return None
    said = dict(line.split("=", 1) for line in lines if "=" in line)
    array, task, uid = said.get("array", ""), said.get("task", ""), said.get("uid", "")
    try:
        ended_s = path.with_name(path.name + ENDED).stat().st_mtime
    except OSError:
        ended_s = 0.0
    name, owner = f"{array}_{task}" if array and task else said.get("job", ""), int(uid) if uid.isdigit() else -1
    return Notice(path.name, begun_s, ended_s, owner, name, said.get("conf", ""))
