"""The work of the watchdog, a small process that outlives the controller: it stops runs at their fuses, and when the
lease is over it gives held jobs back to the plain manager.

Each manager has a module that runs it (backend/slurm/watchdog.py, backend/gridengine/watchdog.py). Started by `attach`,
in a session of its own; one per lease, held by a lock. It decides nothing, and ends when it has done its work. Where
the controller lacks the rights, its last argument is the descriptor of a channel to a launcher of its own, which runs
the manager's commands; when that launcher has gone, the watchdog ends, and the controller starts another.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from cohabit.backend.bounded_process import clean_environment
from cohabit.backend.launcher_link import GONE, LauncherLink
from cohabit.backend.steered.contract import Manager, ManagerAway, ManagerRefused
from cohabit.backend.steered.fuses import Fuse, boot_us, read_fuses
from cohabit.backend.steered.handback import hand_back
from cohabit.backend.steered.lease import fuse_file, open_closed, read_lease, real, watch_file
from cohabit.backend.steered.marks import is_run
from cohabit.backend.steered.noting import stop_run
from cohabit.launcher.process import Begun

LOOK_S = 0.5
log = logging.getLogger(__name__)


class WatchdogCommand(NamedTuple):
    """The command that starts a manager's watchdog."""

    module: str
    arguments: tuple[str, ...] = ()  # after the lease
    led: tuple[str, ...] = ()  # variables that lead the manager's commands to their cluster


def lives(lease: Path) -> bool:
    """Return whether a watchdog exists for this lease."""
    with open_closed(watch_file(lease)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def start_watchdog(lease: Path, command: WatchdogCommand, channel: int = -1) -> None:
    """Start a watchdog. `channel`: to a launcher of its own, closed here."""
    kept = () if channel < 0 else (channel,)
    try:
        with open_closed(real(lease).with_name("watchdog.log")) as said:
            subprocess.Popen(
                [sys.executable, "-P", "-m", command.module, str(lease), *command.arguments, *map(str, kept)],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                pass_fds=kept,
                start_new_session=True,
                cwd="/",
                env=clean_environment(os.environ, command.led),
            )
    finally:
        for descriptor in kept:
            os.close(descriptor)


async def watch(lease_path: Path, manager: Manager, all_held: bool) -> None:
    """Watch until the lease is over, everything has been given back and no fuse is left."""
    burner, lease, given = _Burner(lease_path, manager), read_lease(lease_path), False
    failed = dict[str, str]()  # what could not be given back, as far as it was said
    while _is_there(lease_path.parent):  # without its folder the lease is not in use any more
        if await burner.look():
            given = False  # runs that were stopped after the lease wait, too
        lease = read_lease(lease_path) or lease
        runs = lease is not None and lease.runs(time.time())
        if not runs and not given:
            given = await _give_back(manager, () if lease is None else lease.partitions, all_held, failed)
        elif not runs and not burner.waits:
            return
        else:
            given = given and not runs
        await asyncio.sleep(LOOK_S)


def _is_there(folder: Path) -> bool:
    """Return whether the folder exists: a removed folder that is mounted here can be read, but has no name."""
    try:
        return os.stat(folder).st_nlink > 0
    except OSError:
        return False


async def _give_back(manager: Manager, partitions: tuple[str, ...], all_held: bool, failed: dict[str, str]) -> bool:
    """Give jobs back; return whether none is left that could not be. `failed`: those that were said before."""
    if not failed:
        log.warning("the lease has ended: held jobs go back to %s", manager.title)
    try:
        handed = await hand_back(manager, partitions, all_held)
    except ManagerAway as error:
        log.warning("%s does not answer (%s); it is asked again", manager.title, error)
        return False
    if not failed or handed.released or handed.to_owners:
        log.warning(
            "%d jobs were given back, %d with mates to their owners", len(handed.released), len(handed.to_owners)
        )
    for name, why in handed.failed.items():
        if failed.get(name) != why:
            log.error("job %s could not be given back and is tried again: %s", name, why)
    failed.clear()
    failed.update(handed.failed)
    return not failed


class _Burner:
    """Stops runs at their fuses: each once, and again until the manager has answered."""

    def __init__(self, lease: Path, manager: Manager) -> None:
        self._lease, self._manager, self.waits = lease, manager, False
        self._done: dict[str, Fuse] = {}

    async def look(self) -> bool:
        """Stop runs with burnt fuses; return whether there were any."""
        before = len(self._done)
        lit = {name: fuse for name, fuse in read_fuses(fuse_file(self._lease)).items() if self._done.get(name) != fuse}
        for name, fuse in lit.items():
            if fuse.burns_us <= boot_us():
                try:
                    await self._stop(name, fuse)
                    self._done[name] = fuse
                except ManagerAway as error:
                    log.warning("%s does not answer (%s); job %s is to be stopped", self._manager.title, error, name)
        self.waits = any(self._done.get(name) != fuse for name, fuse in lit.items())
        return len(self._done) > before

    async def _stop(self, name: str, fuse: Fuse) -> None:
        job = await self._manager.job(name)
        if job is None or not is_run(job.mark, fuse.attempt):
            return  # another run, or no run
        try:
            if job.waits and not job.held:
                await self._manager.hold(name)
            elif job.runs:
                await (stop_run(self._manager, name) if job.requeue else self._manager.cancel(name))
            else:
                return
            log.warning("job %s was stopped: no message came from its mates in time", name)
        except ManagerRefused as error:
            log.warning("job %s: %s", name, error)


def guarded(lease: Path, manager_of: Callable[[LauncherLink | None], Manager], all_held: bool, channel: str) -> None:
    """Watch unless another watchdog does. `channel` "": the commands are run with our own rights."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    with open_closed(watch_file(lease)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
        if channel:
            asyncio.run(_watch_through(socket.socket(fileno=int(channel)), lease, manager_of, all_held))
        else:
            asyncio.run(watch(lease, manager_of(None), all_held))


async def _watch_through(
    end: socket.socket, lease: Path, manager_of: Callable[[LauncherLink | None], Manager], all_held: bool
) -> None:
    """Watch until there is nothing left to watch, or the launcher has gone."""
    end.set_inheritable(False)
    link = LauncherLink({}, lambda report: log.warning("%s", report.get("text", report)), Begun(None, end))
    await link.open()
    watching = asyncio.create_task(watch(lease, manager_of(link), all_held))
    gone = asyncio.create_task(link.failed.wait())
    await asyncio.wait((watching, gone), return_when=asyncio.FIRST_COMPLETED)
    if not watching.done():
        log.error("%s", GONE)
        watching.cancel()
    gone.cancel()
    await asyncio.gather(watching, gone, return_exceptions=True)
    await link.close()
