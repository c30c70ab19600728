"""A sampler says what it offers on this host, and reads the totals and levels of one source.

A sampler only reads files below its root ("/" on a real host), keeps nothing between two readings and never raises: a
file that is missing, cannot be read or holds something else is left out. The meter computes rates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from cohabit.agent.sensors.source import Offer
from cohabit.model.telemetry_counters import SOURCES

HOST = Path("/")
Readings = Mapping[tuple[str, str], float]  # by counter and device: each device wraps and vanishes on its own


@dataclass(frozen=True)
class Sampler:
    """One source of counters, read below `root`; without any there is a reason, and advice."""

    name: str  # a key of model.telemetry_counters.SOURCES
    read_below: Callable[[Path], Readings]
    reason: str
    advice: str
    root: Path = HOST

    def offer(self) -> Offer:
        """Offer the counters that can be read now."""
        found = {counter for counter, _ in self.read()}
        if not found:
            return Offer(self.name, False, self.reason, self.advice)
        return Offer(self.name, True, "", "", tuple(one.name for one in SOURCES[self.name] if one.name in found))

    def read(self) -> Readings:
        """Return amounts so far and current levels."""
        return self.read_below(self.root)


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
