"""The watchdog of a controller of Slurm (backend/steered/watchdog.py).

`python -m cohabit.backend.slurm.watchdog LEASE CONF [CHANNEL]`
"""

from __future__ import annotations

import sys
from pathlib import Path

from cohabit.backend.slurm.calls import LED, Calls
from cohabit.backend.slurm.steering import SlurmManager
from cohabit.backend.steered.watchdog import WatchdogCommand, guarded


def watchdog_command(conf: str) -> WatchdogCommand:
    """Return how to start it."""
    return WatchdogCommand("cohabit.backend.slurm.watchdog", (conf,), LED)


def main() -> None:
    """Run the process."""
    lease, conf, *channel = sys.argv[1:]
    guarded(Path(lease), lambda link: SlurmManager(Calls(conf, link=link)), False, "".join(channel))


if __name__ == "__main__":
    main()
