"""An event loop whose clock leaps to the next timer when nothing is left to do: hours of controllers pass in seconds.

It leaps only when no thread works, no socket has anything to read, and no message is under way. So what happens does
not depend on how fast the machine is.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from concurrent.futures import Executor
from contextvars import ContextVar
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")
MESSAGE_S = 0.05  # of the machine's time: how long a message under way may need before the clock goes on
STUCK_S = 120.0
owner: ContextVar[str] = ContextVar("owner", default="")  # whose task this is, and all that it begins


class Stuck(AssertionError):
    """Nothing can happen any more."""


class _Patient(selectors.DefaultSelector):
    """Waits for what is under way, then lets the clock leap."""

    loop: LeapingLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        """Return what is ready; if nothing is, and nothing is under way, leap by `timeout`."""
        if timeout == 0 or (ready := super().select(0)):
            return super().select(0)
        if self.loop.threads:
            return super().select(STUCK_S)
        if self.loop.under_way() and (ready := super().select(MESSAGE_S)):
            return ready
        if timeout is None:
            raise Stuck("no timer is set, no thread works, and no message is under way")
        self.loop.passed_s += timeout
        return []


class LeapingLoop(asyncio.SelectorEventLoop):
    """Its time begins at 0. `under_way`: whether a message has left its sender and is not taken yet."""

    def __init__(self) -> None:
        patient = _Patient()
        patient.loop = self
        self.passed_s, self.threads = 0.0, 0
        self.under_way: Callable[[], bool] = lambda: False
        self._owned: WeakSet[asyncio.Task[Any]] = WeakSet()
        self._owners: dict[int, str] = {}
        super().__init__(patient)
        self.set_task_factory(self._noted)

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self.passed_s

    def run_in_executor(self, executor: Executor | None, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # type: ignore[override]
        """Work in a thread; the clock stands still meanwhile."""
        self.threads += 1
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(self._thread_done)
        return future

    def kill(self, name: str) -> list[asyncio.Task[Any]]:
        """Cancel all tasks of this owner."""
        tasks = [task for task in self._owned if not task.done() and self._owners.get(id(task)) == name]
        for task in tasks:
            task.cancel()
        return tasks

    def _thread_done(self, _: object) -> None:
        self.threads -= 1

    def _noted(self, loop: asyncio.AbstractEventLoop, coroutine: Any, **more: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, **more)
        self._owned.add(task)
        self._owners[id(task)] = owner.get()
        return task


def leap(main: Callable[[LeapingLoop], Coroutine[Any, Any, T]]) -> T:
    """Run this on a loop of its own."""
    loop = LeapingLoop()
    try:
        asyncio.set_event_loop(loop)
        return loop.run_until_complete(main(loop))
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        asyncio.set_event_loop(None)
        loop.close()
