"""Number the descriptions of jobs: jobs that are placed alike share a number, so a pass can skip thousands in one step.

On shared nodes these are jobs of the same description, with the ways in which they could run (`asks`); on whole nodes,
jobs that need as many nodes of the same kinds. All of it follows from the jobs and from what was measured of their
programs; the numbers have no meaning except equality. They are neither in a checkpoint nor in a journal.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cohabit.core.kinds import Kinds
from cohabit.core.ledger import Ledger, Takes
from cohabit.model.job import Job
from cohabit.model.plan import Ask

UNKNOWN = -1
SPARE = 4096  # this many more descriptions than rows are kept before all are numbered anew


class Descriptions:
    """The numbers of all rows of the job table, computed on first use."""

    def __init__(
        self, kinds: Kinds, shared: bool, capacity: int, circle_of: Callable[[Job], Hashable] = lambda job: None
    ) -> None:
        self._kinds, self._shared, self._circle_of = kinds, shared, circle_of
        self._of_row = np.full(capacity, UNKNOWN, np.int64)
        self._numbers: dict[tuple[Any, ...], int] = {}  # by description
        self._alike: dict[tuple[Any, ...], int] = {}  # by what a search for whole nodes depends on
        self._programs: list[str] = []  # by number
        self._asks: list[list[Ask] | None] = []  # by number; None: not asked yet
        self._wishes = Wishes()  # the same as arrays

    @property
    def count(self) -> int:
        """The number of descriptions."""
        return len(self._programs)

    def grow(self, capacity: int) -> None:
        """Make room for this many rows."""
        self._of_row = np.concatenate([self._of_row, np.full(capacity - len(self._of_row), UNKNOWN, np.int64)])

    def forget(self, row: int) -> None:
        """Drop the number of a row: it has another job now, or its job was changed."""
        self._of_row[row] = UNKNOWN

    def numbers(self, rows: NDArray[np.int64], specs: Sequence[Job | None]) -> NDArray[np.int64]:
        """Return the numbers of these rows."""
        if len(self._numbers) > len(self._of_row) + SPARE:
            self.__init__(self._kinds, self._shared, len(self._of_row), self._circle_of)  # type: ignore[misc]
        found = self._of_row[rows]
        unknown = rows[found == UNKNOWN]
        if len(unknown):
            for row in unknown.tolist():
                self._of_row[row] = self._number(specs[row])
            found = self._of_row[rows]
        return found

    def asks(self, row: int, specs: Sequence[Job | None], find: Callable[[], list[Ask]]) -> list[Ask]:
        """Return the ways in which the job could run: the stored ones, else those that `find` returns."""
        number = int(self._of_row[row])
        if number == UNKNOWN:
            number = self._of_row[row] = self._number(specs[row])
        known = self._asks[number]
        if known is None:
            known = self._asks[number] = find()
            self._wishes.note(number, known)
        return known

    def forget_asks(self, program: str | None = None) -> None:
        """Drop the asks of a program, or of all: its profile has changed."""
        for number, own in enumerate(self._programs):
            if program is None or own == program:
                self._asks[number] = None
                self._wishes.drop(number)

    def without_room(self, ledger: Ledger) -> NDArray[np.int64]:
        """Return the numbers of descriptions for which no known ask finds enough nodes."""
        return self._wishes.without_room(ledger)

    def _number(self, job: Job | None) -> int:
        assert job is not None
        text: tuple[Any, ...] = (job.processes, job.nodes, job.memory_bytes, job.partition)
        if self._shared:
            limit_us = job.limit_us if self._kinds.windows else 0
            owner = job.profile_owner if job.program else ""  # a job without a program has no profile
            text = (job.program, owner, *text, job.alpha, job.exclusive, job.single_node, job.spread, limit_us)
            text = (*text, self._circle_of(job))  # jobs that trust other jobs find other nodes
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = self._new(text, job)
        return number

    def _new(self, text: tuple[Any, ...], job: Job) -> int:
        if self._shared:
            alike = text
        else:
            usable, need = self._kinds.eligible(job)
            alike = (need, *usable.tolist())
        number = self._alike.setdefault(alike, self.count)
        if number == self.count:
            self._programs.append(job.program)
            self._asks.append(None)
        return number


class Wishes:
    """Asks of many descriptions, to be compared with the nodes at once."""

    def __init__(self) -> None:
        self._distinct: dict[Takes, int] = {}  # what is taken on a node, in the order of first use
        self._known: dict[int, tuple[tuple[int, int, int], ...]] = {}  # by number: (number, nodes, place in `distinct`)
        self._table: NDArray[np.int64] | None = None  # all of them as an array; None: it must be made again

    def note(self, number: int, asks: Sequence[Ask]) -> None:
        """Store the ways in which jobs of a description could run."""
        if len(self._distinct) > SPARE + 4 * len(self._known):  # most of them are no longer in use
            self.__init__()  # type: ignore[misc]
        distinct = self._distinct
        self._known[number] = tuple((number, ask.nodes, distinct.setdefault(ask.takes, len(distinct))) for ask in asks)
        self._table = None

    def drop(self, number: int) -> None:
        """Drop the asks of a description."""
        if self._known.pop(number, None) is not None:
            self._table = None

    def without_room(self, ledger: Ledger) -> NDArray[np.int64]:
        """Return the numbers of descriptions that find too few nodes for every ask."""
        if self._table is None:
            listed = list(chain.from_iterable(self._known.values()))
            self._table = np.array(listed, np.int64).reshape(-1, 3).T
        owner, nodes, takes = self._table
        fits = ledger.rooms(list(self._distinct))[takes] >= nodes
        return np.setdiff1d(owner, owner[fits])
