"""Site files (TOML) for clusters under a resource manager: the common part of those for Slurm and Grid Engine.

The site itself implements the difference: how to query the manager (`look_around`). docs/slurm.md and
docs/gridengine.md have the keys.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import msgspec

from cohabit.agent.resctrl.bandwidth import HOLD, WHEN_FULL
from cohabit.app.scenario.policies import is_gated
from cohabit.app.scenario.tables import PolicyConfig
from cohabit.app.scenario.typed_toml import refuse_for_root
from cohabit.app.serve.serving import ServeConfig
from cohabit.app.serve.site_file import (
    ApiTable,
    DomainTable,
    KeepTable,
    LauncherTable,
    LimitsTable,
    PeerTable,
    SiteTables,
    TlsTable,
    UserTable,
    config_of,
)
from cohabit.app.steer.cluster_telemetry import ClusterTelemetryTable, table_of
from cohabit.app.steer.mates import Groups, MatesTable
from cohabit.app.steer.node_channel import NodeKeys, NodesTable
from cohabit.app.steer.switch import SteeringTable, lease_of
from cohabit.backend.launcher_link import LauncherLink
from cohabit.backend.protocol import Launch
from cohabit.backend.steered.calls import ManagerCalls
from cohabit.backend.steered.contract import Manager
from cohabit.backend.steered.shapes import Discovered
from cohabit.backend.steered.submitting import Extra
from cohabit.backend.steered.translate import PROGRAMS
from cohabit.backend.steered.watchdog import WatchdogCommand
from cohabit.live.api.groups import GroupTable
from cohabit.live.controller.place import Place
from cohabit.model.errors import InputError
from cohabit.model.job import Job

OF_FILES = ("degradation", "model", "variability")  # keys of [policy] that name files
HELD, GIVEN_BACK = ("marked", "all"), ("take", "leave")
LEAST = (("poll_s", 0.1), ("start_within_s", 1.0), ("lease_s", 5.0))
SOONEST_S = 0.5  # no manager starts a job faster
HandIn = Callable[[Job, Launch, Extra, Mapping[str, str]], Awaitable[str]]  # with login variables; the manager's number


class NodeTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """[node]: what a manager does not know of its nodes, for policies that divide cache or book bandwidth."""

    ways: int = 0  # of the last-level cache; 0: not stated
    min_ways: int = 1
    closids: int = 0
    bandwidth_gbs: list[tuple[int, float]] = []  # (active cores, GB/s)
    hold_bandwidth: str = WHEN_FULL  # when the daemons hold jobs to what they booked of that


class SteeredTables(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The whole file, except the manager's own table."""

    place: str = "state"
    store: str = ""  # of profiles: a file, or the URL of a database; "": a file in the place
    profiles: str = ""  # a file of profiles: `cohabit profiles export`, programs.json or curves
    policy: PolicyConfig = PolicyConfig()
    node: NodeTable = NodeTable()
    api: ApiTable = ApiTable()
    limits: LimitsTable = LimitsTable()
    users: dict[str, UserTable] = {}
    launcher: LauncherTable = LauncherTable()
    keep: KeepTable = KeepTable()
    domain: DomainTable | None = None
    peer: dict[str, PeerTable] = {}
    tls: TlsTable | None = None
    group: dict[str, GroupTable] = {}
    mates: MatesTable = MatesTable()
    nodes: NodesTable | None = None
    telemetry: ClusterTelemetryTable | None = None


def policy_in(policy: PolicyConfig, folder: Path) -> PolicyConfig:
    """Return [policy] of a file in this folder, with the whole paths of the files it names."""
    named = {key: str(folder / getattr(policy, key)) for key in OF_FILES if getattr(policy, key)}
    return msgspec.structs.replace(policy, **named)


class Around(NamedTuple):
    """The result of querying a manager, and how to access it."""

    found: Discovered
    manager: Manager
    what: str  # what is steered, for display
    says: dict[str, Any]  # what the manager reports of itself, for `status`
    watchdog: WatchdogCommand
    acts_as: int  # the uid that the manager sees
    hand_in: HandIn  # submits a job as its owner, held
    hang_up: Callable[[], Awaitable[None]] | None = None  # closes the connection to it; None: there is none
    orders: Path | None = None  # where nodes read how to divide their caches
    script: Callable[[str], Awaitable[str]] | None = None  # a job's, which others cannot read; None: not available


