"""Report changes to waiting callers and listeners: jobs by name with their owner, nodes by number. On the event loop.

The controller calls `turn` after every batch. A listener that does not keep up is dropped; the feed never waits for it.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from cohabit.live.controller.slots import Slots

MOST_LISTENERS, OF_ONE_USER, FOR_OPERATORS = 200, 20, 40
MOST_UNREAD = 5000


class Changed(NamedTuple):
    """A change of a job or a node."""

    at_us: int
    kind: str  # "job" or "node"
    name: str
    owner: int  # of a job; -1: none
    state: str
    over: bool = False  # the job has ended
    array: str = ""  # the array it is a member of
    members: int = 0  # more than 0: this is an array


class Listener:
    """A reader of all changes; `None` in its queue ends it. `holder`: its user."""

    def __init__(self, holder: int) -> None:
        self.holder = holder
        self.queue: asyncio.Queue[Changed | None] = asyncio.Queue(MOST_UNREAD + 1)
        self.lags = False


class Feed:
    """All listeners and waiting callers; used on one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, set[asyncio.Event]] = defaultdict(set)
        self._listeners: set[Listener] = set()
        self._slots = Slots(MOST_LISTENERS, OF_ONE_USER, FOR_OPERATORS)
        self._watchers: list[Callable[[list[Changed]], None]] = []
        self.closed = False

    def watch(self, watcher: Callable[[list[Changed]], None]) -> None:
        """Call a function with the changes of every batch; it must return at once."""
        self._watchers.append(watcher)

    def turn(self, changes: Iterable[Changed]) -> None:
        """Report the changes of one batch."""
        changed = list(changes)
        for watcher in self._watchers:
            watcher(changed)
        for one in changed:
            for name in (one.name, one.array):
                for event in self._waiting.get(name, ()):
                    event.set()
            for listener in list(self._listeners):
                if listener.queue.qsize() >= MOST_UNREAD:
                    listener.lags = True
                    self.leave(listener)
                else:
                    listener.queue.put_nowait(one)

    @contextmanager
    def waiting(self, name: str) -> Iterator[Callable[[float], Awaitable[None]]]:
        """Miss no change of this job within the block; the yielded function waits for one, at most so many seconds."""
        event = asyncio.Event()
        self._waiting[name].add(event)
        if self.closed:
            event.set()

        async def changed(patience_s: float) -> None:
            with suppress(TimeoutError):
                await asyncio.wait_for(event.wait(), patience_s)

        try:
            yield changed
        finally:
            self._waiting[name].discard(event)
            if not self._waiting[name]:
                del self._waiting[name]

    def listen(self, user: int, operates: bool) -> Listener | None:
        """Add a listener to all changes; None: there are too many, in all or of this user."""
        if self.closed or not self._slots.take(user, operates):
            return None
        listener = Listener(user)
        self._listeners.add(listener)
        return listener

    @property
    def listeners(self) -> int:
        """The number of listeners."""
        return len(self._listeners)

    def leave(self, listener: Listener) -> None:
        """Remove a listener."""
        if listener in self._listeners:
            self._listeners.remove(listener)
            self._slots.leave(listener.holder)
        if listener.queue.qsize() <= MOST_UNREAD:
            listener.queue.put_nowait(None)

    def close(self) -> None:
        """Wake all waiting callers and remove all listeners."""
        self.closed = True
        for events in self._waiting.values():
            for event in events:
                event.set()
        for listener in list(self._listeners):
            self.leave(listener)
