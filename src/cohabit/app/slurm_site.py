"""A site file (TOML) for a cluster under Slurm: which partitions, which policy, and the lease. docs/slurm.md has it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec

from cohabit.app.scenario_tables import PolicyConfig
from cohabit.app.serving import ServeConfig
from cohabit.app.site_file import (
    ApiTable,
    DomainTable,
    LimitsTable,
    PeerTable,
    SiteTables,
    TlsTable,
    UserTable,
    config_of,
)
from cohabit.app.slurm_mates import Groups, MatesTable
from cohabit.app.slurm_table import SlurmTable as SlurmTable
from cohabit.app.slurm_table import lease_of
from cohabit.app.typed_toml import read_typed
from cohabit.backend.slurm.translate import PROGRAMS
from cohabit.live.api.groups import GroupTable
from cohabit.model.errors import InputError

OF_FILES = ("degradation", "model", "variability")  # keys of [policy] that name files
HELD = ("marked", "all")


class NodeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[node]: what Slurm does not know of its nodes, for policies that divide cache or book bandwidth."""

    ways: int = 0  # of the last-level cache; 0: not stated
    min_ways: int = 1
    closids: int = 0
    bandwidth_gbs: list[tuple[int, float]] = []  # (active cores, GB/s)


class SlurmTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    place: str = "state"
    profiles: str = ""  # a file with what is known of programs: `cohabit profiles export`, programs.json or curves
    policy: PolicyConfig = PolicyConfig()
    slurm: SlurmTable = SlurmTable()
    node: NodeTable = NodeTable()
    api: ApiTable = ApiTable()
    limits: LimitsTable = LimitsTable()
    users: dict[str, UserTable] = {}
    domain: DomainTable | None = None
    peer: dict[str, PeerTable] = {}
    tls: TlsTable | None = None
    group: dict[str, GroupTable] = {}
    mates: MatesTable = MatesTable()


@dataclass(frozen=True)
class SlurmSite:
    """What the file comes to."""

    place: Path
    policy: PolicyConfig
    slurm: SlurmTable
    lease: Path
    profiles: Path | None
    node: NodeTable
    config: ServeConfig  # the domain among its peers, and where callers reach it
    rest_token: Path | None  # for slurmrestd
    groups: Groups  # mates by the name of their group

    @property
    def domain(self) -> str:
        """What mates elsewhere call it; empty: it has none."""
        return "" if self.config.coupling is None else self.config.coupling.domain


def read_slurm_site(path: Path) -> SlurmSite:
    """Read and check; paths in it are relative to it."""
    tables = read_typed(path, SlurmTables, "docs/slurm.md")
    slurm, folder = tables.slurm, path.parent.absolute()
    for key, value, known in (("held", slurm.held, HELD), ("program", slurm.program, PROGRAMS)):
        if value not in known:
            raise InputError(f"{key} is {value!r}", f"{path}: slurm.{key}", f"use {', '.join(known)}")
    for key, least in (("poll_s", 0.1), ("start_within_s", 1.0), ("lease_s", 5.0), ("mates_within_s", 0.5)):
        if not getattr(slurm, key) >= least:
            raise InputError(f"{key} is {getattr(slurm, key):g}", f"{path}: slurm.{key}", f"give at least {least:g}")
    if slurm.rest and not slurm.rest.startswith(("unix:", "http://", "https://")):
        raise InputError(f"rest is {slurm.rest!r}", f"{path}: slurm.rest", "write unix:PATH or http://HOST:PORT")
    named = {key: str(folder / getattr(tables.policy, key)) for key in OF_FILES if getattr(tables.policy, key)}
    place = folder / tables.place
    others = SiteTables(
        place=tables.place, policy=tables.policy, api=tables.api, limits=tables.limits, users=tables.users,
        domain=tables.domain, peer=tables.peer, tls=tables.tls, group=tables.group,
    )  # fmt: skip
    name = "" if tables.domain is None else tables.domain.name
    return SlurmSite(
        place, msgspec.structs.replace(tables.policy, **named), slurm,
        lease_of(folder, place, slurm), folder / tables.profiles if tables.profiles else None,
        tables.node, config_of(others, folder, str(path)),
        folder / slurm.rest_token if slurm.rest_token else None,
        Groups(name, tuple(tables.peer), tables.group, tables.mates, str(path)),
    )  # fmt: skip
