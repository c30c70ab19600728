"""What a sampler is: it says what it offers on this host, and reads the totals and levels of one source.

A sampler only reads files below its root ("/" on a real host), keeps nothing between two readings and never raises: a
file that is missing, cannot be read or holds something else is left out of the reading. The meter makes rates of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Protocol

from cohabit.agent.sensors.source import Offer

HOST = Path("/")
Readings = Mapping[tuple[str, str], float]  # by counter and device: each device wraps and vanishes on its own


class Sampler(Protocol):
    """One source of counters."""

    name: str  # a key of model.telemetry_counters.SOURCES

    def offer(self) -> Offer:
        """What there is on this host, or why there is nothing."""
        ...

    def read(self) -> Readings:
        """Amounts so far and levels now."""
        ...


def text_of(path: Path) -> str | None:
    """The content of a small file of the kernel; None if it cannot be read now."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def number_in(path: Path) -> float | None:
    """A file of one number; None if it is missing or holds anything else (a port without counters says "N/A")."""
    text = text_of(path)
    if text is None:
        return None
    digits = text.strip()
    return float(int(digits)) if digits.isascii() and digits.isdigit() else None


def entries(folder: Path) -> Iterator[Path]:
    """What is in a folder, by name; nothing if there is no such folder."""
    try:
        yield from sorted(folder.iterdir())
    except OSError:
        return
