"""Nodes in words: "0-3,7" and back to ranges of (first, count)."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PIECE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


def ranges_text(ranges: Iterable[tuple[int, int]]) -> str:
    """Write ranges as "0-3,7"."""
    return ",".join(str(first) if count == 1 else f"{first}-{first + count - 1}" for first, count in ranges)


def read_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """Read "0-3,7" as rising ranges that do not touch; raise ValueError on anything else."""
    spans: list[tuple[int, int]] = []
    for piece in text.split(","):
        found = _PIECE.fullmatch(piece.strip())
        if found is None or int(found[2] or found[1]) < int(found[1]):
            raise ValueError(f"{text!r} is not a list of nodes (try 0-3,7)")
        spans.append((int(found[1]), int(found[2] or found[1]) + 1))
    merged: list[tuple[int, int]] = []
    for first, end in sorted(spans):
        if merged and first <= merged[-1][1]:
            merged[-1] = merged[-1][0], max(end, merged[-1][1])
        else:
            merged.append((first, end))
    return tuple((first, end - first) for first, end in merged)
