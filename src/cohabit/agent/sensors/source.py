"""The protocol of a source of counters: it says what it offers on this host, and watches a tree of processes.

A source never starts a program (launch does) and never decides which counters matter. Sampling must be cheap: the
program under observation has its cores, and we share the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Offer:
    """The counters that a source has here; if none, or not all: the reason, and what would change that."""

    source: str
    available: bool
    reason: str = ""
    advice: str = ""
    counters: tuple[str, ...] = ()


class Watch(Protocol):
    """One program under observation."""

    def sample(self) -> Mapping[str, float]:
        """Return amounts so far and current levels; values that cannot be read now are left out."""
        ...

    def stop(self) -> Mapping[str, float]:
        """Return the last values, where they outlive the program; then release everything."""
        return self.sample()


class Source(Protocol):
    """A kind of sensor. By default it observes from outside."""

    name: str
    slows_down: bool = False  # True: it needs a run of its own with a meaningless run time

    def offer(self) -> Offer:
        """Return what this host offers; checked once."""
        ...

    def prefix(self, folder: Path) -> tuple[str, ...]:
        """Return words to put before the command, for sources that run the program inside a tool."""
        return ()

    def watch(self, pid: int, folder: Path) -> Watch:
        """Watch a program that is held before it executes; `folder` is for files of the source."""
        ...
