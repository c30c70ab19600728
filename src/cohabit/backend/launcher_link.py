"""The controller's end of the channel to its launcher: questions with answers, and reports as they come.

A launcher of our own that dies is restarted, and questions without an answer are sent again: all but `command` may be
sent twice. A launcher that was started before rights were given up cannot be restarted: then the controller ends with a
message.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import subprocess
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from cohabit.backend.protocol import BackendError, Launch
from cohabit.launcher import wire
from cohabit.launcher.process import Begun, begin

OPEN_S = 90.0
LOOK_S = 0.05
TRIES = 5  # attempts to start a launcher of our own
NOT_TWICE = ("command",)
GONE = "the launcher, which runs jobs, has ended"
log = logging.getLogger(__name__)


def own_settings(place: Path) -> dict[str, Any]:
    """Return settings for a launcher with our own rights: it does for every user what the controller could do."""
    return {"place": str(place.absolute()), "own": [os.geteuid(), os.getegid()], "strict": False}


class LauncherRefused(BackendError):
    """The launcher refuses; `number` is an errno where the system refused."""

    def __init__(self, said: str, number: int = 0) -> None:
        super().__init__(said)
        self.number = number


class LauncherGone(BackendError):
    """The launcher has gone, and none can be started."""


class _Question:
    """A question that waits for its answer."""

    def __init__(self, message: wire.Message) -> None:
        self.message = message
        self.answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()


class LauncherLink:
    """`told`: settings for a launcher of our own; `begun`: a launcher that runs already. `report` gets its reports."""

    def __init__(
        self, told: Mapping[str, Any], report: Callable[[wire.Message], None], begun: Begun | None = None
    ) -> None:
        self._told, self._report, self._begun = told, report, begun
        self._own = begun is None
        self._number, self._waiting = 0, dict[int, _Question]()
        self._unsent: deque[wire.Message] = deque()
        self._ready: asyncio.Future[wire.Message] | None = None
        self._watching: asyncio.Task[None] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self.failed, self._closed = asyncio.Event(), False
        self.limits: tuple[str, ...] = ()  # working controllers of control groups

    @property
    def process(self) -> subprocess.Popen[bytes] | None:
        """The launcher's process; None: it is not our child."""
        assert self._begun is not None
        return self._begun.process

    async def open(self) -> None:
        """Wait until the launcher serves."""
        self._loop = asyncio.get_running_loop()
        for left in reversed(range(TRIES if self._own else 1)):
            if self._begun is None:
                self._begun = await asyncio.to_thread(begin, self._told)
            try:
                await self._greet()
                break
            except LauncherGone:  # it was killed before it served
                if not left:
                    raise
                self._hang_up()
                self._begun = None
        self._watching = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Close the channel, which ends the launcher."""
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        self._hang_up()
        for one in self._waiting.values():
            one.answer.cancel()
        self._waiting.clear()
        if self._begun is not None and self._begun.process is not None:
            await asyncio.to_thread(self._begun.process.wait)

    async def ask(self, op: str, **fields: Any) -> Any:
        """Return the answer, or a descriptor if the launcher sends one; if the answer is a table, the descriptor is in
        it. LauncherRefused says why not."""
        if self.failed.is_set() or self._closed:
            raise LauncherGone(GONE)
        self._number += 1
        one = _Question({"id": self._number, "op": op, **fields})
        self._waiting[self._number] = one
        self._send(one.message)
        try:
            return await one.answer
        finally:
            self._waiting.pop(one.message["id"], None)

    def ask_from_thread(self, op: str, **fields: Any) -> Any:
        """Ask from a thread that may wait."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(self.ask(op, **fields), self._loop).result()

    async def open_output(self, job_id: str, launch: Launch, path: str) -> int:
        """Return a descriptor of a job's output, opened with its owner's rights; path "": its default output."""
        person = {"uid": launch.uid, "gid": launch.gid, "groups": list(launch.groups)}
        return int(await self.ask("open_output", job=job_id, attempt=0, path=path, **person))

    # ---- the channel ------------------------------------------------------------------------------------------------

    async def _greet(self) -> None:
        assert self._begun is not None
        loop = asyncio.get_running_loop()
        self._ready = loop.create_future()
        loop.add_reader(self._begun.end, self._hear)
        try:
            told = await asyncio.wait_for(self._ready, OPEN_S)
        except TimeoutError:
            raise BackendError("the launcher does not begin to serve") from None
        if told["event"] == "gone":
            raise LauncherGone("the launcher ended before it served; launcher/log in the place may say why")
        if told["event"] == "unable":
            raise BackendError(f"the launcher cannot begin: {told['text']}")
        self.limits = tuple(told["limits"])

    def _hang_up(self) -> None:
        if self._begun is not None:
            with contextlib.suppress(ValueError):
                asyncio.get_running_loop().remove_reader(self._begun.end)
                asyncio.get_running_loop().remove_writer(self._begun.end)
            self._begun.end.close()

    def _send(self, message: wire.Message) -> None:
        self._unsent.append(message)
        self._flush()

    def _flush(self) -> None:
        """Send what the channel takes now; the rest when it has room."""
        assert self._begun is not None
        loop, end = asyncio.get_running_loop(), self._begun.end
        while self._unsent:
            message = self._unsent[0]
            try:
                wire.send(end, message, wait=False)
            except BlockingIOError:
                loop.add_writer(end, self._flush)
                return
            except wire.BadMessage as error:
                self._settle(message["id"], error=LauncherRefused(str(error)))
            except OSError:
                return  # it has ended; its successor is asked again
            self._unsent.popleft()
        with contextlib.suppress(ValueError):
            loop.remove_writer(end)

    def _hear(self) -> None:
        assert self._begun is not None
        while True:
            try:
                found = wire.receive(self._begun.end, wait=False)
            except BlockingIOError:
                return
            except (OSError, wire.BadMessage) as error:
                log.error("what the launcher says cannot be read: %s", error)
                return
            if found is None:
                asyncio.get_running_loop().remove_reader(self._begun.end)  # everything it sent has been read
                if self._ready is not None and not self._ready.done():
                    self._ready.set_result({"event": "gone"})
                elif self.process is None:
                    self._give_up()
                return
            self._take(*found)

    def _take(self, message: wire.Message, descriptors: list[int]) -> None:
        if "id" in message:
            if "error" in message:
                self._settle(message["id"], error=LauncherRefused(message["error"], message.get("errno", 0)))
            elif not descriptors:
                self._settle(message["id"], message.get("ok"))
            else:
                found = message.get("ok")
                found = found | {"descriptor": descriptors[0]} if isinstance(found, dict) else descriptors[0]
                if self._settle(message["id"], found):
                    descriptors.pop(0)  # it now belongs to the caller
            wire.close(descriptors)
            return
        wire.close(descriptors)
        if message.get("event") in ("open", "unable") and self._ready is not None and not self._ready.done():
            self._ready.set_result(message)
        else:
            self._report(message)

    def _settle(self, number: int, found: Any = None, error: BackendError | None = None) -> bool:
        one = self._waiting.pop(number, None)
        if one is None or one.answer.done():
            return False
        if error is not None:
            one.answer.set_exception(error)
        else:
            one.answer.set_result(found)
        return True

    async def _watch(self) -> None:
        """Watch for the death of the launcher."""
        while True:
            await asyncio.sleep(LOOK_S)
            if self.process is None or self.process.poll() is None:
                continue
            if not self._own:
                self._give_up()
                return
            log.warning("the launcher died and is started again")
            await self._begin_again()

    def _give_up(self) -> None:
        """Fail all questions: the launcher has gone, and no other can be started."""
        self.failed.set()
        for number in list(self._waiting):
            self._settle(number, error=LauncherGone(GONE))

    async def _begin_again(self) -> None:
        """Start a new launcher and repeat the questions that its predecessor has not answered."""
        self._hear()  # its children may have answered
        self._hang_up()
        self._unsent.clear()
        while True:
            try:
                self._begun = await asyncio.to_thread(begin, self._told)
                await self._greet()
                break
            except (BackendError, OSError) as error:
                log.error("%s", error)
                self._hang_up()
                await asyncio.sleep(1.0)
        await self._ask_again()

    async def _ask_again(self) -> None:
        self._unsent.clear()  # all open questions are sent below, once
        for number, one in list(self._waiting.items()):
            if one.message["op"] in NOT_TWICE:
                self._settle(number, error=LauncherGone(GONE))
            else:
                self._send(one.message)
        self._report({"event": "again"})
