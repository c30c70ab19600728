"""Names of nodes in Slurm's short form, `n[0-3,7],login1`: to names, back, and to numbers of a cluster's nodes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from cohabit.model.node_ranges import ranges_text, read_ranges

_BRACKET = re.compile(r"\[([^\]]*)\]")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})")


def expanded(text: str) -> Iterator[str]:
    """Yield all names, in the order written; raise ValueError where brackets hold no numbers."""
    return (name for part in _split(text) for name in _expand_one(part))


def _split(text: str) -> list[str]:
    """Split at commas outside brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += {"[": 1, "]": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [part for part in (*parts, text[start:]) if part]


def _expand_one(part: str) -> Iterator[str]:
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


def short_form(names: Iterable[str]) -> str:
    """Write names in short: n[0-3,7],login1. Plain numbers become 0-3,7."""
    runs: dict[str, list[tuple[str, str]]] = {}  # by what stands before the number: first and last of each run
    for name in names:
        found = _NUMBERED.fullmatch(name)
        spans = runs.setdefault(found[1] if found else name, [])
        number = found[2] if found else ""
        if spans and number and spans[-1][1] and number == f"{int(spans[-1][1]) + 1:0{len(spans[-1][0])}d}":
            spans[-1] = spans[-1][0], number
        else:
            spans.append((number, number))
    return ",".join(_in_short(head, spans) for head, spans in runs.items())


def _in_short(head: str, spans: list[tuple[str, str]]) -> str:
    text = ",".join(first if first == last else f"{first}-{last}" for first, last in spans)
    return f"{head}[{text}]" if head and ("," in text or "-" in text) else f"{head}{text}"


def nodes_text(ranges: Iterable[tuple[int, int]], names: Sequence[str]) -> str:
    """Write nodes by their names; by their numbers where they have none."""
    return short_form(names_in(ranges, names)) if names else ranges_text(ranges)


def names_in(ranges: Iterable[tuple[int, int]], names: Sequence[str]) -> list[str]:
    """Return the name of every node of these ranges; its number where it has none."""
    return [names[node] if names else str(node) for first, count in ranges for node in range(first, first + count)]


def read_nodes(text: str, names: Sequence[str]) -> tuple[tuple[int, int], ...]:
    """Read names or numbers of nodes as rising ranges that do not touch; raise ValueError on anything else."""
    numbers = {name: number for number, name in enumerate(names)}
    pieces = []
    for part in _split(text):
        try:
            found = [one.strip() for one in islice(_expand_one(part), len(names) + 1)]
        except ValueError:
            found = [part]
        pieces += [str(numbers.get(one, one)) for one in found]
    try:
        return read_ranges(",".join(pieces))
    except ValueError:
        raise ValueError(f"{text!r} is not a list of nodes (try {short_form(names[:4]) or '0-3,7'})") from None
