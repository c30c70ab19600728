"""Read jobs for a caller: what the caller may not see is refused or left out. It changes nothing."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Sequence

from sqlalchemy.exc import DBAPIError

from cohabit.backend import output_names
from cohabit.backend.protocol import Launch
from cohabit.live.api.credentials import Accounts, Caller
from cohabit.live.api.limits import KEPT_BACK
from cohabit.live.api.page.documents import JobDetails
from cohabit.live.api.problems import Refusal
from cohabit.live.api.views import job_view
from cohabit.live.controller.controller import Controller
from cohabit.live.controller.database import said
from cohabit.live.controller.records import WAITS, Record
from cohabit.live.controller.refusals import REMOVED, SEE_KEEP, UnknownJob
from cohabit.live.controller.retention import outputs_removed
from cohabit.live.controller.standing import Listed, Standing

REFUSED_EVERY_S = 0.05  # refusals are sent at multiples of this, to hide how long the lookup took
PAGE = 1000  # jobs read at once
SHORT_QUEUE = 2000  # jobs; in a longer queue a wait is explained in full only on request (`why`)


class Looking:
    """`output_of` returns the output path of a job that named no file; `waiting` returns how many jobs wait;
    `kept_back`: whether a limit of its user keeps a job back; `names`: of all nodes, where they have any."""

    def __init__(
        self,
        controller: Controller,
        accounts: Accounts,
        output_of: Callable[[str, int], str],
        waiting: Callable[[], int],
        kept_back: Callable[[str], bool],
        names: Sequence[str] = (),
    ) -> None:
        self._controller, self._accounts = controller, accounts
        self._output_of, self._waiting, self._kept_back, self._names = output_of, waiting, kept_back, names

    async def job(self, job: str, caller: Caller) -> Standing:
        """Return a job that the caller may see. Another user's job is refused like a job that does not exist, in the
        same words and after a time that does not depend on it; only the audit log distinguishes the two."""
        begun = time.monotonic()
        try:
            found = await self._controller.view(job)
        except UnknownJob:
            noted = "there is no such job"
        except DBAPIError as error:
            raise _unreadable(error) from error
        else:
            if may_see(caller, found.record):
                return found
            noted = f"the job is another user's (uid {found.record.user})"
        words, fix = await self._not_there(job, caller)
        await asyncio.sleep(REFUSED_EVERY_S - (time.monotonic() - begun) % REFUSED_EVERY_S)
        raise Refusal(404, words, f"job {job}", fix, noted=noted)

    async def _not_there(self, job: str, caller: Caller) -> tuple[str, str]:
        """Return the refusal of a job that the caller cannot see. For numbered jobs it does not tell whether the job is
        another user's or was removed."""
        gone = await self._controller.removed(job)
        if gone is not None and (caller.operates or gone.owner == caller.number >= 0):
            return REMOVED, SEE_KEEP
        if gone is not None and gone.owner is None:
            return f"{REMOVED}, or it is not yours", SEE_KEEP
        return "there is no such job", "cohabit queue lists your jobs"

    async def full_view(self, job: str, caller: Caller) -> JobDetails:
        """Return one job as a document."""
        found = await self.job(job, caller)
        if found.record.phase == WAITS and not found.record.members:
            explained = await self._controller.why(job, self._waiting() <= SHORT_QUEUE)
            found = explained.standing._replace(why=explained.why)
        return await self.view(found, caller)

    async def view(self, found: Standing, caller: Caller) -> JobDetails:
        """Return a job that was found as a document."""
        record, launch, stdout, stderr = found.record, found.launch, "", ""
        if record.phase == WAITS and self._kept_back(record.job_id):
            found = found._replace(why=KEPT_BACK)
        seen = may_see(caller, record)
        if launch is not None and seen:
            own = "" if record.members else self._output_of(record.job_id, launch.uid)
            stdout = _file(launch.stdout, record, launch) or own
            stderr = _file(launch.stderr, record, launch) or stdout
        return job_view(found, await self._accounts.name_of(record.user), seen, stdout, stderr, self._names)

    async def page(self, state: str, user: int | None, limit: int, before: int | None) -> Listed:
        """Return a page of jobs, the latest first."""
        try:
            return await self._controller.page(state, user, limit, before)
        except DBAPIError as error:
            raise _unreadable(error) from error

    async def ended(self, since_us: int, until_us: int, user: int | None) -> AsyncIterator[list[Record]]:
        """Yield the jobs that ended in this interval, by their end, a page at a time."""
        behind: tuple[int, str] | None = None
        while True:
            try:
                page = await self._controller.between(since_us, until_us, user, PAGE, behind)
            except DBAPIError as error:
                raise _unreadable(error) from error
            yield page
            if len(page) < PAGE:
                return
            assert page[-1].end_us is not None
            behind = (page[-1].end_us, page[-1].job_id)

    async def output_removed(self, record: Record) -> bool:
        """Return whether retention has removed the job's output from the place."""
        last = await self._controller.read(outputs_removed)
        return last is not None and record.end_us is not None and (record.end_us, record.job_id) <= last

    async def listed_user(self, caller: Caller, wanted: str) -> int | None:
        """Return the number of the user to list jobs of; None: all users. Only operators may list jobs of others."""
        if not wanted:
            return None if caller.operates else caller.number
        number = caller.number if wanted == caller.user else await self._accounts.number_of(wanted)
        if not caller.operates and number != caller.number:
            raise Refusal(403, "jobs of others are shown to operators only", "user", "leave it out")
        if number is None:
            raise Refusal(404, "there is no such user", f"user {wanted}", "check the name")
        return number


def _file(pattern: str, record: Record, launch: Launch) -> str:
    """Return the output file of a job; of an array, the pattern for the files of its members."""
    if not pattern:
        return ""
    return os.path.join(
        launch.folder, pattern if record.members else output_names.expand(pattern, record.job_id, launch)
    )


def may_see(caller: Caller, record: Record) -> bool:
    """Return whether the caller owns the job or is an operator."""
    return caller.operates or (record.user >= 0 and record.user == caller.number)


def _unreadable(error: DBAPIError) -> Refusal:
    return Refusal(503, f"the journal cannot be read: {said(error)}", "journal", "try again later")
