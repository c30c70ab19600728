"""What the tests of launching and measuring share: real processes, looked at from outside."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path


def alive(pid: int) -> bool:
    """Whether a process exists and is not a corpse waiting for its parent."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Until it holds; the machine may be busy."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come true in time"
        time.sleep(0.01)


def pid_in(path: Path) -> int:
    """A process id that a program writes into a file."""
    wait_for(lambda: path.exists() and path.read_text().endswith("\n"))
    return int(path.read_text())


CORES = sorted(os.sched_getaffinity(0))
