"""Retention: how long records, outputs, the audit log and the journal are kept, and the removal of older ones.

A controller does this by itself, and `cohabit prune` on request. What is to be removed is looked up over a separate
connection; removing alternates with decisions, a small portion at a time. Outputs belong to the launcher, which is
asked to remove them. They are removed before the records that refer to them, so a kill -9 leaves too much, never too
little.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

import msgspec
import sqlalchemy as sa

from cohabit.backend.launcher_link import LauncherRefused
from cohabit.backend.protocol import BackendError
from cohabit.live.api.audit import remove_old
from cohabit.live.controller import removal
from cohabit.live.controller.journal import Journal, JournalError
from cohabit.live.controller.journal_schema import get
from cohabit.live.controller.removal import BEFORE, Portion
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND

FIRST_S, JOURNAL_S, ALL_S = 30.0, 60.0, 3600.0  # after the start; between two checks of the journal; of everything
RECORDS, BATCHES, PAGES, OUTPUTS = 250, 250, 250, 500  # in one portion
PAUSE_S = 0.02  # between two portions
DAY_S = 86_400
OUTPUTS_REMOVED = "outputs_removed"  # a setting of the journal: "END_US JOB" of the last job whose output was removed
LONGEST_DAYS = 36_500
log = logging.getLogger(__name__)
T = TypeVar("T")
RemoveOutputs = Callable[[int, list[str], bool], Awaitable[dict[str, Any]]]  # uid, jobs, dry run


@dataclass(frozen=True)
class KeepConfig:
    """[keep]: how long data is kept; -1: for ever."""

    records_days: float = 90
    records: int = 1_000_000  # finished jobs at most
    outputs_days: float = 30
    audit_days: float = 365
    journal_days: float = 7
    journal_batches: int = 20_000  # at most

    def check(self, where: str) -> None:
        """Refuse values that make no sense."""
        for key, value in vars(self).items():
            most = LONGEST_DAYS if key.endswith("_days") else 10**12
            if value != -1 and not 0 <= value <= most:
                raise InputError(f"{key} = {value}", where, f"give 0 to {most}, or -1: for ever")


class Core(Protocol):
    """The controller's worker, which decides between two questions, and its reader."""

    async def ask(self, question: Callable[[Any], T]) -> T:
        """Ask in the thread of the journal."""

    async def read(self, question: Callable[[sa.Connection], T]) -> T:
        """Ask in the reader's thread."""


class Pruned(NamedTuple):
    """The amounts that were removed, or in a dry run would be."""

    records: Portion = Portion()
    outputs: Portion = Portion()
    audit: Portion = Portion()
    journal: Portion = Portion()

    def document(self, dry_run: bool) -> dict[str, Any]:
        """Return this for people and programs."""
        return {"dry_run": dry_run} | {key: msgspec.structs.asdict(value) for key, value in self._asdict().items()}


