"""A site file (TOML): one domain to be served for real, its peers, the groups it has jobs in, and its jobs.

Both sides of a group must state it in the same words: a peer that means other terms is refused by the protocol.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import msgspec

from cohabit.app.coupling import scheme_of
from cohabit.app.scenario import DomainConfig, PolicyConfig, StartWindowConfig
from cohabit.app.serving import ServeConfig, TlsFiles
from cohabit.backend.protocol import Launch
from cohabit.core.protocols import Coupling
from cohabit.live.peer_keys import read_keys
from cohabit.live.peers import Peer
from cohabit.model.errors import InputError
from cohabit.model.group import Group, Member, Terms, Window, make_group
from cohabit.model.job import Job
from cohabit.model.units import microseconds, parse_duration

INHERITED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER")  # of the environment, for jobs


class DomainTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[domain]: this domain among others. The keys of a scenario's [[domain]] mean the same here."""

    name: str
    listen: str = "127.0.0.1:0"
    scheme: str | None = None
    enabled: bool = True
    release_s: float = 1200.0
    min_hold_s: float = 600.0
    max_held: float = 1.0
    max_yields: int = 0
    raise_per_yield: float = 0.0
    bounded_hold_s: float = 0.0


class PeerTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[peer.NAME]"""

    url: str
    key: str = ""  # a file with the key shared with it; "": its certificate proves who it is ([tls])


class TlsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[tls]"""

    certificate: str
    key: str
    authority: str


class GroupTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[group.NAME]: jobs that start together, and on which terms (docs/coscheduling.md)."""

    members: dict[str, str]  # domain -> job
    lease_s: float = 60.0
    lead_s: float = 2.0
    late_s: float = 0.05
    round_trip_s: float = 0.05
    ask_s: float = 10.0
    retry_s: float = 30.0
    dead_after_s: float = 180.0
    when_dead: str = "start_alone"
    overlap_s: float = -1.0  # how long mates must be seen running together; -1: for the whole run
    window: list[StartWindowConfig] = []


class JobTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[[job]]"""

    name: str
    command: list[str]
    limit: str = "1h"
    nodes: int = 0
    processes: int = 1
    group: str = ""
    folder: str = ""
    stdout: str = ""
    stderr: str = ""
    environment: dict[str, str] = {}


class SiteTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    nodes: int = 1
    place: str = "state"
    policy: PolicyConfig = PolicyConfig()
    domain: DomainTable | None = None
    peer: dict[str, PeerTable] = {}
    tls: TlsTable | None = None
    group: dict[str, GroupTable] = {}
    job: list[JobTable] = []


@dataclass(frozen=True)
class Site:
    """What the file comes to."""

    config: ServeConfig
    jobs: tuple[tuple[Job, Launch], ...]


def read_site(path: Path) -> Site:
    """Read and check a site file; paths in it are relative to it."""
    try:
        tables = msgspec.toml.decode(path.read_bytes(), type=SiteTables)
    except OSError as error:
        raise InputError(f"cannot be read: {(error.strerror or str(error)).lower()}", str(path)) from error
    except msgspec.ValidationError as error:
        message, _, place = str(error).partition(" - at ")
        where = f"{path}: {place.strip('`$.') or 'top level'}"
        raise InputError(message[:1].lower() + message[1:], where, "see docs/live.md") from error
    except msgspec.DecodeError as error:
        raise InputError(f"is not valid TOML: {error}", str(path)) from error
    folder = path.parent.absolute()
    config = _config(tables, folder, str(path))
    groups = {name: _group(name, table, tables, str(path)) for name, table in tables.group.items()}
    return Site(config, tuple(_job(job, groups, folder, str(path)) for job in tables.job))


def _config(tables: SiteTables, folder: Path, where: str) -> ServeConfig:
    domain = tables.domain
    config = ServeConfig(folder / tables.place, tables.nodes, tables.policy)
    if domain is None:
        if tables.peer or tables.group:
            raise InputError("has peers or groups and no [domain]", where, "say which domain this is: name = ...")
        return config
    if domain.name in tables.peer:
        raise InputError(f"domain {domain.name} is its own peer", where)
    known = msgspec.structs.asdict(domain)
    host, colon, port = known.pop("listen").rpartition(":")
    if not colon or not port.isdigit() or int(port) > 65535:
        raise InputError(f"listen = {domain.listen!r}", f"{where}: domain", "write HOST:PORT")
    rank = sorted([domain.name, *tables.peer]).index(domain.name)
    coupling = Coupling(domain.name, rank, scheme_of(DomainConfig(**known, policy=tables.policy)))
    peers = {}
    for name, table in tables.peer.items():
        if not table.key and tables.tls is None:
            raise InputError(f"peer {name} has no key", where, "name a key file, or use certificates: [tls]")
        peers[name] = Peer(name, table.url, read_keys(folder / table.key) if table.key else None)
    tls = None
    if tables.tls is not None:
        tls = TlsFiles(folder / tables.tls.certificate, folder / tables.tls.key, folder / tables.tls.authority)
    return ServeConfig(
        config.place, config.nodes, config.policy, coupling, host, int(port), peers, tls
    )  # fmt: skip


def _group(name: str, table: GroupTable, tables: SiteTables, where: str) -> Group:
    terms = Terms(
        lease_us=microseconds(table.lease_s), lead_us=microseconds(table.lead_s), late_us=microseconds(table.late_s),
        round_trip_us=microseconds(table.round_trip_s), ask_us=microseconds(table.ask_s),
        retry_us=microseconds(table.retry_s), dead_after_us=microseconds(table.dead_after_s),
        when_dead=table.when_dead, watch_us=microseconds(table.overlap_s) if table.overlap_s >= 0 else -1,
    )  # fmt: skip
    windows = tuple(
        Window(one.first, one.second, microseconds(one.least_s), microseconds(one.most_s)) for one in table.window
    )
    known = (() if tables.domain is None else (tables.domain.name,)) + tuple(tables.peer)
    try:
        return make_group(name, [Member(*pair) for pair in table.members.items()], terms, windows, known)
    except InputError as error:
        raise InputError(error.what, f"{where}: {error.where}", error.fix) from error


def _job(table: JobTable, groups: dict[str, Group], folder: Path, where: str) -> tuple[Job, Launch]:
    at = f"{where}: job {table.name}"
    try:
        limit_us = parse_duration(table.limit)
    except ValueError as error:
        raise InputError(str(error), at) from None
    if table.group and table.group not in groups:
        raise InputError(f"belongs to the unknown group {table.group}", at, "describe it: [group.NAME]")
    job = Job(
        table.name, limit_us, table.processes, table.nodes, mates=groups[table.group] if table.group else None
    )  # fmt: skip
    job.check()
    environment = {key: os.environ[key] for key in INHERITED if key in os.environ} | table.environment
    stdout, stderr = (str(folder / text) if text else "" for text in (table.stdout, table.stderr))
    return job, Launch(tuple(table.command), environment, str(folder / table.folder), stdout, stderr)
