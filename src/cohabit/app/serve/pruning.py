"""Remove what is past its retention time from a place with a stopped controller.

The lock of the place is held meanwhile. Root reads and writes the journal with the rights of the account that owns it;
a launcher removes outputs with the same checks as for a running controller.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from typing import Any, TypeVar

import sqlalchemy as sa

from cohabit.app.serve.serving import ServeConfig
from cohabit.backend.launcher_link import LauncherLink, own_settings
from cohabit.launcher.process import Begun, begin
from cohabit.live.controller.journal import Journal, JournalError, open_journal
from cohabit.live.controller.place import Place, as_owner, is_there, only_one, open_place
from cohabit.live.controller.retention import Pruned, Retention
from cohabit.model.errors import InputError
from cohabit.model.units import SECOND

T = TypeVar("T")
Say = Callable[[str], None]


class _Alone:
    """A journal that no controller uses: every query is answered at once."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    async def ask(self, question: Callable[[Any], T]) -> T:
        """Answer without a core: there is none."""
        return question(None)

    async def read(self, question: Callable[[sa.Connection], T]) -> T:
        """Run a query over the readers' connection, as in a controller."""
        with self._journal.reader().connect() as connection, connection.begin():
            return question(connection)


def prune_stopped(config: ServeConfig, dry_run: bool, say: Say) -> Pruned:
    """Remove it, or find out what would be removed. The journal's file is rewritten, so that it shrinks."""
    journal = config.find_journal()
    if not isinstance(journal, str) and not is_there(journal):
        raise InputError("there is no journal", str(journal), "name the folder a controller has served from")
    place = open_place(config.place)
    with only_one(place):
        begun = _launcher(config, place)
        with as_owner(place.private):
            return asyncio.run(_prune(config, place, begun, dry_run, say))


def _launcher(config: ServeConfig, place: Place) -> Begun:
    """Start a launcher with the rights of the caller: root's, if root started the controller."""
    owner = place.private.stat()
    told = own_settings(place.root)
    if os.geteuid() == 0:
        told = config.launcher.told(place.root) | {"own": [owner.st_uid, owner.st_gid], "strict": owner.st_uid != 0}
    return begin(told)


async def _prune(config: ServeConfig, place: Place, begun: Begun, dry_run: bool, say: Say) -> Pruned:
    link = LauncherLink({}, lambda _: None, begun)
    await link.open()
    try:
        journal = open_journal(config.journal)
        try:

            async def remove_outputs(uid: int, jobs: list[str], dry: bool) -> dict[str, Any]:
                return dict(await link.ask("remove_outputs", uid=uid, jobs=jobs, dry_run=dry))

            now_us = round(time.time() * SECOND)
            alone = _Alone(journal)
            found = await Retention(config.keep, journal, alone, lambda: now_us, place.audit, remove_outputs).prune(
                dry_run
            )
            if not dry_run:
                _shrink(journal, say)
            return found
        finally:
            journal.close()
    finally:
        await link.close()


def _shrink(journal: Journal, say: Say) -> None:
    try:
        journal.shrink()
    except JournalError as error:  # e.g. no room: a copy of it needs as much space again
        say(f"{error}; nothing is lost")
