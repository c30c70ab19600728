"""A site file (TOML) for a cluster under Slurm: partitions, policy, lease. See docs/slurm-reference.md."""

from __future__ import annotations

import getpass
import logging
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from cohabit.app.scenario.typed_toml import read_typed, refuse_untrusted
from cohabit.app.steer.site import Around, SteeredSite, SteeredTables, launcher_settings
from cohabit.app.steer.slurm_switch import SlurmTable
from cohabit.app.steer.switch import answered, refuse_managers_files
from cohabit.backend.launcher_link import LauncherLink
from cohabit.backend.slurm.calls import Calls, ReadOnly
from cohabit.backend.slurm.commands import show_script
from cohabit.backend.slurm.discovery import discover
from cohabit.backend.slurm.launching import FRAMEWORKS, MPI
from cohabit.backend.slurm.rest import Rest, RestManager, read_token
from cohabit.backend.slurm.steering import SlurmManager
from cohabit.backend.slurm.submitting import hand_in, submission_environment
from cohabit.backend.slurm.watchdog import watchdog_command
from cohabit.backend.steered.shapes import NOT_WHOLE, Discovered
from cohabit.launcher import slurm_words
from cohabit.model.errors import InputError

log = logging.getLogger(__name__)


class SlurmTables(SteeredTables, frozen=True, forbid_unknown_fields=True):
    """The whole file."""

    slurm: SlurmTable = SlurmTable()


@dataclass(frozen=True)
class SlurmSite(SteeredSite):
    """The checked contents of the file."""

    word: ClassVar[str] = "slurm"
    title: ClassVar[str] = "Slurm"
    tells_holds: ClassVar[bool] = True
    table: SlurmTable
    rest_token: Path | None = field(kw_only=True)  # for slurmrestd
    rest_user: str = field(kw_only=True)  # the user of the token
    rest_kept: str = field(kw_only=True, default="")  # the token, read before privileges were dropped

    def without_rights(self, say: Callable[[str], None]) -> SlurmSite:
        """Drop a slurmrestd without a token: it knows a caller by its token, else it sees an ordinary account."""
        if self.table.rest and self.rest_token is None:
            say(
                f"Slurm's commands are used: slurmrestd at {self.table.rest} would see an ordinary account; name a "
                "rest_token, or use --as-root"
            )
            return replace(self, table=msgspec.structs.replace(self.table, rest=""))
        return self if self.rest_token is None else replace(self, rest_kept=read_token(self.rest_token))

    def launcher_settings(self) -> dict[str, Any]:
        """Return Slurm's programs, as found from here."""
        calls = Calls(self.table.conf)
        return launcher_settings(self.word, calls, slurm_words.PROGRAMS, submission_environment(calls))

    async def look_around(self, only_read: bool = False, link: LauncherLink | None = None) -> Around:
        """Query Slurm by its commands; if slurmrestd is configured, jobs are steered through it."""
        table = self.table
        calls = (ReadOnly if only_read else Calls)(table.conf, link=link)
        found = await self.discover(calls)
        if found.whole_by == NOT_WHOLE and not found.whole_nodes_because and not only_read:
            log.warning(
                "Slurm %s gives a job the cores of its tasks only: on whole nodes Cohabit puts no job beside it, but"
                " jobs that it does not steer may come; AllowSpecResourcesUsage=YES in slurm.conf keeps them away",
                found.version,
            )
        if not only_read:
            _check_account(calls.acts_as, found)
        manager, hang_up = SlurmManager(calls), None
        if table.rest and not only_read:
            rest = Rest(table.rest, self.rest_token, self.rest_user, self.rest_kept)
            manager, hang_up = RestManager(calls, rest), rest.close
        partitions = list(found.terms.partitions)
        return Around(
            found,
            manager,
            f"{len(found.names)} nodes of {', '.join(partitions)}",
            {"version": found.version, "nodes": len(found.names), "partitions": partitions},
            watchdog_command(table.conf),
            calls.acts_as,
            partial(hand_in, calls, found.terms.node_cpus, table.mpi),
            hang_up,
            Path(table.orders) if table.orders else None,
            lambda name: calls(show_script(name)),
        )

    def why_not_framework(self, framework: str, found: Discovered) -> tuple[str, str]:
        """Return why srun cannot start the processes of a framework, and what to do; empty: it can."""
        if framework not in FRAMEWORKS:
            what = f"{framework} starts servers of its own beside its program, which srun does not do"
            return what, "start them in the command, or leave the framework out"
        if framework == MPI and found.mpi is not None and not {"pmix", "pmi2", self.table.mpi} & set(found.mpi):
            what = "Slurm has plug-ins neither for PMIx nor for PMI-2 here, so srun cannot start ranks"
            return (
                what,
                "install them, name another one in the site file ([slurm] mpi), or write mpirun into the command",
            )
        return "", ""

    def warnings(self, around: Around) -> list[str]:
        """Add which holds cannot be seen."""
        found = super().warnings(around)
        if not around.found.owners_holds_seen:
            found.append(
                "JobSubmitPlugins has no lua: `scontrol hold` by the owner of a job that waits for Cohabit is not seen,"
                " so the job starts; administrators' holds are seen, and `cohabit hold` works (docs/slurm-behaviour.md)"
            )
        return found

    async def discover(self, calls: Calls) -> Discovered:
        """Return the cluster; raise one sentence if Slurm cannot be queried."""
        table = self.table
        asking = discover(calls, table.partitions, table.all_held, table.program)
        fix = "start it, or name its slurm.conf: [slurm] conf = ..."
        return self.named(await answered(asking, self.title, self.word, fix))


def _check_account(uid: int, found: Discovered) -> None:
    """Refuse an account whose orders Slurm would refuse one by one; say what one without root cannot do."""
    if uid == 0:
        return
    if uid != found.manager_uid:
        what = f"account {uid} is neither root nor SlurmUser ({found.manager_uid}), so Slurm refuses to let it steer"
        if not found.has_operators:
            raise InputError(what, "slurm", f"type it as root or as account {found.manager_uid}")
        log.warning("%s unless sacctmgr made it an operator", what)
    log.warning(
        "account %d is not root: sbatch of all users is steered, but `cohabit submit` takes jobs of account %d only,"
        " because only root can submit as their owners; run attach as root for that (docs/install.md)",
        uid,
        uid,
    )


def read_slurm_site(path: Path) -> SlurmSite:
    """Read and check; paths in it are relative to it."""
    tables = read_typed(path, SlurmTables, "docs/slurm-reference.md")
    slurm, folder = tables.slurm, path.parent.absolute()
    token = folder / slurm.rest_token if slurm.rest_token else None
    user = getpass.getuser() if slurm.rest else ""
    site = SlurmSite.of(path, tables, slurm, rest_token=token, rest_user=user)
    if slurm.rest and not slurm.rest.startswith(("unix:", "http://", "https://")):
        raise InputError(f"rest is {slurm.rest!r}", f"{path}: slurm.rest", "write unix:PATH or http://HOST:PORT")
    refuse_managers_files(slurm.conf)
    if token is not None:
        refuse_untrusted(token, closed=0o007)
    return site
