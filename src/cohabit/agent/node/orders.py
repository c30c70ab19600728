"""The division of a node's cache, from the controller to the daemon of the node: one small file per node.

The folder is visible to both. A file contains the whole state at its time, so the next one corrects a lost or late one.
It is written whole or not at all, and by the controller alone.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec

from cohabit.model.command import SetShares

MOST_BYTES = 1 << 20


class Division(msgspec.Struct, frozen=True):
    """The division of one node: (job, first way, ways), caps on the memory bandwidth of jobs in percent, and what jobs
    have booked of it, in MB/s; and jobs whose curves are wanted, with the seconds their run is expected to take (0: not
    known)."""

    shares: tuple[tuple[str, int, int], ...] = ()
    caps: tuple[tuple[str, int], ...] = ()
    booked: tuple[tuple[str, int], ...] = ()
    curves: tuple[tuple[str, float], ...] = ()

    def command(self) -> SetShares:
        """Return the command for the actuator of that machine, which has one node."""
        return SetShares(((0, 1),), self.shares, self.caps)


def write_division(folder: Path, node: str, division: Division) -> None:
    """Write the division of a node, for every node of a `SetShares` (controller)."""
    target, temporary = folder / f"{node}.json", folder / f".{node}.{os.getpid()}.part"
    folder.mkdir(parents=True, exist_ok=True)
    temporary.write_bytes(msgspec.json.encode(division))
    temporary.chmod(0o644)  # whatever the umask is: the daemon may read it over a network
    os.replace(temporary, target)


def read_division(folder: Path, node: str) -> Division | None:
    """Read the division (daemon); None if nothing was ordered or it cannot be read: then the current state stays."""
    try:
        return msgspec.json.decode(_read(folder / f"{node}.json"), type=Division)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return None


def _read(path: Path) -> bytes:
    """Read only a plain file of a bounded size: the controller is another account than the daemon."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as stream:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a plain file")
        return stream.read(MOST_BYTES)


def order_division(
    folder: Path,
    names: Sequence[str],
    command: SetShares,
    theirs: Callable[[str], str] = str,
    booked_mbs: Callable[[str], int] = lambda job: 0,
    curves: Sequence[tuple[str, float]] = (),
) -> None:
    """Write an order of the core for the nodes it names (controller); `names` are their names by number, `theirs`
    returns the manager's, and so the daemon's, name of a job, `booked_mbs` what a job has booked on each node, and
    `curves` are jobs whose curves these nodes are to measure."""
    division = Division(
        tuple((theirs(job), first, ways) for job, first, ways in command.shares),
        tuple((theirs(job), percent) for job, percent in command.caps),
        tuple((theirs(job), mbs) for job, _, _ in command.shares if (mbs := booked_mbs(job))),
        tuple((theirs(job), expected_s) for job, expected_s in curves),
    )
    for first, count in command.nodes:
        for number in range(first, first + count):
            write_division(folder, names[number], division)
