"""Families of programs: one program at several sizes is one family, and a fold never divides it.

A column `family` of the data says it; without it the name does: what follows it as size, class or number is left out
(`resnet50 (batch size 16)`, `resnet50-bs32` and `resnet50_64` are resnet50; `bt.B` is bt). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

FEWEST = 4  # families; with fewer by name, every program counts as one of its own
BY_COLUMN, BY_NAME, EACH = "the column family", "the names without sizes", "every program by itself"
APART = re.compile(r"[\s_\-.:@/,=]+")
WORDS = (
    "batch",
    "size",
    "tiny",
    "small",
    "medium",
    "large",
    "huge",
    "train",
    "test",
    "ref",
    "native",
    "class",
    "steps",
)
NUMBER = re.compile(r"(?:bs|batch|size|b|n|np|c|t|x)?\d+(?:[.x]\d+)*(?:[kmgt]i?b?|b|s|threads|ranks)?", re.IGNORECASE)


def family_by_name(name: str) -> str:
    """Return the name without what follows it in brackets, and without trailing sizes, classes and numbers."""
    parts = [part for part in APART.split(name.split("(", 1)[0].strip()) if part]
    while len(parts) > 1 and _is_size(parts[-1]):
        parts.pop()
    return "-".join(parts) or name


def _is_size(part: str) -> bool:
    return len(part) == 1 or part.lower() in WORDS or NUMBER.fullmatch(part) is not None


def families_of(names: Sequence[str], said: Mapping[str, str]) -> tuple[dict[str, str], str]:
    """Return the family of every program, and what it was taken from."""
    if said:
        return {name: said.get(name) or name for name in names}, BY_COLUMN
    found = {name: family_by_name(name) for name in names}
    if len(set(found.values())) == len(found) or len(set(found.values())) < FEWEST:
        return {name: name for name in names}, EACH
    return found, BY_NAME
