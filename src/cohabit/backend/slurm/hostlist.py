"""Lists as Slurm writes them: names of nodes, `n[0-3,7],login1`, and numbers. Nothing here asks Slurm anything."""

from __future__ import annotations

from cohabit.model.node_names import expanded

NOTHING = ("", "(null)", "None", "None assigned", "N/A")


def expand(text: str) -> tuple[str, ...]:
    """Return all names, in the order written."""
    return () if text in NOTHING else tuple(expanded(text))


def numbers(text: str) -> tuple[int, ...]:
    """Return the task numbers of an array, `1-5,8,10-20:5%2`; the bound after % is not part of them."""
    found: list[int] = []
    for piece in text.partition("%")[0].split(","):
        span, _, step = piece.partition(":")
        first, dash, last = span.partition("-")
        if first.isdigit():
            found += range(int(first), (int(last) if dash else int(first)) + 1, int(step or 1))
    return tuple(found)
