"""The data needed to give a cluster back to plain Slurm, from a site file: the place and [slurm], nothing else."""

from __future__ import annotations

from pathlib import Path

import msgspec

from cohabit.app.scenario.typed_toml import read_typed
from cohabit.app.steer.slurm_table import SlurmTable
from cohabit.app.steer.switch import Switch
from cohabit.app.steer.table import lease_of, refuse_managers_files
from cohabit.backend.slurm.calls import Calls
from cohabit.backend.slurm.steered import SlurmManager


class _Tables(msgspec.Struct, frozen=True):
    """The tables needed here; other tables are ignored."""

    place: str = "state"
    slurm: SlurmTable = SlurmTable()


def read_switch(path: Path) -> Switch:
    """Read the data from a site file."""
    tables = read_typed(path, _Tables, "docs/slurm.md")
    folder, table = path.parent.absolute(), tables.slurm
    refuse_managers_files(table.conf)

    async def manager() -> SlurmManager:
        return SlurmManager(Calls(table.conf))

    lease = lease_of(folder, folder / tables.place, table)
    return Switch("slurm", lease, tuple(table.partitions), table.held == "all", manager)
