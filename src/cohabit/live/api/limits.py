"""How much each user may have: queued jobs are counted and refused, running ones kept back by holding the next.

At most `max_running` jobs of a user are free to start; those beyond are held by us and let go in their order as others
end. Which holds are ours survives in a small log of the place. Losing its last line in a power cut leaves a job held,
to be released by hand; it never lets too many start.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
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


class _Have:
    """The jobs of one user that are not over."""

    def __init__(self) -> None:
        self.waiting: set[str] = set()
        self.running: set[str] = set()
        self.held: set[str] = set()  # of the waiting, by anybody
        self.kept_back: dict[str, None] = {}  # of the held, by us, in their order
        self.limits = UserLimits()

    @property
    def free(self) -> int:
        """Jobs that run or may start at any moment."""
        return len(self.running) + len(self.waiting - self.held)


class Limits:
    """Used on one event loop. `release` has a hold lifted."""

    def __init__(self, path: Path, release: Callable[[str], Awaitable[None]]) -> None:
        self._path, self._release = path, release
        self._have: dict[int, _Have] = defaultdict(_Have)
        self._ours: set[str] = set()
        self._releasing: set[asyncio.Task[None]] = set()
        self._open = False  # nobody is let go before it is known what each user may have

    def restore(self, core: SchedulerCore) -> None:
        """Count what a restarted controller has."""
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
        """Count new jobs in, or refuse them; whether they must be held because enough of the user's may start."""
        have = self._have[owner]
        have.limits = limits
        if limits.max_queued is not None and len(have.waiting) + len(names) > limits.max_queued:
            raise Refusal(
                429, f"you have {len(have.waiting)} jobs queued and may have {limits.max_queued}", "max_queued",
                "wait for some of them, or cancel some",
            )  # fmt: skip
        back = not held and limits.max_running is not None and have.free + len(names) > limits.max_running
        if back:
            self._mark("+", names)
            have.kept_back |= dict.fromkeys(names)
            self._ours.update(names)
        have.waiting.update(names)
        if held or back:
            have.held.update(names)
        return back

    def taken(self, owner: int) -> None:
        """They are durable: those of them that may start are let go."""
        self._let_go(owner)

    def withdraw(self, owner: int, names: Iterable[str]) -> None:
        """They were not taken after all."""
        for name in names:
            self._forget(owner, name)

    def note_held(self, owner: int, name: str) -> None:
        """Its owner or an operator holds it: it is not ours any more."""
        have = self._have[owner]
        if name in have.waiting:
            have.held.add(name)
        if name in self._ours:
            self._unmark(have, name)
        self._let_go(owner)

    def may_release(self, owner: int, name: str, limits: UserLimits) -> bool:
        """Whether a hold may be lifted now; otherwise it is ours from now on."""
        have = self._have[owner]
        have.limits = limits
        if limits.max_running is None or have.free < limits.max_running:
            have.held.discard(name)
            if name in self._ours:
                self._unmark(have, name)
            return True
        if name in have.held and name not in self._ours:
            self._mark("+", [name])
            self._ours.add(name)
            have.kept_back[name] = None
        return False

    def note_released(self, owner: int, name: str) -> None:
        """Its hold was lifted."""
        have = self._have[owner]
        have.held.discard(name)
        if name in self._ours:
            self._unmark(have, name)

    def keeps_back(self, name: str) -> bool:
        """Whether a job is held by us."""
        return name in self._ours

    def turn(self, changes: list[Changed]) -> None:
        """What a batch led to."""
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
            self._let_go(owner)

    def let_all_go(self) -> None:
        """What users may have is known now: whoever may start is let go."""
        self._open = True
        for owner in list(self._have):
            self._let_go(owner)

    async def close(self) -> None:
        """Those not let go by now are let go by the next server."""
        self._open = False
        for task in list(self._releasing):
            task.cancel()
        await asyncio.gather(*self._releasing, return_exceptions=True)

    def know(self, owner: int, limits: UserLimits) -> None:
        """What the site file says of a user."""
        self._have[owner].limits = limits

    def owners(self) -> list[int]:
        """Users who have jobs."""
        return list(self._have)

    def _forget(self, owner: int, name: str) -> None:
        have = self._have[owner]
        for names in (have.waiting, have.running, have.held):
            names.discard(name)
        if name in self._ours:
            self._unmark(have, name)
        if not have.waiting and not have.running:
            del self._have[owner]

    def _let_go(self, owner: int) -> None:
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
        """Until it is done: a job must not stay held because the disk was full for a moment."""
        while True:
            try:
                await self._release(name)
                break
            except (UnknownJob, WrongState):  # it is over, or was never taken
                break
            except (Busy, InputError):  # not now: the disk is full, or the controller is being stopped
                await asyncio.sleep(RETRY_S)
        if name in self._ours:
            self._ours.discard(name)
            self._mark("-", [name])

    def _unmark(self, have: _Have, name: str) -> None:
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
                    503, "nothing can be taken now: the disk refuses", str(self._path), "try later"
                ) from error