class Retention:
    """The retention of one place. `remove_outputs` asks the launcher; None: outputs are not in the place. `numbered`:
    names of jobs that are numbers were given by this server."""

    def __init__(
        self,
        keep: KeepConfig,
        journal: Journal,
        core: Core,
        now_us: Callable[[], int],
        audit: Path,
        remove_outputs: RemoveOutputs | None,
        numbered: bool = True,
    ) -> None:
        self.keep, self._journal, self._core, self._now_us = keep, journal, core, now_us
        self._audit, self._remove_outputs, self._numbered = audit, remove_outputs, numbered
        self._one_at_a_time = asyncio.Lock()

    async def live(self) -> None:
        """Run until cancelled; errors are logged, and removal is tried again later."""
        loop = asyncio.get_running_loop()
        all_s = loop.time() + FIRST_S
        while True:
            await asyncio.sleep(min(JOURNAL_S, max(all_s - loop.time(), 0.0)))
            try:
                if loop.time() >= all_s:
                    all_s = loop.time() + ALL_S
                    await self.prune()
                else:
                    async with self._one_at_a_time:
                        await self._prune_journal(False)
            except (JournalError, BackendError, OSError) as error:
                log.warning("old data is not removed now: %s", error)
            except Exception:
                log.exception("old data is not removed now")

    async def prune(self, dry_run: bool = False) -> Pruned:
        """Remove all that is not kept any longer."""
        async with self._one_at_a_time:
            cut_us = await self._records_cut()
            outputs = await self._prune_outputs(cut_us, dry_run)
            records = await self._prune_records(cut_us, dry_run)
            days = self.keep.audit_days
            audit = Portion() if days < 0 else remove_old(self._audit, days * DAY_S, self._now_us() / SECOND, dry_run)
            found = Pruned(records, outputs, audit, await self._prune_journal(dry_run))
            while not dry_run and await self._core.ask(lambda _: self._journal.shrink(PAGES)):
                await asyncio.sleep(PAUSE_S)
        if not dry_run and any(one.count for one in found):
            log.info("removed by retention: %s", found)
        return found

    def _before(self, days: float) -> int:
        """Return the instant this many days ago; 0: there is no bound."""
        return 0 if days < 0 else max(self._now_us() - round(days * DAY_S * SECOND), 0)

    # ---- records and outputs ----------------------------------------------------------------------------------------

    async def _records_cut(self) -> int:
        await self._core.ask(lambda _: self._journal.flush())
        before = self._before(self.keep.records_days)
        return await self._core.read(lambda one: removal.records_cut(one, before, self.keep.records))

    async def _prune_records(self, cut_us: int, dry_run: bool) -> Portion:
        if dry_run:
            return await self._core.read(lambda one: removal.due_records(one, cut_us))
        return await self._portions(lambda one: removal.remove_records(one, cut_us, RECORDS, self._numbered))

    async def _prune_outputs(self, records_cut_us: int, dry_run: bool) -> Portion:
        """Remove outputs of jobs that ended long ago, or whose records are removed next."""
        if self._remove_outputs is None or self.keep.outputs_days < 0:
            return Portion()
        cut_us = max(self._before(self.keep.outputs_days), records_cut_us)
        behind = await self._core.read(outputs_removed)
        found = Portion()
        while True:
            due = await self._core.read(lambda one, at=behind: removal.due_outputs(one, at, cut_us, OUTPUTS))  # type: ignore[misc]
            if due.last is None:
                return found
            for uid, jobs in due.jobs.items():
                try:
                    told = await self._remove_outputs(uid, jobs, dry_run)
                except LauncherRefused as error:  # jobs of this user are not run here any more: others' go on
                    log.warning("outputs of user %d are not removed: %s", uid, error)
                    continue
                found = found.plus(Portion(told["files"], told["bytes"]))
                for one in told["left"]:
                    log.warning("an output is not removed: %s", one)
            behind = due.last
            if not dry_run:
                mark = {OUTPUTS_REMOVED: f"{behind[0]} {behind[1]}"}
                await self._core.ask(lambda _, mark=mark: self._journal.put(mark))  # type: ignore[misc]
            await asyncio.sleep(PAUSE_S)

    # ---- the journal ------------------------------------------------------------------------------------------------

    async def _prune_journal(self, dry_run: bool) -> Portion:
        """Remove batches that no replay needs any more, with their checkpoints."""
        cut_us, most = self._before(self.keep.journal_days), self.keep.journal_batches
        old = await self._core.read(lambda one: removal.find_old_facts(one, cut_us, most))
        if dry_run:
            return await self._core.read(lambda one: removal.due_facts(one, old))
        found = Portion()
        if old.checkpoints:
            found = await self._core.ask(
                lambda _: self._journal.change(lambda one: removal.remove_checkpoints(one, old.checkpoints))
            )
        return found.plus(await self._portions(lambda one: removal.remove_batches(one, old.upto, BATCHES)))

    async def _portions(self, remove: Callable[[sa.Connection], Portion]) -> Portion:
        """Remove until nothing is left; decisions are made between two portions."""
        found = Portion()
        while True:
            portion = await self._core.ask(lambda _: self._journal.change(remove))
            if not portion.count:
                return found
            found = found.plus(portion)
            await asyncio.sleep(PAUSE_S)


def outputs_removed(connection: sa.Connection) -> tuple[int, str] | None:
    """Return end and name of the last job whose output was removed; None: none was."""
    end_us, _, job = (get(connection, OUTPUTS_REMOVED) or "").partition(" ")
    return (int(end_us), job) if end_us else None


def removed_before(connection: sa.Connection) -> float | None:
    """Return the instant before which records of ended jobs are gone; None: none was removed."""
    found = get(connection, BEFORE)
    return None if found is None else int(found) / SECOND
