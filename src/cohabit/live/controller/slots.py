"""Counts how many of a scarce resource (connections, listeners, links) each holder has: a bound for one, a bound for
all, and a rest that only favoured holders (root, operators) may use. One holder can never take what others need.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable


class Slots:
    """`most` in all, `each` for one holder; the last `kept` are for favoured holders, which may exceed `each`."""

    def __init__(self, most: int, each: int, kept: int = 0) -> None:
        self.most, self.each, self.kept = most, each, kept
        self._held: Counter[Hashable] = Counter()
        self.taken = 0

    def take(self, holder: Hashable, favoured: bool = False) -> bool:
        """Take a slot for this holder; False: there is none."""
        if self.taken >= self.most - (0 if favoured else self.kept):
            return False
        if not favoured and self._held[holder] >= self.each:
            return False
        self._held[holder] += 1
        self.taken += 1
        return True

    def leave(self, holder: Hashable) -> None:
        """Give a slot of this holder back."""
        self._held[holder] -= 1
        self.taken -= 1
        if not self._held[holder]:
            del self._held[holder]


class Held:
    """One holder's slot, first held under an unproven identity, later under the proven one."""

    def __init__(self) -> None:
        self._slots: Slots | None = None
        self.holder: Hashable = None

    def move(self, slots: Slots, holder: Hashable, favoured: bool = False) -> bool:
        """Take a slot of this holder and give back the one before; False: there is none, and nothing changes."""
        if self._slots is slots and self.holder == holder:
            return True
        if not slots.take(holder, favoured):
            return False
        self.leave()
        self._slots, self.holder = slots, holder
        return True

    def leave(self) -> None:
        """Give the slot back."""
        if self._slots is not None:
            self._slots.leave(self.holder)
            self._slots = None
