"""A bounded share of co-runs goes to the pairs that teach most, so that unknown programs do not stay unknown.

A pair counts with the mean under what is not known of it, so an unknown pair is not a good one and would never be made.
Here one is made all the same, as long as at most `share` of the pairs that have started were made to learn. Of those
whose slowdowns stay within the site's bound even at the upper ends of their intervals it is the one whose run takes
most from what is not known of the two programs; a pair that is known better than runs vary teaches nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cohabit.model.mix import Floats

if TYPE_CHECKING:
    from cohabit.core.view import View

MEMORY_NAME = "exploring"


class Account(NamedTuple):
    """How many pairs have started, how many of those were made to learn, and which one waits to be."""

    pairs: int = 0
    explored: int = 0
    now: tuple[str, ...] = ()  # the jobs of it

    @classmethod
    def of(cls, memory: Mapping[str, Any]) -> Account:
        """Read it from the memory of policies."""
        kept = memory.get(MEMORY_NAME, {})
        return cls(kept.get("pairs", 0), kept.get("explored", 0), tuple(kept.get("now", ())))

    def after(self, known: Mapping[str, Sequence[str]], view: View) -> Account:
        """Return it after the remembered groups of which all jobs have left the queue."""
        groups = {tuple(group) for group in known.values() if len(group) > 1}
        gone = [group for group in sorted(groups) if not any(view.waits(name) for name in group)]
        explored = sum(group == self.now for group in gone)
        return Account(self.pairs + len(gone), self.explored + explored, () if explored else self.now)

    def allows(self, share: float) -> bool:
        """Return whether one more pair may be made to learn."""
        return self.explored + 1 <= share * self.pairs

    def kept(self) -> dict[str, Any]:
        """Return it as plain data."""
        return {"pairs": self.pairs, "explored": self.explored, "now": list(self.now)}


def most_instructive(gain: Floats, high: Floats, most_pct: float) -> tuple[int, int] | None:
    """Return the pair of places that teaches most, of those that keep the bound in both directions; None: none does."""
    both = gain + gain.T
    allowed = (high <= most_pct) & (most_pct >= high.T) & (both > 0)
    worth = np.where(np.triu(allowed, 1), both, 0.0)
    best = int(worth.argmax()) if worth.size else 0
    if not worth.size or worth.flat[best] <= 0:
        return None
    first, second = divmod(best, worth.shape[1])
    return first, second
