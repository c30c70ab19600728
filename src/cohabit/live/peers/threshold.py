"""The threshold: runs of mates wait at it until all of them stand there; then it is open for that attempt. Pure.

Somebody's manager may start a run late, or not at all, whatever was agreed. So a run does nothing before it is told
that the threshold is open, and one side, the lowest domain of the attempt, decides: open when all stand there at the
same moment, and once open open for ever. What it says is kept (`save`) before anybody hears it. It must never open for
an attempt of which somebody does not stand there, and it asks no resource manager.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from cohabit.model.peer import NAME_LENGTH
from cohabit.model.texts import wrong_in_name

MOST_KEPT = 1000  # groups whose latest opening is remembered; it matters for seconds


class Round(msgspec.Struct, frozen=True):
    """An attempt of a group to start: its number in the protocol between the sides, and who takes part."""

    group: str
    number: int
    members: tuple[str, ...]  # domains, sorted

    @property
    def decider(self) -> str:
        """The side that decides."""
        return min(self.members)


class Ask(msgspec.Struct, frozen=True):
    """A run of one side: it stands at the threshold, or does not any more. Is it open?"""

    round: Round
    sender: str  # the side
    receiver: str  # the one that decides
    run: str  # a number drawn by the run itself
    stands: bool


class Decider:
    """One domain's decisions. `opened`: of each group the latest round that was opened."""

    def __init__(self, domain: str, opened: Mapping[str, int], save: Callable[[dict[str, int]], None]) -> None:
        self.domain, self._opened, self._save = domain, dict(opened), save
        self._standing: dict[Round, dict[str, str]] = {}  # domain -> run

    def wrong(self, ask: Ask) -> str:
        """Why this question is not answered; empty: it is."""
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
        """Whether it was opened."""
        return self._opened.get(round_.group) == round_.number

    def stand(self, ask: Ask) -> bool:
        """A run stands there; whether it is open now. If `save` fails nobody has stood there, and it is not open."""
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
        """Whether anybody stands there."""
        return round_ in self._standing

    def leave(self, ask: Ask) -> bool:
        """A run does not stand there any more. True: it was opened before, for all; then the run may begin, as its
        mates do. False: it will not be opened, unless a run of that side comes back."""
        there = self._standing.get(ask.round, {})
        if there.get(ask.sender) == ask.run:
            del there[ask.sender]
            if not there:
                del self._standing[ask.round]
        return self.is_open(ask.round)
