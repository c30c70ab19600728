"""`cohabit submit` to a cluster under a resource manager: the job is submitted as its owner, held, and then steered.

Its id is the manager's number (with mates: its name in the group), so that both refer to the same job; a name becomes
the manager's job name. The core takes the job while polling of the manager is paused, so that it is never taken twice.
A job that is not understood is left to the manager, as if it had come by the manager's own command.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

import msgspec

from cohabit.app.steer.site import HandIn, SteeredSite
from cohabit.app.steer.threshold import first_line
from cohabit.backend.protocol import Launch
from cohabit.backend.steered.backend import SteeredBackend
from cohabit.backend.steered.contract import ManagerAway, ManagerRefused
from cohabit.backend.steered.marks import BACK, held_mark
from cohabit.backend.steered.shapes import ManagerJob
from cohabit.backend.steered.submitting import Extra, owner_of
from cohabit.backend.steered.translate import job_of, why_not
from cohabit.live.api.credentials import Caller
from cohabit.live.api.parts import Parts
from cohabit.live.api.problems import Refusal
from cohabit.live.api.shapes import Submission
from cohabit.live.api.taking import Taking, Wanted
from cohabit.live.controller.refusals import Busy
from cohabit.model.errors import InputError
from cohabit.model.job import Job

log = logging.getLogger(__name__)
KEPT = ("qos", "alpha", "workload_type", "skip_threshold", "reprofile", "held", "after", "after_any")  # the caller's


class SteeredTaking(Taking):
    """Takes submissions as `plain` would, and submits them to the manager."""

    def __init__(self, parts: Parts, hand_in: HandIn, backend: SteeredBackend, site: SteeredSite, acts_as: int) -> None:
        self._plain, self._parts, self._hand_in, self._backend = parts.taking, parts, hand_in, backend
        self._groups, self._domain, self._title = site.groups, site.domain, backend.manager.title
        self._site = site
        self._acts_as = acts_as  # the uid that the manager sees

    async def wanted(self, submission: Submission, caller: Caller) -> Wanted:
        """Return what would be submitted."""
        if submission.framework != "plain":
            why, fix = self._site.why_not_framework(submission.framework, self._backend.found)
            if why:
                raise Refusal(422, why, "framework", fix)
        if submission.oversubscribe:
            raise Refusal(422, f"{self._title} gives every process a core of its own", "oversubscribe", "leave it out")
        wanted = await self._plain.wanted(submission, caller)
        if submission.group is None:
            return wanted
        stated = submission.group.model_dump(exclude={"name"}, exclude_unset=True)
        in_use = any(one.mates == submission.group.name for one in self._backend.watcher.known.values())
        group = self._groups.submitted(submission.group.name, stated, in_use)
        if submission.array is not None:
            raise Refusal(422, "an array cannot have mates", "group", "submit its members one by one")
        if self._domain not in group.domains():
            raise InputError(f"has no member in domain {self._domain}", f"group {group.name}")
        return replace(wanted, job=msgspec.structs.replace(wanted.job, mates=group))

    async def take(self, submission: Submission, caller: Caller) -> tuple[str, int]:
        """Return (job, members) once it is durable."""
        wanted = await self.wanted(submission, caller)
        job, launch, login = await self._completed(wanted, caller)
        async with self._backend.alone:
            number = await self._hand(job, launch, submission, login)
            theirs = await self._proven(job, number, launch)
            names, new_group = [number], self._groups.add(job.mates)
            try:
                name, found = await self._marked(job, number, theirs)
                names = [one.name for one in found] if job.array_count else [name]
                if self._parts.limits.admit(caller.number, wanted.limits, names, job.held):
                    job = msgspec.structs.replace(job, held=True)
                if await self._left(job, found):
                    self._parts.limits.withdraw(caller.number, names)  # the manager counts it
                else:
                    await self._to_core(job, name, found, launch)
            except (InputError, Busy, Refusal):
                self._parts.limits.withdraw(caller.number, names)
                await self._take_out(number)
                if new_group and job.mates is not None:
                    self._groups.forget(job.mates.name)
                raise
        self._parts.limits.release_free(caller.number)
        return name, max(job.array_count, 1)

    async def _completed(self, wanted: Wanted, caller: Caller) -> tuple[Job, Launch, dict[str, str]]:
        """Return the job with a folder, and with the variables a login would set."""
        launch, login = wanted.launch, dict[str, str]()
        account = await self._parts.accounts.find(launch.uid if launch.uid >= 0 else self._plain.own)
        if account is not None:
            login = {"HOME": account.home, "USER": account.name, "LOGNAME": account.name, "SHELL": account.shell}
        if not launch.folder:
            launch = msgspec.structs.replace(launch, folder=login.get("HOME", "") or "/")
        return wanted.job, launch, {key: value for key, value in login.items() if value}

    async def _hand(self, job: Job, launch: Launch, submission: Submission, login: Mapping[str, str]) -> str:
        after = tuple(self._backend.names.theirs(name) for name in job.after)
        extra = Extra(submission.name or job.program, after)
        if job.mates is not None:
            extra = extra._replace(comment=f"cohabit:mates={job.mates.name}", first_line=first_line(self._groups.mates))
        try:
            return await self._hand_in(job, launch, extra, login)
        except (ManagerRefused, ManagerAway) as error:
            raise self._refusal(error) from error

    async def _proven(self, job: Job, number: str, launch: Launch) -> list[ManagerJob]:
        """Return the job or its tasks as the manager has them.

        The number comes from a process of the caller, so a job of this number is not touched before the manager
        confirms that it is the caller's, waits, is held and is new.
        """
        manager, uid = self._backend.manager, owner_of(launch, self._acts_as).uid
        try:
            if job.array_count:
                found = [one for one in await manager.jobs() if one.array == number]
            else:
                found = [one for one in [await manager.job(number)] if one is not None]
        except (ManagerRefused, ManagerAway) as error:
            raise self._refusal(error) from error
        if not found:
            raise Refusal(503, f"{self._title} does not have it any more", f"job {number}")
        owner, known = self._acts_as if uid < 0 else uid, self._backend.watcher.known
        if not all(one.user == owner and one.waits and one.held and one.name not in known for one in found):
            log.error(
                "uid %d submitted a job and reported job %s, which is another one: nothing was done", owner, number
            )
            why = f"{self._title} has no new job of yours with this number"
            raise Refusal(422, why, f"job {number}", "submit again")
        return found

    async def _marked(self, job: Job, number: str, theirs: list[ManagerJob]) -> tuple[str, list[ManagerJob]]:
        """Return the core's name for the job, and the job or its tasks as the manager has them now."""
        any_nodes = not job.nodes and not job.single_node
        mark = held_mark("" if job.mates is None else job.mates.name, any_nodes)
        try:
            await self._backend.manager.mark([number], mark)
        except (ManagerRefused, ManagerAway) as error:
            raise self._refusal(error) from error
        found = [msgspec.structs.replace(one, mark=mark) for one in theirs]
        if job.array_count:
            return number, found
        named = self._backend.names.one(found[0])
        return named.name, [named]

    async def _left(self, job: Job, found: list[ManagerJob]) -> bool:
        """Leave a job that is not understood to the manager; refuse one with mates, which would start alone there."""
        terms = self._backend.found.terms
        reason = next((why for one in found if (why := why_not(one, terms))), "")
        if not reason and any(one.partition not in terms.partitions for one in found):
            reason = "is for a partition that is not steered"
        if reason and job.mates is not None:
            raise InputError(reason, f"job {found[0].name}")
        if reason:
            theirs = found[0].array or found[0].name
            await self._backend.manager.mark([theirs], BACK)
            await self._backend.manager.release([theirs])
        return bool(reason)

    async def _to_core(self, job: Job, name: str, found: list[ManagerJob], launch: Launch) -> None:
        terms, own = self._backend.found.terms, {key: getattr(job, key) for key in KEPT}
        made = msgspec.structs.replace(job_of(found[0], terms), **own, program=job.program or found[0].job_name)
        if job.array_count:
            made = msgspec.structs.replace(
                made,
                job_id=name,
                array_first=job.array_first,
                array_count=job.array_count,
                array_at_most=job.array_at_most,
            )
        for one in found:
            self._backend.watcher.take(one)
        word = self._title.replace(" ", "").lower()
        stdout = launch.stdout or (f"{word}-{name}_%a.out" if job.array_count else f"{word}-{found[0].number}.out")
        try:
            await self._parts.controller.submit(made, msgspec.structs.replace(launch, stdout=stdout))
        except (InputError, Busy):
            for one in found:
                self._backend.watcher.known.pop(one.name, None)
                self._backend.watcher.left.add(one.name)
            raise

    async def _take_out(self, number: str) -> None:
        try:
            await self._backend.manager.cancel(number)
        except (ManagerRefused, ManagerAway):
            return  # it stays held, and its owner sees it in the manager's queue

    def _refusal(self, error: ManagerRefused | ManagerAway) -> Refusal:
        if isinstance(error, ManagerAway):
            return Refusal(503, f"{self._title} does not answer: {error}", "job", "try again later")
        return Refusal(422, f"{self._title} refuses it: {error}", "job", "ask for what it can give")
