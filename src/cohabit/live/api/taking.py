"""Turn a submission into a job and its launch: its owner, the account it runs as, and what it may ask for.

A server with a root launcher runs a job as the user that submitted it, except for root and system accounts. Any other
server runs every job as its own user; so it accepts jobs of other local users only if the site file names them, because
these jobs could do whatever the serving user can.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import msgspec
from sqlalchemy.exc import DBAPIError

from cohabit.backend import output_names
from cohabit.backend.launchers.registry import program_of
from cohabit.backend.local.room import shortage
from cohabit.backend.protocol import Launch
from cohabit.core.core import SchedulerCore
from cohabit.live.api.credentials import Account, Accounts, Caller
from cohabit.live.api.groups import GroupTable, group_of
from cohabit.live.api.limits import Limits
from cohabit.live.api.problems import Refusal
from cohabit.live.api.settings import ApiSettings, UserLimits
from cohabit.live.api.shapes import Submission, array_of
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.database import said
from cohabit.live.controller.journal import Journal
from cohabit.live.controller.refusals import Busy, NotWritable
from cohabit.live.controller.runs_as import RunsAs
from cohabit.model.errors import InputError
from cohabit.model.job import Job
from cohabit.model.profile import owner_of
from cohabit.model.units import microseconds

MEGABYTE = 2**20
AHEAD = 200  # numbers between two marks
_MARK = "number"


class Numbers:
    """Names for jobs submitted without one: the next number, never a used one, with no gaps after a restart.

    A mark in the journal's settings is always ahead of the numbers given out; after a restart the numbers before the
    mark are looked up. Used on one event loop."""

    def __init__(self, controller: Controller, journal: Journal) -> None:
        self._controller, self._journal = controller, journal
        self._next = self._mark = 0
        self._marking = asyncio.Lock()

    async def next(self) -> str:
        """Return a new name."""
        while self._next >= self._mark:
            async with self._marking:
                if self._next >= self._mark:
                    self._next, self._mark = await self._controller.ask(self._go_on)
        self._next += 1
        return str(self._next - 1)

    def _go_on(self, _: SchedulerCore) -> tuple[int, int]:
        """Return the next number and a new mark; called in the worker thread."""
        try:
            number = self._next
            if not self._mark:
                mark = int(self._journal.get(_MARK) or 1)
                known = self._journal.known_jobs([str(one) for one in range(max(mark - AHEAD, 1), mark)])
                number = max((int(one) for one in known), default=max(mark - AHEAD, 1) - 1) + 1
            self._journal.put({_MARK: str(number + AHEAD)})
        except DBAPIError as error:
            raise NotWritable(f"the journal cannot be written: {said(error)}") from error
        return number, number + AHEAD


@dataclass(frozen=True)
class Wanted:
    """A checked submission: only its name is missing."""

    job: Job
    launch: Launch
    limits: UserLimits


class Taking:
    """Accepts submissions for one controller."""

    def __init__(
        self,
        controller: Controller,
        settings: ApiSettings,
        accounts: Accounts,
        limits: Limits,
        numbers: Numbers,
        place: Path,
        runs_as: RunsAs,
    ) -> None:
        self._controller, self._settings, self._accounts = controller, settings, accounts
        self._limits, self._numbers, self._place = limits, numbers, place
        self.runs_as = runs_as

    @property
    def own(self) -> int:
        """The uid this server runs as."""
        return self.runs_as.own

    async def take(self, submission: Submission, caller: Caller) -> tuple[str, int]:
        """Submit a job; return (job, members) once it is durable."""
        wanted = await self.wanted(submission, caller)
        if short := shortage(self._place):
            raise NotWritable(f"nothing can be accepted now: {short}", str(self._place), "try again when there is room")
        name = submission.name or await self._numbers.next()
        job = msgspec.structs.replace(wanted.job, job_id=name)
        job.check()
        names = [f"{name}_{job.array_first + place}" for place in range(job.array_count)] or [name]
        if self._limits.admit(caller.number, wanted.limits, names, job.held):
            job = msgspec.structs.replace(job, held=True)
        try:
            await self._controller.submit(job, wanted.launch)
        except (InputError, Busy):
            self._limits.withdraw(caller.number, names)
            raise
        self._limits.release_free(caller.number)  # now that the new ones are durable
        return name, len(names)

    async def wanted(self, submission: Submission, caller: Caller) -> Wanted:
        """Return what would be submitted; refuse what this caller may not have."""
        limits = self._settings.limits_of(caller.user)
        if submission.qos is not None and submission.qos > limits.qos and not caller.operates:
            raise Refusal(403, f"you may have priorities up to {limits.qos}", "qos", "leave it out, or ask an operator")
        if submission.array is not None and (count := array_of(submission.array)[1]) > limits.max_array:
            raise Refusal(
                422,
                f"an array of {count:,} jobs; at most {limits.max_array:,} are allowed",
                "array",
                "submit several, or ask for a larger max_array in the site file",
            )
        most, size = limits.max_submission_bytes, _bytes_of(submission)
        if most is not None and size > most:
            raise Refusal(
                413,
                f"command and environment have {size:,} bytes; at most {most:,} are allowed",
                "environment",
                "write them to a file that the job reads, or ask for a larger max_submission_bytes in the site file",
            )
        account = await self._runs_as(caller)
        return Wanted(self._job(submission, caller, limits), _launch(submission, account, self.own), limits)

    async def _runs_as(self, caller: Caller) -> Account | None:
        """Return the account the job runs as; None: it is unknown, and the job runs as the serving user."""
        runs_as = self.runs_as
        if not runs_as.becomes_users:
            if caller.local and caller.number not in (0, self.own) and caller.user not in self._settings.users:
                raise Refusal(
                    403,
                    "this server runs every job as its own user and does not know you",
                    f"user {caller.user}",
                    f"ask for a table [users.{caller.user}] in the site file, or for a server that runs as root",
                )
            return await self._accounts.find(self.own)
        if reason := runs_as.refusal(caller.number):
            fix = f"submit as another user, or add {caller.number} to uids in [launcher] of the site file and restart"
            fix += "" if caller.number else " (in a new place: cohabit up --root-jobs)"
            raise Refusal(403, reason, f"user {caller.user}", fix)
        account = await self._accounts.find(caller.number)
        if account is None and caller.local:
            return Account(caller.user, caller.number, caller.gid, (caller.gid,), "/", "/bin/sh")
        if account is None or account.name != caller.user:
            raise Refusal(
                403,
                f"there is no account {caller.user} on this machine to run it as",
                f"user {caller.user}",
                "ask for one",
            )
        return account

    def _job(self, submission: Submission, caller: Caller, limits: UserLimits) -> Job:
        first = count = at_most = 0
        if submission.array is not None:
            first, count, at_most = array_of(submission.array)
        mates = None
        if submission.group is not None:
            table = msgspec.convert(submission.group.model_dump(exclude={"name"}), GroupTable)
            mates = group_of(submission.group.name, table, self._settings.domains, "group")
        return Job(
            submission.name or "0",
            microseconds(submission.limit_s),
            submission.processes,
            submission.nodes,
            submission.memory_mb * MEGABYTE,
            caller.number,
            submission.program or program_of(submission.command),
            submission.partition,
            limits.qos if submission.qos is None else submission.qos,
            tuple(submission.after),
            submission.after_any,
            submission.hold,
            first,
            count,
            at_most,
            submission.requeue,
            submission.alpha,
            submission.exclusive,
            submission.single_node,
            workload_type=submission.workload_type,
            skip_threshold=submission.skip_threshold,
            reprofile=submission.reprofile,
            mates=mates,
            profile_owner=owner_of(caller.number),
            account=account_of(submission, caller, limits),
        )


def account_of(submission: Submission, caller: Caller, limits: UserLimits) -> str:
    """Return the account of the job; refuse one that the site does not let this caller use."""
    mine = limits.accounts
    if submission.account is None:
        return mine[0] if mine else ""
    if mine is not None and submission.account not in mine and not caller.operates:
        said = f"you may use {', '.join(mine)}" if mine else "you have none"
        raise Refusal(403, f"account {submission.account} is not yours: {said}", "account", "ask an operator for it")
    return submission.account


def _bytes_of(submission: Submission) -> int:
    """Return the size of command and environment as a program gets them: each word ends with a zero byte."""
    words = [*submission.command, *(f"{key}={value}" for key, value in submission.environment.items())]
    return sum(len(word.encode("utf-8", "surrogatepass")) + 1 for word in words)


def _launch(submission: Submission, account: Account | None, own: int) -> Launch:
    folder = submission.folder
    for where, path in (("stdout", submission.stdout), ("stderr", submission.stderr)):
        if path and not folder and not os.path.isabs(path):
            raise Refusal(422, "is relative, and there is no folder", where, "give a folder, or begin it with /")
        try:
            output_names.check(path, submission.array is not None, where)
        except InputError as error:
            raise Refusal(422, error.what, where, error.fix) from error
    environment = dict(submission.environment)
    other = account is not None and account.uid != own  # the back end knows what a login would set
    if account is not None and not other:
        login = {"HOME": account.home, "USER": account.name, "LOGNAME": account.name, "SHELL": account.shell}
        environment = {key: value for key, value in login.items() if value} | environment
    here = output_names.literal(folder)
    stdout, stderr = (os.path.join(here, path) if path else "" for path in (submission.stdout, submission.stderr))
    first, count, _ = (0, 0, 0) if submission.array is None else array_of(submission.array)
    processes = 0 if submission.nodes and submission.processes == 1 else submission.processes  # 0: all of its nodes
    launch = Launch(
        tuple(submission.command),
        environment,
        folder,
        stdout,
        stderr,
        submission.framework,
        processes,
        submission.threads,
        submission.memory_mb * MEGABYTE,
        submission.oversubscribe,
        array_first=first,
        array_count=count,
    )
    if account is None or not other:
        return launch
    return msgspec.structs.replace(launch, uid=account.uid, gid=account.gid, groups=account.groups)
