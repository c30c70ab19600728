"""A small process of its own that outlives the controller: when the lease is over, held jobs go back to plain Slurm.

Started by `cohabit slurm attach`, in a session of its own; one per lease, held by a lock. It decides nothing, and ends
when it has done its work. `python -m cohabit.backend.slurm.watchdog LEASE CONF marked|all`.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import subprocess
import sys
import time
from pathlib import Path

from cohabit.backend.slurm.calls import Calls, SlurmAway
from cohabit.backend.slurm.handback import hand_back
from cohabit.backend.slurm.lease import read_lease, watch_file

LOOK_S = 0.5
log = logging.getLogger("cohabit.slurm.watchdog")


def ensure_watchdog(lease: Path, conf: str, held: str) -> bool:
    """Start one unless there is one; whether one was started."""
    with watch_file(lease).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    with lease.with_name("watchdog.log").open("ab") as said:
        subprocess.Popen(
            [sys.executable, "-m", "cohabit.backend.slurm.watchdog", str(lease), conf, held], stdin=subprocess.DEVNULL,
            stdout=said, stderr=said, start_new_session=True, cwd="/",
        )  # fmt: skip
    return True


async def watch(lease_path: Path, calls: Calls, all_held: bool) -> None:
    """Until the lease is over and everything has been given back."""
    lease = read_lease(lease_path)
    while lease is not None and lease.runs(time.time()):
        await asyncio.sleep(LOOK_S)
        lease = read_lease(lease_path) or lease
    partitions = () if lease is None else lease.partitions
    log.warning("the lease is over: held jobs go back to Slurm")
    while True:
        try:
            handed = await hand_back(calls, partitions, all_held)
            break
        except SlurmAway as error:
            log.warning("Slurm does not answer (%s); it is asked again", error)
            await asyncio.sleep(5 * LOOK_S)
        renewed = read_lease(lease_path)
        if renewed is not None and renewed.runs(time.time()):
            log.warning("the lease was renewed")
            return
    log.warning("%d jobs were given back", len(handed.released))
    for name, why in handed.failed.items():
        log.error("job %s was not: %s", name, why)


def main() -> None:
    """The process."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    lease, conf, held = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
    with watch_file(lease).open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return  # there is one already
        asyncio.run(watch(lease, Calls(conf), held == "all"))


if __name__ == "__main__":
    main()
