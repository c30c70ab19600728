"""The data needed to give a cluster back to plain Grid Engine, from a site file: only the place and [gridengine].

No core, no journal, nothing heavy is imported here.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cohabit.app.scenario.typed_toml import read_typed
from cohabit.app.steer.gridengine_table import GridEngineTable
from cohabit.app.steer.switch import Switch
from cohabit.app.steer.table import lease_of, refuse_managers_files
from cohabit.backend.gridengine.calls import Calls
from cohabit.backend.gridengine.discovery import discover
from cohabit.backend.gridengine.steered import GridEngineManager
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.slurm.calls import SlurmAway, SlurmRefused
from cohabit.backend.slurm.discovery import Discovered
from cohabit.model.errors import InputError


class _Tables(msgspec.Struct, frozen=True):
    """The tables needed here; other tables are ignored."""

    place: str = "state"
    gridengine: GridEngineTable = GridEngineTable()


def read_switch(path: Path) -> Switch:
    """Read the data from a site file."""
    tables = read_typed(path, _Tables, "docs/gridengine.md")
    folder, table = path.parent.absolute(), tables.gridengine
    refuse_managers_files(table.bin, table.root)

    async def manager() -> GridEngineManager:
        calls = Calls(table.bin, table.root, table.cell)
        _, there = await ask_around(table, calls)
        return GridEngineManager(calls, there)

    lease = lease_of(folder, folder / tables.place, table)
    partitions = table.queues if len(table.queues) == 1 else ()
    return Switch("gridengine", lease, partitions, table.held == "all", manager)


async def ask_around(table: GridEngineTable, calls: Calls) -> tuple[Discovered, Site]:
    """Return the cluster; raise one sentence if Grid Engine cannot be queried."""
    try:
        return await discover(
            calls, table.queues, table.held == "all", table.program, table.exclusive, table.checkpoint, table.memory,
            table.spread, table.one_host,
        )  # fmt: skip
    except (SlurmAway, ValueError) as error:
        fix = "start it, or say where its commands are: [gridengine] bin, root, cell"
        raise InputError(f"Grid Engine does not answer: {error}", "gridengine", fix) from error
    except SlurmRefused as error:
        raise InputError(f"Grid Engine refuses to answer: {error}", "gridengine") from error
