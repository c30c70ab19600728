"""[gridengine] of a site file, and the data needed to give a cluster back to plain Grid Engine: the place and this
table.

No core, no journal, nothing heavy is imported here.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import msgspec

from cohabit.app.steer.switch import SteeringTable, Switch, answered, read_part, refuse_managers_files, switch_of
from cohabit.backend.gridengine.calls import Calls
from cohabit.backend.gridengine.discovery import discover
from cohabit.backend.gridengine.steering import GridEngineManager
from cohabit.backend.gridengine.translate import Site
from cohabit.backend.steered.shapes import Discovered


class GridEngineTable(SteeringTable, frozen=True, forbid_unknown_fields=True):
    """[gridengine]"""

    queue: str | list[str] = "all.q"  # the steered queue, or several
    bin: str = ""  # the folder of Grid Engine's commands; "": they are on the path
    root: str = ""  # SGE_ROOT; "": as the environment has it
    cell: str = ""  # SGE_CELL; "": as the environment has it
    exclusive: str = ""  # the complex for exclusive hosts; "": the only one of that kind, if there is one
    checkpoint: str = "cohabit"  # the checkpointing environment with which a run can be stopped and queued again
    memory: str = ""  # the complex for memory requests; "": the first that hosts have so much of; "none"
    spread: str = ""  # the parallel environment of `cohabit submit`; "": the first with round-robin allocation
    one_host: str = ""  # the same for jobs that stay on one host; "": the first of that kind
    AT_ONCE_S: ClassVar[float] = 3.0  # Grid Engine starts jobs only at intervals

    @property
    def queues(self) -> tuple[str, ...]:
        """All steered queues."""
        return (self.queue,) if isinstance(self.queue, str) else tuple(self.queue)


class _Tables(msgspec.Struct, frozen=True):
    """The tables needed here; other tables are ignored."""

    place: str = "state"
    gridengine: GridEngineTable = GridEngineTable()


def read_switch(path: Path) -> Switch:
    """Read the data from a site file."""
    tables = read_part(path, _Tables, "docs/gridengine.md")
    table = tables.gridengine
    refuse_managers_files(table.bin, table.root)

    async def manager() -> GridEngineManager:
        calls = Calls(table.bin, table.root, table.cell)
        return GridEngineManager(calls, (await ask_around(table, calls))[1])

    partitions = table.queues if len(table.queues) == 1 else ()
    return switch_of("gridengine", path, tables.place, table, partitions, manager)


async def ask_around(table: GridEngineTable, calls: Calls) -> tuple[Discovered, Site]:
    """Return the cluster; raise one sentence if Grid Engine cannot be queried."""
    asking = discover(
        calls,
        table.queues,
        table.all_held,
        table.program,
        table.exclusive,
        table.checkpoint,
        table.memory,
        table.spread,
        table.one_host,
    )
    fix = "start it, or say where its commands are: [gridengine] bin, root, cell"
    return await answered(asking, "Grid Engine", "gridengine", fix)
