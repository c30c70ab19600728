"""Run one command to its end: in a session and an environment of its own, with bounds on its time and its output.

The environment has fixed names, and folders that no other user can change. A command of a resource manager gets nothing
from the job's owner; the owner's environment goes into the batch script (steered/submitting.py). From the controller's
own environment it gets only what leads it to the cluster.

When a bound is reached, the command and all processes of its session are killed. Once the command has ended, the caller
waits only a moment for processes that it left behind and that keep its pipes open.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

USUAL = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")
KEPT = ("TZ",)  # times are printed and read in the same zone
UMASK = 0o022
LEFT_BEHIND_S = 0.5


class TooMuch(Exception):
    """The command printed more than allowed."""


class Owner(NamedTuple):
    """The account that a command runs as; -1: our own."""

    uid: int = -1
    gid: int = -1
    groups: tuple[int, ...] = ()


OURSELVES = Owner()


class Outcome(NamedTuple):
    """The end of a command and its output."""

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
    words: Sequence[str],
    given: bytes,
    environment: Mapping[str, str],
    timeout_s: float,
    most_bytes: int,
    owner: Owner = OURSELVES,
) -> Outcome:
    """Run it in the folder /, as another user if one is named (root only). OSError: it cannot be started; TimeoutError
    and TooMuch: it was killed."""
    person: dict[str, Any] = {}
    if owner.uid >= 0:
        person = {"user": owner.uid, "group": owner.gid, "extra_groups": list(owner.groups)}
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


def clean_environment(around: Mapping[str, str], names: Sequence[str]) -> dict[str, str]:
    """Return an environment with English messages, a PATH of trusted folders and, from `around`, the names a command
    needs to find its cluster."""
    found = {key: around[key] for key in (*KEPT, *names) if around.get(key)}
    found["PATH"] = ":".join(dict.fromkeys((*trusted_folders(around.get("PATH", "")), *USUAL)))
    if "LD_LIBRARY_PATH" in found:
        found["LD_LIBRARY_PATH"] = ":".join(trusted_folders(found["LD_LIBRARY_PATH"]))
    return {key: value for key, value in found.items() if value} | {"LC_ALL": "C"}


def trusted_folders(text: str) -> list[str]:
    """Return the folders of a colon-separated list in which only root and this account can change anything."""
    return [one for one in text.split(":") if one in USUAL or (os.path.isabs(one) and _trusted(one))]


def _trusted(folder: str) -> bool:
    """Return whether others can change neither the folder nor those above it; a sticky folder protects its entries."""
    try:
        real = Path(os.path.realpath(folder, strict=True))
        for at, one in enumerate((real, *real.parents)):
            found = one.stat()
            shared = found.st_mode & 0o022 and not (at and found.st_mode & stat.S_ISVTX)
            if shared or found.st_uid not in (0, os.geteuid()):
                return False
    except OSError:
        return False
    return real.is_dir()
