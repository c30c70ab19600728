"""The threshold: a barrier at which runs of mates wait until all have arrived. It opens once for an attempt. Pure.

A resource manager may start a run late, or not at all, whatever was agreed. So a run does nothing before it is told
that the threshold is open. One domain, the lowest of the attempt, decides: it opens when runs of all domains wait at
the same moment, and then stays open. A decision is saved (`save`) before it is sent. The threshold must never open for
an attempt while the run of a domain is missing, and it asks no resource manager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from cohabit.model.peer import NAME_LENGTH
from cohabit.model.texts import wrong_in_name

MOST_KEPT = 1000  # groups for which the latest opening is kept; it is needed for seconds


class Round(msgspec.Struct, frozen=True):
    """An attempt of a group to start: its number in the protocol between the domains, and its members."""

    group: str
    number: int
    members: tuple[str, ...]  # domains, sorted

    @property
    def decider(self) -> str:
        """The domain that decides."""
        return min(self.members)


class Ask(msgspec.Struct, frozen=True):
    """A question of a run: whether the threshold is open. `stands`: the run waits there, or has left."""

    round: Round
    sender: str  # the domain of the run
    receiver: str  # the domain that decides
    run: str  # a number drawn by the run itself
    stands: bool


class Decider:
    """The decisions of one domain. `opened`: the latest opened round of each group."""

    def __init__(self, domain: str, opened: Mapping[str, int], save: Callable[[dict[str, int]], None]) -> None:
        self.domain, self._opened, self._save = domain, dict(opened), save
        self._standing: dict[Round, dict[str, str]] = {}  # domain -> run

    def wrong(self, ask: Ask) -> str:
        """Return why this question is refused; empty: it is answered."""
        members = ask.round.members
        if ask.receiver != self.domain or not members or ask.round.decider != self.domain:
            return "another domain decides about this group"
        if ask.sender not in members or tuple(sorted(set(members))) != members:
            return "the sender takes no part in this attempt"
        names = (ask.round.group, *members, ask.run)
        if not all(0 < len(name) <= NAME_LENGTH and not wrong_in_name(name) for name in names):
            return "a name is empty, too long or has a control character in it"
        return ""

    def is_open(self, round_: Round) -> bool:
        """Return whether this round was opened."""
        return self._opened.get(round_.group) == round_.number

    def stand(self, ask: Ask) -> bool:
        """Add a waiting run; return whether the threshold is open. If `save` fails, no run is added and it is not."""
        if self.is_open(ask.round):
            return True
        there = {**self._standing.get(ask.round, {}), ask.sender: ask.run}
        if set(there) != set(ask.round.members):
            self._standing[ask.round] = there
            return False
        opened = {name: number for name, number in self._opened.items() if name != ask.round.group}
        while len(opened) >= MOST_KEPT:
            del opened[next(iter(opened))]
        opened[ask.round.group] = ask.round.number
        self._save(opened)
        self._opened = opened
        self._standing.pop(ask.round, None)
        return True

    def waited_for(self, round_: Round) -> bool:
        """Return whether any run waits for this round."""
        return round_ in self._standing

    def leave(self, ask: Ask) -> bool:
        """Remove a waiting run; return whether the threshold is open. True: it was opened before, for all, so the run
        may begin, as its mates do. False: it will not open, unless a run of that domain comes back."""
        there = self._standing.get(ask.round, {})
        if there.get(ask.sender) == ask.run:
            del there[ask.sender]
            if not there:
                del self._standing[ask.round]
        return self.is_open(ask.round)
