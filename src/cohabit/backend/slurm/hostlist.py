"""Convert Slurm's short form of node names, `n[0-3,7],login1`, to names and back. Nothing here asks Slurm anything."""

from __future__ import annotations

import re
from collections.abc import Iterable

NOTHING = ("", "(null)", "None", "None assigned", "N/A")
_BRACKET = re.compile(r"\[([^\]]*)\]")


def expand(text: str) -> tuple[str, ...]:
    """Return all names, in the order written."""
    if text in NOTHING:
        return ()
    return tuple(name for part in _split(text) for name in _expand_one(part))


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part for part in (*parts, text[start:]) if part]


def _expand_one(part: str) -> Iterable[str]:
    found = _BRACKET.search(part)
    if found is None:
        yield part
        return
    head, tail = part[: found.start()], part[found.end() :]
    for piece in found.group(1).split(","):
        first, dash, last = piece.partition("-")
        numbers = range(int(first), int(last) + 1) if dash else range(int(first), int(first) + 1)
        for number in numbers:
            for rest in _expand_one(tail):
                yield f"{head}{number:0{len(first)}d}{rest}"


def numbers(text: str) -> tuple[int, ...]:
    """Return the task numbers of an array, `1-5,8,10-20:5%2`; the bound after % is not part of them."""
    found: list[int] = []
    for piece in text.partition("%")[0].split(","):
        span, _, step = piece.partition(":")
        first, dash, last = span.partition("-")
        if first.isdigit():
            found += range(int(first), (int(last) if dash else int(first)) + 1, int(step or 1))
    return tuple(found)
