"""The progress file of a measurement, beside its output: one line per finished run, append-only.

If the process is killed, at most the line being written is lost; the same call continues after the last whole line.
Lines of another programs file or another machine are refused, never mixed.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
from pathlib import Path
from typing import Any

from cohabit.model.errors import InputError

Key = tuple[str, ...]


class Progress:
    """Finished runs by key; the file is created with the first of them."""

    def __init__(self, out: Path, digest: str, machine: str) -> None:
        self.path = out.with_name(out.name + ".progress")
        self.head = {"plan": digest, "machine": machine}
        self.done: dict[Key, dict[str, Any]] = {}
        self.descriptor = -1
        if self.path.exists():
            self._continue()

    def add(self, key: Key, result: dict[str, Any]) -> None:
        """Append a result and sync it to disk before the next run begins; Ctrl-C is deferred meanwhile."""
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            if self.descriptor < 0:
                self._open(os.O_CREAT)
                self._write(self.head)
            self._write({"key": key} | result)
            self.done[key] = result
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def close(self) -> None:
        """Close the file and keep it."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def forget(self) -> None:
        """Remove the file: everything is in the data set now."""
        self.path.unlink(missing_ok=True)
        self.close()

    def _continue(self) -> None:
        self._open(0)
        content = self.path.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            os.ftruncate(self.descriptor, whole)  # drop the incomplete last line
        lines = [json.loads(line) for line in content[:whole].splitlines()]
        if not lines:
            self._write(self.head)
            return
        if lines[0].get("plan") != self.head["plan"]:
            self._refuse("was begun with other programs or settings")
        if lines[0].get("machine") != self.head["machine"]:
            self._refuse("was begun on another machine")
        self.done = {tuple(line.pop("key")): line for line in lines[1:]}

    def _refuse(self, what: str) -> None:
        self.close()
        raise InputError(
            what, str(self.path), "take back the change, choose another --out, or delete this file to start over"
        )

    def _open(self, flags: int) -> None:
        try:
            self.descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CLOEXEC | flags, 0o644)
            fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.close()
            raise InputError("another measurement is writing it", str(self.path), "wait for it to end") from None
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InputError(f"cannot be written: {reason}", str(self.path), "choose another --out") from error

    def _write(self, line: dict[str, Any]) -> None:
        os.write(self.descriptor, json.dumps(line).encode() + b"\n")
        os.fsync(self.descriptor)
