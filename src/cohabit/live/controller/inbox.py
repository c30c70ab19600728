"""The controller's inbox: events from all sources, in order of arrival, up to a bound.

When it is full, a caller that can try again later (a submission, a peer) is refused; one that cannot (the back end)
waits. An entry is known to be writable before it joins a batch (`sealed`). A confirmed start decides nothing: it waits
a moment for other entries, so that a short run takes one batch and not two.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import Any, NamedTuple

import msgspec

from cohabit.backend.protocol import Launch
from cohabit.model import codec
from cohabit.model.errors import InputError
from cohabit.model.event import Event, JobStarted
from cohabit.model.texts import one_line

COMPANY_S = 0.02  # how long a confirmed start waits for other entries
log = logging.getLogger(__name__)


class Entry(NamedTuple):
    """An event; for a submission, also what the job executes, and the future that its caller waits for."""

    event: Event
    launch: Launch | None = None
    answer: asyncio.Future[None] | None = None
    first: tuple[Event, ...] = ()  # events that belong to the same request and come before it

    @property
    def events(self) -> tuple[Event, ...]:
        """All its events, in their order."""
        return (*self.first, self.event)

    def sealed(self) -> Entry:
        """Return the entry, known to be writable; an InputError says why a request is not. An observed event that
        cannot be written as it is loses the characters that cannot."""
        try:
            codec.encode(self.events)
            msgspec.msgpack.encode(self.launch)
        except (UnicodeError, OverflowError, TypeError, ValueError) as error:
            if self.answer is None and self.launch is None:
                log.warning(
                    "a fact is written without characters that the journal cannot store: %s", one_line(str(error), 200)
                )
                return self._replace(event=msgspec.convert(_writable(msgspec.to_builtins(self.event)), Event))
            raise InputError(f"it cannot be written to the journal: {one_line(str(error), 200)}", "request") from error
        return self


def _writable(plain: Any) -> Any:
    """Return the same data with texts that can be encoded."""
    if isinstance(plain, str):
        return plain.encode("utf-8", "replace").decode()
    if isinstance(plain, dict):
        return {_writable(key): _writable(value) for key, value in plain.items()}
    return [_writable(one) for one in plain] if isinstance(plain, list | tuple) else plain


class Inbox:
    """A bounded queue, used on one event loop."""

    def __init__(self, most: int) -> None:
        self._entries: deque[Entry] = deque()
        self._most, self._filled, self._space = most, asyncio.Event(), asyncio.Event()
        self._urgent = asyncio.Event()  # an entry is not a confirmed start, or `take` is interrupted
        self._space.set()

    def offer(self, entry: Entry) -> bool:
        """Add an entry unless the inbox is full; return whether it was added."""
        if len(self._entries) >= self._most:
            return False
        self._add(entry)
        return True

    async def put(self, entry: Entry) -> None:
        """Add an entry when there is space."""
        while len(self._entries) >= self._most:
            self._space.clear()
            await self._space.wait()
        self._add(entry)

    def put_back(self, entries: list[Entry]) -> None:
        """Put entries back to the front, in the same order; they had their space before."""
        self._entries.extendleft(reversed(entries))
        self.interrupt()

    async def take(self, patience_s: float, most: int) -> list[Entry]:
        """Return all entries, up to `most`; wait for the first one, but not longer than `patience_s`."""
        if not self._entries:
            self._filled.clear()
            try:
                await asyncio.wait_for(self._filled.wait(), patience_s)
            except TimeoutError:
                return []
        if not self._urgent.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._urgent.wait(), min(patience_s, COMPANY_S))
        taken = [self._entries.popleft() for _ in range(min(most, len(self._entries)))]
        if not self._entries:
            self._urgent.clear()
        self._space.set()
        return taken

    def interrupt(self) -> None:
        """Make `take` return, so that its caller looks at the clock again."""
        self._filled.set()
        self._urgent.set()

    def _add(self, entry: Entry) -> None:
        self._entries.append(entry)
        self._filled.set()
        if not isinstance(entry.event, JobStarted):
            self._urgent.set()
