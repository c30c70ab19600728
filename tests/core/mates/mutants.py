"""Ways to break the protocol. Each must be caught by the campaign or by the explorer; otherwise they prove nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from cohabit.core.mates import coordinator, member
from cohabit.core.mates.state import Record


def _keeps(record: Record) -> bool:
    return False


@dataclass(frozen=True)
class Mutant:
    """A change of one module's text, or records that the store forgets to write."""

    name: str
    module: ModuleType | None = None
    old: str = ""
    new: str = ""
    forgets: Callable[[Record], bool] = _keeps

    @contextmanager
    def at_work(self) -> Iterator[Callable[[Record], bool]]:
        """The module is changed meanwhile; gives what the store forgets."""
        if self.module is None:
            yield self.forgets
            return
        source = Path(str(self.module.__file__)).read_text(encoding="utf-8")
        assert source.count(self.old) == 1, f"{self.old!r} is not once in {self.module.__name__}"
        kept = dict(vars(self.module))
        exec(compile(source.replace(self.old, self.new), str(self.module.__file__), "exec"), vars(self.module))
        try:
            yield self.forgets
        finally:
            vars(self.module).update(kept)


MUTANTS = (
    Mutant("the vote is not durable", forgets=lambda record: record.phase == "voted"),
    Mutant("the decision is not durable", forgets=lambda record: record.phase in ("committed", "running")),
    Mutant("no fencing", member, "if asked.attempt <= record.attempt:", "if False:"),
    Mutant(
        "the lease counts from the answer, not from the question",
        member,
        "max(view.bound_us, said.answers_us)",
        "max(view.bound_us, turn.now_us)",
    ),
    Mutant("a start has no fuse", member, "record.fuse_us = fuse_us(turn, one)", "record.fuse_us = FOREVER"),
    Mutant("reservations outlive their lease", member, "(RESERVING, VOTED) and now >=", "(RESERVING,) and now >="),
    Mutant("one vote is enough", coordinator, "if len(draft.ballots) == len(turn.others(one)):", "if draft.ballots:"),
    Mutant(
        "slow exchanges compare clocks",
        coordinator,
        "if round_trip_us <= one.group.terms.round_trip_us or",
        "if True or",
    ),
    Mutant("leases outlive their clock", member, "and not same_clock:", "and False:"),
    Mutant(
        "a start is made up for",
        member,
        "elif record.phase == COMMITTED and now > record.start_at_us + terms.late_us:",
        "elif False:",
    ),
    Mutant(
        "the lease is read on the sender's clock",
        coordinator,
        "0 if terms.common_clock else ballot.there_us - ballot.here_us",
        "0",
    ),
)
