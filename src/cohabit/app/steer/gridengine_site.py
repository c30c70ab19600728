"""A site file (TOML) for a cluster under Grid Engine: which queues and policy, and the lease (docs/gridengine.md)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from cohabit.app.scenario.typed_toml import read_typed
from cohabit.app.steer.gridengine_switch import ask_around
from cohabit.app.steer.gridengine_table import GridEngineTable
from cohabit.app.steer.site import Around, SteeredSite, SteeredTables, alike_of, nobody, told_of
from cohabit.app.steer.table import refuse_managers_files
from cohabit.backend.gridengine.calls import Calls, ReadOnly
from cohabit.backend.gridengine.steered import GridEngineManager
from cohabit.backend.gridengine.submitting import hand_in
from cohabit.backend.gridengine.watchdog import Settings
from cohabit.backend.launcher_link import LauncherLink
from cohabit.launcher import gridengine_words
from cohabit.model.errors import InputError

WATCHDOG = "cohabit.backend.gridengine.watchdog"


class GridEngineTables(SteeredTables, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    gridengine: GridEngineTable = GridEngineTable()


@dataclass(frozen=True)
class GridEngineSite(SteeredSite):
    """The checked contents of the file."""

    word: ClassVar[str] = "gridengine"
    title: ClassVar[str] = "Grid Engine"
    gridengine: GridEngineTable = field(kw_only=True)

    def told(self) -> dict[str, Any]:
        """Return Grid Engine's programs, as found from here."""
        table = self.gridengine
        calls = Calls(table.bin, table.root, table.cell)
        return told_of("gridengine", calls, gridengine_words.PROGRAMS, calls.environment)

    async def look_around(self, only_read: bool = False, link: LauncherLink | None = None) -> Around:
        """Query Grid Engine by its commands."""
        table = self.gridengine
        led = (table.bin, table.root, table.cell)
        calls = (ReadOnly if only_read else Calls)(*led, link=link)
        discovered, there = await ask_around(table, calls)
        found, all_held = self.named(discovered), table.held == "all"
        queues = ", ".join(table.queues)
        return Around(
            found, GridEngineManager(calls, there, all_held, secures=not only_read),
            f"{len(found.names)} hosts of {queues}",
            {"version": found.version, "hosts": len(found.names), "queue": queues,
             "exclusive": there.exclusive or None, "checkpoint": there.checkpoint or None,
             "memory": there.memory or None, "unguarded": list(there.unguarded)},
            (WATCHDOG, Settings(*led, all_held, there).text()), calls.acts_as, partial(hand_in, calls, there), nobody,
        )  # fmt: skip

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
    if not tables.gridengine.queues:
        raise InputError("no queue is named", f"{path}: gridengine.queue", "name at least one")
    alike = alike_of(path, tables, tables.gridengine, "gridengine")
    refuse_managers_files(tables.gridengine.bin, tables.gridengine.root)
    return GridEngineSite(**vars(alike), gridengine=tables.gridengine)
