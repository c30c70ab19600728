"""Which jobs gain by another policy and which pay for it: mean turnaround before and after, by size and by user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

SIZES = (  # most nodes of a job, by its cores, and what such jobs are called
    (1.0, "a node"), (4.0, "up to 4 nodes"), (16.0, "up to 16 nodes"), (64.0, "up to 64 nodes"),
    (float("inf"), "more nodes"),
)  # fmt: skip
PART = "part of a node"
MOST_USERS = 10
OTHERS = "all others"
CLEAR_PCT = 2.0  # a smaller change is none

Floats = NDArray[np.float64]


def gains(cores: Floats, node_cores: int, users: Sequence[str], before_s: Floats, after_s: Floats) -> dict[str, Any]:
    """Return the groups; jobs without a turnaround (NaN) do not count."""
    counts = np.isfinite(before_s) & np.isfinite(after_s)
    nodes = cores / node_cores
    bounds = np.array([most for most, _ in SIZES])
    band = np.where(nodes < 1, -1, np.searchsorted(bounds, nodes))
    sizes = [PART, *(name for _, name in SIZES)]
    names, owner = np.unique(np.asarray(users, dtype=str), return_inverse=True)
    busiest = np.argsort(-np.bincount(owner[counts], minlength=len(names)), kind="stable")[:MOST_USERS].tolist()
    known = [str(names[number]) for number in busiest if names[number]]
    of_user = np.array([known.index(name) if name in known else len(known) for name in np.asarray(users, dtype=str)])
    return {
        "by_size": _groups(sizes, band + 1, counts, before_s, after_s),
        "by_user": _groups([*known, OTHERS], of_user, counts, before_s, after_s) if known else [],
    }


def _groups(
    names: Sequence[str], group: NDArray[np.int64], counts: NDArray[np.bool_], before_s: Floats, after_s: Floats
) -> list[dict[str, Any]]:
    found = []
    for number, name in enumerate(names):
        rows = counts & (group == number)
        if rows.any():
            before, after = float(before_s[rows].mean()), float(after_s[rows].mean())
            change = 100.0 * (after - before) / before if before > 0 else 0.0
            jobs = int(rows.sum())
            found.append({"group": name, "jobs": jobs, "before_s": before, "after_s": after, "change_pct": change})
    return found


def in_words(found: Mapping[str, Any]) -> str:
    """Return which groups clearly pay; empty if there are none to tell of."""
    said = []
    for key, what in (("by_size", "size of job"), ("by_user", "user")):
        pays = [f"{one['group']} ({one['change_pct']:+.0f} %)" for one in found[key] if one["change_pct"] > CLEAR_PCT]
        if found[key]:
            said.append(f"Mean turnaround longer than today, by {what}: {', '.join(pays) if pays else 'none'}.")
    return " ".join(said)
