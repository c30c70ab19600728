"""Names for jobs submitted without one: the next number, never a used one, with no gaps after a restart.

A mark in the journal's settings is always ahead of the numbers given out; after a restart the numbers before the mark
are looked up.
"""

from __future__ import annotations

import asyncio

from sqlalchemy.exc import DBAPIError

from cohabit.core.core import SchedulerCore
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.database import said
from cohabit.live.controller.journal import Journal
from cohabit.live.controller.refusals import NotWritable

AHEAD = 200
_MARK = "number"


class Numbers:
    """The source of numbers; used on one event loop."""

    def __init__(self, controller: Controller, journal: Journal) -> None:
        self._controller, self._journal = controller, journal
        self._next = self._mark = 0
        self._marking = asyncio.Lock()

    async def next(self) -> str:
        """Return a new name."""
        while self._next >= self._mark:
            async with self._marking:
                if self._next >= self._mark:
                    self._next, self._mark = await self._controller.ask(self._go_on)
        self._next += 1
        return str(self._next - 1)

    def _go_on(self, _: SchedulerCore) -> tuple[int, int]:
        """Return the next number and a new mark; called in the worker thread."""
        try:
            number = self._next
            if not self._mark:
                mark = int(self._journal.get(_MARK) or 1)
                known = self._journal.known_jobs([str(one) for one in range(max(mark - AHEAD, 1), mark)])
                number = max((int(one) for one in known), default=max(mark - AHEAD, 1) - 1) + 1
            self._journal.put({_MARK: str(number + AHEAD)})
        except DBAPIError as error:
            raise NotWritable(f"the journal cannot be written: {said(error)}") from error
        return number, number + AHEAD
