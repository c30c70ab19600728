"""Divide the cache and bandwidth of this machine as the core says: the resctrl actuator, one call at a time.

Its calls wait for the kernel, so they are made in a thread; changes between two calls are noted and carried out by the
next. If resctrl is absent, that is said once and jobs run without it. Nothing here starts or ends a job.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable, Collection
from pathlib import Path

from cohabit.agent.local_nodes import LocalNode
from cohabit.agent.resctrl.actuator import Actuator, Result
from cohabit.agent.resctrl.files import Files, Mount
from cohabit.agent.resctrl.wanted import Placed, Reach, unbooked
from cohabit.model.command import SetShares
from cohabit.model.errors import InputError

ON, DRY, OFF = MODES = ("on", "dry-run", "off")
AGAIN_S = 1.0  # retry interval for unfinished work
HEAL_S = 15.0  # others may have changed our groups
TasksOf = Callable[[str], Collection[int]]


class CacheShares:
    """`tasks_of` returns the threads of a running job; `say` gets messages for people; `refuse` gets jobs that go
    without their share, with the reason, each once until that changes."""

    def __init__(
        self,
        nodes: tuple[LocalNode, ...],
        mount: Callable[[], Mount | None],
        say: Callable[[str], None],
        tasks_of: TasksOf,
        refuse: Callable[[dict[str, str]], None],
        mode: str = ON,
        reach: Reach = unbooked,
        processor: str = "",
        files: Files | None = None,
        always: bool = False,
    ) -> None:
        if mode not in MODES:
            raise InputError(f"shares = {mode!r}", "shares", f"use one of {', '.join(MODES)}")
        self._say, self._tasks_of, self._refuse, self.mode = say, tasks_of, refuse, mode
        self._refused: dict[str, str] = {}
        self.mounted = bool(nodes) and mount() is not None
        self._actuator = Actuator(nodes, say, files, mount=mount, reach=reach, processor=processor, always=always)
        self._lock, self._noted = threading.Lock(), list[Callable[[], object]]()
        self._unfinished, self._told = False, False
        self.placed: set[str] = set()

    @property
    def able(self) -> bool:
        """Return whether orders have an effect."""
        return self.mounted and self.mode == ON

    def divide(self, command: SetShares) -> None:
        """Set a new division of the cache of these nodes; `apply` carries it out."""
        if self.mounted and self.mode != OFF:
            self._noted.append(lambda: self._actuator.divide(command))
        elif not self._told:
            self._told = True
            why = "that is switched off" if self.mode == OFF else "resctrl is not mounted, or no job is bound to cores"
            self._say(f"the cache is not divided: {why}")

    async def begin(self, job: Placed) -> tuple[Path, ...]:
        """Return the files that the first process of a starting job writes its id into."""
        if not self.mounted or self.mode == OFF:
            return ()
        self.placed.add(job.job_id)
        self._noted.append(lambda: self._actuator.place(job))
        await self.apply()
        return self._actuator.joins(job.job_id) if self.mode == ON else ()

    def adopt(self, jobs: Collection[Placed]) -> None:
        """Adopt running jobs after a restart; they keep what the kernel says they have."""
        if self.mounted and self.mode != OFF:
            self.placed |= {job.job_id for job in jobs}
            for job in jobs:
                self._noted.append(lambda one=job: self._actuator.place(one))  # type: ignore[misc]
            self._noted.append(self._adopt)

    def move(self, job: Placed) -> None:
        """Record that a job is on other nodes now; `apply` carries it out."""
        if job.job_id in self.placed:
            self._noted.append(lambda: self._actuator.place(job))

    def forget(self, job_id: str) -> None:
        """Forget a job that is over; the next `apply` removes its groups."""
        if job_id in self.placed:
            self.placed.discard(job_id)
            self._noted.append(lambda: self._actuator.forget(job_id))

    async def apply(self) -> None:
        """Carry out all noted changes."""
        if self.mounted and self.mode != OFF:
            refused = (await asyncio.to_thread(self._work)).refused
            if new := {job: why for job, why in refused.items() if self._refused.get(job) != why}:
                self._refuse(new)
            self._refused = refused

    async def tend(self) -> None:
        """Run forever: finish what failed, repair groups, and open or close the memory valve."""
        looked_s = time.monotonic()
        while self.mounted and self.mode == ON:
            await asyncio.sleep(AGAIN_S)
            now_s = time.monotonic()
            if self._unfinished or self._noted or (self.placed and now_s - looked_s > HEAL_S):
                looked_s = now_s
                await self.apply()
            elif self.placed:
                await asyncio.to_thread(self._relieve, now_s)

    def _work(self) -> Result:
        with self._lock:
            while self._noted:
                self._noted.pop(0)()
            if self.mode == DRY:
                for line in self._actuator.preview():
                    self._say(f"would write: {line}")
                return Result()
            result = self._actuator.apply(self._tasks_of)
            self._unfinished = result.unfinished
            return result

    def _adopt(self) -> None:
        with contextlib.suppress(OSError):  # resctrl is going away: there is nothing to adopt
            self._actuator.adopt()

    def _relieve(self, now_s: float) -> None:
        """Hold jobs to their booked bandwidth while the memory is nearly full, and release them afterwards."""
        with self._lock:
            shut = self._actuator.relieve(now_s)
        if shut:
            self._work()
