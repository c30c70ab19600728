"""Run one command to its end: in a session of its own, with bounds on its time and its output.

When a bound is reached, the command and all processes of its session are killed. Once the command has ended, the caller
waits only a moment for processes that it left behind and that keep its pipes open.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, cast

UMASK = 0o022
LEFT_BEHIND_S = 0.5


class TooMuch(Exception):
    """The command printed more than allowed."""


class Outcome(NamedTuple):
    """How the command ended and what it printed."""

    code: int
    out: bytes
    err: bytes


class _Listener(asyncio.SubprocessProtocol):
    """Keeps the output, up to a bound."""

    def __init__(self, most_bytes: int) -> None:
        self._left = most_bytes
        self.printed = {1: bytearray(), 2: bytearray()}
        self.over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._left -= len(data)
        if self._left >= 0:
            self.printed[fd] += data
        elif not self.over.done():
            self.over.set_exception(TooMuch())

    def process_exited(self) -> None:
        """Keep reading: the pipes may still hold output."""
        asyncio.get_running_loop().call_later(LEFT_BEHIND_S, self.connection_lost, None)

    def connection_lost(self, exc: Exception | None) -> None:
        """Finish: the command has ended and its pipes are closed."""
        if not self.over.done():
            self.over.set_result(None)


async def run_bounded(
    words: Sequence[str], given: bytes, environment: Mapping[str, str], timeout_s: float, most_bytes: int,
    uid: int = -1, gid: int = -1, groups: Sequence[int] = (),
) -> Outcome:  # fmt: skip
    """Run it in the folder /, as another user if one is named (root only). OSError: it cannot be started; TimeoutError
    and TooMuch: it was killed."""
    person: dict[str, Any] = {} if uid < 0 else {"user": uid, "group": gid, "extra_groups": list(groups)}
    transport, listener = await asyncio.get_running_loop().subprocess_exec(
        lambda: _Listener(most_bytes), *words, env=environment, cwd="/", umask=UMASK, start_new_session=True, **person
    )
    stdin = cast(asyncio.WriteTransport, transport.get_pipe_transport(0))
    try:
        stdin.write(given)
        stdin.close()
        async with asyncio.timeout(timeout_s):
            await listener.over
    except BaseException:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(transport.get_pid(), signal.SIGKILL)
        raise
    finally:
        transport.close()
    return Outcome(transport.get_returncode() or 0, bytes(listener.printed[1]), bytes(listener.printed[2]))
