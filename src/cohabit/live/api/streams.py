"""Long answers: a job's output as it grows, waiting for an end, events as they happen.

Each runs in the task of its own connection and waits for its client there; files are read in threads. Output is read
from one descriptor, opened once by the launcher with the rights of the job's user.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import msgspec

from cohabit.backend import output_names
from cohabit.backend.launcher_link import LauncherRefused
from cohabit.backend.protocol import BackendError, Launch
from cohabit.live.api.credentials import Caller
from cohabit.live.api.feed import Changed, Feed, Listener
from cohabit.live.api.looking import Looking
from cohabit.live.api.problems import Refusal
from cohabit.live.controller.records import OVER, WAITS
from cohabit.live.controller.standing import Standing
from cohabit.model.units import SECOND

PIECE = 65536
LOOK_S = 0.25
# Every kind of event with its data and its meaning; the reference page of the docs is made from this.
KINDS = {
    "job": ("`at`, `job`, `state`", "a job is different now: own ones, operators all"),
    "node": ("`at`, `node`, `name`, `state`", "a node is up, down or drained"),
    "machine": ("`at`", "jobs of others have started, ended or come; at most twice a second"),
    "lost": ("`error`", "you read too slowly and are cut off: ask for the lists again"),
}
NOTHING = -1  # no change is pending for the listener
MACHINE_S = 0.5  # between two events about jobs of other users
CHECK_S = 1.0  # interval at which the caller's token is checked
QUIET_S = 15.0  # after this time without an event a comment is sent, to show that the connection lives


OpenOutput = Callable[[str, Launch, str], Awaitable[int]]  # of a job, by the file its owner named, or ""


class Streams:
    """`open_output` returns a descriptor opened with the rights of the job's user; `still` returns whether a caller's
    token is still valid, `called` the name of a node."""

    def __init__(
        self,
        looking: Looking,
        feed: Feed,
        open_output: OpenOutput,
        still: Callable[[Caller], bool],
        called: Callable[[int], str] = str,
    ) -> None:
        self._called = called
        self._looking, self._feed, self._open_output, self._still = looking, feed, open_output, still

    def _check(self, caller: Caller) -> None:
        if not self._still(caller):
            raise Refusal(401, "the token has expired or was revoked", "Authorization", "ask for a new one")

    # ---- waiting ----------------------------------------------------------------------------------------------------

    async def over(self, job: str, caller: Caller, patience_s: float) -> bool:
        """Wait for the end of a job; False: the time has run out."""
        loop = asyncio.get_running_loop()
        until = loop.time() + patience_s
        while True:
            with self._feed.waiting(job) as changed:  # before reading the job: later changes are not missed
                if (await self._looking.job(job, caller)).record.phase == OVER:
                    return True
                left = until - loop.time()
                if left <= 0 or self._feed.closed:
                    return False
                await changed(min(left, CHECK_S))
                self._check(caller)

    # ---- output -----------------------------------------------------------------------------------------------------

    async def output(
        self, found: Standing, caller: Caller, stream: str, follow: bool, offset: int
    ) -> AsyncIterator[bytes]:
        """Return a job's output from an offset; refusals come before the first piece."""
        return self._pieces(found, caller, stream, follow, offset, await self._open(found, stream))

    async def _open(self, found: Standing, stream: str) -> int | None:
        """Open a job's output; None: there is none yet."""
        record, launch = found.record, found.launch
        if record.members:
            raise Refusal(
                409,
                "is an array; each of its members has output of its own",
                f"job {record.job_id}",
                f"name one: {record.job_id}_{record.array_first}",
            )
        if launch is None:
            raise Refusal(404, "nothing is known of its output", f"job {record.job_id}")
        named = (launch.stderr or launch.stdout) if stream == "stderr" else launch.stdout
        own = output_names.expand(named, record.job_id, launch)
        try:
            return await self._open_output(record.job_id, launch, os.path.join(launch.folder, own) if named else "")
        except BackendError as error:
            missing = isinstance(error, LauncherRefused) and error.number == errno.ENOENT
            if record.phase == WAITS or (record.phase != OVER and missing):
                return None
            if missing and not record.start_us:
                return None  # it never ran
            if missing and not named and await self._looking.output_removed(record):
                raise Refusal(
                    404,
                    "its output was removed by retention",
                    f"job {record.job_id}",
                    "[keep] of the site file says how long outputs are kept",
                ) from error
            raise Refusal(
                404 if missing else 403, f"its output cannot be read: {error}", f"job {record.job_id}"
            ) from error

    async def _pieces(
        self, found: Standing, caller: Caller, stream: str, follow: bool, offset: int, descriptor: int | None
    ) -> AsyncIterator[bytes]:
        job = found.record.job_id
        try:
            while True:
                over = found.record.phase == OVER  # checked before reading: what it wrote until then is read below
                while descriptor is not None and (
                    piece := await asyncio.to_thread(os.pread, descriptor, PIECE, offset)
                ):
                    offset += len(piece)
                    yield piece
                if over or not follow or self._feed.closed or not self._still(caller):
                    return
                with self._feed.waiting(job) as changed:
                    await changed(LOOK_S)
                found = await self._looking.job(job, caller)
                if descriptor is None:
                    with contextlib.suppress(Refusal):
                        descriptor = await self._open(found, stream)
        finally:
            if descriptor is not None:
                os.close(descriptor)

    # ---- events -----------------------------------------------------------------------------------------------------

    async def events(self, listener: Listener, caller: Caller) -> AsyncIterator[bytes]:
        """Stream the events that the caller may see; of other users' jobs only that something has changed."""
        loop, owed_us, told_s = asyncio.get_running_loop(), NOTHING, 0.0
        sent_s = loop.time()
        try:
            yield b": listening\n\n"
            while self._still(caller):
                due_s = sent_s + QUIET_S if owed_us == NOTHING else told_s + MACHINE_S
                try:
                    one = await asyncio.wait_for(listener.queue.get(), min(max(due_s - loop.time(), 0.0), CHECK_S))
                except TimeoutError:
                    if loop.time() < due_s:
                        continue
                    yield b": quiet\n\n" if owed_us == NOTHING else _machine(owed_us)
                    sent_s = loop.time()
                    told_s, owed_us = (told_s if owed_us == NOTHING else sent_s), NOTHING
                    continue
                if one is None:
                    if listener.lags:
                        yield b'event: lost\ndata: {"error": "you read too slowly; ask for the lists again"}\n\n'
                    return
                if one.kind == "node" or caller.operates or one.owner == caller.number >= 0:
                    yield self._event(one)
                    sent_s = loop.time()
                else:
                    owed_us = one.at_us
        finally:
            self._feed.leave(listener)

    def _event(self, one: Changed) -> bytes:
        about: dict[str, Any] = {"at": one.at_us / SECOND, "state": one.state}
        named = (
            {"node": int(one.name), "name": self._called(int(one.name))} if one.kind == "node" else {"job": one.name}
        )
        return b"event: %s\ndata: %s\n\n" % (one.kind.encode(), msgspec.json.encode(about | named))


def _machine(at_us: int) -> bytes:
    """Return the event that nodes or the queue have changed, without naming the job or its user."""
    return b"event: machine\ndata: %s\n\n" % msgspec.json.encode({"at": at_us / SECOND})
