"""A small process of its own that outlives the controller: it stops runs at their fuses, and when the lease is over it
gives held jobs back to plain Slurm.

Started by `cohabit slurm attach`, in a session of its own; one per lease, held by a lock. It decides nothing, and ends
when it has done its work. `python -m cohabit.backend.slurm.watchdog LEASE CONF marked|all [LOCK]`. Where the launcher
starts it, it is root's, and LOCK is in a folder of root's; what it reads beside the lease is then another account's.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from cohabit.backend.command_environment import clean_environment
from cohabit.backend.slurm.calls import Calls, SlurmAway, SlurmRefused
from cohabit.backend.slurm.fuses import Fuse, boot_us, read_fuses
from cohabit.backend.slurm.handback import hand_back
from cohabit.backend.slurm.lease import fuse_file, open_closed, read_lease, real, watch_file
from cohabit.backend.slurm.marks import RUN, read_mark
from cohabit.backend.slurm.steered import Manager, SlurmManager

LOOK_S = 0.5
# What leads the commands of either manager to their cluster.
LED = ("SLURM_CONF", "SGE_ROOT", "SGE_CELL", "SGE_QMASTER_PORT", "SGE_EXECD_PORT", "SGE_CLUSTER_NAME",
       "LD_LIBRARY_PATH")  # fmt: skip
log = logging.getLogger("cohabit.slurm.watchdog")


def ensure_watchdog(lease: Path, module: str, *arguments: str) -> bool:
    """Start `python -m MODULE LEASE ARGUMENTS...` unless there is one for this lease; whether one was started."""
    with open_closed(watch_file(lease)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    with open_closed(real(lease).with_name("watchdog.log")) as said:
        subprocess.Popen(
            command_of(lease, module, *arguments), stdin=subprocess.DEVNULL, stdout=said, stderr=said,
            start_new_session=True, cwd="/", env=environment(),
        )  # fmt: skip
    return True


def command_of(lease: Path, module: str, *arguments: str) -> list[str]:
    """What is executed."""
    return [sys.executable, "-P", "-m", module, str(lease), *arguments]


def environment() -> dict[str, str]:
    """Ours without what could act on it."""
    return clean_environment(os.environ, LED)


async def watch(lease_path: Path, manager: Manager, all_held: bool) -> None:
    """Until the lease is over, everything has been given back and no fuse is left."""
    burner, lease, given = _Burner(lease_path, manager), read_lease(lease_path), False
    while lease_path.parent.exists():  # without its folder it is not in use any more
        if await burner.look():
            given = False  # what was stopped after the lease waits, too
        lease = read_lease(lease_path) or lease
        runs = lease is not None and lease.runs(time.time())
        if not runs and not given:
            given = await _give_back(manager, () if lease is None else lease.partitions, all_held)
        elif not runs and not burner.waits:
            return
        else:
            given = given and not runs
        await asyncio.sleep(LOOK_S)


async def _give_back(manager: Manager, partitions: tuple[str, ...], all_held: bool) -> bool:
    log.warning("the lease is over: held jobs go back to %s", manager.title)
    try:
        handed = await hand_back(manager, partitions, all_held)
    except SlurmAway as error:
        log.warning("%s does not answer (%s); it is asked again", manager.title, error)
        return False
    log.warning("%d jobs were given back, %d with mates to their owners", len(handed.released), len(handed.to_owners))
    for name, why in handed.failed.items():
        log.error("job %s was not: %s", name, why)
    return True


class _Burner:
    """Stops runs at their fuses: each once, and again until the manager has answered."""

    def __init__(self, lease: Path, manager: Manager) -> None:
        self._lease, self._manager, self.waits = lease, manager, False
        self._done: dict[str, Fuse] = {}

    async def look(self) -> bool:
        """Stop whose time has come; whether there were any."""
        before = len(self._done)
        lit = {name: fuse for name, fuse in read_fuses(fuse_file(self._lease)).items() if self._done.get(name) != fuse}
        for name, fuse in lit.items():
            if fuse.burns_us <= boot_us():
                try:
                    await self._stop(name, fuse)
                    self._done[name] = fuse
                except SlurmAway as error:
                    log.warning("%s does not answer (%s); job %s is to be stopped", self._manager.title, error, name)
        self.waits = any(self._done.get(name) != fuse for name, fuse in lit.items())
        return len(self._done) > before

    async def _stop(self, name: str, fuse: Fuse) -> None:
        job = await self._manager.job(name)
        mark = None if job is None else read_mark(job.mark)
        if job is None or mark is None or mark.kind != RUN or mark.attempt != fuse.attempt:
            return  # another run, or none
        try:
            if job.waits and not job.held:
                await self._manager.hold(name)
            elif job.runs:
                await (self._manager.requeue_held(name) if job.requeue else self._manager.cancel(name))
            else:
                return
            log.warning("job %s was stopped: its mates were not heard in time", name)
        except SlurmRefused as error:
            log.warning("job %s: %s", name, error)


def guarded(lease: Path, manager: Manager, all_held: bool, lock_file: Path | None = None) -> None:
    """Watch, unless somebody does."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    with open_closed(lock_file or watch_file(lease)) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # there is one already
        asyncio.run(watch(lease, manager, all_held))


def lock_in(words: Sequence[str]) -> Path | None:
    """The last argument, if it was given."""
    return Path(words[0]) if words else None


def main() -> None:
    """The process."""
    guarded(Path(sys.argv[1]), SlurmManager(Calls(sys.argv[2])), sys.argv[3] == "all", lock_in(sys.argv[4:]))


if __name__ == "__main__":
    main()
