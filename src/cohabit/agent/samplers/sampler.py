"""The protocol of a sampler: it says what it offers on this host, and reads the totals and levels of one source.

A sampler only reads files below its root ("/" on a real host), keeps nothing between two readings and never raises: a
file that is missing, cannot be read or holds something else is left out. The meter computes rates.
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
        """Return what this host offers, or why nothing."""
        ...

    def read(self) -> Readings:
        """Return amounts so far and current levels."""
        ...


def text_of(path: Path) -> str | None:
    """Return the content of a small file of the kernel; None if it cannot be read now."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return None


def number_in(path: Path) -> float | None:
    """Return the number in a file; None if it is missing or holds anything else ("N/A" for a port without counters)."""
    text = text_of(path)
    if text is None:
        return None
    digits = text.strip()
    return float(int(digits)) if digits.isascii() and digits.isdigit() else None


def entries(folder: Path) -> Iterator[Path]:
    """Yield the entries of a folder by name; nothing if there is no such folder."""
    try:
        yield from sorted(folder.iterdir())
    except OSError:
        return
