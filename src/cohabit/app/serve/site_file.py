"""Read a site file (TOML): one real domain, its users, peers, groups and jobs.

docs/live-reference.md explains every key; a test compares the two. Both sides must describe a group identically: the
protocol refuses a peer with other terms.
"""

from __future__ import annotations

import os
import pwd
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from cohabit.agent.resctrl.bandwidth import HOLD, WHEN_FULL
from cohabit.app.scenario.policies import is_gated
from cohabit.app.scenario.tables import PolicyConfig, SchemeConfig
from cohabit.app.scenario.typed_toml import read_typed, refuse_for_root, refuse_untrusted
from cohabit.app.serve.machine import ProfilingConfig, TelemetryConfig
from cohabit.app.serve.serving import ServeConfig, TlsFiles
from cohabit.app.simulate.coupling import scheme_of
from cohabit.backend.output_names import literal
from cohabit.backend.protocol import Launch
from cohabit.core.protocols import Coupling
from cohabit.live.api.groups import GroupTable, group_of
from cohabit.live.api.logs import FORMATS, LEVELS
from cohabit.live.api.settings import MAX_QUEUED, MAX_SUBMISSION_BYTES, MAX_TOKENS, USER, ApiSettings, UserLimits
from cohabit.live.controller.retention import KeepConfig
from cohabit.live.controller.runs_as import LauncherConfig
from cohabit.live.peers.keys import read_keys
from cohabit.live.peers.messages import Peer
from cohabit.model.errors import InputError
from cohabit.model.group import Group
from cohabit.model.job import Job
from cohabit.model.units import parse_duration

CACHE = ("on", "dry-run", "off")
INHERITED = ("HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TMPDIR", "USER")  # environment variables passed on to jobs


class DomainTable(SchemeConfig, frozen=True, forbid_unknown_fields=True):
    """[domain]: this domain among others."""

    name: str
    listen: str = "127.0.0.1:0"


class PeerTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[peer.NAME]"""

    url: str
    key: str = ""  # a file with the key shared with it; "": it is authenticated by its certificate ([tls])


class TlsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[tls]"""

    certificate: str
    key: str
    authority: str = ""  # of the certificates of peers; "": the certificate is used only for callers of the API


class ApiTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[api]: where callers reach the scheduler, besides its socket."""

    listen: str = ""  # HOST:PORT for callers with tokens; "": none
    socket: str = ""  # the UNIX socket; "": cohabit.sock in the place


class LimitsTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[limits]: the limits of every user without a table [users.NAME]; -1: no limit."""

    max_queued: int = MAX_QUEUED
    max_running: int = -1
    qos: int = 0
    max_array: int = 1000
    max_tokens: int = MAX_TOKENS
    max_submission_bytes: int = MAX_SUBMISSION_BYTES
    accounts: list[str] | None = None  # that a user may name, the first for jobs that name none; left out: any


class UserTable(LimitsTable, frozen=True, forbid_unknown_fields=True):
    """[users.NAME]: a role, and the limits of this user."""

    role: str = USER


class LauncherTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[launcher]: the process that runs jobs, if root starts the controller."""

    account: str = "cohabit"  # the account of the controller itself
    min_uid: int = 1000  # jobs of accounts with a lower uid are refused
    uids: list[int] = []  # exceptions from min_uid
    max_output_mb: int = 1024  # of a job's output in the place; 0: no limit
    max_file_mb: int = 0  # of every file a job writes; 0: no limit


class KeepTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[keep]: retention times; -1: for ever."""

    records_days: float = KeepConfig.records_days
    records: int = KeepConfig.records
    outputs_days: float = KeepConfig.outputs_days
    audit_days: float = KeepConfig.audit_days
    journal_days: float = KeepConfig.journal_days
    journal_batches: int = KeepConfig.journal_batches


class LogTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[log]: what goes to standard error."""

    level: str = "warning"
    format: str = "text"


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
    user: str = ""  # the account it runs as, if root starts the controller; "": the controller's


class SiteTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    nodes: int | str = 1
    place: str = "state"
    database: str = ""
    store: str = ""  # of profiles: a file, or the URL of a database; "": a file in the place
    oversubscribe: bool = False
    cache: str = "on"
    hold_bandwidth: str = WHEN_FULL
    policy: PolicyConfig = PolicyConfig()
    api: ApiTable = ApiTable()
    limits: LimitsTable = LimitsTable()
    users: dict[str, UserTable] = {}
    log: LogTable = LogTable()
    launcher: LauncherTable = LauncherTable()
    keep: KeepTable = KeepTable()
    profiling: ProfilingConfig = ProfilingConfig()
    telemetry: TelemetryConfig | None = None
    domain: DomainTable | None = None
    peer: dict[str, PeerTable] = {}
    tls: TlsTable | None = None
    group: dict[str, GroupTable] = {}
    job: list[JobTable] = []


@dataclass(frozen=True)
class Site:
    """The checked contents of the file."""

    config: ServeConfig
    jobs: tuple[tuple[Job, Launch], ...]
    log: LogTable


def read_site(path: Path) -> Site:
    """Read and check a site file; paths in it are relative to it."""
    tables = read_typed(path, SiteTables, "docs/live-reference.md")
    folder = path.parent.absolute()
    config = config_of(tables, folder, str(path))
    assert config.api is not None
    domains = config.api.domains
    groups = {name: group_of(name, table, domains, str(path)) for name, table in tables.group.items()}
    _check_log(tables.log, str(path))
    return Site(config, tuple(_job(job, groups, folder, str(path)) for job in tables.job), tables.log)


def config_of(tables: SiteTables, folder: Path, where: str) -> ServeConfig:
    if tables.cache not in CACHE:
        raise InputError(f"cache = {tables.cache!r}", where, f"use {', '.join(CACHE)}")
    if tables.hold_bandwidth not in HOLD:
        raise InputError(f"hold_bandwidth = {tables.hold_bandwidth!r}", where, f"use {' or '.join(HOLD)}")
    config = ServeConfig(
        folder / tables.place,
        tables.nodes,
        tables.policy,
        tls=_tls(tables, folder),
        oversubscribe=tables.oversubscribe,
        cache=tables.cache,
        hold_bandwidth=tables.hold_bandwidth,
        database=_database(tables.database),
        api=_api(tables, folder, where),
        profiling=_profiling(tables.profiling, folder, where),
        telemetry=_telemetry(tables, where),
        launcher=_launcher(tables.launcher, where),
        keep=_keep(tables.keep, where),
        store=_store(tables.store, folder, where),
    )
    domain = tables.domain
    if domain is None:
        if tables.peer or tables.group:
            raise InputError("has peers or groups and no [domain]", where, "say which domain this is: name = ...")
        return config
    if domain.name in tables.peer:
        raise InputError(f"domain {domain.name} is its own peer", where)
    host, port = _address(domain.listen, f"{where}: domain")
    rank = sorted([domain.name, *tables.peer]).index(domain.name)
    coupling = Coupling(domain.name, rank, scheme_of(domain, tables.policy))
    peers = {}
    for name, table in tables.peer.items():
        if not table.key and (config.tls is None or config.tls.authority is None):
            raise InputError(f"peer {name} has no key", where, "name a key file, or use certificates: [tls] authority")
        peers[name] = Peer(name, table.url, read_keys(folder / table.key) if table.key else None)
    return replace(config, coupling=coupling, host=host, port=port, peers=peers)


def _profiling(config: ProfilingConfig, folder: Path, where: str) -> ProfilingConfig:
    config.check(f"{where}: profiling")
    if not config.profiles:
        return config
    refuse_for_root(folder / config.profiles)
    return msgspec.structs.replace(config, profiles=str(folder / config.profiles))


def _launcher(table: LauncherTable, where: str) -> LauncherConfig:
    config = LauncherConfig(table.account, table.min_uid, tuple(table.uids), table.max_output_mb, table.max_file_mb)
    config.check(f"{where}: launcher")
    return config


def _keep(table: KeepTable, where: str) -> KeepConfig:
    config = KeepConfig(**msgspec.structs.asdict(table))
    config.check(f"{where}: keep")
    return config


def _telemetry(tables: SiteTables, where: str) -> TelemetryConfig | None:
    if tables.telemetry is None:
        return TelemetryConfig() if is_gated(tables.policy) else None
    tables.telemetry.check(f"{where}: telemetry")
    return tables.telemetry


def _tls(tables: SiteTables, folder: Path) -> TlsFiles | None:
    if tables.tls is None:
        return None
    authority = folder / tables.tls.authority if tables.tls.authority else None
    files = TlsFiles(folder / tables.tls.certificate, folder / tables.tls.key, authority)
    refuse_untrusted(files.certificate)
    refuse_untrusted(files.key, closed=0o007)
    if authority is not None:
        refuse_untrusted(authority)
    return files


def _api(tables: SiteTables, folder: Path, where: str) -> ApiSettings:
    host, port = _address(tables.api.listen, f"{where}: api") if tables.api.listen else ("", 0)
    tls = _tls(tables, folder)
    users = {name: _limits(one.role, one) for name, one in tables.users.items()}
    domains = (() if tables.domain is None else (tables.domain.name,)) + tuple(tables.peer)
    try:
        return ApiSettings(
            folder / tables.api.socket if tables.api.socket else None,
            host,
            port,
            None if tls is None else tls.certificate,
            None if tls is None else tls.key,
            users,
            _limits(USER, tables.limits),
            domains,
        )
    except InputError as error:
        raise InputError(error.what, f"{where}: {error.where}", error.fix) from error


def _limits(role: str, table: LimitsTable) -> UserLimits:
    bounds = (table.max_queued, table.max_running, table.max_tokens, table.max_submission_bytes)
    queued, running, tokens, size = (None if bound < 0 else bound for bound in bounds)
    accounts = None if table.accounts is None else tuple(table.accounts)
    return UserLimits(role, queued, running, table.qos, table.max_array, tokens, size, accounts)


def _address(text: str, where: str) -> tuple[str, int]:
    host, colon, port = text.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise InputError(f"listen = {text!r}", where, "write HOST:PORT")
    return host, int(port)


def _database(text: str) -> str:
    if text and "://" not in text:
        raise InputError("is not the URL of a database", f"database = {text!r}", "postgresql://USER@HOST/NAME")
    return text


def _store(text: str, folder: Path, where: str) -> str:
    if "://" in text and not text.startswith(("postgresql://", "postgres://")):
        raise InputError(f"store = {text!r}", where, "name a file, or postgresql://USER@HOST/NAME")
    return text if not text or "://" in text else str(folder / text)


def _check_log(table: LogTable, where: str) -> None:
    if table.level not in LEVELS:
        raise InputError(f"level = {table.level!r}", f"{where}: log", f"use {', '.join(LEVELS)}")
    if table.format not in FORMATS:
        raise InputError(f"format = {table.format!r}", f"{where}: log", f"use {', '.join(FORMATS)}")


def _job(table: JobTable, groups: dict[str, Group], folder: Path, where: str) -> tuple[Job, Launch]:
    at = f"{where}: job {table.name}"
    try:
        limit_us = parse_duration(table.limit)
    except ValueError as error:
        raise InputError(str(error), at) from None
    if table.group and table.group not in groups:
        raise InputError(f"belongs to the unknown group {table.group}", at, "describe it: [group.NAME]")
    job = Job(table.name, limit_us, table.processes, table.nodes, mates=groups[table.group] if table.group else None)
    job.check()
    environment = {key: os.environ[key] for key in INHERITED if key in os.environ} | table.environment
    stdout, stderr = (os.path.join(literal(str(folder)), text) if text else "" for text in (table.stdout, table.stderr))
    launch = Launch(tuple(table.command), environment, str(folder / table.folder), stdout, stderr)
    if not table.user:
        return job, launch
    try:
        known = pwd.getpwnam(table.user)
    except KeyError:
        raise InputError(f"there is no account {table.user}", at, "name an account of this machine") from None
    return msgspec.structs.replace(job, user=known.pw_uid), msgspec.structs.replace(launch, uid=known.pw_uid)
