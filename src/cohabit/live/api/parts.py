"""Everything the routes of one service need, made once and passed to each of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from cohabit.core.protocols import PolicySet
from cohabit.live.api.audit import Audit, Refused
from cohabit.live.api.credentials import Accounts, Caller, Door
from cohabit.live.api.dry_run import LookingAhead
from cohabit.live.api.feed import Feed
from cohabit.live.api.limits import Limits
from cohabit.live.api.looking import Looking
from cohabit.live.api.metrics import Metrics
from cohabit.live.api.page.sessions import PageSessions
from cohabit.live.api.page.waits import Waits
from cohabit.live.api.problems import Refusal, problem_of
from cohabit.live.api.settings import ApiSettings
from cohabit.live.api.streams import OpenOutput, Streams
from cohabit.live.api.taking import Numbers, Taking
from cohabit.live.api.tokens import Tokens
from cohabit.live.controller.clock import BootClock
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.journal import Journal
from cohabit.live.controller.place import Place
from cohabit.live.controller.refusals import Busy
from cohabit.live.controller.retention import Retention
from cohabit.live.controller.runs_as import RunsAs
from cohabit.live.controller.store_link import StoreLink
from cohabit.model.cluster import Cluster
from cohabit.model.errors import InputError
from cohabit.version import __version__

T = TypeVar("T")


@dataclass(frozen=True)
class Living:
    """The controller and its parts."""

    controller: Controller
    journal: Journal
    clock: BootClock
    cluster: Cluster
    policies: PolicySet
    place: Path
    domain: str
    output_of: Callable[[str, int], str]  # output path of a job that named no file, by its launch's uid
    open_output: OpenOutput
    runs_as: RunsAs
    retention: Retention
    policy: str = ""  # as the site file calls it
    store: StoreLink | None = None  # of profiles


class Parts:
    """The parts of one service."""

    version = __version__

    def __init__(self, living: Living, settings: ApiSettings, feed: Feed, metrics: Metrics) -> None:
        self.living, self.settings, self.feed, self.metrics = living, settings, feed, metrics
        self.controller, place = living.controller, Place(living.place)
        self.tokens = Tokens(place.tokens)
        self.accounts = Accounts(self.tokens)
        self.sessions = PageSessions(self.tokens.valid)
        self.door = Door(settings, self.tokens, self.accounts, self.sessions)
        self.audit = Audit(place.audit)
        self.limits = Limits(place.kept_back, living.controller.release)
        self.looking = Looking(
            living.controller,
            self.accounts,
            living.output_of,
            lambda: self.limits.counts()[0],
            lambda job: self.limits.keeps_back(job),
            living.cluster.names,
        )
        self.streams = Streams(self.looking, feed, living.open_output, self.door.still, living.cluster.called)
        numbers = Numbers(living.controller, living.journal)
        self.taking = Taking(
            living.controller, settings, self.accounts, self.limits, numbers, living.place, living.runs_as
        )
        self.ahead = LookingAhead(
            living.controller, living.clock, living.cluster, living.policies, lambda: self.limits.counts()[0]
        )
        self.reload: Callable[[str, str], Awaitable[dict[str, Any]]] | None = None  # folder and tables of a site file
        self.waits = Waits(living.controller, living.clock.now_us)
        feed.watch(self.limits.turn)

    def go_on_under(self, cluster: Cluster, policies: PolicySet, policy: str) -> None:
        """Tell and foresee by other policies from now on."""
        self.living = replace(self.living, cluster=cluster, policies=policies, policy=policy)
        self.ahead.go_on_under(cluster, policies)

    async def open(self) -> None:
        """Set the limits of the users with jobs; on the event loop, once the controller runs."""
        owners = self.limits.owners()
        self.limits.open({one: self.settings.limits_of(await self.accounts.name_of(one)) for one in owners})
        self.waits.start()

    async def change(
        self,
        caller: Caller,
        action: str,
        about: str,
        work: Awaitable[T],
        status: int = 200,
        named: Callable[[T], str] | None = None,
    ) -> T:
        """Make a requested change, and write the caller and the outcome to the audit log; `named` returns the subject,
        if it is only known afterwards."""
        try:
            result = await work
        except (Refusal, InputError, Busy) as error:
            await self.refused(caller, action, about, error)
            raise
        about = about if named is None else named(result)
        await self.audit.note(caller.user, caller.role, caller.origin, action, about, status)
        return result

    async def refused(self, caller: Caller, action: str, about: str, error: Exception) -> None:
        """Write a refusal and its reason to the audit log; the exception is marked so that it is not written again."""
        said, origin = problem_of(error), f"uid {caller.number}"
        self.audit.refuse(
            Refused(origin, action, about, said.status, said.noted, caller.user, caller.role, caller.origin)
        )
        await self.audit.written()
        error.is_noted = True  # type: ignore[attr-defined]
