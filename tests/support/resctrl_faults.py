"""Inject faults into any resctrl file system: the n-th change fails, or something happens just before it.

Counts every change (make, remove, write, move), so tests can say how many there may be.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Protocol


class Verbs(Protocol):
    """The interface it wraps."""

    def make(self, path: Path) -> None: ...
    def remove(self, path: Path) -> None: ...
    def names(self, path: Path) -> list[str]: ...
    def read(self, path: Path) -> str: ...
    def write(self, path: Path, text: str) -> None: ...
    def move(self, source: Path, target: Path) -> None: ...


class FaultyResctrl:
    """The same verbs; `changes` is the log of all changes that were asked for."""

    def __init__(self, inner: Verbs) -> None:
        self.inner = inner
        self.changes: list[tuple[str, Path, str]] = []
        self._errors: dict[int, tuple[int, tuple[str, ...]]] = {}
        self._before: dict[int, Callable[[], None]] = {}
        self._after: Callable[[], None] | None = None

    def fail(self, number: int, error: int, times: int = 1, only: tuple[str, ...] = ()) -> None:
        """Let the number-th change from now (1: the next) and so many in a row fail with this error; `only` for
        these verbs, if any are named."""
        self._errors |= {len(self.changes) + number + more: (error, only) for more in range(times)}

    def heal(self) -> None:
        """Cancel all errors, including those still due."""
        self._errors.clear()

    def before(self, number: int, happens: Callable[[], None]) -> None:
        """Let another process do this just before the number-th change from now."""
        self._before[len(self.changes) + number] = happens

    def after_each(self, look: Callable[[], None]) -> None:
        """Call this after every change."""
        self._after = look

    def make(self, path: Path) -> None:
        """mkdir."""
        self._change("make", path, "", lambda: self.inner.make(path))

    def remove(self, path: Path) -> None:
        """rmdir."""
        self._change("remove", path, "", lambda: self.inner.remove(path))

    def write(self, path: Path, text: str) -> None:
        """echo."""
        self._change("write", path, text, lambda: self.inner.write(path, text))

    def move(self, source: Path, target: Path) -> None:
        """mv."""
        self._change("move", source, str(target), lambda: self.inner.move(source, target))

    def names(self, path: Path) -> list[str]:
        """ls."""
        return self.inner.names(path)

    def read(self, path: Path) -> str:
        """cat."""
        return self.inner.read(path)

    def _change(self, verb: str, path: Path, text: str, do: Callable[[], None]) -> None:
        self.changes.append((verb, path, text))
        number = len(self.changes)
        if number in self._before:
            self._before.pop(number)()
        error, only = self._errors.pop(number, (0, ()))
        if error and (not only or verb in only):
            raise OSError(error, os.strerror(error))
        do()
        if self._after is not None:
            self._after()
