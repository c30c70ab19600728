"""[slurm] of a site file, and the data needed to give a cluster back to plain Slurm: the place and this table.

No core, no journal, nothing heavy is imported here.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from cohabit.app.steer.switch import SteeringTable, Switch, read_part, refuse_managers_files, switch_of
from cohabit.backend.slurm.calls import Calls
from cohabit.backend.slurm.steering import SlurmManager


class SlurmTable(SteeringTable, frozen=True, forbid_unknown_fields=True):
    """[slurm]"""

    partitions: list[str] = msgspec.field(default_factory=list)  # none: all that are up
    conf: str = ""  # its slurm.conf, where the commands do not find it themselves
    rest: str = ""  # slurmrestd: unix:PATH or a URL; "": Slurm's commands
    rest_token: str = ""  # a file with a token (JWT) for it; "": none
    mpi: str = ""  # how srun starts ranks (`--framework mpi`); "": as the mpirun wants that the job finds


class _Tables(msgspec.Struct, frozen=True):
    """The tables needed here; other tables are ignored."""

    place: str = "state"
    slurm: SlurmTable = SlurmTable()


def read_switch(path: Path) -> Switch:
    """Read the data from a site file."""
    tables = read_part(path, _Tables, "docs/slurm.md")
    table = tables.slurm
    refuse_managers_files(table.conf)

    async def manager() -> SlurmManager:
        return SlurmManager(Calls(table.conf))

    return switch_of("slurm", path, tables.place, table, tuple(table.partitions), manager)._replace(all_held=False)
