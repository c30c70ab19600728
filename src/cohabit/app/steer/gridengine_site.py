"""A site file (TOML) for a cluster under Grid Engine: which queues and policy, and the lease (docs/gridengine.md)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from cohabit.app.scenario.typed_toml import read_typed
from cohabit.app.steer.gridengine_switch import GridEngineTable, ask_around
from cohabit.app.steer.site import Around, SteeredSite, SteeredTables, launcher_settings
from cohabit.app.steer.switch import refuse_managers_files
from cohabit.backend.gridengine.calls import Calls, ReadOnly
from cohabit.backend.gridengine.steering import GridEngineManager
from cohabit.backend.gridengine.submitting import hand_in
from cohabit.backend.gridengine.watchdog import Settings, watchdog_command
from cohabit.backend.launcher_link import LauncherLink
from cohabit.launcher import gridengine_words
from cohabit.model.errors import InputError


class GridEngineTables(SteeredTables, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    gridengine: GridEngineTable = GridEngineTable()


@dataclass(frozen=True)
class GridEngineSite(SteeredSite):
    """The checked contents of the file."""

    word: ClassVar[str] = "gridengine"
    title: ClassVar[str] = "Grid Engine"
    table: GridEngineTable

    def launcher_settings(self) -> dict[str, Any]:
        """Return Grid Engine's programs, as found from here."""
        calls = Calls(self.table.bin, self.table.root, self.table.cell)
        return launcher_settings(self.word, calls, gridengine_words.PROGRAMS, calls.environment)

    async def look_around(self, only_read: bool = False, link: LauncherLink | None = None) -> Around:
        """Query Grid Engine by its commands."""
        table = self.table
        cluster = (table.bin, table.root, table.cell)
        calls = (ReadOnly if only_read else Calls)(*cluster, link=link)
        discovered, there = await ask_around(table, calls)
        found = self.named(discovered)
        queues = ", ".join(table.queues)
        return Around(
            found,
            GridEngineManager(calls, there, table.all_held, secures=not only_read),
            f"{len(found.names)} hosts of {queues}",
            {
                "version": found.version,
                "hosts": len(found.names),
                "queue": queues,
                "exclusive": there.exclusive or None,
                "checkpoint": there.checkpoint or None,
                "memory": there.memory or None,
                "unguarded": list(there.unguarded),
            },
            watchdog_command(Settings(*cluster, table.all_held, there)),
            calls.acts_as,
            partial(hand_in, calls, there),
            orders=Path(table.orders) if table.orders else None,
        )

    def warnings(self, around: Around) -> list[str]:
        """Add a warning if programs do not wait although the site file wants it."""
        found, bare = super().warnings(around), around.says["unguarded"]
        if bare and self.domain and self.groups.mates.threshold:
            words = "lacks starter_method or prolog: programs of mates do not wait for each other there"
            found.append(f"queue {', '.join(bare)} {words} (docs/install-mates.md)")
        return found


def read_gridengine_site(path: Path) -> GridEngineSite:
    """Read and check; paths in it are relative to it."""
    tables = read_typed(path, GridEngineTables, "docs/gridengine.md")
    table = tables.gridengine
    if not table.queues:
        raise InputError("no queue is named", f"{path}: gridengine.queue", "name at least one")
    site = GridEngineSite.of(path, tables, table)
    refuse_managers_files(table.bin, table.root)
    return site
