"""The threshold's listener: a run of mates sends one line, gets `wait` repeatedly, then `open`, and then begins.

A run sends its job, a number it has drawn, and the token that its job was given. It waits at the threshold for as long
as the connection lives and its controller counts on it. This module asks no resource manager. It must never send `open`
unless the deciding domain has said so, or the run needs no mates.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from cohabit.live.controller.slots import Held, Slots
from cohabit.live.peers.origins import NoteRefusal, no_note, origin_of
from cohabit.live.peers.threshold import Ask, Decider, Round
from cohabit.model.errors import InputError
from cohabit.model.texts import wrong_in_name

HANG_S = 1.0  # how long a question waits for its answer
LOOK_S = 0.1  # between two checks whether a run is still wanted
PAUSE_S = 0.3
HELLO_S = 10.0
MOST_RUNS, OF_ONE_JOB = 512, 8  # of runs that have shown their job's token
MOST_STRANGERS, OF_ONE_ORIGIN = 512, 64  # of others, by address or local user
MOST_BYTES = 1024
OPEN, WAIT, UNKNOWN, REFUSED = "open", "wait", "unknown", "refused"
log = logging.getLogger(__name__)


class Hello(msgspec.Struct, frozen=True):
    """The line a run sends."""

    job: str  # as its manager calls it
    run: str
    token: str


class Wanted(NamedTuple):
    """A job of ours whose run may wait here."""

    name: str  # as the core calls it
    attempt: int
    bound: bool  # to its mates; if not, it begins at once
    stands: bool  # its controller counts on this run, and has not given it up


class Sources(NamedTuple):
    """The functions that the threshold calls."""

    find: Callable[[str], Wanted | None]  # by the manager's name; None: no job of ours
    token: Callable[[str], str | None]  # the token its run must show; None: not known yet
    round: Callable[[str, int], Awaitable[Round | None]]  # of this attempt of a job; None: the core has none
    ask: Callable[[Ask], Awaitable[bool | None]]  # asks another domain


class Threshold:
    """The listener of one domain: it decides, or asks the deciding domain. `address`: HOST:PORT or unix:PATH."""

    def __init__(self, address: str, decider: Decider, sources: Sources, listener: socket.socket | None = None) -> None:
        self.address, self._decider, self._sources, self._listener = address, decider, sources, listener
        self._server: asyncio.Server | None = None
        self._opened: dict[Round, asyncio.Event] = {}  # for runs that wait for it
        self._attempts: dict[str, dict[str, int]] = {}  # of each job its runs -> the attempt each belongs to, for ever
        self._talking: set[asyncio.Task[None]] = set()
        self._runs, self._strangers = Slots(MOST_RUNS, OF_ONE_JOB), Slots(MOST_STRANGERS, OF_ONE_ORIGIN)
        self.refused: NoteRefusal = no_note
        self._leaving: set[asyncio.Task[bool | None]] = set()

    async def open(self) -> None:
        """Start to listen for runs."""
        listener = self._listener or listen_on(self.address)
        try:
            if listener is not None:
                self._server = await asyncio.start_unix_server(self._serve, sock=listener, limit=MOST_BYTES)
            else:
                host, _, port = self.address.rpartition(":")
                self._server = await asyncio.start_server(self._serve, host, int(port), limit=MOST_BYTES)
        except OSError as error:
            raise _cannot_listen(self.address, error) from error

    async def close(self) -> None:
        """Stop; runs wait until a controller listens again."""
        if self._server is not None:
            self._server.close()
        for task in (*self._talking, *self._leaving):
            task.cancel()
        await asyncio.gather(*self._talking, *self._leaving, return_exceptions=True)

    # ---- deciding ---------------------------------------------------------------------------------------------------

    async def decide(self, ask: Ask) -> bool:
        """Answer a question of a run here or elsewhere. The run counts as waiting only while this call lasts."""
        if not ask.stands:
            return self._decider.leave(ask)
        opened = self._opened.setdefault(ask.round, asyncio.Event())
        try:
            if self._decider.stand(ask):
                opened.set()
                return True
            async with asyncio.timeout(HANG_S):
                await opened.wait()
        except TimeoutError:
            pass
        except InputError as error:
            log.error("the threshold stays closed: %s", error)
        finally:
            is_open = self._decider.leave(ask)
            if not self._decider.waited_for(ask.round):
                self._opened.pop(ask.round, None)
        return is_open

    async def _ask(self, ask: Ask) -> bool | None:
        if ask.receiver == self._decider.domain:
            return await self.decide(ask)
        return await self._sources.ask(ask)

    # ---- runs -------------------------------------------------------------------------------------------------------

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        origin, held = origin_of(writer.transport).counted, Held()
        if not held.move(self._strangers, origin):
            self.refused(origin, "run connects", "", 429, "too many connections without a token")
            writer.close()
            return
        self._talking.add(task)
        try:
            async with asyncio.timeout(HELLO_S):
                hello = msgspec.json.decode(await reader.readline(), type=Hello)
            if any(not text or wrong_in_name(text) for text in (hello.job, hello.run, hello.token)):
                return  # not a run of ours
            gone = asyncio.ensure_future(reader.read(1))  # a run that disconnects is gone
            try:
                await _Standing(self, hello, writer, gone, origin, held).until_open()
            finally:
                gone.cancel()
                await asyncio.gather(gone, return_exceptions=True)
        except (TimeoutError, ConnectionError, ValueError, msgspec.DecodeError, RecursionError):
            pass  # not a run, or one that is over
        finally:
            held.leave()
            self._talking.discard(task)
            writer.close()

    def _belongs(self, hello: Hello, wanted: Wanted) -> bool:
        """Return whether this is a run of the attempt that is wanted now."""
        while len(self._attempts) > 2 * MOST_RUNS:
            del self._attempts[next(iter(self._attempts))]
        runs = self._attempts.setdefault(hello.job, {})
        while len(runs) > 2 * OF_ONE_JOB:
            del runs[next(iter(runs))]
        return runs.setdefault(hello.run, wanted.attempt) == wanted.attempt

    def _leave(self, ask: Ask) -> None:
        """Tell the deciding domain that a run has left, without waiting."""
        task = asyncio.ensure_future(self._ask(ask))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)


class _Standing:
    """One waiting run."""

    def __init__(
        self,
        threshold: Threshold,
        hello: Hello,
        writer: asyncio.StreamWriter,
        gone: asyncio.Future[bytes],
        origin: str,
        held: Held,
    ) -> None:
        self._threshold, self._hello, self._writer, self._gone = threshold, hello, writer, gone
        self._origin, self._held = origin, held
        self._asked: Ask | None = None  # while the deciding domain may count on it

    async def until_open(self) -> None:
        """Answer until the run is told to begin, or disconnects."""
        try:
            while not self._gone.done():
                word = await self._word()
                await self._say(word)
                if word in (OPEN, REFUSED):
                    return
                if word != WAIT or self._asked is None:
                    await asyncio.wait({self._gone}, timeout=PAUSE_S)
        finally:
            if self._asked is not None and self._asked.stands:
                self._threshold._leave(msgspec.structs.replace(self._asked, stands=False))

    async def _word(self) -> str:
        """Return what the run is told now; takes about a second at most."""
        sources = self._threshold._sources
        token = sources.token(self._hello.job)
        if token is None:
            return WAIT if sources.find(self._hello.job) is not None else UNKNOWN
        if not hmac.compare_digest(token.encode(), self._hello.token.encode()):
            log.warning("a run that claims to be job %s could not be authenticated", self._hello.job)
            about = f"job {self._hello.job}"
            self._threshold.refused(self._origin, "stand at the threshold", about, 401, "wrong token")
            return REFUSED
        if not self._held.move(self._threshold._runs, self._hello.job):
            return WAIT  # this job has as many runs here as it may have
        wanted = sources.find(self._hello.job)
        if wanted is None:
            return UNKNOWN
        if not wanted.bound and wanted.stands:
            return OPEN
        if self._still(wanted):
            round_ = await sources.round(wanted.name, wanted.attempt)
            if round_ is not None:
                domain = self._threshold._decider.domain
                return await self._stand(Ask(round_, domain, round_.decider, self._hello.run, stands=True), wanted)
        return await self._step_back()

    def _still(self, wanted: Wanted) -> bool:
        now = self._threshold._sources.find(self._hello.job)
        same = now is not None and now.attempt == wanted.attempt and now.stands
        return same and self._threshold._belongs(self._hello, wanted)

    async def _stand(self, ask: Ask, wanted: Wanted) -> str:
        """Ask, for as long as the run is wanted."""
        self._asked = ask
        asking = asyncio.ensure_future(self._threshold._ask(ask))
        either: set[asyncio.Future[Any]] = {asking, self._gone}
        try:
            while not asking.done():
                await asyncio.wait(either, timeout=LOOK_S, return_when=asyncio.FIRST_COMPLETED)
                if not asking.done() and (self._gone.done() or not self._still(wanted)):
                    return WAIT  # the next look withdraws it
            answer = asking.result()
            if answer is None:
                await asyncio.wait({self._gone}, timeout=PAUSE_S)
            return OPEN if answer else WAIT
        finally:
            asking.cancel()
            await asyncio.gather(asking, return_exceptions=True)

    async def _step_back(self) -> str:
        """Withdraw a run that is not wanted any more. If the threshold was opened before, it begins as its mates do."""
        if self._asked is None:
            return WAIT
        answer = await self._threshold._ask(msgspec.structs.replace(self._asked, stands=False))
        if answer is None:  # ask again: whether its mates begin is not known
            await asyncio.wait({self._gone}, timeout=PAUSE_S)
        else:
            self._asked = None
        return OPEN if answer else WAIT

    async def _say(self, word: str) -> None:
        self._writer.write(f"{word}\n".encode())
        await self._writer.drain()


def listen_on(address: str) -> socket.socket | None:
    """Return a socket for runs at a path; None: the address is not a path."""
    path = unix_path(address)
    if not path:
        return None
    try:
        if Path(path).is_socket():  # of the controller before
            Path(path).unlink()
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        os.chmod(path, 0o666)  # jobs of all users connect here; their tokens authenticate them
    except OSError as error:
        raise _cannot_listen(address, error) from error
    return listener


def _cannot_listen(address: str, error: OSError) -> InputError:
    reason = (error.strerror or str(error)).lower()
    return InputError(f"cannot listen: {reason}", address, "choose another [mates] threshold")


def unix_path(address: str) -> str:
    """Return the path of unix:PATH; empty: it is HOST:PORT."""
    return address.removeprefix("unix:") if address.startswith("unix:") else ""
