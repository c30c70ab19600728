"""A site file (TOML) for a cluster under Grid Engine: which queue and policy, and the lease. See docs/gridengine.md."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from cohabit.app.gridengine_table import GridEngineTable, lease_of
from cohabit.app.scenario_tables import PolicyConfig
from cohabit.app.site_file import DomainTable, PeerTable, SiteTables, TlsTable, config_of
from cohabit.app.slurm_mates import Groups, MatesTable
from cohabit.app.slurm_site import HELD, OF_FILES, NodeTable, SlurmSite, SlurmTable
from cohabit.app.typed_toml import read_typed
from cohabit.backend.slurm.translate import PROGRAMS
from cohabit.live.api.groups import GroupTable
from cohabit.model.errors import InputError

LEAST = (("poll_s", 0.1), ("start_within_s", 1.0), ("lease_s", 5.0), ("mates_within_s", 0.5))


class GridEngineTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    place: str = "state"
    profiles: str = ""  # a file with what is known of programs: `cohabit profiles export`, programs.json or curves
    policy: PolicyConfig = PolicyConfig()
    gridengine: GridEngineTable = GridEngineTable()
    node: NodeTable = NodeTable()
    domain: DomainTable | None = None
    peer: dict[str, PeerTable] = {}
    tls: TlsTable | None = None
    group: dict[str, GroupTable] = {}
    mates: MatesTable = MatesTable()


@dataclass(frozen=True)
class GridEngineSite(SlurmSite):
    """What the file comes to; what steers both managers alike stands where it stands for Slurm."""

    gridengine: GridEngineTable = field(kw_only=True)


def read_gridengine_site(path: Path) -> GridEngineSite:
    """Read and check; paths in it are relative to it."""
    tables = read_typed(path, GridEngineTables, "docs/gridengine.md")
    table, folder = tables.gridengine, path.parent.absolute()
    for key, value, known in (("held", table.held, HELD), ("program", table.program, PROGRAMS)):
        if value not in known:
            raise InputError(f"{key} is {value!r}", f"{path}: gridengine.{key}", f"use {', '.join(known)}")
    for key, least in LEAST:
        if not getattr(table, key) >= least:
            where = f"{path}: gridengine.{key}"
            raise InputError(f"{key} is {getattr(table, key):g}", where, f"give at least {least:g}")
    named = {key: str(folder / getattr(tables.policy, key)) for key in OF_FILES if getattr(tables.policy, key)}
    others = SiteTables(
        place=tables.place, policy=tables.policy, domain=tables.domain, peer=tables.peer, tls=tables.tls,
        group=tables.group,
    )  # fmt: skip
    alike = SlurmTable(
        [table.queue], held=table.held, program=table.program, poll_s=table.poll_s, lease_s=table.lease_s,
        start_within_s=table.start_within_s, mates_within_s=table.mates_within_s,
    )  # fmt: skip
    place, name = folder / tables.place, "" if tables.domain is None else tables.domain.name
    return GridEngineSite(
        place=place, policy=msgspec.structs.replace(tables.policy, **named), slurm=alike, gridengine=table,
        lease=lease_of(folder, place, table), node=tables.node, rest_token=None,
        profiles=folder / tables.profiles if tables.profiles else None, config=config_of(others, folder, str(path)),
        groups=Groups(name, tuple(tables.peer), tables.group, tables.mates, str(path)),
    )  # fmt: skip
