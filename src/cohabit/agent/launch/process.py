"""A program to be launched, and a running one: held before it executes, released, waited for, stopped with its tree.

Every use (measure, profile, the node's agent) starts programs through here. Between `launch` and `release` the process
exists, bound to its cores, but has not executed: sensors are attached then. No shell is involved.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from cohabit.model.errors import InputError

_SUPERVISOR = Path(__file__).with_name("supervisor.py")


@dataclass(frozen=True)
class Request:
    """A program to start."""

    command: tuple[str, ...]
    cores: tuple[int, ...] = ()  # the CPUs it may use; empty: all that the caller may
    environment: Mapping[str, str] | None = None  # None: the caller's
    folder: Path | None = None
    stdout: Path | None = None  # None: discarded
    stderr: Path | None = None


@dataclass(frozen=True)
class Ended:
    """The end of a program. Times and memory are of the whole tree; the run time is from release to its own end."""

    status: int  # exit status, or minus the signal that ended it
    run_s: float
    user_s: float
    system_s: float
    peak_rss_bytes: int
    leftovers: int  # processes it left behind, which were killed


def find_command(
    command: Sequence[str], environment: Mapping[str, str] | None = None, folder: Path | None = None
) -> str:
    """Return the file to execute: as given, in PATH, or beside the running Python (where `cohabit` itself is)."""
    word = command[0]
    if os.sep in word:
        path = str((folder or Path.cwd()) / word)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    else:
        places = (os.environ if environment is None else environment).get("PATH", os.defpath)
        beside = os.path.dirname(sys.executable)
        found = shutil.which(word, path=f"{places}{os.pathsep}{beside}")
        if found is not None:
            return os.path.abspath(found)
    raise InputError(f"there is no program {word!r} to run", "", "check its spelling, or give its full path")


def launch(request: Request) -> Running:
    """Start a program, held before it executes; an InputError says why it cannot be started."""
    environment = dict(os.environ if request.environment is None else request.environment)
    document: dict[str, Any] = {
        "command": list(request.command),
        "path": find_command(request.command, environment, request.folder),
        "cores": list(request.cores),
        "environment": environment,
    }
    for key in ("folder", "stdout", "stderr"):
        path: Path | None = getattr(request, key)
        document[key] = str(path.absolute()) if path else ""
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", str(_SUPERVISOR)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        bufsize=0,
        start_new_session=True,
    )
    running = Running(process, request)
    try:
        text = json.dumps(document).encode()
        running.order(f"{len(text):08}".encode() + text)
        while running.pid == 0:  # until the program is held
            running.take_report()
    except BaseException:
        running.close()
        raise
    return running


@dataclass
class Running:
    """A launched program; after the `with` block none of its processes is left."""

    process: subprocess.Popen[bytes]
    request: Request
    pid: int = 0
    ended: Ended | None = None
    _unread: bytearray = field(default_factory=bytearray)

    def fileno(self) -> int:
        """Return a descriptor that is readable once there is a report: for select over several programs."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def order(self, text: bytes) -> None:
        """Send orders to the supervisor, which may have ended."""
        assert self.process.stdin is not None
        try:
            while text:
                text = text[os.write(self.process.stdin.fileno(), text) :]
        except BrokenPipeError:
            return

    def release(self) -> None:
        """Let it execute."""
        self.order(b"g")

    def wait(self, timeout_s: float | None = None) -> Ended | None:
        """Return how it ended; None if it has not ended within the time."""
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while self.ended is None:
            patience = None if deadline is None else max(0.0, deadline - time.monotonic())
            if not select.select([self], [], [], patience)[0]:
                return None
            self.take_report()
        return self.ended

    def stop(self) -> Ended:
        """End it and all it forked: asked first, killed after the grace period."""
        if self.ended is None:
            self.order(b"t")
        ended = self.wait()
        assert ended is not None
        return ended

    def close(self) -> None:
        """Leave no process: closing the order pipe makes the supervisor kill the tree and end."""
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.close()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self) -> Running:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def take_report(self) -> None:
        """Wait for the next report of the supervisor and note it; an InputError says why the program cannot start."""
        while b"\n" not in self._unread:
            data = os.read(self.fileno(), 65536)
            if not data:
                raise RuntimeError("the supervisor of a launched program ended without a report")
            self._unread += data
        line, _, rest = bytes(self._unread).partition(b"\n")
        self._unread[:] = rest
        facts: dict[str, Any] = json.loads(line)
        if "pid" in facts:
            self.pid = int(facts["pid"])
        elif "step" in facts:
            reason = os.strerror(facts["errno"]).lower()
            raise InputError(
                f"{self.request.command[0]!r} could not {facts['step']}: {reason}",
                "",
                "check the command, its folder and its cores",
            )
        else:
            self.ended = Ended(**facts)


def first_report(programs: Sequence[Running], timeout_s: float | None) -> list[Running]:
    """Return the programs that have ended, waiting at most this long for the first of them."""
    ready, _, _ = select.select(programs, [], [], timeout_s)
    return [one for one in ready if one.wait(0.0) is not None]