@dataclass(frozen=True)
class SteeredSite(ABC):
    """The checked contents of a site file, and its manager."""

    word: ClassVar[str]  # in files, commands and JSON
    title: ClassVar[str]  # for display
    tells_holds: ClassVar[bool] = False  # the manager's records tell our holds from others'
    folder: Path  # of the file; paths in it are relative to it
    place: Path
    policy: PolicyConfig
    table: SteeringTable  # the manager's own
    lease: Path
    profiles: Path | None
    node: NodeTable
    config: ServeConfig  # the domain among its peers, and where callers reach it
    groups: Groups  # groups of mates by name
    keys: NodeKeys | None  # of the daemons of the nodes; None: none is heard
    telemetry: ClusterTelemetryTable | None  # None: the core hears of none
    tables: SteeredTables  # as written

    @classmethod
    def of(cls, path: Path, tables: SteeredTables, table: SteeringTable, **own: Any) -> Self:
        """Check the common part of a file; paths are relative to it. `own`: fields that only this manager has."""
        folder, where = path.parent.absolute(), f"{path}: {cls.word}"
        for key, value, known in (
            ("held", table.held, HELD),
            ("given_back", table.given_back, GIVEN_BACK),
            ("program", table.program, PROGRAMS),
        ):
            if value not in known:
                raise InputError(f"{key} is {value!r}", f"{where}.{key}", f"use {', '.join(known)}")
        for key, least in LEAST:
            if not getattr(table, key) >= least:
                raise InputError(f"{key} is {getattr(table, key):g}", f"{where}.{key}", f"give at least {least:g}")
        if table.mates_within_s and not table.mates_within_s >= SOONEST_S:
            fix = f"give at least {SOONEST_S:g}, or leave it out"
            raise InputError(f"mates_within_s is {table.mates_within_s:g}", f"{where}.mates_within_s", fix)
        own_meaning = ("nodes", "telemetry")  # not what they are in the file of one machine
        common = [key for key in SiteTables.__struct_fields__ if hasattr(tables, key) and key not in own_meaning]
        shared = {key: getattr(tables, key) for key in common}
        if tables.node.hold_bandwidth not in HOLD:
            what = f"hold_bandwidth = {tables.node.hold_bandwidth!r}"
            raise InputError(what, f"{path}: node.hold_bandwidth", f"use {' or '.join(HOLD)}")
        if tables.telemetry is not None and tables.telemetry.canary and cls.word != "slurm":
            what = f"canaries before a start are sent under Slurm only, not under {cls.title}"
            raise InputError(what, f"{path}: telemetry.canary", "leave it out")
        name = "" if tables.domain is None else tables.domain.name
        place = folder / tables.place
        if tables.profiles:
            refuse_for_root(folder / tables.profiles)
        return cls(
            folder,
            place,
            policy_in(tables.policy, folder),
            table,
            lease_of(folder, place, table),
            folder / tables.profiles if tables.profiles else None,
            tables.node,
            config_of(SiteTables(**shared), folder, str(path)),
            Groups(name, tuple(tables.peer), tables.group, tables.mates, str(path)),
            None if tables.nodes is None else NodeKeys(tables.nodes, folder, str(path)),
            table_of(tables.telemetry, is_gated(tables.policy), tables.nodes is not None, f"{path}: telemetry"),
            tables,
            **own,
        )

    @property
    def socket(self) -> Path:
        """Return where callers find the controller."""
        named = None if self.config.api is None else self.config.api.socket
        return Place(self.place).socket if named is None else named

    @property
    def domain(self) -> str:
        """The name mates elsewhere use for this domain; empty: it has none."""
        return "" if self.config.coupling is None else self.config.coupling.domain

    @property
    def mates_within_s(self) -> float:
        """The maximum start time of a released job with mates.

        At a threshold its mates wait for it: it may take as long as any other job, but no longer than they may be kept.
        """
        if self.table.mates_within_s:
            return self.table.mates_within_s
        mates = self.groups.mates
        return min(self.table.start_within_s, mates.lease_s) if mates.threshold else self.table.AT_ONCE_S

    def named(self, found: Discovered) -> Discovered:
        """Return a cluster with the name that mates elsewhere use."""
        return replace(
            found,
            terms=found.terms._replace(
                domain=self.domain, group_of=self.groups.find, takes_again=self.table.given_back == "take"
            ),
        )

    @abstractmethod
    async def look_around(self, only_read: bool = False, link: LauncherLink | None = None) -> Around:
        """Query the manager; raise one sentence if that fails. `only_read`: nothing can be changed through it.

        `link`: a launcher with other rights runs its commands.
        """

    @abstractmethod
    def launcher_settings(self) -> dict[str, Any]:
        """Return the description of the manager for such a launcher, with its programs as found from here."""

    @property
    def writes(self) -> tuple[Path, ...]:
        """Return the folders outside the place that a controller writes to: that of the orders for the nodes."""
        return (Path(self.table.orders),) if self.table.orders else ()

    def without_rights(self, say: Callable[[str], None]) -> Self:
        """Return the site for a controller without root: read what only root can read, drop what only root can use."""
        return self

    def why_not_framework(self, framework: str, found: Discovered) -> tuple[str, str]:
        """Return why the manager cannot start the processes of a framework, and what to do; empty: it can."""
        what = f"a job under {self.title} starts its own processes, so {framework} is not used"
        return what, "write it into the command (mpirun ...)"

    def warnings(self, around: Around) -> list[str]:
        """Return a sentence for each thing that works less well than it could."""
        return [text for text in (self.groups.may_begin_alone,) if text]


def launcher_settings(
    word: str, calls: ManagerCalls, programs: Sequence[str], submission: Mapping[str, str]
) -> dict[str, Any]:
    """Describe a manager for a launcher that runs its commands (launcher/managing.py)."""
    files = {name: calls.program(name) for name in programs}
    return {
        "word": word,
        "programs": {name: file for name, file in files.items() if os.path.isabs(file)},
        "environment": dict(calls.environment),
        "submission": dict(submission),
    }
