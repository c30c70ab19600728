"""Sends commands to the back end: those of one job in their order, those of different jobs concurrently.

A start that cannot be carried out becomes an event (StartRefused); other commands are tried again. Commands not known
to be carried out are `pending` and go into checkpoints, so that no command to stop is lost with the controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from typing import NamedTuple

from cohabit.backend.protocol import Backend, BackendError, Launch
from cohabit.model.command import CancelJob, Command, MoveJob, RenewJob, SetShares, StartJob, StopJob
from cohabit.model.event import Event, StartRefused

TRIES = 6
FIRST_PAUSE_S = 0.1
log = logging.getLogger(__name__)


class Settle(NamedTuple):
    """The end of a run is in the journal."""

    job_id: str
    attempt: int


Order = StartJob | CancelJob | StopJob | RenewJob | MoveJob | SetShares


class Dispatcher:
    """A queue for every job with unfinished commands. `make_room` makes room on a full disk, so that jobs can be
    stopped there, and returns whether there is more now."""

    def __init__(
        self,
        backend: Backend,
        report: Callable[[Event], Awaitable[None]],
        make_room: Callable[[], bool] = lambda: False,
    ) -> None:
        self._backend, self._report, self._make_room = backend, report, make_room
        self._lanes: dict[str, deque[tuple[Order | Settle, Launch | None]]] = {}
        self._workers: set[asyncio.Task[None]] = set()

    def give(self, order: Command | Settle, launch: Launch | None = None) -> None:
        """Carry out a command after the earlier ones of the same job."""
        if not isinstance(order, Order | Settle):
            return  # not for the back end
        name = "" if isinstance(order, SetShares) else order.job_id  # divisions of the cache have a queue of their own
        lane = self._lanes.get(name)
        if lane is None:
            lane = self._lanes[name] = deque()
            worker = asyncio.create_task(self._work(name, lane))
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        if isinstance(order, RenewJob) and len(lane) > 1 and isinstance(lane[-1][0], RenewJob):
            lane.pop()  # the later fuse counts; never the one being carried out
        lane.append((order, launch))

    def pending(self) -> list[Command]:
        """Return unconfirmed commands that must not be lost; of a division the executor keeps what was written."""
        orders = (order for lane in self._lanes.values() for order, _ in lane)
        return [order for order in orders if not isinstance(order, Settle | SetShares)]

    async def idle(self) -> None:
        """Wait until everything given so far is done."""
        while self._workers:
            await asyncio.wait(self._workers)

    async def close(self) -> None:
        """Cancel what is unfinished; a later controller repeats what matters."""
        for worker in list(self._workers):
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def _work(self, name: str, lane: deque[tuple[Order | Settle, Launch | None]]) -> None:
        while lane:
            order, launch = lane[0]
            try:
                await self._carry_out(order, launch)
            except Exception:
                log.exception("%s was not carried out", order)
            lane.popleft()
        del self._lanes[name]

    async def _carry_out(self, order: Order | Settle, launch: Launch | None) -> None:
        pause_s = FIRST_PAUSE_S
        if isinstance(order, CancelJob | StopJob):
            self._make_room()  # its end is to be recorded
        for left in reversed(range(TRIES)):
            try:
                if isinstance(order, Settle):
                    await self._backend.settled(order.job_id, order.attempt)
                else:
                    await self._backend.execute(order, launch)
                return
            except Exception as error:
                if isinstance(order, StartJob):  # whatever went wrong, the core must learn that it does not run
                    await self._refused(order, error)
                    return
                if not isinstance(error, BackendError | OSError):
                    raise
                if not left:
                    log.error("%s was given up: %s", order, error)
                    return
                if self._make_room():
                    continue
            await asyncio.sleep(pause_s)
            pause_s *= 2

    async def _refused(self, order: StartJob, error: Exception) -> None:
        if isinstance(error, BackendError | OSError):
            wait = {"back_off_us": error.back_off_us} if isinstance(error, BackendError) else {}
            await self._report(StartRefused(order.job_id, order.attempt, str(error), **wait))
        else:
            log.error("job %s could not be started", order.job_id, exc_info=error)
            await self._report(StartRefused(order.job_id, order.attempt, f"its start failed ({type(error).__name__})"))
