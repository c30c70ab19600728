"""Masks and schemata lines: arithmetic and text. No file is touched here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

Values = Mapping[int, int]  # by domain id
Schemata = Mapping[str, Values]  # by resource name: L3, L3CODE, L3DATA, MB


class Run(NamedTuple):
    """Consecutive ways: the first, and how many."""

    first: int
    ways: int


def parse(text: str) -> dict[str, dict[int, int]]:
    """Parse a group's schemata file; masks are hexadecimal, bandwidth is decimal, names are padded."""
    found: dict[str, dict[int, int]] = {}
    for line in text.splitlines():
        name, colon, rest = line.strip().partition(":")
        if colon:
            base = 10 if is_bandwidth(name) else 16
            pairs = (part.split("=") for part in rest.split(";") if "=" in part)
            found[name.strip()] = {int(domain): int(value, base) for domain, value in pairs}
    return found


def line_of(resource: str, values: Values) -> str:
    """Return one line to write; domains in order, so equal states are equal text."""
    shown = (
        f"{domain}={values[domain] if is_bandwidth(resource) else format(values[domain], 'x')}"
        for domain in sorted(values)
    )
    return f"{resource}:{';'.join(shown)}"


def text_of(schemata: Schemata) -> str:
    """Return lines to write at once, each with the newline that the kernel requires."""
    return "".join(f"{line_of(name, values)}\n" for name, values in sorted(schemata.items()) if values)


def is_bandwidth(resource: str) -> bool:
    """Return whether it is MB, or AMD's SMBA for memory behind CXL."""
    return resource.strip() in ("MB", "SMBA")


def mask_of(run: Run) -> int:
    """Return ones for these ways; way 0 is the lowest bit."""
    return ((1 << run.ways) - 1) << run.first


def run_of(mask: int) -> Run | None:
    """Return the ways of a contiguous mask; None for any other."""
    if mask == 0:
        return None
    first = (mask & -mask).bit_length() - 1
    ways = mask.bit_count()
    return Run(first, ways) if mask == mask_of(Run(first, ways)) else None


def longest_run(mask: int) -> Run:
    """Return the longest run of ones, the lowest of equal ones; no ways in an empty mask."""
    best, first = Run(0, 0), 0
    while mask >> first:
        length = 0
        while mask >> (first + length) & 1:
            length += 1
        if length > best.ways:
            best = Run(first, length)
        first += length + 1
    return best
