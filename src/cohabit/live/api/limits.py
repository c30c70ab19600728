"""The limits of each user: queued jobs beyond the limit are refused, jobs beyond the running limit are held.

At most `max_running` jobs of a user are free to start; the others are held here and released in order as jobs end. A
small log of the place keeps which holds were made here. If a power cut loses its last line, a job stays held until it
is released by hand; too many jobs never start.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from pathlib import Path

from cohabit.core import columns
from cohabit.core.core import SchedulerCore
from cohabit.live.api.feed import Changed
from cohabit.live.api.problems import Refusal
from cohabit.live.api.settings import UserLimits
from cohabit.live.controller.refusals import Busy, UnknownJob, WrongState
from cohabit.model.errors import InputError
from cohabit.whole_files import replacing

RETRY_S = 1.0
log = logging.getLogger(__name__)

KEPT_BACK = "as many of its user's jobs as may run are running or about to: it is released when one ends"


class _Have:
    """The jobs of one user that have not ended."""

    def __init__(self) -> None:
        self.waiting: set[str] = set()
        self.running: set[str] = set()
        self.held: set[str] = set()  # the waiting jobs that are held, here or by a user or an operator
        self.kept_back: dict[str, None] = {}  # the held jobs that are held here, in their order
        self.limits = UserLimits()

    @property
    def free(self) -> int:
        """Jobs that run or may start at any moment."""
        return len(self.running) + len(self.waiting - self.held)


class Limits:
    """The limits of all users; used on one event loop. `release` lifts a hold."""

    def __init__(self, path: Path, release: Callable[[str], Awaitable[None]]) -> None:
        self._path, self._release = path, release
        self._have: dict[int, _Have] = defaultdict(_Have)
        self._ours: set[str] = set()
        self._releasing: set[asyncio.Task[None]] = set()
        self._open = False  # no job is released before the limits of each user are known

    def restore(self, core: SchedulerCore) -> None:
        """Count the jobs of a restarted controller."""
        kept = self._read()
        state = core.state
        by_age = sorted(state.rows.items(), key=lambda item: int(state.jobs[columns.SEQ, item[1]]))
        for name, row in by_age:
            have = self._have[state.spec(row).user]
            runs = state.jobs[columns.STATE, row] in (columns.STARTING, columns.RUNNING)
            (have.running if runs else have.waiting).add(name)
            if row in state.held:
                have.held.add(name)
                if name in kept:
                    have.kept_back[name] = None
                    self._ours.add(name)
        if kept != self._ours:
            with replacing(self._path) as stream:
                stream.write("".join(f"+{name}\n" for name in self._ours).encode())

    def counts(self) -> tuple[int, int, int]:
        """(queued, of these held, running) over all users."""
        have = self._have.values()
        return (
            sum(len(one.waiting) for one in have),
            sum(len(one.held) for one in have),
            sum(len(one.running) for one in have),
        )

    def admit(self, owner: int, limits: UserLimits, names: list[str], held: bool) -> bool:
        """Count new jobs, or refuse them; return whether they must be held because enough of the user's may start."""
        have = self._have[owner]
        have.limits = limits
        if limits.max_queued is not None and len(have.waiting) + len(names) > limits.max_queued:
            raise Refusal(
                429,
                f"you have {len(have.waiting)} jobs queued and may have {limits.max_queued}",
                "max_queued",
                "wait for some of them, or cancel some",
            )
        back = not held and limits.max_running is not None and have.free + len(names) > limits.max_running
        if back:
            self._mark("+", names)
            have.kept_back |= dict.fromkeys(names)
            self._ours.update(names)
        have.waiting.update(names)
        if held or back:
            have.held.update(names)
        return back

    def withdraw(self, owner: int, names: Iterable[str]) -> None:
        """Forget jobs that were not accepted after all."""
        for name in names:
            self._forget(owner, name)

    def note_held(self, owner: int, name: str) -> None:
        """Record that a job is held by its owner or an operator, and no longer by a limit."""
        have = self._have[owner]
        if name in have.waiting:
            have.held.add(name)
        self._unmark(have, name)
        self.release_free(owner)

    def may_release(self, owner: int, name: str, limits: UserLimits) -> bool:
        """Return whether a hold may be lifted now; otherwise the job is held by the limit from now on."""
        have = self._have[owner]
        have.limits = limits
        if limits.max_running is None or have.free < limits.max_running:
            have.held.discard(name)
            self._unmark(have, name)
            return True
        if name in have.held and name not in self._ours:
            self._mark("+", [name])
            self._ours.add(name)
            have.kept_back[name] = None
        return False

    def note_released(self, owner: int, name: str) -> None:
        """Record that a job's hold was lifted."""
        have = self._have[owner]
        have.held.discard(name)
        self._unmark(have, name)

    def keeps_back(self, name: str) -> bool:
        """Return whether a job is held by a limit."""
        return name in self._ours

    def turn(self, changes: list[Changed]) -> None:
        """Update the counts with the changes of a batch."""
        concerned = set()
        for one in changes:
            if one.kind != "job" or one.members:
                continue
            if one.over:
                self._forget(one.owner, one.name)
                concerned.add(one.owner)
            else:
                have = self._have[one.owner]
                runs = one.state == "running"
                (have.running if runs else have.waiting).add(one.name)
                (have.waiting if runs else have.running).discard(one.name)
        for owner in concerned:
            self.release_free(owner)

    def open(self, limits: Mapping[int, UserLimits]) -> None:
        """Set the limits of the users with jobs, and release every job that may start."""
        self._open = True
        for owner, own in limits.items():
            self._have[owner].limits = own
            self.release_free(owner)

    async def close(self) -> None:
        """Stop releasing jobs; the next server releases the rest."""
        self._open = False
        for task in list(self._releasing):
            task.cancel()
        await asyncio.gather(*self._releasing, return_exceptions=True)

    def owners(self) -> list[int]:
        """Return the users with jobs."""
        return list(self._have)

    def _forget(self, owner: int, name: str) -> None:
        have = self._have[owner]
        for names in (have.waiting, have.running, have.held):
            names.discard(name)
        self._unmark(have, name)
        if not have.waiting and not have.running:
            del self._have[owner]

    def release_free(self, owner: int) -> None:
        """Release the user's jobs that may start."""
        have = self._have.get(owner)
        while self._open and have is not None and have.kept_back:
            most = have.limits.max_running
            if most is not None and have.free >= most:
                return
            name = next(iter(have.kept_back))
            del have.kept_back[name]
            have.held.discard(name)
            task = asyncio.get_running_loop().create_task(self._lift(name))
            self._releasing.add(task)
            task.add_done_callback(self._releasing.discard)

    async def _lift(self, name: str) -> None:
        """Release a job, with retries: it must not stay held because the disk was full for a moment."""
        while True:
            try:
                await self._release(name)
                break
            except (UnknownJob, WrongState):  # it has ended, or was never accepted
                break
            except (Busy, InputError):  # retry: the disk is full, or the controller is being stopped
                await asyncio.sleep(RETRY_S)
        if name in self._ours:
            self._ours.discard(name)
            self._mark("-", [name])

    def _unmark(self, have: _Have, name: str) -> None:
        if name in self._ours:
            have.kept_back.pop(name, None)
            self._ours.discard(name)
            self._mark("-", [name])

    def _read(self) -> set[str]:
        kept: set[str] = set()
        try:
            lines = self._path.read_text(encoding="utf-8").splitlines()
        except FileNotFoundError:
            return kept
        for line in lines:
            (kept.add if line[:1] == "+" else kept.discard)(line[1:])
        return kept

    def _mark(self, sign: str, names: Iterable[str]) -> None:
        try:
            with open(self._path, "ab") as stream:
                stream.write("".join(f"{sign}{name}\n" for name in names).encode())
        except OSError as error:
            log.error("%s cannot be written: %s", self._path, os.strerror(error.errno or 0).lower())
            if sign == "+":
                raise Refusal(
                    503, "no job can be accepted now: the disk cannot be written", str(self._path), "try later"
                ) from error
